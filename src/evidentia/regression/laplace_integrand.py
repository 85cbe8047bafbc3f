"""The integrand over deviations for other responses: Laplace's approximation, corrected by draws.

Given the deviations, the mode of all effects u ~ N(0, 1) and coefficients β ~ N(m, R²) is found by
Newton's method. A step is the elimination of a weighted normal regression, of η + ℓ'/w with the
weights w = -ℓ'' of the rows' log densities ℓ(η). With A = Z Λ, W the weights at the mode and H the
precision of β there,

    log m = Σ ℓ(η) - ½ |u|² + log N(β; m, R²) - ½ log |I + AᵀWA| - ½ log |H| + (p/2) log 2π.

Draws of β and of the effects b of all factors but that with most levels, from this Gaussian, are
weighed by the likelihood in which the effects of that factor are integrated out by quadrature. The
Gaussian is moved from the mode to the mean, to first order by the third derivatives of ℓ,

    E(η) - η ≈ ½ A H⁻¹ Aᵀ (ℓ‴ var η),

as most of the variance of the weights is due to this distance: with a skewness κ in one dimension
it is κ²/4 of 5κ²/12.

Source: McCullagh and Nelder (1989), Generalized Linear Models, section 2.5 (the working response);
Rue, Martino, Chopin (2009), Journal of the Royal Statistical Society B 71, 319, section 3.2.3 (the
mean).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import solve_triangular

from evidentia.errors import EstimationError
from evidentia.regression.coordinates import Coordinates
from evidentia.regression.effects_given import drawn_given
from evidentia.regression.elimination import Eliminated, eliminated, products_of
from evidentia.regression.grouped import Grouped
from evidentia.regression.peak import Point
from evidentia.regression.row_derivatives import Expanded, Responses
from evidentia.regression.working import HALF_LOG_2PI, Working, log_prior_ratios
from evidentia.system.compilation import in_float64

NUM_STEPS, HALVINGS = 50, 12
CLOSE = 1e-6  # nats that a step would still gain
NUM_DRAWS = 32  # for the variances of predictors, by which proposals are moved

Params = Mapping[str, Any]


class Mode(NamedTuple):
    """Where Newton's method ended.

    Attributes:
        coefficients: β.
        effects: u, (levels, effects) of each factor.
        predictor: η.
        height: of the log density of data, u and β, but for the constant of u.
    """

    coefficients: Float[ndarray, " coefficients"]
    effects: tuple[Float[ndarray, "levels effects"], ...]
    predictor: Float[ndarray, " rows"]
    height: float


@dataclass(frozen=True, eq=False)
class LaplaceIntegrand:
    """An `Integrand` of responses that are not normal.

    Attributes:
        coordinates: of the points.
        working: the law of the coefficients.
        responses: the rows.
        log_likelihood: `params -> (draws,)`, of draws on the leading axis, with effects of all
            factors but that with most levels among the parameters.
    """

    coordinates: Coordinates
    working: Working
    responses: Responses
    log_likelihood: Callable[[Params], Float[ndarray, " draws"]]

    @property
    def starts(self) -> tuple[Point, ...]:
        """As in `Integrand`."""
        return self.coordinates.starts

    @property
    def seconds(self) -> float:
        """As in `Integrand`."""
        others = sum(one.count for one in self.coordinates.factors[1:])
        return 5e-3 + 4 * (2e-11 * others**3 + 1e-6 * len(self.responses.offset))

    def at(self, point: Point) -> LaplaceGiven:
        """As in `Integrand`."""
        roots = self.coordinates.roots(point)
        mode, found, precision = self._climb(roots, self._nearby)
        lower = np.linalg.cholesky(precision)
        with in_float64():
            log_prior = float(self._log_prior(point))
        height = mode.height + log_prior - 0.5 * found.log_det - np.log(np.diag(lower)).sum()
        log_mass = height + HALF_LOG_2PI * len(lower)
        return LaplaceGiven(self, point, roots, mode, found, lower, log_prior, float(log_mass))

    @cached_property
    def _log_prior(self) -> Any:
        return jax.jit(lambda point: self.coordinates.log_prior(point, 0.0))

    @cached_property
    def _nearby(self) -> Mode:
        """The mode at one point, from which others are a few steps away."""
        factors = self.coordinates.factors
        effects = tuple(np.zeros((len(one.levels), one.size)) for one in factors)
        mean = self.working.mean
        nowhere = Mode(mean, effects, self.responses.offset + self.responses.columns @ mean, -np.inf)
        return self._climb(self.coordinates.roots(self.starts[1]), nowhere)[0]

    def _climb(
        self, roots: Sequence[ndarray], start: Mode
    ) -> tuple[Mode, Eliminated, Float[ndarray, "coefficients coefficients"]]:
        """The mode at Λ of each factor, the elimination, and the precision of coefficients."""
        here = self._mode(roots, start.coefficients, start.effects)
        for _ in range(NUM_STEPS):
            expanded = self.responses.expand(here.predictor)
            found, ahead, precision = self._step(roots, here, expanded)
            for halving in range(HALVINGS):
                share = 0.5**halving
                there = self._between(roots, here, ahead, share)
                if there.height >= here.height - CLOSE:
                    break
            else:
                break
            gain = there.height - here.height
            here = there
            if gain < CLOSE:
                return here, found, precision
        raise EstimationError("the mode of the effects was not found.")

    def _step(
        self, roots: Sequence[ndarray], here: Mode, expanded: Expanded
    ) -> tuple[Eliminated, Mode, Float[ndarray, "coefficients coefficients"]]:
        """A step of Newton's method."""
        working = here.predictor - self.responses.offset + expanded.slopes / expanded.weights
        return self._fit(roots, expanded.weights, working, self.working.mean)

    def _fit(
        self, roots: Sequence[ndarray], weights: ndarray, working: ndarray, mean: ndarray
    ) -> tuple[Eliminated, Mode, Float[ndarray, "coefficients coefficients"]]:
        """The weighted normal regression of a working response."""
        scale = np.sqrt(weights)[:, None]
        inner, *outer = (one._replace(columns=one.columns * scale) for one in self.coordinates.factors)
        columns = scale * np.column_stack([self.responses.columns, working])
        found = eliminated(products_of(inner, outer, [columns]), roots)
        wide = self.working.deviations**-2
        precision = found.gram[:-1, :-1] + np.diag(wide)
        coefficients = np.linalg.solve(precision, found.gram[:-1, -1] + wide * mean)
        nothing = {one.name: np.zeros((len(one.levels), one.size)) for one in self.coordinates.factors}
        effects = drawn_given(found, np.append(-coefficients, 1.0), (inner, *outer), nothing)
        ordered = tuple(effects[one.name] for one in (inner, *outer))
        return found, Mode(coefficients, ordered, working, -np.inf), precision

    def to_mean(self, given: LaplaceGiven, generator: np.random.Generator) -> Mode:
        """How far the mean of coefficients and effects is from the mode, to first order."""
        factors, predictors = self.coordinates.factors, []
        for _ in range(NUM_DRAWS):
            noise = {one.name: generator.standard_normal((len(one.levels), one.size)) for one in factors}
            white = generator.standard_normal(len(given.lower))
            steps = solve_triangular(given.lower, white, lower=True, trans=1)
            coefficients = given.mode.coefficients + steps
            effects = drawn_given(given.found, np.append(-coefficients, 1.0), factors, noise)
            drawn = tuple(effects[one.name] for one in factors)
            predictors.append(self._predictor(given.roots, coefficients, drawn))
        variances = np.mean((np.stack(predictors) - given.mode.predictor) ** 2, axis=0)
        weights = self.responses.expand(given.mode.predictor).weights
        working = 0.5 * self.responses.thirds(given.mode.predictor) * variances / weights
        return self._fit(given.roots, weights, working, np.zeros(len(given.lower)))[1]

    def _between(self, roots: Sequence[ndarray], here: Mode, ahead: Mode, share: float) -> Mode:
        def between(one: ndarray, other: ndarray) -> ndarray:
            return one + share * (other - one)

        effects = tuple(map(between, here.effects, ahead.effects))
        return self._mode(roots, between(here.coefficients, ahead.coefficients), effects)

    def _mode(self, roots: Sequence[ndarray], coefficients: ndarray, effects: tuple[ndarray, ...]) -> Mode:
        predictor = self._predictor(roots, coefficients, effects)
        value = self.responses.expand(predictor).value
        squares = sum(float(np.sum(own**2)) for own in effects)
        prior = float(self.working.log_density(coefficients[None])[0])
        return Mode(coefficients, effects, predictor, value - 0.5 * squares + prior)

    def _predictor(
        self, roots: Sequence[ndarray], coefficients: ndarray, effects: tuple[ndarray, ...]
    ) -> Float[ndarray, " rows"]:
        predictor = self.responses.offset + self.responses.columns @ coefficients
        for one, root, own in zip(self.coordinates.factors, roots, effects, strict=True):
            predictor = predictor + np.einsum("re,re->r", one.columns, (own @ root.T)[one.codes])
        return predictor


