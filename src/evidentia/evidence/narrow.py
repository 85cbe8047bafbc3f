"""A close look at the top of a posterior, for parts that are narrower than the proposal.

The draws of a proposal cannot show a part of the posterior that all of them miss, such as the
innermost decades of a likelihood 1/|x|, each of which has the same mass. So a compass search
climbs from the best draw in ever smaller steps, and scales from those of the draws to those of
rounding are looked at around the top:

- along each coordinate, through a few draws of the posterior, the share of the conditional mass
  where the weight p(θ) p(D | θ) / q(θ) is above that of all draws (`Look.unseen`). The mass is
  that about the top and that about the draw, which can be at another mode, at distances from both;
- the fall of the log posterior to the second neighbours in float32 (`Look.fall`). In units of
  rounding, the standard deviation of a Gaussian with the fall f is √(2/f).

Source: Kolda, Lewis, Torczon (2003), SIAM Review 45, 385 (compass search).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.evidence.population.importance import WeightedDraws
from evidentia.evidence.population.mixture import Mixture
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import symmetrised
from evidentia.posterior.rows import Rows
from evidentia.system.interruption import check

FACTOR = 4.0  # between two scales: shells of 1.4 nats, over which a density is about constant
NUM_STEPS = 20  # scales of the search: down to 10⁻¹² of the draws' standard deviations
REPEATED = 3  # steps at a scale while they lead up
NUM_SCALES, WIDEST = 16, 4.0  # about the top, the largest in standard deviations: down to 10⁻⁹
NUM_OWN = 8  # about a draw, down to 10⁻⁴ of the standard deviation of all modes: it was met
NUM_DRAWS = 4  # through which conditionals are looked at
MOST_UNSEEN = 0.1  # share of the mass: a log evidence that is 0.1 nats too low
MOST_FALL = 1.0  # nats: at 1.4 units of rounding to a standard deviation sums are still exact
HIGHER = np.log(2.0)  # by which a weight exceeds those of all draws: these meet their own top

Points = Float[np.ndarray, "points parameters"]


class Look(NamedTuple):
    """What a close look found.

    Attributes:
        fall: smaller fall of the log posterior to the two sides of its top, in the worst
            coordinate, in nats.
        unseen: share of the mass where weights are above those of all draws.
    """

    fall: float
    unseen: float

    @property
    def signs(self) -> dict[str, str]:
        """Signs of trouble: sentences with advice, by short name."""
        found = {}
        if self.fall > MOST_FALL:
            found["resolution of float32"] = (
                f"the log posterior falls by {self.fall:.2g} nats over two steps between neighbouring numbers in float32, in which parameters "
                "are kept: it is too narrow for them, and the log evidence is wrong. Subtract a good guess from the "
                "parameters, and give what remains a prior that is at most 10⁶ times as wide as the posterior."
            )
        if self.unseen > MOST_UNSEEN:
            found["narrow parts"] = (
                f"about {100 * self.unseen:.0f}% of the posterior is in parts so narrow that no draw met them, seen by evaluations "
                "near its top: the log evidence is too low. Use more particles, or parameters in which the posterior is "
                "smooth, such as the logarithm of a distance."
            )
        return found


def look_closely(
    model: BoundModel, rows: Rows, proposal: Mixture, draws: WeightedDraws, generator: np.random.Generator
) -> Look:
    """Look at the scales below those of the draws, at some 250 positions for each parameter."""
    positions, share = np.asarray(draws.positions, np.float64), np.exp(weights.normalise(draws.log_weights))
    spread = np.sqrt(share @ (positions - share @ positions) ** 2)
    best = np.argmax(draws.log_weights + symmetrised(model, proposal, draws.positions))
    top = _top(model, rows, positions[best], spread)
    rounding = np.spacing(np.abs(top).astype(np.float32)).astype(np.float64)
    fall = _fall(model, rows, top, 2 * rounding)
    chosen = positions[generator.choice(len(share), NUM_DRAWS, p=share)]
    largest = draws.offset + float(np.max(draws.log_weights)) + HIGHER
    return Look(fall, _unseen(model, rows, proposal, chosen, top, spread, largest))


def _heights(model: BoundModel, rows: Rows, positions: Points) -> Float[np.ndarray, " points"]:
    """Log posterior, not normalised; -inf where a likelihood overflows."""
    check()
    on_device = jnp.asarray(positions, jnp.float32)
    deviations, offset = rows.log_likelihoods(model, on_device)
    return np.nan_to_num(deviations + offset + model.log_priors(on_device), nan=-np.inf, neginf=-np.inf)


def _cross(centre: np.ndarray, arms: np.ndarray) -> Points:
    """The centre, then positions at both sides of it in each coordinate, in float32."""
    steps = np.concatenate([np.zeros((1, len(centre))), np.diag(arms), -np.diag(arms)])
    return np.asarray(centre + steps, np.float32).astype(np.float64)


def _top(model: BoundModel, rows: Rows, start: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The highest position that a compass search reaches."""
    top, arms = start, spread
    for _ in range(NUM_STEPS):
        for _ in range(REPEATED):
            near = _cross(top, arms)
            found = int(np.argmax(_heights(model, rows, near)))
            top = near[found]
            if not found:
                break
        arms = arms / FACTOR
    return top


def _fall(model: BoundModel, rows: Rows, top: np.ndarray, arms: np.ndarray) -> float:
    """The smaller fall of both sides, as the top may be at an edge, in the worst coordinate."""
    heights = _heights(model, rows, _cross(top, arms))
    falls = heights[0] - heights[1:].reshape(2, -1)
    return float(np.max(np.min(falls, axis=0)))


def _unseen(
    model: BoundModel,
    rows: Rows,
    proposal: Mixture,
    chosen: Points,
    top: np.ndarray,
    spread: np.ndarray,
    largest: float,
) -> float:
    """The share for the worst coordinate, a mean over the chosen draws.

    A position stands for the mass of the coordinate's values that are nearer to it than to others.
    At geometric distances, a decade about the top weighs as much as one about the draw.
    """
    size = len(top)
    scales = WIDEST * spread * FACTOR ** -np.arange(NUM_SCALES)[:, None]
    distances = np.concatenate([scales, -scales])
    about_draws = np.concatenate([distances[:NUM_OWN], distances[NUM_SCALES:][:NUM_OWN], np.zeros((1, size))])
    values = np.concatenate(
        [np.broadcast_to(top + distances, (len(chosen), *distances.shape)), chosen[:, None] + about_draws],
        axis=1,
    )
    values = np.sort(np.asarray(values, np.float32).astype(np.float64), axis=1)  # draws, values, coordinates
    points = np.repeat(np.broadcast_to(chosen[:, None], values.shape)[..., None, :], size, axis=2)
    points[..., range(size), range(size)] = values
    flat = points.reshape(-1, size)
    heights = _heights(model, rows, flat)
    log_ratios = heights - symmetrised(model, proposal, jnp.asarray(flat, jnp.float32))
    padded = np.pad(values, ((0, 0), (1, 1), (0, 0)), mode="edge")
    with np.errstate(divide="ignore"):  # values that rounding makes equal share one width
        log_masses = heights.reshape(values.shape) + np.log(padded[:, 2:] - padded[:, :-2])
    highest = np.max(log_masses, axis=1, keepdims=True)
    masses = np.where(highest > -np.inf, np.exp(log_masses - np.maximum(highest, -1e300)), 0.0)
    is_above = log_ratios.reshape(masses.shape) > largest
    total = np.maximum(masses.sum(1), np.finfo(float).tiny)
    return float(np.max(np.mean((masses * is_above).sum(1) / total, axis=0)))
