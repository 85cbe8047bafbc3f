"""Bridge sampling: the evidence from posterior draws, given or made by Markov chains."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from evidentia.errors import ConfigurationError, check_count
from evidentia.evidence.bridge.diagnosis import diagnose
from evidentia.evidence.bridge.given import given_draws, merged, unconstrained
from evidentia.evidence.bridge.halves import Half, bridge_halves, check_enough, combined
from evidentia.evidence.bridge.warp import Chains, Target
from evidentia.evidence.draws.chains import NUM_CHAINS, chain_draws
from evidentia.evidence.draws.independent import batch_size, exact_draws
from evidentia.evidence.method import Estimate, Snapshot, check_defined
from evidentia.evidence.population.particles import host_generator
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window
from evidentia.system.interruption import check

SHARE_OF_DRAWING = 0.8  # of the time, where the draws are made here


@dataclass(frozen=True)
class BridgeSampling:
    """The evidence from posterior draws, by warped bridge sampling.

    The draws are on the scale of the model's parameters, as NumPyro, PyMC and CmdStanPy return
    them; the transformation to the real numbers is the model's. Half of each chain fits a
    multivariate Student t, q, and the posterior is made symmetric about its centre, f. Draws of
    both in the other half bridge from q to f:

        Ẑ = [ 1/N₂ Σⱼ h(θⱼ) f(θⱼ) ] / [ 1/N₁ Σᵢ h(θᵢ) q(θᵢ) ],        θⱼ ~ q,  θᵢ ~ p(θ | D),

    with the h that makes the error smallest, 1/h = s₁ f / Ẑ + s₂ q, by iteration. Then the halves
    change places, and the log evidence is the mean of both. Unlike for importance sampling, the
    tails of q may be lighter or heavier than those of the posterior. The standard error accounts
    for the autocorrelation of the chains, and for the difference of the halves where it is larger
    than that. It does not know of modes that the chains miss.

    The same draws of q give a second opinion by importance sampling, in `diagnostics`
    (`importance_log_evidence`, with its standard error and the Pareto shape of its weights).
    DiagnosticWarnings report chains or halves that differ, few effective draws, and a second
    opinion that contradicts the first, as of draws from other data.

    If components of the model are interchangeable, it does not matter in which order chains have
    them, nor if they switch.

    Attributes:
        draws: ArviZ's InferenceData or DataTree with the group `posterior`, an xarray Dataset, or
            a mapping of names to arrays, each (draws, ...) or (chains, draws, ...). Variables that
            are no parameters of the model are ignored. If None, exact draws are used if the model
            has `sample_posterior`; otherwise four NUTS chains are run, each tuned over 500 steps.
        num_particles: number of draws M of both fitted densities together, and of the posterior
            draws that are made if none are given.

    Raises:
        ConfigurationError: `draws` has another form, `num_particles` is not an integer of at least
            100; or, at the start of a run, `draws` do not belong to the model (each difference in
            names, shapes and support is named) or are too few.

    Example:
        >>> import arviz as az  # doctest: +SKIP
        >>> draws = az.from_numpyro(mcmc)  # doctest: +SKIP
        >>> ev.estimate(model, data, method=ev.BridgeSampling(draws))  # doctest: +SKIP

    Source: Meng and Wong (1996), Statistica Sinica 6, 831; Meng and Schilling (2002), Journal of
    Computational and Graphical Statistics 11, 552 (Warp-III); Gronau et al. (2017), Journal of
    Mathematical Psychology 81, 80, Eq. 15 and appendix A; Wong, Forster and Smith (2020),
    Statistics and Computing 30, 799 (both halves in turn).
    """

    draws: Any = None
    num_particles: int = 4000

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 100)
        if self.draws is not None:
            object.__setattr__(self, "draws", given_draws(self.draws))

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each part of the draws, then after each half; the last is final.

        Raises:
            ConfigurationError: the draws do not belong to the model, or are too few.
            EstimationError: the iteration does not converge, the draws' covariance is singular, or
                the log-likelihood is NaN or +inf at a draw.
        """
        key_chains, key_bridge = jax.random.split(key)
        if self.draws is not None:
            chains, done = unconstrained(self.draws, model), 0.0
            check_enough(chains, "draws")
        else:
            chains = yield from self._new_draws(model, rows, key_chains)
            done = SHARE_OF_DRAWING
            check_enough(chains, "num_particles")
        target = target_of(model, rows)
        chains = chains.astype(np.float32).astype(np.float64)
        if self.draws is not None:
            _check_possible(target, chains, model.name)
        positions, halves = merged(chains).astype(np.float32), list[Half]()
        for half in bridge_halves(target, chains, host_generator(key_bridge), self.num_particles):
            halves.append(half)
            log_evidence, variance = combined(halves)
            yield Snapshot(
                Estimate(log_evidence, variance, is_unbiased=False),
                num_observations=rows.size,
                positions=positions,  # pyright: ignore[reportArgumentType]
                log_weights=np.zeros(len(positions)),
                share_done=done + (1 - done) * len(halves) / 2,
                diagnose=lambda: diagnose(halves, target.folded(chains)),
            )

    def _new_draws(self, model: BoundModel, rows: Window, key: Array) -> Generator[Snapshot, None, Chains]:
        """Posterior draws, exact ones or by NUTS."""
        if model.sample_posterior is not None:
            count = -(-self.num_particles // NUM_CHAINS) * NUM_CHAINS
            positions = exact_draws(model, rows, count, key)
            return np.asarray(positions, np.float64).reshape(NUM_CHAINS, -1, model.num_parameters)
        chains = np.empty((NUM_CHAINS, 0, model.num_parameters))
        for new in chain_draws(model, rows, self.num_particles, key):
            chains = np.concatenate([chains, new], axis=1)
            share = min(1.0, chains.shape[0] * chains.shape[1] / self.num_particles)
            positions: Any = merged(chains).astype(np.float32)
            yield Snapshot(None, 0, positions, np.zeros(len(positions)), share_done=SHARE_OF_DRAWING * share)
        return chains


def target_of(model: BoundModel, rows: Window) -> Target:
    """The posterior of rows, times their evidence, at float32 positions as everywhere else."""

    def log_density(positions: np.ndarray) -> np.ndarray:
        found, size = np.empty(len(positions)), batch_size(len(positions), rows)
        for start in range(0, len(positions), size):
            check()
            # All batches have one size, to avoid compilation for the last.
            chosen = np.arange(start, start + size)
            part = jnp.asarray(np.take(positions, chosen, axis=0, mode="clip"))
            deviations, offset = rows.log_likelihoods(model, part)
            stop = min(start + size, len(positions))
            found[start:stop] = (deviations + offset + model.log_priors(part))[: stop - start]
        check_defined(found, rows.span, "draws")
        return found

    return Target(log_density, model if model.symmetry else None, np.float32)


def _check_possible(target: Target, chains: Chains, name: str) -> None:
    """Raise ConfigurationError for draws at which the posterior density is zero."""
    is_impossible = target.log_density(merged(chains).astype(np.float32)) == -np.inf
    if is_impossible.any():
        raise ConfigurationError(
            f"draws must be of the posterior of the model {name!r}; its density is zero at {int(is_impossible.sum()):,} of "
            f"{len(is_impossible):,}: they were drawn with another model, or other data."
        )
