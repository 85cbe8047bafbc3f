"""One model after the other: estimates with progress, and what is left of them when something stops the run."""

from collections.abc import Sequence

from evidentia.cli import output
from evidentia.demo import Candidate
from evidentia.errors import ConfigurationError, EstimationError
from evidentia.estimate import estimate
from evidentia.evidence import SGAIS
from evidentia.result import Evidence


def estimate_each(
    candidates: Sequence[Candidate], *, method: SGAIS, seed: int, quiet: bool, plain: bool = False
) -> tuple[dict[str, Evidence], BaseException | None]:
    """Estimate the evidence of each candidate.

    Args:
        candidates: models with their data and names.
        method: the estimator's configuration.
        seed: the seed of every estimate.
        quiet: show no progress.
        plain: where stderr is no terminal, show progress as plain lines.

    Returns:
        The evidences by name, and None or what stopped the run: Ctrl-C or an EstimationError. The evidence of the model
        at work then is for the rows before that, with `completed=False`, or missing if there were none.
    """
    evidences: dict[str, Evidence] = {}
    for candidate in candidates:
        try:
            with (
                output.warnings_as_notes(),
                output.progress(candidate.name, quiet=quiet, plain=plain) as show,
            ):
                evidence = estimate(candidate.model, candidate.data, method=method, seed=seed, progress=show)
        except EstimationError as error:
            if error.evidence is not None:
                evidences[candidate.name] = error.evidence
            return evidences, error
        except KeyboardInterrupt as stop:
            return evidences, stop
        evidences[candidate.name] = evidence
        if not evidence.completed:
            return evidences, KeyboardInterrupt()
    return evidences, None


def check_seed(seed: int) -> None:
    """Raise ConfigurationError for a seed that is none, before anything else is done."""
    if not 0 <= seed < 2**32:
        raise ConfigurationError(f"--seed must be an integer from 0 to 4294967295; got {seed}.")