@dataclass(frozen=True, eq=False)
class LaplaceGiven:
    """A `Given` of responses that are not normal.

    Attributes:
        integrand: that this is at a point of.
        point: of deviations.
        roots: Λ of each factor.
        mode: of effects and coefficients.
        found: the elimination there.
        lower: the Cholesky factor of the precision of coefficients.
        log_prior: of the point.
        log_mass: as in `Given`.
    """

    integrand: LaplaceIntegrand
    point: Point
    roots: Sequence[Float[ndarray, "effects effects"]]
    mode: Mode
    found: Eliminated
    lower: Float[ndarray, "coefficients coefficients"]
    log_prior: float
    log_mass: float

    def draw(
        self, generator: np.random.Generator, count: int
    ) -> tuple[dict[str, ndarray], Float[ndarray, " draws"]]:
        """As in `Given`."""
        integrand, found = self.integrand, self.found
        noise = generator.standard_normal((count, len(self.lower)))
        steps = solve_triangular(self.lower, noise.T, lower=True, trans=1).T
        coefficients = self.mode.coefficients + steps
        combined = np.column_stack([-coefficients, np.ones(count)]).T
        of_others = generator.standard_normal((len(found.rest), count))
        others = solve_triangular(found.rest, found.rest_rows @ combined + of_others, lower=True, trans=1).T
        move = integrand.to_mean(self, generator)
        coefficients = coefficients + move.coefficients
        others = others + np.concatenate([one.ravel() for one in move.effects[1:]])
        params = integrand.working.by_name(coefficients, integrand.coordinates.prior)
        for name, value in integrand.coordinates.params(self.point).items():
            params[name] = np.broadcast_to(value, (count, *np.shape(value)))
        params |= _by_factor(integrand.coordinates.factors[1:], self.roots[1:], others)
        log_drawn = (
            np.log(np.diag(self.lower)).sum()
            + np.log(np.diag(found.rest)).sum()
            - 0.5 * (noise**2).sum(axis=1)
            - 0.5 * (of_others**2).sum(axis=0)
        )
        log_target = integrand.log_likelihood(params) + self.log_prior - 0.5 * (others**2).sum(axis=1)
        log_target += integrand.working.log_density(coefficients) + HALF_LOG_2PI * len(self.lower)
        log_target += log_prior_ratios(integrand.coordinates.prior, integrand.working, params)
        return params, log_target - log_drawn - self.log_mass


def _by_factor(
    outer: Sequence[Grouped], roots: Sequence[ndarray], others: Float[ndarray, "draws others"]
) -> dict[str, Float[ndarray, "draws levels effects"]]:
    """The effects b = Λ u of each factor, as parameters."""
    found, first = {}, 0
    for one, root in zip(outer, roots, strict=True):
        own = others[:, first : first + one.count].reshape(len(others), len(one.levels), one.size)
        found[f"effects({one.name})"] = own @ root.T
        first += one.count
    return found
