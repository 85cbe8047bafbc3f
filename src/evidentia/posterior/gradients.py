"""Estimators of the gradient of the log-posterior: full batch, mini-batch, control variate.

A move leaves the tempered posterior of the data seen so far invariant (`target`). An estimator is
a small frozen configuration with three methods, and whether it `is_exact` and `needs_centre`, an
expansion of the past about one:

    prepare     on the host, before a move: updates its memory with the past (`Prepared`);
    function    inside a compiled move: returns the function (key, positions) -> gradients;
    adapt       on the host, after a move: adapts to the measured noise.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from evidentia.errors import ConfigurationError, check_count, check_hashable
from evidentia.kernels.kernel import Gradient
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.row_sums import draw_rows, drawn_sum
from evidentia.posterior.rows import Centre, Positions, Window
from evidentia.posterior.target import Target, expand_target, gradient_sum, posterior, prior_gradient

ALLOWED_NOISE = 0.1  # noise variance of a gradient, relative to the gradient's own posterior variance
STEP = 8  # factor by which mini-batches grow and shrink: few sizes, as each needs its own program
NOW = 0  # value of `recentre_at` that requests a new centre before the next move


class Prepared(NamedTuple):
    """What a move uses.

    Attributes:
        estimator: the configured estimator, or a cheaper or safer one.
        memory: the estimator's state until the next move.
        target: the same density, possibly with another boundary between past and chunk.
        expansion: expansion of the target's log-likelihood in float64 on the host, for estimators
            that have one.
    """

    estimator: Any
    memory: Any
    target: Target
    expansion: Expansion | None = None

    @property
    def device_expansion(self) -> Expansion | None:
        """The expansion in float32 for `function`; None if the gradient is exact."""
        return None if self.estimator.is_exact or self.expansion is None else self.expansion.narrowed()


class _WithoutMemory:
    """An estimator with nothing to prepare or to adapt."""

    needs_centre: ClassVar[bool] = False

    def prepare(self, model: BoundModel, memory: Any, target: Target, centre: Centre) -> Prepared:
        """The estimator itself."""
        return Prepared(self, memory, target)

    def adapt(self, memory: Any, noise: float) -> Any:
        """The memory itself."""
        return memory


@dataclass(frozen=True)
class FullBatch(_WithoutMemory):
    """The exact gradient: every row at every step, at a cost that grows with the data."""

    is_exact: ClassVar[bool] = True

    def function(self, model: BoundModel, target: Target, expansion: Expansion | None) -> Gradient:
        """∇ log π_λ itself; the key is not used."""

        def gradient(key: Array, positions: Positions) -> Positions:
            return prior_gradient(model, positions) + gradient_sum(
                model, positions, target.window, target.row_weights
            )

        return gradient


@dataclass(frozen=True)
class MiniBatch(_WithoutMemory):
    """The published estimator: (n / B) times a mini-batch gradient of the past, plus the chunk's.

        ∇ log p(θ) + (n/B) Σ_{b in B} ∇ℓ_b(θ) + λ Σ_{i in chunk} ∇ℓ_i(θ)

    Each particle draws its own mini-batch, with replacement, at each step; in a stream from the
    reservoir alone. The estimator is unbiased, with a variance of (n²/B) Var ∇ℓ that exceeds the
    injected noise when n is large.

    Attributes:
        batch_size: rows of a mini-batch, B.

    Raises:
        ConfigurationError: `batch_size` is not a positive integer.

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Algorithm 1.
    """

    batch_size: int = 500

    is_exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size, 1)

    def function(self, model: BoundModel, target: Target, expansion: Expansion | None) -> Gradient:
        """An unbiased estimate of ∇ log π_λ, with independent noise for each particle."""
        past = target.past

        def batch_sum(position, batch):
            return drawn_sum(model, position, *batch)

        def gradient(key: Array, positions: Positions) -> Positions:
            batches = draw_rows(key, past, (positions.shape[0], self.batch_size))
            of_past: Array = jax.vmap(jax.grad(batch_sum))(positions, batches)
            of_past = of_past * (past.weight * past.size / self.batch_size)
            # While the past is empty, the rows drawn are not data: even their NaNs are dropped.
            of_past = jnp.where(past.size > 0, of_past, 0.0)
            of_chunk = target.temperature * gradient_sum(model, positions, target.chunk)
            return prior_gradient(model, positions) + of_past + of_chunk

        return gradient


class ControlVariateMemory(NamedTuple):
    """State of `ControlVariate` between moves.

    Attributes:
        past: the expansion of the first `num_rows` rows.
        num_rows: the number of rows in the expansion.
        recentre_at: the number of rows at which a new centre is chosen.
        batch_size: rows in a mini-batch.
        age: moves about this centre so far.
    """

    past: Expansion
    num_rows: int
    recentre_at: int
    batch_size: int
    age: int = 0


@dataclass(frozen=True)
class ControlVariate:
    """Second-order control variates: an expansion over all rows, plus a mini-batch of remainders.

    With g and H the gradient and Hessian at the centre c of all rows seen (the chunk's weighted by
    λ), and g_b, H_b those of one row,

        ∇ log p(θ) + g + H (θ - c) + (n/B) Σ_{b in B} [∇ℓ_b(θ) - g_b - H_b (θ - c)]

    is unbiased, and its noise is of second order in θ - c: it vanishes for Gaussian likelihoods
    and decreases as the posterior narrows. All particles share one mini-batch per step: each
    particle's law is unchanged and the work becomes matrix products. The centre is the particles'
    mean. It is updated when the number of rows has doubled, and when the noise has grown because
    the posterior moved away.

    The mini-batch grows, up to the exact gradient, if the measured noise about a new centre is
    more than a tenth of the gradient's own variance, and shrinks again if the noise is far below
    that. The exact gradient has no noise to measure, and gives way to a mini-batch when the number
    of rows has doubled.

    Attributes:
        batch_size: rows of a mini-batch at first.
        exact_rows: rows up to which the exact gradient is as cheap, and is used instead.

    Raises:
        ConfigurationError: `batch_size` is not a positive integer, or `exact_rows` a negative one.

    Source: Baker, Fearnhead, Fox, Nemeth (2019), Statistics and Computing 29, section 3 (first
    order); Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical Association
    114, section 3.2 (second order).
    """

    batch_size: int = 256
    exact_rows: int = 4096

    is_exact: ClassVar[bool] = False
    needs_centre: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size, 1)
        check_count("exact_rows", self.exact_rows, 0)

    def prepare(
        self, model: BoundModel, memory: ControlVariateMemory | None, target: Target, centre: Centre
    ) -> Prepared:
        """Update the expansion; use the exact gradient where it is cheaper than a mini-batch."""
        if target.temperature == 1.0 and target.window.remainder is None and target.window.copies is None:
            target = posterior(target.window)  # a chunk at full weight is part of the past
        past = target.past
        if past.size == 0 or past.size + target.chunk.size <= self.exact_rows:
            expansion = expand_target(model, past.expand(model, centre), target)
            return Prepared(FullBatch(), memory, target, expansion)
        memory = self._up_to_date(model, memory, past, centre)
        is_exact = _is_exact_cheaper(memory, past)
        estimator = FullBatch() if is_exact else replace(self, batch_size=memory.batch_size)
        return Prepared(estimator, memory, target, expand_target(model, memory.past, target))

    def _up_to_date(
        self, model: BoundModel, memory: ControlVariateMemory | None, past: Window, centre: Centre
    ) -> ControlVariateMemory:
        """The memory with an updated expansion of the whole past."""
        seen = past.num_observations

        def recentred(batch_size: int, recentre_at: int = 2 * seen) -> ControlVariateMemory:
            return ControlVariateMemory(past.expand(model, centre), past.size, recentre_at, batch_size)

        if memory is None:
            return recentred(self.batch_size)
        if past.is_changing:  # so its expansion is computed for every move
            if not _is_exact_cheaper(memory, past):
                return recentred(memory.batch_size)
            if seen < memory.recentre_at:
                return recentred(memory.batch_size, memory.recentre_at)
            # Since the mini-batch was too noisy, the posterior and the remainders have shrunk.
            return recentred(self._smaller(memory.batch_size))
        if memory.recentre_at == NOW:
            return recentred(memory.batch_size)
        if seen >= memory.recentre_at:
            return recentred(self.batch_size)
        expansion = memory.past
        if memory.num_rows < past.size:
            new = past.part(memory.num_rows, past.size)
            expansion = expansion.plus(new.expand(model, expansion.centre))
        return memory._replace(past=expansion, num_rows=past.size, age=memory.age + 1)

    def _smaller(self, batch_size: int) -> int:
        return max(self.batch_size, batch_size // STEP)

    def function(self, model: BoundModel, target: Target, expansion: Expansion) -> Gradient:
        """An unbiased estimate of ∇ log π_λ; the particles share its mini-batches."""
        centre, past, chunk = expansion.centre, target.past, target.chunk

        def remainders(key, positions, window, batch_size):
            batch = draw_rows(key, window, (batch_size,))

            def batch_sum(position):
                return drawn_sum(model, position, *batch)

            expected = jax.grad(batch_sum)(centre) + (positions - centre) @ jax.hessian(batch_sum)(centre)
            return (jax.vmap(jax.grad(batch_sum))(positions) - expected) / batch_size

        def gradient(key: Array, positions: Positions) -> Positions:
            key_past, key_chunk = jax.random.split(key)
            of_past = remainders(key_past, positions, past, self.batch_size)
            of_chunk = jax.lax.cond(
                chunk.size > 0,
                lambda: remainders(key_chunk, positions, chunk, self.batch_size // 4 + 1),
                lambda: jnp.zeros_like(positions),
            )
            noise = past.weight * past.size * of_past + target.temperature * chunk.size * of_chunk
            return prior_gradient(model, positions) + expansion.slope(positions) + noise

        return gradient

    def adapt(self, memory: ControlVariateMemory | None, noise: float) -> ControlVariateMemory | None:
        """Request a new centre if the noise is large, or a larger mini-batch if the centre is new.

        Noise that is a `STEP` below the allowed even after that shrinks the mini-batch. The exact
        gradient, with zero noise, changes nothing.
        """
        if memory is None or noise == 0.0:
            return memory
        if noise < ALLOWED_NOISE / STEP**2 and memory.batch_size > self.batch_size:
            return memory._replace(batch_size=self._smaller(memory.batch_size))
        if noise <= ALLOWED_NOISE:
            return memory
        if memory.age == 0:
            return memory._replace(batch_size=STEP * memory.batch_size)
        return memory._replace(recentre_at=NOW)


def check_gradient(gradient: Any) -> None:
    """Raise ConfigurationError unless `gradient` is the configuration of an estimator."""
    needs = "prepare", "function", "adapt", "is_exact", "needs_centre"
    lacking = [name for name in needs if not hasattr(gradient, name)]
    if isinstance(gradient, type) or lacking:
        lacks = f", which lacks {', '.join(lacking)}" if lacking and len(lacking) < len(needs) else ""
        raise ConfigurationError(
            f"gradient must be an estimator such as gradients.ControlVariate(); got {gradient!r}{lacks}."
        )
    check_hashable("gradient", gradient)


def _is_exact_cheaper(memory: ControlVariateMemory, past: Window) -> bool:
    """Whether the exact gradient of the past costs no more than the mini-batch."""
    return 2 * memory.batch_size >= past.size
