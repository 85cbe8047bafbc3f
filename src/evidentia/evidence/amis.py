"""Adaptive multiple importance sampling: few evaluations of a likelihood without gradients."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import ConfigurationError, check_count
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot, check_defined, check_possible
from evidentia.evidence.narrow import look_closely
from evidentia.evidence.population.adapt import MOST_PARAMETERS, Drawn, Rounds, evaluated, log_mixture
from evidentia.evidence.population.check import covers
from evidentia.evidence.population.importance import MIN_ESS, Sampling, WeightedDraws, weighted_draws
from evidentia.evidence.population.mixture import Mixture, fitted, together
from evidentia.evidence.population.particles import draws_inside, host_generator
from evidentia.evidence.population.warning_signs import heavy_weights
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian, is_definite
from evidentia.posterior.rows import Rows
from evidentia.system.interruption import check

MIN_DRAWS, DRAWS_PER_PARAMETER = 500, 50  # in a round
# More particles must find more modes, not only make the error of a proposal smaller: on 12 fresh
# problems with 12 to 30 narrow peaks, errors with 4,096 of them fell from 0.27 to 0.12 nats.
PARTICLES_PER_DRAW, PARTICLES_PER_COMPONENT = 4, 128
KEPT_ESS = 0.5  # of the last draws, as a fraction, when the temperature rises
RELAXED, PATIENCE = 0.7, 3  # factor of this fraction after rounds in which it could not rise
EVEN = 0.4  # effective draws as a fraction, from which on proposals need not improve
GAIN = 1.1  # by which they must improve otherwise
LEAST_ROUNDS = 4  # at λ = 1: the first fits miss thin tails
FEW_COMPONENTS = 16  # at most, of few particles
EARLIER, WIDE = 0.3, 0.02  # shares of the proposal before, and of one as wide as the prior
LEAST_SHARE = 0.002  # of a part that is kept from the proposal before
LEAST_EFFECTIVE = 100.0  # draws, in a result before the end: an error of a tenth of a nat; rms z was 1.08
MOST_ROUNDS = 100
MOST_BATCHES = 32  # of the last draws
REMEDY = (
    "Use more particles, or compare with NestedSampling(kernel=kernels.ConstrainedDifferentialEvolution())."
)


@dataclass(frozen=True)
class AMIS:
    """Adaptive multiple importance sampling along a path of temperatures, without gradients.

    Draws from the prior are weighted by p(D | θ)^λ; a mixture of Student t's is fitted to them,
    and the next draws come from it. In each round the temperature λ rises as far as the effective
    sample size of the last draws allows. All draws so far are weighted by the mixture of all their
    proposals q_k, from which n_k draws came,

        wᵢ = p(θᵢ) p(D | θᵢ)^λ / Σ_k n_k q_k(θᵢ),

    so that none is lost. Three in ten of a round's draws come from the proposal before, and so
    a few from those before that: modes that a fit loses show later as large weights. At λ = 1,
    when proposals no longer improve, new draws from the best give log Ẑ, and its standard error.
    Weights above √N times their mean, for N draws, are cut there. A close look at the top then
    shows parts that are narrower than the proposal (`narrow`).

    A smooth posterior takes some 5,000 evaluations with 2 parameters, 10,000 with 5, 25,000 with
    10 and 40,000 with 20.

    Attributes:
        num_particles: effective number of draws wanted for the estimate. From 2,048 on, rounds
            have a quarter as many draws, and proposals more components, so that more modes are
            found.

    Raises:
        ConfigurationError: `num_particles` is not an integer of at least 2.

    Example:
        >>> ev.estimate(model, method=ev.AMIS(num_particles=2048))  # doctest: +SKIP

    Source: Cornuet, Marin, Mira, Robert (2012), Scandinavian Journal of Statistics 39, 798 (all
    draws weighted by the mixture); Cappé et al. (2008), Statistics and Computing 18, 447 (the
    fit); Ionides (2008), Journal of Computational and Graphical Statistics 17, 295 (the cut).
    """

    num_particles: int = 512

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 2)

    def without_gradients(self) -> "AMIS":
        """The same: it uses none."""
        return self

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each round, and one with the estimate.

        Raises EstimationError if the log-likelihood is NaN or +inf at a draw, or -inf at all draws
        from the prior, and ConfigurationError for too many parameters.
        """
        if model.num_parameters > MOST_PARAMETERS:
            raise ConfigurationError(
                f"AMIS() takes at most {MOST_PARAMETERS} parameters; the model has {model.num_parameters}. Without gradients "
                "there is method=NestedSampling(kernel=kernels.ConstrainedSlice())."
            )
        generator, best, rounds = host_generator(key), None, None
        for found in _rounds(model, rows, key, generator, self.num_particles):
            best, rounds = found.proposal, found.rounds
            yield _so_far(found, rows)
        assert best is not None and rounds is not None
        sampling = Sampling(model, rows, generator, self.num_particles)
        draws = weighted_draws(sampling, best, MOST_BATCHES)
        check_possible(draws.log_weights, rows.span, "draws")
        estimate = Estimate(draws.log_evidence, weights.relative_variance(draws.log_weights))
        found = Snapshot(
            estimate,
            rows.num_observations,
            draws.positions,
            draws.log_weights,
            share_done=1.0,
            diagnose=partial(_diagnose, sampling, best, draws, rounds, {}),
        )
        yield found  # the result if a stop is requested during the look
        signs = look_closely(model, rows, best, draws, generator).signs
        diagnose = partial(_diagnose, sampling, best, draws, rounds, signs)
        yield found._replace(num_steps=0, diagnose=diagnose)


