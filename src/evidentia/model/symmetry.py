"""Symmetries of a model: changes of the parameters that leave prior and likelihood as they are.

Two kinds are found. *Components*, along an axis that some parameters share, can be permuted: those
of a mixture, the units of a network. *Flips* are sets of parameters on the whole real line that
can change sign together: the factors of a product, the weights of a unit. A posterior has a copy
of each mode for each element of the group that they generate.

Only coordinates that influence the log-likelihood of the rows tried can be in a candidate: a
random effect whose group has no row there would seem to have either sign. Candidates are screened
at one random position each, by a program that the checks of the model have compiled; those that
pass are confirmed in float64 at several.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from evidentia.model.invariance import Index, exact_heights, influential, is_confirmed, screened
from evidentia.model.probe import Values, probing_positions
from evidentia.model.program import Densities, Observations

MAX_TOGETHER = 4  # parameters in a candidate
MAX_PAIRED = 16  # coordinates on the real line up to which all pairs are tried

Axis = tuple[str, int]  # a parameter and one of its axes
Flip = tuple[int, ...]  # coordinates of the unconstrained vector


class Symmetry(NamedTuple):
    """Generators of the group of changes that leave a model as it is.

    Attributes:
        components: parameters, with the axis of each that indexes interchangeable components. One
            with two such axes, as the transitions between hidden states, occurs with each of them.
        is_positive: whether each of these parameters is positive.
        unit_flips: flips within a component: for each, the coordinates in every component.
        flips: all other flips; no coordinate is in two flips.
    """

    components: tuple[Axis, ...] = ()
    is_positive: tuple[bool, ...] = ()
    unit_flips: tuple[tuple[Flip, ...], ...] = ()
    flips: tuple[Flip, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.components or self.unit_flips or self.flips)

    @property
    def all_flips(self) -> tuple[Flip, ...]:
        """The flips of every component, and the others."""
        return (*itertools.chain(*self.unit_flips), *self.flips)


def find_symmetry(
    densities: Densities,
    evaluate: Callable[[np.ndarray], Values],
    batches: Observations,
    declared: tuple[Axis, ...] = (),
) -> Symmetry:
    """The symmetries of a model, with the components that were declared, if any.

    `evaluate` and `batches` are those of `probe`.
    """
    positions = probing_positions(densities.size)
    values = evaluate(positions)
    params = {name: value[0] for name, value in values.prior[0].items()}
    index = {
        name: np.arange(site.start, site.stop).reshape(site.shape)
        for name, site in densities.sites.items()
        if site.shape == site.unconstrained_shape
    }
    matters = influential(evaluate, positions)
    real = {name: each for name, each in index.items() if np.array_equal(positions[:, each], params[name])}
    screen = partial(screened, evaluate, positions, values)
    rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batches)  # data and made up
    confirm = partial(is_confirmed, exact_heights(densities, rows), params)
    shapes = {
        name: site.shape for name, site in densities.sites.items() if matters[site.start : site.stop].all()
    }
    components = declared or _components(shapes, index, screen, confirm)
    accepted: list[Flip] = []
    for flip in _screened_flips(real, matters, screen):
        is_new = not any(set(flip) & set(other) for other in accepted)
        if is_new and confirm(partial(_flipped, real, flip)):
            accepted.append(flip)
    unit_flips, flips = _by_component(components, real, accepted)
    is_positive = tuple(bool((params[name] >= 0).all()) for name, _ in components)
    return Symmetry(components, is_positive, unit_flips, flips)


# --- Components ----------------------------------------------------------------------------------


def declared_axes(exchangeable: Sequence[Any]) -> tuple[Axis, ...]:
    """The axes of components that a model names: the leading one, or those after a name.

    Example:
        >>> declared_axes(["means", ("transition", 0, 1)])
        (('means', 0), ('transition', 0), ('transition', 1))
    """
    named = [(each, 0) if isinstance(each, str) else each for each in exchangeable]
    return tuple((name, axis) for name, *axes in named for axis in axes)


def permuted(array: Any, name: str, components: Sequence[Axis], order: Any, num_leading: int = 0) -> Any:
    """An array whose component k is the former `order[k]`, along each of its axes of components.

    `num_leading` counts axes before those of the parameter, such as one of particles.
    """
    for axis in (axis for other, axis in components if other == name):
        array = array.take(order, axis + num_leading)
    return array


def by_component(
    components: Sequence[Axis], arrays: Mapping[str, Any], num_leading: int = 0
) -> dict[str, Any]:
    """The values that each component has alone, with components on one axis, by parameter.

    These are the diagonal of a parameter with two axes of components: its other values belong to
    pairs of them.
    """
    found = {}
    for name in dict.fromkeys(name for name, _ in components if name in arrays):
        axes = [axis + num_leading for other, axis in components if other == name]
        own = arrays[name] if len(axes) == 1 else arrays[name].diagonal(0, *axes)
        found[name] = np.moveaxis(own, axes[0] if len(axes) == 1 else -1, num_leading)
    return found


def _components(shapes, index: Index, screen, confirm) -> tuple[Axis, ...]:
    """The smallest set of parameters with an axis along which they can be permuted together."""
    axes = [(name, axis) for name, shape in shapes.items() for axis in range(len(shape))]
    sets = [
        chosen
        for chosen in _together(axes, lambda axis: shapes[axis[0]][axis[1]])
        if all(name in index or axis == len(shapes[name]) - 1 for name, axis in chosen)
    ]
    # The unconstrained vector can be permuted where the bijector acts on each element.
    fast = [chosen for chosen in sets if all(name in index for name, _ in chosen)]
    passed = dict(zip(fast, screen([_swap(index, chosen, 0) for chosen in fast]), strict=True))
    for chosen in sets:
        if passed.get(chosen, True):
            count = shapes[chosen[0][0]][chosen[0][1]]
            if all(confirm(partial(_swapped, chosen, first)) for first in range(count - 1)):
                return chosen
    return ()


def _together(entries, size) -> Iterator[tuple]:
    """Sets of up to `MAX_TOGETHER` entries of the same size, one for each parameter."""
    for number in range(1, MAX_TOGETHER + 1):
        for chosen in itertools.combinations(entries, number):
            sizes = {size(entry) for entry in chosen}
            if len(sizes) == 1 and sizes.pop() > 1 and len({entry[0] for entry in chosen}) == number:
                yield chosen


def _swap(index: Index, chosen: tuple[Axis, ...], first: int) -> tuple[np.ndarray, np.ndarray]:
    """The unconstrained vector's order with two neighbouring components swapped, and signs."""
    swapped = _swapped(chosen, first, {name: each[None] for name, each in index.items()})
    size = 1 + max(int(each.max()) for each in index.values())
    order = np.arange(size)
    for name, _ in chosen:
        order[index[name]] = swapped[name][0]
    return order, np.ones(size)


