"""One move of all particles by a kernel, compiled, and how far it leaves them correlated."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import rankdata

from evidentia.kernels import Density, Kernel, Moved, Scale
from evidentia.kernels.kernel import noise_variance
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import Prepared
from evidentia.posterior.symmetry import Centre, Positions, within
from evidentia.posterior.target import log_target
from evidentia.system.compilation import compiled

NOISE_PARTICLES = 32  # particles at which the gradient noise is measured


def move(
    model: BoundModel,
    kernel: Kernel,
    prepared: Prepared,
    key: Array,
    positions: Float[Array, "particles parameters"],
    scale: Scale,
    folded_to: Centre | None = None,
    chain_length: int = 1,
) -> tuple[Moved, Array, Array]:
    """Move particles; also return the gradient noise and its share.

    With a `chain_length`, all states of the chains that begin at the particles are returned, chain
    after chain. Folded particles stay where they are folded to if the kernel uses the exact
    density.
    """
    expansion = prepared.device_expansion
    estimator, target = prepared.estimator, prepared.target
    return _move(model, kernel, estimator, chain_length, key, positions, target, expansion, scale, folded_to)


@compiled(static_argnames=("model", "kernel", "estimator", "chain_length"))
def _move(model, kernel, estimator, chain_length, key, positions, target, expansion, scale, folded_to):
    key_first, key_second, key_move = jax.random.split(key, 3)
    log_density = log_target(model, target)
    if folded_to is not None:
        log_density = within(model, folded_to, log_density)
    gradient = estimator.function(model, target, expansion)
    noise = noise_share = jnp.zeros(())
    if kernel.needs == "gradient" and not estimator.is_exact:
        few = positions[:NOISE_PARTICLES]
        differences = gradient(key_first, few) - gradient(key_second, few)
        noise = noise_variance(differences @ scale.factor)  # in whitened coordinates
        noise_share = kernel.noise_share(differences, scale)
    density = Density(log_density, gradient)
    if chain_length == 1:
        return kernel.move(key_move, positions, density, scale), noise, noise_share
    return _chains(kernel, key_move, positions, density, scale, chain_length), noise, noise_share


def _chains(
    kernel: Kernel,
    key: Array,
    starts: Float[Array, "chains parameters"],
    density: Density,
    scale: Scale,
    chain_length: int,
) -> Moved:
    """All states of the chains, each with the log weights gained up to there.

    Source: Dau and Chopin (2022), Journal of the Royal Statistical Society B 84, 114, Algorithm 2.
    """

    def step(state: Moved, key: Array) -> tuple[Moved, Moved]:
        moved = kernel.move(key, state.positions, density, scale)
        state = Moved(moved.positions, state.log_weights + moved.log_weights)
        return state, state

    begin = Moved(starts, jnp.zeros(len(starts)))
    _, later = jax.lax.scan(step, begin, jax.random.split(key, chain_length - 1))
    positions = jnp.concatenate([starts[None], later.positions]).swapaxes(0, 1)
    log_weights = jnp.concatenate([jnp.zeros((1, len(starts))), jnp.asarray(later.log_weights)]).swapaxes(
        0, 1
    )
    return Moved(positions.reshape(-1, starts.shape[1]), log_weights.reshape(-1))


def largest_correlation(before: Positions, after: Positions) -> float:
    """The largest rank correlation over the particles of any coordinate before and after a move.

    Of ranks, since a few particles far out in a heavy tail, which hardly move, decide any other:
    near the prior of a mixture, particles were moved 32 times where 5 are enough. Zero if there
    are no coordinates.
    """
    first, last = (rankdata(np.asarray(positions), axis=0) for positions in (before, after))
    first, last = first - first.mean(0), last - last.mean(0)
    scale = np.sqrt(np.mean(first**2, 0) * np.mean(last**2, 0))
    correlations = np.mean(first * last, 0) / np.maximum(scale, np.finfo(np.float32).tiny)
    return float(np.max(correlations)) if correlations.size else 0.0