class Round(NamedTuple):
    """A round.

    Attributes:
        proposal: the best one so far.
        rounds: all draws so far.
        positions, log_weights: the draws of this round, weighted by their own proposal.
        temperature, first: of this round, and of the first one.
        num_before, num_after: rounds so far, before and after the temperature was 1.
    """

    proposal: Mixture
    rounds: Rounds
    positions: np.ndarray
    log_weights: Float[np.ndarray, " draws"]
    temperature: float
    first: float
    num_before: int
    num_after: int

    @property
    def share_done(self) -> float:
        """Estimated share of the work; the draws at the end take about as long as two rounds."""
        path = weights.share_of_path(self.first, self.temperature)
        to_come = self.num_before * (1.0 - path) / path if path > 0.0 else math.inf
        done = self.num_before + self.num_after
        return done / (done + to_come + max(1, LEAST_ROUNDS - self.num_after) + 2.0)


def _so_far(found: Round, rows: Rows) -> Snapshot:
    """A snapshot after a round, which is the result if the run is stopped there.

    Its estimate is that of the last draws alone, since fits to earlier ones do not depend on them:
    that of all draws is six standard errors low with 7 parameters. There is none while the
    temperature rises, or if few draws are in the posterior.
    """
    log_weights = found.log_weights
    has_estimate = found.temperature == 1.0 and weights.ess(log_weights) >= LEAST_EFFECTIVE
    estimate = Estimate(weights.log_mean(log_weights), weights.relative_variance(log_weights))
    return Snapshot(
        estimate if has_estimate else None,
        rows.num_observations if has_estimate else 0,
        jnp.asarray(found.positions),
        log_weights,
        share_done=found.share_done,
        diagnose=lambda: _of_weights(log_weights),
    )


