"""Prior sampling: the mean likelihood of draws from the prior."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import check_count
from evidentia.evidence.draws.independent import Draws, in_batches
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot, check_possible
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window


@dataclass(frozen=True)
class PriorSampling:
    """The mean likelihood of M prior draws, also called likelihood weighting.

        θᵢ ~ p(θ),        Ẑ = (1/M) Σ p(D | θᵢ).

    The estimate is unbiased, but useless if the posterior is much narrower than the prior, as for
    most data: M must be many times the ratio of their volumes, which grows as n^(d/2) for n rows
    and d parameters. With fewer draws, none falls into the posterior and the log evidence is far
    too low in nearly every run, balanced by rare runs in which it is far too high; the standard
    error does not show this. A DiagnosticWarning is issued if the effective sample size is under
    100 draws or the largest likelihoods have a Pareto shape above 0.7. A narrow region of high
    likelihood that contains no draws goes undetected.

    `log_evidence` is corrected for the bias -variance/2 of the logarithm of an unbiased estimate,
    as in `SGAIS`, if the effective sample size is at least 100 draws; below that, the variance is
    unknown.

    Attributes:
        num_particles: number of draws M; weighted by likelihood, they also represent the
            posterior.

    Raises:
        ConfigurationError: `num_particles` is not an integer of at least 2.

    Example:
        >>> method = ev.PriorSampling(num_particles=1_000_000)  # doctest: +SKIP
        >>> ev.estimate(model, data, method=method)  # doctest: +SKIP

    Source: Cameron (2020), MSc thesis, Stellenbosch, chapter 3; Kass and Raftery (1995), Journal
    of the American Statistical Association 90, section 4.2.
    """

    num_particles: int = 10_000

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)

    def without_gradients(self) -> "PriorSampling":
        """The same: it uses none."""
        return self

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each batch of draws, each for all `rows`.

        Raises EstimationError if the log-likelihood is NaN or +inf at a draw, or -inf at all
        draws.
        """

        def weigh(key: Array, size: int) -> tuple[Array, np.ndarray]:
            positions = model.sample_prior(key, size)
            deviations, offset = rows.log_likelihoods(model, positions)
            return positions, deviations + offset

        for draws in in_batches(weigh, self.num_particles, rows, key):
            if draws.share_done == 1.0:
                check_possible(draws.log_weights, rows.span, "draws")
            is_possible = bool(np.max(draws.log_weights) > -np.inf)
            yield _snapshot(draws, rows if is_possible else None)


def log_mean_likelihood(log_likelihoods: Float[np.ndarray, " draws"]) -> tuple[float, float]:
    """The raw log evidence and its standard error, in nats, from log-likelihoods of prior draws.

    Example:
        >>> log_mean_likelihood(np.array([-3.0, -3.0, -3.0]))
        (-3.0, 0.0)
    """
    return weights.log_mean(log_likelihoods), math.sqrt(weights.relative_variance(log_likelihoods))


def _snapshot(draws: Draws, rows: Window | None) -> Snapshot:
    """A snapshot, without an estimate if `rows` is None: impossible at all draws so far."""
    estimate = None
    if rows is not None:
        raw, standard_error = log_mean_likelihood(draws.log_weights)
        estimate = Estimate(raw, standard_error**2, weights.ess(draws.log_weights) >= weights.FEW_EFFECTIVE)
    return Snapshot(
        estimate,
        num_observations=0 if rows is None else rows.size,
        positions=draws.positions,
        log_weights=draws.log_weights,
        share_done=draws.share_done,
        diagnose=lambda: _diagnose(draws.log_weights),
    )


def _diagnose(log_weights: Float[np.ndarray, " draws"]) -> Diagnosis:
    ess, shape = weights.ess(log_weights), weights.pareto_shape(log_weights)
    name, problem = None, ""
    if ess < weights.FEW_EFFECTIVE:
        name = "prior far from posterior"
        problem = f"the estimate rests on {ess:.1f} effective draws of {len(log_weights):,} from the prior"
    elif weights.MAX_PARETO_SHAPE < shape < math.inf:  # infinite: nothing to fit, as all weights are equal
        name = "heavy weights"
        problem = f"the largest likelihoods of the prior draws have a Pareto shape of {shape:.2f}"
    signs = {} if name is None else {
        name: f"{problem}: the log evidence is too low in most runs, perhaps by a lot, and the "
        "standard error cannot be trusted. Use SGAIS(), or Laplace() if the posterior has few modes; many times more "
        "particles help only if the posterior is not much narrower than the prior."
    }  # fmt: skip
    return Diagnosis({"ess": ess, "pareto_shape": shape}, signs)
