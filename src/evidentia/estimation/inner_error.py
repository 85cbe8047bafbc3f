"""The error of the inner integrals, over local variables or states, in the log evidence.

With l(θ) the log-likelihood as it was used and l'(θ) that by a better rule of quadrature, the
evidence changes by the factor E[exp(l'(θ) - l(θ))] over the posterior. A sample of draws and rows
estimates its logarithm. Half of it is taken as its error: with twice the nodes, that of skewed
integrals (few binary rows, widely differing groups) was a quarter. The better rule also looks for
several modes. Recursions whose log predictives are approximate have a finer one (`refined`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.model.bound import BoundModel
from evidentia.model.local import CHECKS, Integrated
from evidentia.posterior.rows import Rows
from evidentia.system.compilation import compiled

LEAST_DRAWS = 8  # of which those with large differences can all be missing
MOST_DRAWS = 128  # with fewer rows, at the same cost: the error of a mean is a tenth of a deviation
MOST_ROWS = 2048
LARGE = 0.1  # nats
OF_LATENTS = (
    "the latents of rows or groups",
    "these are far from Gaussian",
    "; or make latents parameters like others (pointwise=False of Model.from_numpyro)",
)
OF_STATES = "hidden states", "these move by less than the distance of the points of their grid", ""


class InnerError(NamedTuple):
    """What better inner integrals add to the log evidence, in nats, and its variance.

    Attributes:
        level: of the rule that was used.
        better: the level of a rule that is needed; None if this one is good enough, or the best.
        cause: what is integrated, why it is difficult, and what else can be done.
    """

    shift: float
    variance: float
    level: int
    better: int | None
    cause: tuple[str, str, str]

    @property
    def signs(self) -> dict[str, str]:
        """Signs of trouble: a shift that cannot be trusted itself."""
        error = self.variance**0.5
        if error < LARGE:
            return {}
        what, why, advice = self.cause
        return {
            "coarse inner integrals": f"the integrals over {what} are uncertain by {error:.2g} nats in all, as {why}. Trust "
            f"differences between models that are much larger{advice}."
        }


def inner_error(
    model: BoundModel,
    rows: Rows,
    positions: Float[Array, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
) -> InnerError | None:
    """The inner error of a log evidence; None if no integrals over local variables have one."""
    function = model.densities.pointwise
    if not _better_rules(function):
        return None
    shares = np.exp(log_weights - np.max(log_weights))
    some = rows.sample(min(MOST_ROWS, rows.size))
    count, total = some.stop - some.start, rows.num_observations
    num_draws = min(LEAST_DRAWS * MOST_ROWS // count, MOST_DRAWS)
    chosen = np.random.default_rng(0).choice(len(shares), num_draws, p=shares / shares.sum())
    batch = jax.tree.map(lambda leaf: leaf[some.start : some.stop], some.arrays)
    found = _differences(model, jnp.asarray(positions)[chosen], batch)
    *others, by_draw = (np.asarray(one, np.float64) for one in found)
    shift, variance = _shift_and_variance(by_draw, count, total)
    better = None
    level = function.level if isinstance(function, Integrated) else 0
    if variance**0.5 >= LARGE and others:
        left = _shift_and_variance(by_draw - others[0], count, total)  # of the same rule with more nodes
        better = CHECKS[level][0 if left[1] ** 0.5 < LARGE / 2 else 1]
    cause = OF_LATENTS if isinstance(function, Integrated) else OF_STATES
    return InnerError(shift, variance, level, better, cause)


def _better_rules(function: Any) -> list[Callable[..., Array]]:
    """The same log-likelihoods by better rules, the best last; none if they are exact."""
    if isinstance(function, Integrated):
        return [] if function.is_quadratic else [function.at(level) for level in CHECKS[function.level]]
    refined = getattr(function, "refined", None)
    return [] if refined is None else [refined]


def with_rule(model: BoundModel, level: int) -> BoundModel:
    """The model with another rule of quadrature."""
    function = model.densities.pointwise
    assert isinstance(function, Integrated)
    densities = model.densities._replace(pointwise=function.at(level))
    return replace(model, densities=densities, identity=f"{model.identity} rule {level}")


def _shift_and_variance(
    by_draw: Float[np.ndarray, "draws rows"], count: int, total: int
) -> tuple[float, float]:
    """The shift of all rows, and its variance, from differences of some rows at some draws."""
    sums = by_draw.mean(axis=1) * total
    unseen = 0.0 if count == total else float(np.mean(by_draw.var(axis=1))) * total**2 / count
    shift = float(sums.mean())
    return shift, float(sums.var()) / len(sums) + unseen + (shift / 2) ** 2


@compiled(static_argnames=("model",))
def _differences(model, positions, batch):
    """What better rules add to each row at each draw."""
    used = model.densities.pointwise

    def at(position):
        params = model.densities.place(position)[0]
        value = used(params, batch)
        return [better(params, batch) - value for better in _better_rules(used)]

    return jax.lax.map(at, positions)
