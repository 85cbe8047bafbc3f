"""The harmonic mean of the likelihood over the posterior: a popular but unreliable estimator."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import EstimationError, check_count
from evidentia.evidence.draws.chains import MAX_RHAT, NUM_CHAINS, chain_draws
from evidentia.evidence.draws.independent import exact_draws, in_batches
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot, defined_log_likelihoods
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window

UNUSABLE = (
    "the harmonic mean depends on draws of low likelihood that almost never occur: its variance is infinite for most "
    "models, the log evidence is typically far too high, and the standard error cannot be trusted for any number of draws. "
    "Use SGAIS(), or Laplace() if the posterior has few modes."
)


@dataclass(frozen=True)
class HarmonicMean:
    """The harmonic mean of the likelihood over M posterior draws.

        θᵢ ~ p(θ | D),        1/Ẑ = (1/M) Σ 1 / p(D | θᵢ).

    The estimate is consistent, but wrong for any feasible number of draws: most of the sum comes
    from regions of low likelihood, where the posterior has no draws. It hardly depends on the
    prior, so the log evidence is typically far too high, the more so the wider the prior. The
    method is included for comparison, because it is widely used. Every run issues a
    DiagnosticWarning.

    Draws are exact if the model has `sample_posterior`; otherwise they come from four NUTS chains,
    each tuned over 500 steps, and the standard error accounts for the autocorrelation of 1 / p(D |
    θᵢ) (ArviZ's effective sample size). The bias of the logarithm is not corrected, since the
    correction needs the variance.

    Attributes:
        num_particles: number of draws M, rounded up to a multiple of four for Markov chains.

    Raises:
        ConfigurationError: `num_particles` is not an integer of at least 2.

    Example:
        >>> ev.estimate(model, data, method=ev.HarmonicMean())  # doctest: +SKIP

    Source: Newton and Raftery (1994), Journal of the Royal Statistical Society B 56, 3; Neal's
    comment there, and Neal (2008), "The harmonic mean of the likelihood: worst Monte Carlo method
    ever"; Cameron (2020), MSc thesis, chapter 3.
    """

    num_particles: int = 4000

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each batch of draws, each for all `rows`.

        Raises EstimationError if the log-likelihood is NaN or +inf at a draw, or finite at no
        possible start of a chain.
        """
        is_exact = model.sample_posterior is not None
        return self._independent(model, rows, key) if is_exact else self._chains(model, rows, key)

    def _independent(self, model, rows, key) -> Iterator[Snapshot]:
        def weigh(key, size):
            positions = exact_draws(model, rows, size, key)
            return positions, defined_log_likelihoods(model, positions, rows, "draws")

        for draws in in_batches(weigh, self.num_particles, rows, key):
            log_evidence, standard_error = log_harmonic_mean(draws.log_weights)
            yield _snapshot(draws.positions, log_evidence, standard_error, rows, draws.share_done)

    def _chains(self, model, rows, key) -> Iterator[Snapshot]:
        positions = np.empty((NUM_CHAINS, 0, model.num_parameters))
        log_likelihoods = np.empty((NUM_CHAINS, 0))
        for new in chain_draws(model, rows, self.num_particles, key):
            flat = jnp.asarray(new.reshape(-1, model.num_parameters), jnp.float32)
            found = defined_log_likelihoods(model, flat, rows, "draws").reshape(new.shape[:2])
            positions = np.concatenate([positions, new], axis=1)
            log_likelihoods = np.concatenate([log_likelihoods, found], axis=1)
            flat = positions.reshape(-1, model.num_parameters).astype(np.float32)
            share_done = min(1.0, log_likelihoods.size / self.num_particles)
            yield _snapshot(flat, *_of_chains(log_likelihoods), rows, share_done, log_likelihoods)


def log_harmonic_mean(
    log_likelihoods: Float[np.ndarray, " draws"], ess: float | None = None
) -> tuple[float, float]:
    """The log evidence and its standard error, in nats, from log-likelihoods of posterior draws.

    Args:
        log_likelihoods: log-likelihoods of the draws.
        ess: effective number of draws for the mean of 1/L; by default, the number of draws.

    Raises:
        EstimationError: a log-likelihood is -inf.

    Example:
        >>> log_harmonic_mean(np.array([-3.0, -3.0]))
        (-3.0, 0.0)
    """
    count = len(log_likelihoods)
    if bad := int(np.sum(log_likelihoods == -np.inf)):
        raise EstimationError(
            f"the log-likelihood is -inf at {bad} of {count} draws from the posterior, which are then no such draws. Check "
            "sample_posterior, or the likelihood for underflow."
        )
    variance = (
        weights.relative_variance(-log_likelihoods) * count / (count if ess is None else ess)
    )  # NaN if ess is NaN
    return -weights.log_mean(-log_likelihoods), math.sqrt(variance)


def _of_chains(log_likelihoods: Float[np.ndarray, "chains draws"]) -> tuple[float, float]:
    import arviz  # slow to import

    count = log_likelihoods.size
    ess = float(arviz.ess(np.exp(np.min(log_likelihoods) - log_likelihoods), method="mean"))
    # ArviZ returns NaN for fewer than four draws per chain; the error is then unknown.
    return log_harmonic_mean(log_likelihoods.reshape(-1), min(ess, count) if not math.isnan(ess) else ess)


def _snapshot(positions, log_evidence, standard_error, rows, share_done, chains=None) -> Snapshot:
    return Snapshot(
        Estimate(log_evidence, standard_error**2, is_unbiased=False),
        num_observations=rows.size,
        positions=positions,
        log_weights=np.zeros(len(positions)),
        share_done=share_done,
        diagnose=lambda: _diagnose(chains),
    )


def _diagnose(log_likelihoods: Float[np.ndarray, "chains draws"] | None) -> Diagnosis:
    """Diagnostics of chains with these `log_likelihoods`, or of independent draws if None."""
    signs = {"infinite variance": UNUSABLE}
    if log_likelihoods is None:
        return Diagnosis({}, signs)
    import arviz

    rhat = float(arviz.rhat(log_likelihoods))
    if rhat > MAX_RHAT:
        signs["chains differ"] = (
            f"the log-likelihoods of the {len(log_likelihoods)} Markov chains differ (r-hat {rhat:.2f}): the chains have not "
            "reached the same part of the posterior. Use more particles; several modes need another method."
        )
    return Diagnosis({"rhat": rhat}, signs)
