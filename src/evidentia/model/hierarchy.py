"""Which sites of a model are effects, and how much its data say about one of them."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.model.bound import BoundModel
from evidentia.model.checks import some_rows
from evidentia.model.dependence import Statement, prior_statements
from evidentia.model.program import Densities, Observations, Params
from evidentia.model.standardised import FAMILIES, family_of
from evidentia.model.symmetry import Symmetry
from evidentia.system.compilation import jitted

NUM_DRAWS = 256  # from the prior, of which the likeliest say what the information is
NUM_LIKELY = 8
MOST_ROWS = 256  # at which it is measured
STEP = 16.0  # it is rounded to a power of this: models of similar data share their programs


def standardised(model: BoundModel, rows: Observations) -> BoundModel:
    """The same model with effects in coordinates in which their scale hardly matters.

    It is the model itself if it has no effects, if something is known in its own coordinates
    (symmetries, or where searches for modes begin), or if its log-likelihood has no second
    derivatives. `rows` are all data.
    """
    is_fixed = model.symmetry != Symmetry() or model.starts or model.evaluations is not None
    names = [] if is_fixed else effects(model.densities)
    found = information(model, rows, names) if names else None
    if found is None:
        return model
    densities = model.densities._replace(information=found)
    return replace(model, densities=densities, identity=f"{model.identity} {found}")


def effects(densities: Densities) -> list[str]:
    """The sites of several values whose location or scale depends on other parameters."""

    def are_effects(statement: Statement) -> bool:
        message = statement.message
        fn, shape = message["fn"], np.shape(message["value"])
        is_whole = fn.shape() == shape and message["scale"] is None  # drawn once, with all its density
        return statement.varies and type(family_of(fn)) in FAMILIES and is_whole and math.prod(shape) > 1

    return [name for name, statement in prior_statements(densities).items() if are_effects(statement)]


def information(model: BoundModel, rows: Observations, names: list[str]) -> dict[str, float] | None:
    """The mean over effects of -∂² log p(D | θ) / ∂x², at the likeliest of some prior draws.

    It is rounded to a power of `STEP`, 0 where the log-likelihood is not concave, and None where
    it has no second derivatives.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    some = some_rows(rows, min(count, MOST_ROWS))
    draws = model.sample_prior(jax.random.key(0), NUM_DRAWS)
    heights = np.asarray(_log_likelihoods(model, draws, some), np.float64)
    likely = np.argsort(-np.nan_to_num(heights, nan=-np.inf))[:NUM_LIKELY]
    try:
        found = _curvatures(model, draws[likely], some, tuple(names))
    except Exception:  # of any kind: the user's function may call what has none
        return None
    return {
        name: _rounded(np.asarray(each) * (count / min(count, MOST_ROWS))) for name, each in found.items()
    }


def _rounded(values: Float[np.ndarray, " draws"]) -> float:
    middle = float(np.median(values))
    return STEP ** round(np.log(middle) / np.log(STEP)) if 0 < middle < np.inf else 0.0


@jitted(static_argnames="model")
def _log_likelihoods(model: BoundModel, draws: Array, rows: Observations) -> Float[Array, " draws"]:
    return jax.lax.map(lambda draw: jnp.sum(model.log_likelihood(draw, rows)), draws)


@jitted(static_argnames=("model", "names"))
def _curvatures(
    model: BoundModel, draws: Array, rows: Observations, names: tuple[str, ...]
) -> dict[str, Float[Array, " draws"]]:
    """-vᵀ H v / J for each site, at each draw.

    v has random signs, so that it is the mean of -H_jj on average, and exactly so if the
    likelihood of a row depends on one effect (Hutchinson, 1989).
    """

    def of_site(name: str, params: Params) -> Array:
        def height(values):
            return jnp.sum(model.densities.pointwise({**params, name: values}, rows))

        def slope(values):
            return jnp.vdot(signs, jax.grad(height)(values))

        values = params[name]
        signs = jax.random.rademacher(jax.random.key(0), values.shape, values.dtype)
        return -jnp.vdot(signs, jax.grad(slope)(values)) / values.size

    return jax.lax.map(lambda draw: {name: of_site(name, model.place(draw)[0]) for name in names}, draws)
