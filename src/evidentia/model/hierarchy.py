"""Which sites of a model are effects, and coordinates that fit what the data say about each."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.model.bound import BoundModel
from evidentia.model.enumeration import AtValues
from evidentia.model.program import Densities, Observations, Params, Position, trace_at
from evidentia.model.recentred import FAMILIES, Recentred, family_of
from evidentia.model.symmetry import Symmetry
from evidentia.system.compilation import jitted

NUM_DRAWS = 32  # of the posterior, over which derivatives are averaged
CLOSE = 0.05  # nats within which the density in the new coordinates is that in the old ones

Positions = Float[Array, "draws parameters"]


def with_recentred_effects(model: BoundModel, rows: Observations, draws: Positions) -> BoundModel | None:
    """The model with its effects in other coordinates; None if it has none, or stays as it is.

    It stays if something is known in its own coordinates (symmetries, or where searches begin),
    and if its log-likelihood has no second derivatives. `draws` are some of the posterior, and may
    be poor ones: they say how well coordinates fit, not what the evidence is.
    """
    densities = model.densities
    if model.symmetry != Symmetry() or model.starts or model.evaluations is not None or densities.recentred:
        return None
    names = effects(densities, draws[0], draws[-1])
    if not names or not _has_curvature(model, rows, names):
        return None
    found = coordinates(model, rows, draws[:NUM_DRAWS], names)
    changed = densities._replace(recentred=found)
    if not is_same_prior(densities, changed, draws[0]):
        return None
    digest = hashlib.sha256(
        b"".join(one.information.tobytes() + one.centre.tobytes() for one in found.values())
    )
    identity = f"{model.identity} {tuple(found)} {digest.hexdigest()}"
    return replace(model, densities=changed, identity=identity)


def effects(densities: Densities, first: Position, second: Position) -> tuple[str, ...]:
    """The sites of several values whose priors are not the same at two positions."""
    try:
        one, other = (_statements(densities, position) for position in (first, second))
    except ValueError:  # NumPyro checks parameters of distributions: a scale may have become zero
        return ()

    def are_effects(name: str) -> bool:
        message, fn, shape = one[name], one[name]["fn"], np.shape(one[name]["value"])
        is_whole = fn.shape() == shape and message["scale"] is None  # drawn once, with all its density
        if type(family_of(fn)) not in FAMILIES or not is_whole or math.prod(shape) < 2:
            return False
        pairs = zip(jax.tree.leaves(fn), jax.tree.leaves(other[name]["fn"]), strict=True)
        return not all(np.array_equal(here, there) for here, there in pairs)

    return tuple(name for name in densities.sites if are_effects(name))


def _statements(densities: Densities, position: Position) -> Mapping[str, Any]:
    free = {name: site.take(position) for name, site in densities.sites.items()}
    return trace_at(AtValues(densities.prior), free, densities.rows)[0]


def coordinates(
    model: BoundModel, rows: Observations, draws: Positions, names: tuple[str, ...]
) -> dict[str, Recentred]:
    """Coordinates from derivatives of the log-likelihood by each effect, averaged over draws.

    I_j = -E ∂²ℓ/∂x_j², not below 0, and c_j = E x_j + E ∂ℓ/∂x_j / I_j: a step of Newton's method,
    which ends at the likelihood's own centre if it is Gaussian.
    """
    found = {}
    for name, parts in _derivatives(model, draws, rows, names).items():
        value, slope, curvature = (np.mean(np.asarray(part, np.float64), axis=0) for part in parts)
        is_known = np.isfinite(slope) & np.isfinite(curvature) & (curvature < 0)
        information = np.where(is_known, -curvature, 0.0)
        centre = value + np.where(is_known, slope, 0.0) / np.where(is_known, information, 1.0)
        found[name] = Recentred(information.astype(np.float32), centre.astype(np.float32))
    return found


@jitted(static_argnames=("model", "names"))
def _derivatives(
    model: BoundModel, draws: Positions, rows: Observations, names: tuple[str, ...]
) -> dict[str, tuple[Array, Array, Array]]:
    """At each draw the effects, and the log-likelihood's first and second derivatives by each.

    The latter are v ∘ H v with random signs v, right on average, and exactly if no row depends on
    two effects of a site (Bekas, Kokiopoulou and Saad, 2007).
    """

    def of_site(name: str, params: Params, key: Array) -> tuple[Array, Array, Array]:
        values = params[name]
        signs = jax.random.rademacher(key, values.shape, values.dtype)

        def slope(values):
            total = jax.grad(lambda x: jnp.sum(model.densities.pointwise({**params, name: x}, rows)))(values)
            return jnp.vdot(signs, total), total

        change, first = jax.grad(slope, has_aux=True)(values)
        return values, first, signs * change

    def at(draw: tuple[Position, Array]) -> dict[str, tuple[Array, Array, Array]]:
        params = model.place(draw[0])[0]
        return {name: of_site(name, params, draw[1]) for name in names}

    return jax.lax.map(at, (draws, jax.random.split(jax.random.key(0), len(draws))))


def _has_curvature(model: BoundModel, rows: Observations, names: tuple[str, ...]) -> bool:
    """Whether the log-likelihood can be differentiated twice: a user's function may not."""
    some = jnp.zeros((1, model.num_parameters))
    try:
        _derivatives.lower(model, some, jax.tree.map(lambda leaf: leaf[:1], rows), names)
    except Exception:  # of any kind, as it comes from inside that function
        return False
    return True


def is_same_prior(plain: Densities, changed: Densities, position: Position) -> bool:
    """Whether the prior is the same in other coordinates, at one place.

    log p(u) = log p(x) + Σ_j log ∂x_j/∂u_j, as x_j depends on no other u of its site. It is not if
    handlers of a program (`scope`, `scan`) change sites or their names on the way.
    """
    try:
        params, terms = plain.place(position)
        place = changed.unplace(params)
        found, own = changed.place(place)
    except (AssertionError, KeyError, TypeError, ValueError):
        return False
    log_det = sum(_log_slope(changed, place, name) for name in changed.recentred)
    is_there = all(np.allclose(found[name], params[name], rtol=1e-3, atol=1e-3) for name in params)
    return is_there and abs(float(sum(own.values()) - sum(terms.values()) - log_det)) < CLOSE


def _log_slope(densities: Densities, position: Position, name: str) -> Array:
    site = densities.sites[name]
    step = jnp.zeros_like(position).at[site.start : site.stop].set(1.0)
    _, change = jax.jvp(lambda here: densities.place(here)[0][name], (position,), (step,))
    return jnp.sum(jnp.log(jnp.abs(change)))
