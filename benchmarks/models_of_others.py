"""Models of PyMC's gallery, each by two ways that share little: from the prior, and from draws.

    python benchmarks/models_of_others.py     # a quarter of an hour on 2 cores; needs PyMC

`SGAIS` goes from the prior to the posterior; `BridgeSampling` starts from NUTS draws of the
posterior. The table goes to standard output; docs/models.md has it.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import evidentia as ev

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.model.pymc.gallery import GALLERY

METHODS = {"SGAIS": ev.SGAIS(), "BridgeSampling": ev.BridgeSampling()}


def cell(found: ev.Evidence) -> str:
    """A log evidence with its error, and its verdict if that is not "trusted"."""
    doubt = "" if found.verdict.word == "trusted" else f" ({found.verdict.word}: {', '.join(found.signs)})"
    return f"{found.log_evidence:.3f} ± {found.standard_error:.3f}{doubt}"


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"| model | rows | {' | '.join(METHODS)} | joint standard errors apart |")
    print("|---|--:|--:|--:|--:|")
    for make in GALLERY:
        name = make.__name__.replace("_", " ")
        model = ev.Model.from_pymc(make())
        try:
            found = [ev.estimate(model, method=method) for method in METHODS.values()]
        except ev.EvidentiaError as error:
            print(f"| {name} | | {error} |", flush=True)
            continue
        first, second = found
        joint = np.hypot(first.standard_error, second.standard_error)
        apart = abs(first.log_evidence - second.log_evidence) / joint
        rows = f"{first.num_observations:,}"
        print(f"| {name} | {rows} | {' | '.join(map(cell, found))} | {apart:.1f} |", flush=True)


if __name__ == "__main__":
    main()
