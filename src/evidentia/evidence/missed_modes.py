"""A search for modes that a proposal misses, without gradients, and what it misses, too.

A narrow mode beside wide ones has little mass at low temperatures, so an annealed path forgets it
even if many draws from the prior were on its slopes. These slopes remain visible among the draws:

1. A draw from the prior that is higher than its nearest neighbours may be on a hill of its own
   (`_local_tops`). It is, if on the line to the nearest higher draw the log posterior falls and
   rises again (`_before_valleys`).
2. From there, Newton's method with differences climbs to the top (`_climb`), where a Gaussian
   gives its mass.

Tops are tested in random order, and others only while some lead to modes that matter, so that a
posterior with one mode costs few evaluations.

Source: Rinnooy Kan, Timmer (1987), Mathematical Programming 39, 27 (climbs only from draws without
higher neighbours); Ursem (1999), Congress on Evolutionary Computation, 1633 (valleys); Dauphin et
al. (2014), Advances in Neural Information Processing Systems 27 (steps by absolute curvatures).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from evidentia import weights
from evidentia.evidence.population.adapt import Drawn, Rounds, evaluated
from evidentia.evidence.population.mixture import Mixture, mixture_of, together
from evidentia.evidence.population.particles import draws_inside
from evidentia.evidence.tempered_rounds import covariance_of
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import symmetrised
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Rows
from evidentia.system.interruption import check

NEIGHBOURS = 3  # that are lower than a local top: more lose hills on which few draws are
AT_ONCE, CLIMBS = 96, 12  # local tops tested, and climbs, before it is decided on others
INSIDE = 3  # points of a line
VALLEY = 1.0  # nats
MOST_STEPS = 15  # of a climb; on a Gaussian hill two or three
FURTHEST = 8.0  # length of a step, in arms of the differences
CLOSE = 0.02  # nats from the top
# Posterior over proposal at a missed mode: along a ridge, mixtures vary by factors of two.
UNDERRATED = math.log(10.0)
LEAST_LOG_SHARE = math.log(0.001)  # of a mode that matters
LARGEST = 300.0  # log of a share
SAME = 2.0  # standard deviations, closer than which two tops are one
MOST_SEARCHES = 6  # each from new draws from the prior
ENOUGH = 0.01  # share of modes not found
MOST_MET = 0.5  # share of the posterior to which climbs have led

Points = Float[np.ndarray, "points parameters"]
Heights = Callable[[Points], Float[np.ndarray, " points"]]


class Met(NamedTuple):
    """A mode to which climbs led.

    Attributes:
        mode: the Gaussian at its top.
        share: its mass, relative to the evidence that the proposal covers.
        is_missed: whether the proposal misses it.
        times: climbs that led to it.
    """

    mode: LocalGaussian
    share: float
    is_missed: bool
    times: int = 1


def completed_by_modes(
    model: BoundModel,
    rows: Rows,
    proposal: Mixture,
    rounds: Rounds,
    generator: np.random.Generator,
) -> Mixture:
    """The proposal with the modes that it misses, and `unseen`, the share of those not found.

    Missed modes to which one climb led stand for those to which none did. Searches from new draws
    from the prior follow until one finds no other missed mode, the share is small, and climbs have
    led to most of the posterior, or to one mode only.

    Args:
        model: the model.
        rows: all rows; the two give the posterior.
        proposal: what may miss some of its modes.
        rounds: all draws so far; those of the first part are from the prior, and come first.
        generator: for more draws from the prior, and the order in which local tops are tested.

    Source: Good (1953), Biometrika 40, 237 (species seen once).
    """
    count = int(rounds.counts[0])
    prior, later = (
        Drawn(*(values[part] for values in rounds.drawn)) for part in (slice(count), slice(count, None))
    )
    log_evidence = weights.log_sum_exp(rounds.log_weights())
    met, missed, unseen = list[Met](), list[Met](), 0.0
    for _ in range(MOST_SEARCHES):
        before = len(missed)
        for mode in _modes(model, rows, prior, later, log_evidence, generator):
            position = mode.centre[None].astype(np.float32)
            log_ratio = _height(mode) - log_evidence - symmetrised(model, proposal, position)[0]
            share = math.exp(min(mode.log_mass - log_evidence, LARGEST))
            met = _with_climb(met, Met(mode, share, bool(log_ratio > UNDERRATED)))
        missed = [each for each in met if each.is_missed]
        total = 1 + sum(each.share for each in missed)
        unseen = sum(each.share for each in missed if each.times == 1) / total
        is_met = not met or sum(each.share for each in met) > MOST_MET * total
        if unseen < ENOUGH and len(missed) == before and is_met:
            break
        key = jax.random.key(generator.integers(2**32))
        prior = evaluated(model, rows, draws_inside(model, key, count).positions)
    if not missed:
        return proposal
    shares = np.array([each.share for each in missed])
    modes = mixture_of([each.mode for each in missed], np.log(shares))
    return together([proposal, modes], [1.0, float(shares.sum())])._replace(unseen=unseen)


def _with_climb(met: list[Met], found: Met) -> list[Met]:
    """The modes with another one, or with another climb to one of them."""
    for index, each in enumerate(met):
        step = found.mode.centre - each.mode.centre
        if step @ each.mode.precision @ step < SAME**2:
            return [*met[:index], each._replace(times=each.times + 1), *met[index + 1 :]]
    return [*met, found]


def _modes(
    model: BoundModel,
    rows: Rows,
    prior: Drawn,
    later: Drawn,
    log_evidence: float,
    generator: np.random.Generator,
) -> Iterator[LocalGaussian]:
    """Modes that matter, to which climbs lead from behind valleys, and then the highest.

    Several climbs may lead to one mode. Later draws are where the posterior is.
    """
    scale = np.linalg.cholesky(covariance_of(prior.positions.astype(np.float64)))

    def heights(white: Points) -> Float[np.ndarray, " points"]:
        check()
        count, size = white.shape
        # Some of them twice, since each number of positions would be compiled.
        positions = np.resize(white @ scale.T, (1 << (count - 1).bit_length(), size))
        return _finite(evaluated(model, rows, jnp.asarray(positions, jnp.float32)).log_heights())[:count]

    positions = np.concatenate([prior.positions, later.positions]).astype(np.float64)
    white = np.linalg.solve(scale, positions.T).T
    values, count = _finite(np.concatenate([prior.log_heights(), later.log_heights()])), len(prior.positions)
    tops = generator.permutation(_local_tops(white[:count], values[:count]))
    highest = white[np.argmax(values)]
    for first in range(0, len(tops), AT_ONCE):
        some = tops[first : first + AT_ONCE]
        starts, arms = _before_valleys(heights, white[some], values[some], white, values)
        climbed = [_climb(heights, *each, scale) for each in zip(starts[:CLIMBS], arms[:CLIMBS], strict=True)]
        matter = [mode for mode in climbed if mode.log_mass - log_evidence > LEAST_LOG_SHARE]
        if not matter:
            break
        yield from matter
        if not first:  # no valley is before the highest mode
            yield _climb(heights, highest, arms[0], scale)


def _finite(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    return np.nan_to_num(values, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)


def _height(mode: LocalGaussian) -> float:
    """Log posterior at its top."""
    size = len(mode.centre)
    return mode.log_mass - 0.5 * (size * math.log(2 * math.pi) - np.linalg.slogdet(mode.precision)[1])


def _local_tops(positions: Points, heights: Float[np.ndarray, " points"]) -> Int[np.ndarray, " tops"]:
    """The draws that are higher than their nearest neighbours."""
    near = np.asarray(KDTree(positions).query(positions, NEIGHBOURS + 1)[1])[:, 1:]
    is_top = (heights > -np.inf) & np.all(heights[near] < heights[:, None], axis=1)
    return np.flatnonzero(is_top)


def _before_valleys(
    heights: Heights,
    tops: Float[np.ndarray, "tops parameters"],
    values: Float[np.ndarray, " tops"],
    others: Float[np.ndarray, "others parameters"],
    other_values: Float[np.ndarray, " others"],
) -> tuple[Float[np.ndarray, "starts parameters"], Float[np.ndarray, " starts"]]:
    """Where climbs begin, and the distances between points there.

    They begin at the highest points before valleys, on lines to the nearest higher draws.
    """
    lines, ends = list[Points](), list[tuple[float, float]]()
    for top, value in zip(tops, values, strict=True):
        higher = np.flatnonzero(other_values > value)
        if len(higher):
            nearest = higher[np.argmin(np.sum((others[higher] - top) ** 2, axis=1))]
            lines.append(np.linspace(top, others[nearest], INSIDE + 2))
            ends.append((float(value), float(other_values[nearest])))
    if not lines:
        return tops[:0], values[:0]
    points = np.stack(lines)
    inside = heights(points[:, 1:-1].reshape(-1, points.shape[-1])).reshape(len(lines), INSIDE)
    path = np.column_stack([np.array(ends)[:, 0], inside, np.array(ends)[:, 1]])
    before = np.maximum.accumulate(path, axis=1)
    after = np.maximum.accumulate(path[:, ::-1], axis=1)[:, ::-1]
    depths = np.minimum(before, after) - path
    lowest = np.argmax(depths, axis=1)
    is_before = np.arange(path.shape[1]) <= lowest[:, None]
    highest = np.argmax(np.where(is_before, path, -np.inf), axis=1)
    chosen = np.flatnonzero(depths.max(axis=1) > VALLEY)
    lengths = np.linalg.norm(points[:, 1] - points[:, 0], axis=1)
    return points[chosen, highest[chosen]], lengths[chosen]


def _climb(heights: Heights, start: np.ndarray, arm: float, scale: np.ndarray) -> LocalGaussian:
    """The Gaussian at the top to which steps by differences lead.

    The arms of the differences become the axes of the Gaussian, as long as a standard deviation.
    """
    size = len(start)
    stencil, pairs = _stencil(size)
    top, arms, height = start, 0.5 * arm * np.eye(size), -np.inf
    for _ in range(MOST_STEPS):
        around = top + stencil @ arms.T
        values = heights(around)
        if not np.all(np.isfinite(values)):
            arms = arms / 2
            continue
        slopes, curvatures, axes = _derivatives(values, size, pairs)
        falls = np.maximum(np.abs(curvatures), 1e-12)
        turned, step, height = arms @ axes, slopes / falls, values[0]
        gain = 0.5 * float(slopes @ step)
        is_even = np.all((curvatures < -1 / 4) & (falls < 4))
        arms = turned / np.sqrt(np.maximum(falls, 1 / 16))  # at most four times as long
        if gain < CLOSE and is_even:
            break
        step = turned @ (step * FURTHEST / max(FURTHEST, np.linalg.norm(step)))
        further = np.stack([top + step, top + step / 4])
        tried = np.concatenate([around, further])
        best = int(np.argmax(np.concatenate([values, heights(further)])))
        if not best and gain >= CLOSE:  # the log posterior is not quadratic so far out
            arms = arms / 2
        top = tried[best]
    own = scale @ arms
    log_mass = height + 0.5 * size * math.log(2 * math.pi) + np.linalg.slogdet(own)[1]
    root = np.linalg.inv(own)
    return LocalGaussian(scale @ top, root.T @ root, float(log_mass))


def _stencil(size: int) -> tuple[Points, list[tuple[int, int]]]:
    """Points, in arms, of which the differences give all second derivatives."""
    pairs = [(first, second) for first in range(size) for second in range(first)]
    unit = np.eye(size)
    mixed = [unit[first] + unit[second] for first, second in pairs]
    return np.concatenate([np.zeros((1, size)), unit, -unit, *([np.stack(mixed)] if mixed else [])]), pairs


def _derivatives(
    values: Float[np.ndarray, " points"], size: int, pairs: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes and curvatures along the principal axes, and these axes as columns."""
    centre, ahead, behind = values[0], values[1 : size + 1], values[size + 1 : 2 * size + 1]
    hessian = np.diag(ahead + behind - 2 * centre)
    for (first, second), mixed in zip(pairs, values[2 * size + 1 :], strict=True):
        hessian[first, second] = hessian[second, first] = mixed - ahead[first] - ahead[second] + centre
    curvatures, axes = np.linalg.eigh(hessian)
    return axes.T @ (ahead - behind) / 2, curvatures, axes
