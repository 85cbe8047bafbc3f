"""Rows: a protocol for observations, wherever they are, and a window of them on the device.

All higher layers rely on the protocol `Rows`: the number of rows, a small local sample,
log-likelihoods at positions, and derivatives at one position. `Window` implements it for arrays on
the device. A window can represent more rows than it holds, such as the past of a stream.

The arrays of a window may be spread over devices (`shards`). Its rows are summed block by block
(`row_sums.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia.model.bound import BoundModel, Observations
from evidentia.posterior import row_sums
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.shards import Shards

ROUNDING = 0.1  # nats; half its square is the bias of the log evidence
# Particles whose log-likelihood is summed in float64, or if the mean of their rounding errors may
# be off by more than OFFSET.
NUM_EXACT, MORE_EXACT = 8, 128
OFFSET = 0.01  # nats

Positions = Float[Array, "particles parameters"]
LogLikelihoods = Float[np.ndarray, " particles"]
Centre = Float[np.ndarray, " parameters"] | Float[Array, " parameters"]


@runtime_checkable
class Rows(Protocol):
    """Observations, in memory or elsewhere."""

    @property
    def num_observations(self) -> int:
        """The number of rows."""
        ...

    @property
    def size(self) -> int:
        """The number of rows that one evaluation visits: fewer, if some represent others."""
        ...

    @property
    def span(self) -> str:
        """The rows, for messages."""
        ...

    @property
    def near(self) -> "Window":
        """The rows that can be visited chunk by chunk: all, or a random sample of them."""
        ...

    def sample(self, count: int) -> "Window":
        """At most `count` rows, spread evenly, on the device."""
        ...

    def log_likelihoods(self, model: BoundModel, positions: Positions) -> tuple[LogLikelihoods, float]:
        """Log-likelihood of all rows at every particle, in nats: float64 deviations and an offset.

        Particle i has the log-likelihood `deviations[i] + offset`; the deviation is -inf where a
        row has -inf, and NaN where a row has NaN or +inf.
        """
        ...

    def blocks(self, count: int, size: int) -> Sequence["Window"]:
        """Some blocks of `size` rows, spread evenly, on the device; there must be as many rows."""
        ...

    def exact_log_likelihoods(
        self, model: BoundModel, positions: Float[np.ndarray, "particles parameters"]
    ) -> LogLikelihoods:
        """Log-likelihood of all rows at a few positions, in float64."""
        ...

    def expand(self, model: BoundModel, centre: Centre, hessian: bool = True) -> Expansion:
        """Log-likelihood of all rows at one position, with gradient and Hessian, in host float64.

        Without `hessian` the Hessian may be zero, and the cost is that of a few likelihoods.
        """
        ...


@dataclass(frozen=True)
class Window:
    """The observations `start <= row < stop` of `arrays`, a pytree with a shared leading axis.

    With a `remainder`, the R rows represent n: each counts `weight` = n/R times, and `remainder`
    expands what is left,

        Σ_{i ≤ n} ℓ_i(θ) = (n/R) Σ_{i in window} ℓ_i(θ) + Q(θ).

    Q is small, as the sample has about the same shape as the whole. Source: Quiroz, Kohn, Villani,
    Tran (2019), Journal of the American Statistical Association 114, Eq. 5 (the difference
    estimator, here with the same sample at every position).

    With `copies`, its rows are nodes with the moments of more rows (`online.squashed`): each
    counts as often as `copies` says, and `kept` has some of the rows themselves.

    Attributes:
        copies: how often each row of the arrays counts; None if `weight` times.
        kept: of nodes, a sample of the rows that these represent, with their number.
        shards: how the arrays are spread over devices, and the order of their rows; None if they
            are on one device.
        first_row: the number of the first row in messages, if not `start`.
        head: some of the first rows on one device, if the arrays are spread over several.
        counts: the number of observations of each row of the arrays, if a row is a unit of many,
            as a part of a sequence is; None if each is one.
    """

    arrays: Observations
    start: int
    stop: int
    weight: float = 1.0
    remainder: Expansion | None = None
    shards: Shards | None = None
    copies: Float[Array, " rows"] | None = None
    first_row: int | None = None
    head: "Window | None" = None
    counts: tuple[int, ...] | None = None
    kept: "Window | None" = None

    @property
    def size(self) -> int:
        """The number of rows that the window holds."""
        return self.stop - self.start

    @property
    def num_observations(self) -> int:
        """The number of rows that the window represents."""
        return round(self.weight * self._num_held) if self.kept is None else self.kept.num_observations

    @property
    def _num_held(self) -> int:
        return self.size if self.counts is None else sum(self.counts[self.start : self.stop])

    @property
    def is_changing(self) -> bool:
        """Whether the rows that it holds are others after the next chunk."""
        return any(part is not None for part in (self.remainder, self.counts, self.copies))

    @property
    def near(self) -> "Window":
        """All of its rows, or those that are kept."""
        return self if self.kept is None else self.kept

    def row_weights(self, index: Int[Array, " block"]) -> Float[Array, " block"] | float:
        """How often each row counts, by its index in the arrays."""
        return self.weight if self.copies is None else self.copies[index]

    @property
    def span(self) -> str:
        """The row numbers, for messages."""
        first = self.start if self.first_row is None else self.first_row
        count = self._num_held
        return f"rows {first} to {first + count - 1}" if count > 1 else f"row {first}"

    def part(self, start: int, stop: int) -> "Window":
        """A plain window of the rows from `start` to `stop`, relative to this window."""
        return replace(
            without_remainder(self),
            start=self.start + start,
            stop=self.start + stop,
            first_row=None,
            head=None,
        )

    def first(self, count: int) -> "Window":
        """A plain window of the first `count` rows, on one device if they are few."""
        if self.head is not None and count <= self.head.size:
            return self.head.part(0, count)
        return self.part(0, count)

    def sample(self, count: int) -> "Window":
        """At most `count` rows, spread evenly; all rows as a plain window if there are no more."""
        if self.kept is not None:
            return without_remainder(self.kept).sample(count)
        if self.size <= count and self.shards is None:
            return self.part(0, self.size)
        count = min(count, self.size)
        return self._copied(np.linspace(self.start, self.stop - 1, count).astype(int))

    def blocks(self, count: int, size: int) -> Sequence["Window"]:
        """As `Rows.blocks`: parts of the same arrays, so that programs are shared."""
        if self.kept is not None:
            return self.kept.blocks(count, size)
        starts = np.linspace(0, self.size - size, count).astype(int)
        if self.shards is None:
            return [self.part(int(start), int(start) + size) for start in starts]
        copies = self._copied((self.start + starts[:, None] + np.arange(size)).ravel())
        return [copies.part(index * size, (index + 1) * size) for index in range(count)]

    def _copied(self, rows: Int[np.ndarray, " rows"]) -> "Window":
        """Copies of some rows, by their numbers in the arrays, on one device."""
        if self.shards is None:
            copies = jax.tree.map(lambda leaf: leaf[rows], self.arrays)
        else:
            copies = jax.tree.map(jnp.asarray, self.shards.fetch(self.arrays, rows))
        counts = self.counts and tuple(self.counts[row] for row in rows)
        return Window(copies, 0, len(rows), counts=counts)

    def log_likelihoods(self, model: BoundModel, positions: Positions) -> tuple[LogLikelihoods, float]:
        """As `Rows.log_likelihoods`, without the loss of digits of plain float32 sums.

        The log-likelihood of 10⁶ rows is about -10⁶, where float32 has steps of 0.06 nats; and the
        rounding errors of single rows add up where data take few values, such as counts. So each
        row's average over the particles is subtracted, and the small deviations are summed in
        float32. The offset makes a few particles, whose sums are also computed in float64, right
        on average. If they then differ by more than `ROUNDING`, rounding errors are corrected by
        those of some of the rows (`_rounded_off`). If they still do, as where data lie thousands
        of deviations from the prior, or a sum is NaN, as where float32 has no Cholesky factor, all
        sums are computed in float64, unless rows are many. Where they differ by less, the mean
        over more particles makes the offset as good as if they did not.
        """
        deviations = np.asarray(row_sums.deviations(model, positions, self), np.float64)
        order = np.argsort(~np.isfinite(deviations), kind="stable")
        few, more = order[:NUM_EXACT], order[:MORE_EXACT]
        exact = self.exact_log_likelihoods(model, np.asarray(positions)[few])
        offset, error = _compared(deviations[few], exact)
        is_defined = not np.isnan(deviations).any()
        if is_defined and error > ROUNDING and self.size > 100_000:  # where this is faster than float64
            deviations = deviations + self._rounded_off(model, positions)
            offset, error = _compared(deviations[few], exact)
        if (not is_defined or error > ROUNDING) and self.size * len(positions) <= 10**9:
            exact = self.exact_log_likelihoods(model, np.asarray(positions))
            exact = np.where(exact == np.inf, np.nan, exact)
            offset = float(np.max(exact[np.isfinite(exact)], initial=-np.inf))
            return (exact - offset, offset) if np.isfinite(offset) else (exact, 0.0)
        if error > OFFSET * math.sqrt(NUM_EXACT):
            exact = self.exact_log_likelihoods(model, np.asarray(positions)[more])
            offset, _ = _compared(deviations[more], exact)
        return deviations, offset

    def _rounded_off(self, model: BoundModel, positions: Positions) -> LogLikelihoods:
        """The rounding errors of float32, about, and up to a constant, to be added.

        That of a coefficient of the parameters, such as the logarithm of a weight, is the same in
        many rows, so some of them show it.
        """
        num_blocks, num_in_block = 32, 512
        found = np.zeros(len(positions))
        with np.errstate(invalid="ignore"):  # both are -inf where a row has zero likelihood
            for block in self.blocks(num_blocks, num_in_block):
                found += block.exact_log_likelihoods(model, np.asarray(positions))
                found -= np.asarray(row_sums.deviations(model, positions, block), np.float64)
        found *= self.weight * self.size / (num_blocks * num_in_block)
        is_finite = np.isfinite(found)
        return np.where(is_finite, found - np.mean(found, where=is_finite), 0.0)

    def exact_log_likelihoods(
        self, model: BoundModel, positions: Float[np.ndarray, "particles parameters"]
    ) -> LogLikelihoods:
        """Log-likelihood of all rows at a few particles, in float64 under any setting of JAX."""
        with model.in_float64():
            return np.asarray(row_sums.exact_sums(model, np.asarray(positions, np.float64), self))

    def expand(self, model: BoundModel, centre: Centre, hessian: bool = True) -> Expansion:
        """As `Rows.expand`, in one pass over the rows."""
        # The Hessian of few rows takes less time than compiling a program without it.
        hessian = hessian or self.size * len(centre) <= 100_000
        with model.in_float64():
            parts = row_sums.expand(model, np.asarray(centre, np.float64), self, hessian)
            plain = Expansion(np.asarray(centre, np.float64), *(np.asarray(part) for part in parts))
        return plain if self.remainder is None else plain.plus(self.remainder.about(plain.centre))


def _parts(window: Window) -> tuple[tuple[Any, ...], None]:
    arrays, bounds = window.arrays, (window.start, window.stop)
    return (arrays, *bounds, window.weight, window.remainder, window.shards, window.copies), None


# Programs need neither `first_row`, which can exceed 32 bits, nor `head`, `counts` and `kept`.
jax.tree_util.register_pytree_node(Window, _parts, lambda _, parts: Window(*parts))


def without_remainder(window: Window) -> Window:
    """The window with each of its rows counted once."""
    return replace(window, weight=1.0, remainder=None, copies=None, kept=None)


def _compared(deviations: LogLikelihoods, exact: LogLikelihoods) -> tuple[float, float]:
    """The mean difference of exact values from deviations, and by how much single ones differ."""
    finite = np.isfinite(deviations) & np.isfinite(exact)
    if not finite.any():
        return 0.0, 0.0
    errors = exact[finite] - deviations[finite]
    # Beside values of -10³⁰ nats, the others are all the same in float32.
    resolution = np.finfo(np.float32).eps * np.max(np.abs(deviations[finite]))
    return float(np.mean(errors)), float(max(np.std(errors), resolution))
