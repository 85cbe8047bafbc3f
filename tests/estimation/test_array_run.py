"""Of two runs in different coordinates, the better one counts, and the first is never lost."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.errors import EstimationError
from evidentia.estimation.array_run import is_better
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from tests.evidence_factory import make_evidence

SIGN = {"moves do not decorrelate": "the particles hardly move."}
FIRST = Estimate(-50.0, 0.2**2), Diagnosis({}, SIGN)
ROWS = {"y": np.linspace(-1, 1, 12).astype(np.float32), "group": np.repeat(np.arange(4), 3)}


def groups(y, group):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    x = numpyro.sample(
        "x", dist.Normal(numpyro.sample("mean", dist.Normal(0, 1)), scale).expand([4]).to_event(1)
    )
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x[group], 1.0), obs=y)


@dataclass(frozen=True)
class Told:
    """Says one thing about a model as it is written, and another in other coordinates."""

    plain: tuple[Estimate, Diagnosis]
    recentred: tuple[Estimate, Diagnosis] | Exception
    num_particles: ClassVar[int] = 64

    def run(self, model, rows, key):
        found = self.recentred if model.densities.recentred else self.plain
        if isinstance(found, Exception):
            raise found
        draws = model.sample_prior(jax.random.key(0), 64)
        yield Snapshot(found[0], rows.size, draws, np.zeros(64), diagnose=lambda: found[1])


SURE = Estimate(-49.9, 0.01**2), Diagnosis({}, {})
MISSES = Estimate(-52.0, 0.01**2), Diagnosis({}, {})
WORSE = Estimate(-50.0, 0.3**2), Diagnosis({}, SIGN)
UNLUCKY = EstimationError("no step could be made.")


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
@pytest.mark.parametrize(
    ("plain", "recentred", "expected"),
    [
        (FIRST, SURE, SURE),
        (FIRST, MISSES, FIRST),
        (FIRST, WORSE, FIRST),
        (FIRST, UNLUCKY, FIRST),
        (SURE, MISSES, SURE),
    ],
    ids=["better", "misses a part", "worse", "fails", "no doubts"],
)
def test_the_better_of_two_runs_counts(plain, recentred, expected):
    evidence = ev.estimate(ev.Model.from_numpyro(groups), ROWS, method=Told(plain, recentred))
    assert evidence.log_evidence == pytest.approx(expected[0].log_evidence)
    assert set(evidence.signs) == set(expected[1].signs)


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_few_effective_draws_are_a_doubt():
    few = SURE[0], Diagnosis({"effective_draws": 0.1}, {})
    better = Estimate(-49.9, 0.001**2), Diagnosis({"effective_draws": 0.9}, {})
    evidence = ev.estimate(ev.Model.from_numpyro(groups), ROWS, method=Told(few, better))
    assert evidence.diagnostics["effective_draws"] == 0.9


def test_what_is_better():
    first = make_evidence(-10.0, 0.2)
    assert is_better(make_evidence(-10.0, 0.1), first)
    assert is_better(make_evidence(-5.0, 0.1), first)  # the first has missed a part
    assert not is_better(make_evidence(-11.0, 0.1), first)
    assert not is_better(make_evidence(-10.0, 0.3), first)
    assert not is_better(make_evidence(-10.0, np.nan), first)
    assert is_better(first, None) and not is_better(None, first)
