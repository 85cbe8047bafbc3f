"""Results that were saved, read again."""

from __future__ import annotations

from os import PathLike

from evidentia.checkpoint.packing import as_damaged, check_fields
from evidentia.checkpoint.results import read_result
from evidentia.display.summary_table import KnownCoefficients, Row
from evidentia.results.result import Evidence
from evidentia.results.weighted import Weighted


def load(path: str | PathLike[str]) -> Evidence:
    """Load a result that `Evidence.save` wrote, equal to it bit for bit.

    Its `method` is the same configuration; a method with a class or function of one's own is
    loaded as text, its repr, as files hold no code. No stored code runs.

    Args:
        path: the folder or its URL; that of a model below the one that the command line wrote with
            `--out`.

    Raises:
        ConfigurationError: `path` is not the name of a folder.
        CheckpointError: there is no such folder, or it holds no saved result, a damaged one, or
            one that a newer version wrote.

    Example:
        >>> evidence = ev.load("results/linear")  # doctest: +SKIP
    """
    found = read_result(path)
    with as_damaged(f"the result in {path}"):
        draws = [found.pop(name, {}) for name in ("posterior", "log_weights", "known")]
        rows = found.pop("coefficients", None)
        coefficients = None if rows is None else KnownCoefficients(tuple(Row(*row) for row in rows))
        evidence = Evidence(**found, weighted=Weighted(*draws), _coefficients=coefficients)
        check_fields(evidence.weighted)
        check_fields(evidence)
        for row in coefficients.known if coefficients is not None else ():
            check_fields(row)
        _check_parts(evidence)
    return evidence


def _check_parts(evidence: Evidence) -> None:
    """Raise an exception unless the parts of a result that was read fit together."""
    if evidence.num_observations < 1:
        raise ValueError(f"num_observations is {evidence.num_observations}")
    for name, values in [*evidence.weighted.items(), *evidence.weighted.known.items()]:
        if values.shape[:1] != evidence.weighted.log_weights.shape:
            raise ValueError(f"{name} has the shape {values.shape}, for {evidence.num_particles} particles")
    for part in ("signs", "fingerprints"):
        if not all(isinstance(text, str) for text in getattr(evidence, part).values()):
            raise TypeError(f"{part} are not texts")
