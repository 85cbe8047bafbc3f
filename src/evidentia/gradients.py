"""Estimators of the gradient of the log-posterior: full batch, mini-batch, control variate.

The density that a move leaves invariant is the tempered posterior of the data seen so far (`target`). An estimator is a
small frozen configuration with three methods:

    prepare     on the host, before a move: brings what the estimator remembers up to date with the past (`Prepared`);
    estimator   inside a compiled move: returns the function (key, positions) -> gradients;
    adapt       on the host, after a move: takes in the noise that was measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from evidentia.errors import ConfigurationError
from evidentia.expansion import Expansion, add_expansions
from evidentia.model import BoundModel
from evidentia.rows import Rows
from evidentia.target import (
    Positions,
    Target,
    expand,
    expand_target,
    gradient_sum,
    merge_chunk,
    prior_gradient,
)

Estimator = Callable[[Array, Positions], Positions]

ALLOWED_NOISE = 0.1  # variance of a gradient's noise where its own variance over the posterior is one
STEP = 8  # factor by which mini-batches grow and shrink: few sizes, as each is a program of its own
QUIET_NOISE = (
    ALLOWED_NOISE / STEP**2
)  # at a mini-batch that is a step smaller, still a step below what is allowed


class Prepared(NamedTuple):
    """What a move uses.

    `config` may be a cheaper or a safer estimator than the one asked; `target` is the same density, perhaps with its rows
    divided otherwise; `expansion` is that of its log-likelihood, for estimators that have one.
    """

    config: Any
    memory: Any
    target: Target
    expansion: Expansion | None


class ControlVariateMemory(NamedTuple):
    """What `ControlVariate` remembers between moves.

    `past` expands the first `num_rows` rows. The centre was chosen when there were `centred_at` rows, in the last move if
    `is_fresh`, and is to be chosen anew if `is_stale`. About a sample it is chosen in every move, and `centred_at` counts the
    rows that had been seen at the last one with a mini-batch.
    """

    past: Expansion
    num_rows: int
    centred_at: int
    batch_size: int
    is_fresh: bool = True
    is_stale: bool = False


def draw_rows(key: Array, rows: Rows, shape: tuple[int, ...]):
    """Rows drawn with replacement: a pytree whose leaves have `shape` in place of the leading axis."""
    index = jax.random.randint(key, shape, rows.start, rows.stop)
    return jax.tree.map(lambda leaf: leaf[index], rows.arrays)


@dataclass(frozen=True)
class FullBatch:
    """The exact gradient: every row at every step, at a cost that grows with the data."""

    def prepare(self, model: BoundModel, memory: Any, target: Target, centre) -> Prepared:
        """Nothing to prepare."""
        return Prepared(self, memory, target, None)

    def estimator(self, model: BoundModel, target: Target, expansion: Expansion | None) -> Estimator:
        """∇ log π_λ itself; the key is not used."""

        def gradient(key: Array, positions: Positions) -> Positions:
            past = gradient_sum(model, positions, target.past)
            chunk = gradient_sum(model, positions, target.chunk)
            return prior_gradient(model, positions) + past + target.temperature * chunk

        return gradient

    def adapt(self, memory: Any, noise: float) -> Any:
        """Nothing to adapt."""
        return memory


@dataclass(frozen=True)
class MiniBatch:
    """The published estimator: (n / B) times the gradient of a mini-batch drawn from the past, plus the whole chunk.

        ∇ log p(θ) + (n/B) Σ_{b in B} ∇ℓ_b(θ) + λ Σ_{i in chunk} ∇ℓ_i(θ)

    Each particle has a mini-batch of its own, drawn with replacement at each step. Unbiased, with a variance of
    (n²/B) Var ∇ℓ that drowns the injected noise when n is large.

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Algorithm 1.
    """

    batch_size: int = 500

    def __post_init__(self):
        _check_batch_size(self.batch_size)

    def prepare(self, model: BoundModel, memory: Any, target: Target, centre) -> Prepared:
        """Nothing to prepare."""
        return Prepared(self, memory, target, None)

    def estimator(self, model: BoundModel, target: Target, expansion: Expansion | None) -> Estimator:
        """An unbiased estimate of ∇ log π_λ, with independent noise for each particle."""
        num_past = target.past.size

        def batch_sum(position, batch):
            return jnp.sum(model.log_likelihood(position, batch))

        def gradient(key: Array, positions: Positions) -> Positions:
            batches = draw_rows(key, target.past, (positions.shape[0], self.batch_size))
            past = jax.vmap(jax.grad(batch_sum))(positions, batches) * (num_past / self.batch_size)
            past = target.past.whole(past, lambda missing: missing.slope(positions))
            chunk = gradient_sum(model, positions, target.chunk)
            # While the past is empty, what was drawn is not data: it must not leave even a NaN.
            past = jnp.where(num_past > 0, past, 0.0)
            return prior_gradient(model, positions) + past + target.temperature * chunk

        return gradient

    def adapt(self, memory: Any, noise: float) -> Any:
        """Nothing to adapt: the batch size is what the user said."""
        return memory


@dataclass(frozen=True)
class ControlVariate:
    """Second-order control variates: an expansion over all rows, plus a mini-batch of what the expansion misses.

    With g and H the gradient and Hessian at the centre c of all rows seen (the chunk's weighted by λ), and g_b, H_b
    those of one row,

        ∇ log p(θ) + g + H (θ - c) + (n/B) Σ_{b in B} [∇ℓ_b(θ) - g_b - H_b (θ - c)]

    is unbiased, and its noise is of second order in θ - c: it vanishes for Gaussian likelihoods and falls as the
    posterior narrows. One mini-batch serves all particles of a step: each particle's law is unchanged and the work
    becomes matrix products. The centre is the particles' mean; it is chosen anew when the number of rows has doubled,
    and when the noise has grown because the posterior moved away.

    Up to `exact_rows` rows the exact gradient is as cheap and is taken instead. `batch_size` is where the mini-batch
    starts: where the measured noise about a new centre is more than a tenth of the gradient's own variance the
    mini-batch grows, up to the exact gradient; where the noise is far below that it shrinks again. The exact gradient has none
    to go by, and is given up for a mini-batch when the number of rows has doubled.

    Source: Baker, Fearnhead, Fox, Nemeth (2019), Statistics and Computing 29, section 3 (first order); Quiroz, Kohn,
    Villani, Tran (2019), Journal of the American Statistical Association 114, section 3.2 (second order).
    """

    batch_size: int = 256
    exact_rows: int = 4096

    def __post_init__(self):
        _check_batch_size(self.batch_size)

    def prepare(
        self, model: BoundModel, memory: ControlVariateMemory | None, target: Target, centre
    ) -> Prepared:
        """Bring the expansion up to date; the exact gradient where it is cheaper than a mini-batch of use.

        A past that is a sample changes otherwise than by rows that follow: its expansion is computed anew each time.
        """
        target = merge_chunk(target)
        past, num_past = target.past, target.past.size
        if num_past + target.chunk.size <= self.exact_rows or num_past == 0:
            expansion = expand_target(model, expand(model, centre, past), target)
            return Prepared(FullBatch(), memory, target, expansion)
        if past.sample is not None:
            seen, batch_size = self._about_sample(memory, past)
            memory = ControlVariateMemory(expand(model, centre, past), num_past, seen, batch_size)
        elif memory is None or num_past >= 2 * memory.centred_at:
            memory = ControlVariateMemory(expand(model, centre, past), num_past, num_past, self.batch_size)
        elif memory.is_stale:
            batch_size = memory.batch_size
            memory = ControlVariateMemory(expand(model, centre, past), num_past, num_past, batch_size)
        else:
            memory = memory._replace(is_fresh=False)
        if memory.num_rows < num_past:
            news = expand(model, memory.past.centre, replace(past, start=past.start + memory.num_rows))
            memory = memory._replace(past=add_expansions(memory.past, news), num_rows=num_past)
        exact = _is_exact_cheaper(memory, past)
        config = FullBatch() if exact else replace(self, batch_size=memory.batch_size)
        return Prepared(config, memory, target, expand_target(model, memory.past, target))

    def _about_sample(self, memory: ControlVariateMemory | None, past: Rows) -> tuple[int, int]:
        """`centred_at` and `batch_size` for a move about a past that is a sample."""
        seen = round(past.num_observations)
        if memory is None:
            return seen, self.batch_size
        if not _is_exact_cheaper(memory, past):
            return seen, memory.batch_size
        if seen < 2 * memory.centred_at:
            return memory.centred_at, memory.batch_size
        # The posterior has narrowed since the mini-batch was too noisy, and with it what the expansion misses.
        return seen, self._smaller(memory)

    def _smaller(self, memory: ControlVariateMemory) -> int:
        return max(self.batch_size, memory.batch_size // STEP)

    def estimator(self, model: BoundModel, target: Target, expansion: Expansion) -> Estimator:
        """An unbiased estimate of ∇ log π_λ; the particles share its mini-batches."""
        centre = expansion.centre
        num_past, num_chunk = target.past.num_observations, target.chunk.size

        def missed(key, positions, rows, batch_size):
            batch = draw_rows(key, rows, (batch_size,))

            def batch_sum(position):
                return jnp.sum(model.log_likelihood(position, batch))

            expected = jax.grad(batch_sum)(centre) + (positions - centre) @ jax.hessian(batch_sum)(centre)
            return (jax.vmap(jax.grad(batch_sum))(positions) - expected) / batch_size

        def gradient(key: Array, positions: Positions) -> Positions:
            key_past, key_chunk = jax.random.split(key)
            expected = expansion.gradient + (positions - centre) @ expansion.hessian
            past = num_past * missed(key_past, positions, target.past, self.batch_size)
            chunk = num_chunk * missed(key_chunk, positions, target.chunk, self.batch_size // 4 + 1)
            return prior_gradient(model, positions) + expected + past + target.temperature * chunk

        return gradient

    def adapt(self, memory: ControlVariateMemory | None, noise: float) -> ControlVariateMemory | None:
        """Where the noise is large, choose the centre anew; where it is large about a new centre, take more rows.

        Fewer where it is tiny. An exact gradient, whose noise is zero, says nothing of mini-batches.
        """
        if memory is None or noise == 0.0:
            return memory
        if noise < QUIET_NOISE and memory.batch_size > self.batch_size:
            return memory._replace(batch_size=self._smaller(memory))
        if noise <= ALLOWED_NOISE:
            return memory
        if memory.is_fresh:
            return memory._replace(batch_size=STEP * memory.batch_size)
        return memory._replace(is_stale=True)


def _is_exact_cheaper(memory: ControlVariateMemory, past: Rows) -> bool:
    return 2 * memory.batch_size >= past.size


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise ConfigurationError(f"batch_size must be at least 1; got {batch_size}.")