def _rounds(
    model: BoundModel, rows: Rows, key: Array, generator: np.random.Generator, num_particles: int
) -> Iterator[Round]:
    """Rounds until proposals for the posterior no longer improve.

    The efficiency of a proposal at λ = 1 is the effective number of its draws, as a fraction.
    """
    per_parameter = DRAWS_PER_PARAMETER * model.num_parameters
    count = max(MIN_DRAWS, per_parameter, num_particles // PARTICLES_PER_DRAW)
    most_components = max(FEW_COMPONENTS, num_particles // PARTICLES_PER_COMPONENT)
    rounds, log_share = _of_prior(model, rows, key, 2 * count)
    positions = rounds.drawn.positions.astype(np.float64)
    wide = _about_all(positions)
    rounds = rounds.with_part(wide.log_density(positions))
    parts, shares, best, efficiencies = [wide], np.zeros(2), wide, list[float]()
    log_weights, last = np.zeros(2 * count), rounds.drawn
    temperature, first, kept, in_vain = 0.0, 0.0, KEPT_ESS, 0
    for number in range(1, MOST_ROUNDS + 1):
        check()
        before, temperature = temperature, _next_temperature(log_weights, last, temperature, kept)
        first = first or temperature
        in_vain = in_vain + 1 if before == temperature < 1.0 else 0
        kept *= RELAXED if in_vain >= PATIENCE else 1.0
        fit = fitted(rounds.particles(temperature), generator, most_components)
        if fit is not None:
            parts.append(fit)
            rounds = rounds.with_part(fit.log_density(rounds.drawn.positions.astype(np.float64)))
        shares = _next_shares(shares, has_fit=fit is not None)
        proposal = together(parts, shares[1:])
        last = evaluated(model, rows, proposal.draw(generator, count))
        check_defined(last.log_likelihoods, rows.span, "draws")
        positions = last.positions.astype(np.float64)
        of_parts = [part.log_density(positions) for part in parts]
        log_terms = np.stack([last.log_priors - log_share, *of_parts])
        rounds = rounds.with_draws(last, log_terms, shares)
        log_weights = last.log_heights(temperature) - log_mixture(log_terms, shares)
        if temperature == 1.0:
            efficiencies.append(weights.ess(log_weights) / count)
        if not efficiencies or efficiencies[-1] == max(efficiencies):
            best = proposal
        counts = number - len(efficiencies), len(efficiencies)
        yield Round(best, rounds, last.positions, log_weights, temperature, first, *counts)
        if len(efficiencies) >= LEAST_ROUNDS and (
            efficiencies[-1] > EVEN or efficiencies[-1] < GAIN * efficiencies[-2]
        ):
            return


def _of_prior(model: BoundModel, rows: Rows, key: Array, count: int) -> tuple[Rounds, float]:
    """Draws from the prior as the first round, and the log of the share that float32 has of it."""
    of_prior = draws_inside(model, key, count)
    drawn = evaluated(model, rows, of_prior.positions)
    check_defined(drawn.log_likelihoods, rows.span, "draws")
    check_possible(drawn.log_likelihoods, rows.span, "draws")
    log_densities = drawn.log_priors - of_prior.log_share
    return Rounds(drawn, log_densities[None], np.array([float(count)])), of_prior.log_share


def _next_temperature(
    log_weights: Float[np.ndarray, " draws"], last: Drawn, temperature: float, kept: float
) -> float:
    """The temperature to which the effective sample size of the last draws allows to rise."""
    target = kept * len(log_weights)
    if weights.ess(log_weights) < target:
        return temperature
    likelihoods = np.maximum(last.log_likelihoods, np.finfo(float).min / 2)
    return weights.next_temperature(log_weights, likelihoods, temperature, target)


def _next_shares(before: Float[np.ndarray, " parts"], *, has_fit: bool) -> Float[np.ndarray, " next"]:
    """The shares of the prior, the wide mixture and all fits in the next proposal.

    Most draws come from the newest fit, a few from the wide one, and the others from the proposal
    before, without the parts that have the smallest shares of it. Without a new fit the proposal
    stays; the first is then the wide one.
    """
    if not has_fit:
        return before if before.any() else np.array([0.0, 1.0])
    earlier = np.where(before > LEAST_SHARE, before, 0.0)
    share = EARLIER if earlier.any() else 0.0
    shares = np.append(share * earlier / max(earlier.sum(), LEAST_SHARE), (1 - share) * (1 - WIDE))
    shares[1] += (1 - share) * WIDE
    return shares


def _about_all(positions: Float[np.ndarray, "draws parameters"]) -> Mixture:
    """A Student t as wide as draws from the prior."""
    covariance = np.atleast_2d(np.cov(positions.T))
    if not is_definite(covariance):  # parameters that a prior ties together, or all but fixes
        spread = np.diag(covariance)
        covariance = np.diag(np.where(spread > 0, spread, 1.0))
    precision = np.linalg.inv(covariance)
    return Mixture((LocalGaussian(positions.mean(0), precision, 0.0),), np.zeros(1))


def _diagnose(
    sampling: Sampling,
    proposal: Mixture,
    draws: WeightedDraws,
    rounds: Rounds,
    known: Mapping[str, str],
) -> Diagnosis:
    """Signs in the weights of the last draws and from all draws before them, after those known."""
    ess = weights.ess(draws.log_weights)
    particles = rounds.particles()
    is_covered, count = covers(sampling, proposal, draws, particles), sampling.count
    found = _of_weights(draws.log_weights)
    signs = {**known, **found.signs}
    if ess < MIN_ESS * count or not is_covered:
        signs["poor proposal"] = (
            f"the draws at the end are worth {ess:.0f} independent ones, of {count} wanted"
            f"{'' if is_covered else ', and earlier ones show parts of the posterior that they miss'}: the log evidence may be too "
            f"low. {REMEDY}"
        )
    return Diagnosis(found.measured, signs)


def _of_weights(log_weights: Float[np.ndarray, " draws"]) -> Diagnosis:
    """The effective number of draws, and a sign if their largest weights are heavy."""
    shape = weights.pareto_shape(log_weights)
    heavy = {"heavy weights": heavy_weights(shape, REMEDY)} if shape > weights.MAX_PARETO_SHAPE else {}
    return Diagnosis({"ess": weights.ess(log_weights), "pareto_shape": shape}, heavy)
