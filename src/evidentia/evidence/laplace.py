"""Laplace's approximation of the evidence, corrected by importance sampling."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import EstimationError, check_count
from evidentia.evidence.draws.independent import in_batches
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from evidentia.evidence.population.about_modes import at_modes
from evidentia.evidence.population.importance import MIN_ESS, Sampling, log_ratio
from evidentia.evidence.population.particles import host_generator
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import OF_PART, log_shares
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.modes import find_modes
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import log_num_copies


@dataclass(frozen=True)
class Laplace:
    """Laplace's approximation of the evidence, by default corrected by importance sampling.

    A search from likely prior draws finds the modes θ̂ₖ of the posterior and the precisions Aₖ,
    the negative Hessians there (on the unconstrained scale, including the prior's Jacobian).
    Laplace's approximation integrates the Gaussians at these modes,

        Ẑ = Σₖ p(D | θ̂ₖ) p(θ̂ₖ) (2π)^(d/2) |Aₖ|^(-1/2),

    times K! 2^f for K interchangeable components and f flips of signs. Its error is about 1/n for
    n rows if the posterior approaches a Gaussian, and unknown otherwise; its standard error is
    NaN. Importance sampling uses a proposal q of Student t's with the same modes and precisions,
    and is exact within its standard error,

        θᵢ ~ q,        Ẑ = (1/M) Σ p(D | θᵢ) p(θᵢ) / q(θᵢ).

    It cannot detect a mode that no starting point leads to. A DiagnosticWarning reports weights
    that are too uneven: the posterior is far from Gaussian about its modes (skewed, at a boundary,
    or with many modes). `log_evidence` is corrected for the bias -variance/2 of the logarithm of
    an unbiased estimate, as in `SGAIS`, unless the effective sample size is low. This is the
    cheapest method for models with one mode and a few dozen parameters, and a check on the other
    methods.

    Attributes:
        num_particles: number of draws M, from the Student t's, or from the Gaussians without
            importance sampling.
        importance_sampling: False for Laplace's approximation itself.

    Raises:
        ConfigurationError: `num_particles` is not an integer of at least 2.

    Example:
        >>> ev.estimate(model, data, method=ev.Laplace())  # doctest: +SKIP

    Source: Tierney and Kadane (1986), Journal of the American Statistical Association 81, 82;
    Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t).
    """

    num_particles: int = 1024
    importance_sampling: bool = True

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each batch of draws, each for all `rows`.

        Raises EstimationError if no mode is found, or if the log-likelihood is NaN or +inf at a
        draw.
        """
        key_modes, key_draws = jax.random.split(key)
        modes = find_modes(model, rows, key_modes)
        if not modes:
            raise EstimationError(
                f"no mode of the posterior of {rows.span} was found: wherever the search ended, the density is still rising, "
                "flat in some direction, or not finite. Use SGAIS(), which needs no mode; or give each parameter a proper "
                "prior, and check that the log-likelihood is smooth and finite on the support of the prior."
            )
        if self.importance_sampling:
            yield from self._weighted(model, rows, modes, key_draws)
        else:
            yield self._approximation(model, rows, modes, key_draws)

    def _weighted(self, model, rows, modes, key) -> Iterator[Snapshot]:
        sampling = Sampling(model, rows, host_generator(key), self.num_particles)
        proposal = at_modes(sampling, modes)

        def weigh(key, size):
            positions = proposal.draw(host_generator(key), size)
            deviations, offset = log_ratio(sampling, proposal, positions)
            return positions, deviations + offset

        for draws in in_batches(weigh, self.num_particles, rows, key):
            log_weights = draws.log_weights
            is_even = weights.ess(log_weights) >= MIN_ESS * len(log_weights)
            yield Snapshot(
                Estimate(weights.log_mean(log_weights), weights.relative_variance(log_weights), is_even),
                num_observations=rows.size,
                positions=draws.positions,
                log_weights=log_weights,
                share_done=draws.share_done,
                diagnose=lambda log_weights=log_weights: _diagnose(log_weights, len(modes)),
            )

    def _approximation(self, model, rows, modes: tuple[LocalGaussian, ...], key) -> Snapshot:
        log_masses = np.array([mode.log_mass for mode in modes])
        generator = host_generator(key)
        counts = generator.multinomial(self.num_particles, np.exp(weights.normalise(log_masses)))
        draws = [mode.draw(generator, count) for mode, count in zip(modes, counts, strict=True)]
        log_evidence = weights.log_sum_exp(log_masses + _log_distinct_copies(model, modes))
        return Snapshot(
            Estimate(log_evidence, math.nan, is_unbiased=False),
            num_observations=rows.size,
            positions=jnp.asarray(np.concatenate(draws), jnp.float32),
            log_weights=np.zeros(self.num_particles),
            share_done=1.0,
            diagnose=lambda: Diagnosis({"ess": math.nan, "pareto_shape": math.nan, "num_modes": len(modes)}),
        )


def _diagnose(log_weights: Float[np.ndarray, " draws"], num_modes: int) -> Diagnosis:
    ess, shape, count = weights.ess(log_weights), weights.pareto_shape(log_weights), len(log_weights)
    problem = None
    if ess < MIN_ESS * count:
        problem = f"the {count:,} weighted draws at the posterior modes are worth {ess:.1f} independent draws"
    elif shape > weights.MAX_PARETO_SHAPE and ess < 0.9 * count:  # of even ones the fit is noise
        problem = (
            f"the largest weights of the draws at the posterior modes have a Pareto shape of {shape:.2f}"
        )
    signs = {} if problem is None else {
        "heavy weights": f"{problem}: the posterior is far from Gaussian about its modes, and the log evidence may be too "
        "low by more than the standard error suggests. Use SGAIS(), or reparametrize for a more Gaussian posterior."
    }  # fmt: skip
    return Diagnosis({"ess": ess, "pareto_shape": shape, "num_modes": num_modes}, signs)


def _log_distinct_copies(
    model: BoundModel, modes: tuple[LocalGaussian, ...]
) -> Float[np.ndarray, " modes"] | float:
    """log of the number of copies of each mode, of which those that overlap count once in all."""
    if not model.symmetry:
        return 0.0
    found = []
    for mode in modes:
        draws = mode.draw(np.random.default_rng(0), OF_PART)
        share = weights.log_mean(log_shares(model, ((0.0, draws),), draws))
        found.append(log_num_copies(model) + (0.0 if np.isnan(share) else share))  # unknown if all are apart
    return np.array(found)