def _swapped(chosen: tuple[Axis, ...], first: int, params: Index) -> Index:
    name, axis = chosen[0]
    order = np.arange(params[name].shape[axis + 1])
    order[[first, first + 1]] = first + 1, first
    swapped = {name: permuted(params[name], name, chosen, order, num_leading=1) for name, _ in chosen}
    return {**params, **swapped}


# --- Flips ---------------------------------------------------------------------------------------


def _screened_flips(real: Index, matters: np.ndarray, screen) -> list[Flip]:
    """Sets of coordinates that pass the screening, smallest first."""
    coordinates = [int(each) for values in real.values() for each in values.ravel()]
    candidates: set[Flip] = {(each,) for each in coordinates}
    if len(coordinates) <= MAX_PAIRED:
        candidates |= set(itertools.combinations(coordinates, 2))
    axes = [(name, axis) for name, each in real.items() for axis in range(each.ndim)]
    for chosen in _together(axes, lambda axis: real[axis[0]].shape[axis[1]]):
        for unit in range(real[chosen[0][0]].shape[chosen[0][1]]):
            slices = [np.take(real[name], unit, axis).ravel() for name, axis in chosen]
            candidates.add(_sorted(slices))
    for number in range(1, MAX_TOGETHER + 1):
        for names in itertools.combinations(real, number):
            candidates.add(_sorted([real[name].ravel() for name in names]))
    candidates = {flip for flip in candidates if matters[list(flip)].all()}
    ordered = sorted(candidates, key=lambda flip: (len(flip), flip))
    size = 1 + max(coordinates, default=-1)
    changes = [(slice(None), np.where(np.isin(np.arange(size), flip), -1.0, 1.0)) for flip in ordered]
    return list(itertools.compress(ordered, screen(changes)))


def _sorted(parts: list[np.ndarray]) -> Flip:
    return tuple(sorted(np.concatenate(parts).tolist()))


def _flipped(real: Index, flip: Flip, params: Index) -> Index:
    return {
        name: np.where(np.isin(real[name], flip), -value, value) if name in real else value
        for name, value in params.items()
    }


def _by_component(
    components: tuple[Axis, ...], real: Index, flips: list[Flip]
) -> tuple[tuple[tuple[Flip, ...], ...], tuple[Flip, ...]]:
    """Flips that each component has, and flips that concern no component; others are left out."""
    slices = by_component(components, real)
    if not slices:
        return (), tuple(flips)
    count = len(next(iter(slices.values())))
    units = [
        np.concatenate([each[unit].ravel() for each in slices.values()]).tolist() for unit in range(count)
    ]
    in_units = [int(coordinate) for name in slices for coordinate in real[name].ravel()]
    by_place: dict[tuple[int, ...], dict[int, Flip]] = {}
    for flip in flips:
        for number, unit in enumerate(units):
            if set(flip) <= set(unit):
                by_place.setdefault(tuple(unit.index(each) for each in flip), {})[number] = flip
    complete = [found for found in by_place.values() if len(found) == len(units)]
    unit_flips = tuple(tuple(found[number] for number in range(len(units))) for found in complete)
    return unit_flips, tuple(flip for flip in flips if not set(flip) & set(in_units))
