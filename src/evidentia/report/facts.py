"""One model in words and numbers: its result, and what its diagnostics mean."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from evidentia.display import text
from evidentia.evidence.draws.chains import MAX_RHAT
from evidentia.evidence.nested.run import MAX_STUCK
from evidentia.evidence.population import warning_signs as path
from evidentia.evidence.population.warning_signs import MAX_CHANGE
from evidentia.results.result import Evidence
from evidentia.weights import MAX_PARETO_SHAPE


class Fact(NamedTuple):
    """A term, its value, and a few words on what the value says; none if it speaks for itself."""

    term: str
    value: str
    meaning: str = ""


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.0f}%"


def three_digits(value: float) -> str:
    """Three significant digits; integers in full."""
    return f"{value:,.0f}" if value % 1 == 0 or abs(value) >= 1000 else f"{value:.3g}"


class Kind(NamedTuple):
    """How a diagnostic is shown."""

    term: str
    meaning: str = ""
    show: Callable[[float], str] = three_digits


KINDS = {
    "smallest_ess": Kind(
        "Smallest effective sample size",
        f"of the particles, after any annealing step; below {percent(path.MIN_ESS)} is too few",
        percent,
    ),
    "move_correlation": Kind(
        "Autocorrelation of moves",
        f"lag one, slowest coordinate; above {path.MAX_CORRELATION:g} the particles hardly move",
    ),
    "gradient_noise_share": Kind(
        "Mini-batch noise",
        f"relative to the kernel's own noise; above {path.MAX_NOISE_SHARE:g} it biases the result",
    ),
    "height_spread": Kind(
        "Spread of the log posterior",
        f"relative to a Gaussian's; above {path.MAX_HEIGHT_SPREAD:g} particles are stuck in minor modes",
    ),
    "lost_particles": Kind(
        "Lost particles",
        f"moved to where the likelihood is zero; above {percent(path.MAX_LOST)} is too many",
        percent,
    ),
    "pareto_shape": Kind(
        "Pareto shape of the largest weights",
        f"above {MAX_PARETO_SHAPE:g} the standard error is too small",
    ),
    "reservoir_standard_error": Kind(
        "Error of the reservoir",
        f"nats, from keeping a sample of the rows; above {path.MAX_RESERVOIR_ERROR:g} is too much",
    ),
    "log_copies": Kind("Symmetric copies (log)", "log number of the copies of each mode, all counted"),
    "inner_shift": Kind("Inner shift", "nats that finer integrals over latents add; half is in the error"),
    "unchecked": Kind(
        "Unchecked redraw", "1 if no particles have shown that the last redraw covers the posterior"
    ),
    "unseen": Kind(
        "Posterior in modes not found", f"estimated; above {percent(path.MAX_UNSEEN)} is too much", percent
    ),
    "path_difference": Kind(
        "Redraw less path",
        f"log evidences, in joint standard errors; below {-path.MAX_DIFFERENCE:g} is a sign",
    ),
    "effective_draws": Kind(
        "Effective share of the redraw",
        f"of the draws from the proposal; below {percent(path.MIN_EFFECTIVE)} it fits the posterior poorly",
        percent,
    ),
    "path_error": Kind("Error of the path", "nats, before the redraw from its particles"),
    "prior_change": Kind(
        "Prior draws, moved",
        f"change of their log density, in standard errors; beyond {MAX_CHANGE:g} is a sign",
    ),
    "drift": Kind(
        "Drift of the moves",
        "nats by which they change the log-likelihood over the path, which no move should on average",
    ),
    "repeat_difference": Kind(
        "Second run less the first",
        "log evidences, in joint standard errors; made where moves do not decorrelate",
    ),
    "num_refreshes": Kind("Redraws", "times the particles were drawn again from scratch"),
    "variance_share_last_refresh": Kind(
        "Error from the last redraw", "of the squared standard error", percent
    ),
    "variance_share_first_chunk": Kind(
        "Error from the first chunk", "of the squared standard error", percent
    ),
    "variance_share_later_chunks": Kind("Error from later chunks", "of the squared standard error", percent),
    "ess": Kind("Effective draws", "independent draws that these are worth"),
    "num_modes": Kind("Modes", "modes of the posterior found"),
    "information": Kind("Information", "nats that the posterior gained over the prior"),
    "num_iterations": Kind("Iterations"),
    "acceptance": Kind("Acceptance", "of the proposed steps", percent),
    "stuck_moves": Kind(
        "Stuck moves",
        f"moves that ended where they began; above {percent(MAX_STUCK)} the region is too small",
        percent,
    ),
    "rhat": Kind("R-hat", f"over chains; above {MAX_RHAT:g} they disagree"),
    "num_dropped": Kind("Rows left out", "because of missing values"),
}


def describe(evidence: Evidence) -> list[Fact]:
    """The result of one model and its diagnostics, without those that do not apply."""
    stopped = "" if evidence.completed else " (stopped early)"
    sampled = [
        Fact("Particles", f"{evidence.num_particles:,}", f"worth {evidence.ess:,.0f} independent draws"),
        Fact("Annealing steps", f"{evidence.trajectory.num_annealing_steps.sum():,}"),
        Fact("Time", text.duration(evidence.seconds)),
        Fact("Seed", str(evidence.seed)),
    ]
    is_exact, is_counted = evidence.standard_error == 0, text.is_count(evidence.num_observations)
    per_observation = Fact("Per observation", f"{evidence.log_evidence / evidence.num_observations:.5f} nats")
    observations = Fact("Observations", f"{evidence.num_observations:,}{stopped}")
    return [
        Fact("Model", evidence.model_name),
        Fact("Log evidence", f"{text.with_error(evidence.log_evidence, evidence.standard_error)} nats"),
        *([per_observation] if is_counted else []),
        Fact("Verdict", evidence.verdict.word, evidence.verdict.reason),
        *([observations] if is_counted else []),
        *(() if is_exact else sampled),
        *_diagnostics(evidence.diagnostics),
        Fact("Method", "exact integral" if is_exact else str(evidence.method)),
    ]


def _diagnostics(found: Mapping[str, Any]) -> Iterator[Fact]:
    for key, value in found.items():
        if value == "" or (isinstance(value, float) and math.isnan(value)):
            continue
        term = key.replace("_", " ").capitalize()
        if isinstance(value, str | bool):
            yield Fact(term, str(value))
        else:
            kind = KINDS.get(key, Kind(term))
            yield Fact(kind.term, kind.show(value), kind.meaning)
