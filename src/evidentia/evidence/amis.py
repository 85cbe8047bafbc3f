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
from evidentia.evidence.draws.of_prior import draws_inside
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from evidentia.evidence.narrow import look_closely
from evidentia.evidence.path.checks import check_defined, check_possible
from evidentia.evidence.path.coverage import covers
from evidentia.evidence.path.diagnostics import heavy_weights
from evidentia.evidence.path.importance import MIN_ESS, WeightedDraws, weighted_draws
from evidentia.evidence.path.learning import MOST_PARAMETERS, fitted, together
from evidentia.evidence.path.population import host_generator
from evidentia.evidence.path.proposal import Particles, Proposal
from evidentia.interruption import check
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian, is_definite
from evidentia.posterior.rows import Rows

MIN_DRAWS, DRAWS_PER_PARAMETER = 500, 50  # in a round
KEPT_ESS = 0.5  # of the last draws, as a fraction, when the temperature rises
RELAXED, PATIENCE = 0.7, 3  # factor of this fraction after rounds in which it could not rise
EVEN = 0.4  # effective draws as a fraction, from which on proposals need not improve
GAIN = 1.1  # by which they must improve otherwise
LEAST_ROUNDS = 4  # at λ = 1: the first fits miss thin tails
MOST_COMPONENTS = 16
EARLIER, WIDE = 0.3, 0.02  # shares of the proposal before, and of one as wide as the prior
LEAST_SHARE = 0.002  # of a component that is kept from the proposal before
MOST_ROUNDS = 100
MOST_BATCHES = 32  # of the last draws
REMEDY = (
    "Use more particles, or compare with NestedSampling(kernel=kernels.ConstrainedDifferentialEvolution())."
)
NEGLIGIBLE = 1e-9  # weight of a draw that does not matter for a fit, relative to the mean


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
        num_particles: effective number of draws wanted for the estimate.

    Raises:
        ConfigurationError: `num_particles` is not an integer of at least 2.

    Example:
        >>> ev.estimate(model, method=ev.AMIS(num_particles=2048))  # doctest: +SKIP

    Source: Cornuet, Marin, Mira, Robert (2012), Scandinavian Journal of Statistics 39, 798 (all
    draws weighted by the mixture); Cappé et al. (2008), Statistics and Computing 18, 447 (the
    fit); Ionides (2008), Journal of Computational and Graphical Statistics 17, 295 (the cut).
    """

    num_particles: int = 512

    def __post_init__(self):
        check_count("num_particles", self.num_particles, 2)

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
        generator, best, tried = host_generator(key), None, None
        for found in _rounds(model, rows, key, generator):
            best, tried = found.proposal, found.tried
            yield Snapshot(
                None,
                0,
                jnp.asarray(tried.positions),
                tried.log_weights(found.temperature),
                share_done=found.share_done,
            )
        assert best is not None and tried is not None
        draws = weighted_draws(model, rows, best, generator, self.num_particles, MOST_BATCHES)
        check_possible(draws.log_weights, rows.span, "draws")
        estimate = Estimate(draws.log_evidence, weights.relative_variance(draws.log_weights))
        found = Snapshot(
            estimate,
            rows.num_observations,
            draws.positions,
            draws.log_weights,
            share_done=1.0,
            diagnose=partial(_diagnose, model, rows, best, draws, tried, self.num_particles, {}),
        )
        yield found  # the result if a stop is requested during the look
        signs = look_closely(model, rows, best, draws, generator).signs
        diagnose = partial(_diagnose, model, rows, best, draws, tried, self.num_particles, signs)
        yield found._replace(num_steps=0, diagnose=diagnose)


class Tried(NamedTuple):
    """All draws so far, with the log of Σ n_k q_k at each."""

    positions: Float[np.ndarray, "draws parameters"]
    log_priors: Float[np.ndarray, " draws"]
    log_likelihoods: Float[np.ndarray, " draws"]
    log_densities: Float[np.ndarray, " draws"]

    def log_weights(self, temperature: float) -> Float[np.ndarray, " draws"]:
        """Log weights of the draws for the posterior at a temperature."""
        return self.log_priors - self.log_densities + _powered(self.log_likelihoods, temperature)

    def particles(self, temperature: float) -> Particles:
        """The draws that matter at a temperature, weighted."""
        share = np.exp(weights.normalise(self.log_weights(temperature)))
        matters = share > NEGLIGIBLE / len(share)
        return Particles(self.positions[matters], share[matters] / share[matters].sum())


class Round(NamedTuple):
    """A round: the best proposal, all draws so far, its temperature and that of the first."""

    proposal: Proposal
    tried: Tried
    temperature: float
    first: float

    @property
    def share_done(self) -> float:
        """Estimated share of the work, of which a tenth is the draws at the end."""
        return 0.9 * weights.share_of_path(self.first, self.temperature)


def _rounds(model: BoundModel, rows: Rows, key: Array, generator: np.random.Generator) -> Iterator[Round]:
    """Rounds until proposals for the posterior no longer improve.

    The efficiency of a proposal at λ = 1 is the effective number of its draws, as a fraction.
    """
    count = max(MIN_DRAWS, DRAWS_PER_PARAMETER * model.num_parameters)
    drawn = draws_inside(model, key, 2 * count)
    positions = np.asarray(drawn.positions, np.float64)
    tried = _tried(model, rows, positions)
    check_possible(tried.log_likelihoods, rows.span, "draws")
    tried = tried._replace(log_densities=tried.log_priors - drawn.log_share + math.log(2 * count))
    wide, proposals = _about_all(positions), []
    best, last, efficiencies = wide, tried, []
    temperature, first, kept, in_vain = 0.0, 0.0, KEPT_ESS, 0
    for _ in range(MOST_ROUNDS):
        check()
        before, temperature = temperature, _next_temperature(last, temperature, kept)
        first = first or temperature
        in_vain = in_vain + 1 if before == temperature < 1.0 else 0
        kept *= RELAXED if in_vain >= PATIENCE else 1.0
        proposal = _next_proposal(tried.particles(temperature), proposals, wide, generator)
        last = _tried(model, rows, np.asarray(proposal.draw(generator, count), np.float64))
        last = last._replace(log_densities=proposal.log_density(last.positions))
        tried = _with_draws(tried, last, count, [*proposals, proposal])
        proposals.append(proposal)
        if temperature == 1.0:
            efficiencies.append(weights.ess(last.log_weights(1.0)) / count)
        if not efficiencies or efficiencies[-1] == max(efficiencies):
            best = proposal
        yield Round(best, tried, temperature, first)
        if len(efficiencies) >= LEAST_ROUNDS and (
            efficiencies[-1] > EVEN or efficiencies[-1] < GAIN * efficiencies[-2]
        ):
            return


def _next_temperature(last: Tried, temperature: float, kept: float) -> float:
    """The temperature to which the effective sample size of the last draws allows to rise."""
    carried = last.log_weights(temperature)
    target = kept * len(carried)
    if weights.ess(carried) < target:
        return temperature
    likelihoods = np.maximum(last.log_likelihoods, np.finfo(float).min / 2)
    return weights.next_temperature(carried, likelihoods, temperature, target)


def _next_proposal(
    particles: Particles, proposals: list[Proposal], wide: Proposal, generator: np.random.Generator
) -> Proposal:
    """A fit to the particles, with a share of the wide proposal and of the one before."""
    fit = fitted(particles, generator, MOST_COMPONENTS)
    if fit is None:
        return proposals[-1] if proposals else wide
    proposal = together(fit, wide, WIDE)
    if not proposals:
        return proposal
    before = proposals[-1]
    chosen = np.flatnonzero(before.shares > LEAST_SHARE)
    components = tuple(before.components[index] for index in chosen)
    earlier = Proposal(components, weights.normalise(np.log(before.shares[chosen])))
    return together(proposal, earlier, EARLIER)


def _tried(model: BoundModel, rows: Rows, positions: Float[np.ndarray, "draws parameters"]) -> Tried:
    on_device = jnp.asarray(positions, jnp.float32)
    deviations, offset = rows.log_likelihoods(model, on_device)
    check_defined(deviations, rows.span, "draws")
    return Tried(positions, model.log_priors(on_device), deviations + offset, np.zeros(len(positions)))


def _with_draws(tried: Tried, last: Tried, count: int, proposals: list[Proposal]) -> Tried:
    """All draws with the last ones; `proposals` has theirs at the end."""
    of_last = np.logaddexp.reduce(
        [
            last.log_priors + math.log(2 * count),
            *(proposal.log_density(last.positions) + math.log(count) for proposal in proposals),
        ]
    )
    of_others = proposals[-1].log_density(tried.positions) + math.log(count)
    tried = tried._replace(log_densities=np.logaddexp(tried.log_densities, of_others))
    last = last._replace(log_densities=of_last)
    return Tried(*(np.concatenate(pair) for pair in zip(tried, last, strict=True)))


def _about_all(positions: Float[np.ndarray, "draws parameters"]) -> Proposal:
    """A Student t as wide as draws from the prior."""
    covariance = np.atleast_2d(np.cov(positions.T))
    if not is_definite(covariance):  # parameters that a prior ties together, or all but fixes
        spread = np.diag(covariance)
        covariance = np.diag(np.where(spread > 0, spread, 1.0))
    precision = np.linalg.inv(covariance)
    return Proposal((LocalGaussian(positions.mean(0), precision, 0.0),), np.zeros(1))


def _powered(log_likelihoods: Float[np.ndarray, " draws"], temperature: float) -> np.ndarray:
    """λ log p(D | θ), with zero likelihood to the power zero one."""
    return temperature * log_likelihoods if temperature else np.zeros_like(log_likelihoods)


def _diagnose(
    model: BoundModel,
    rows: Rows,
    proposal: Proposal,
    draws: WeightedDraws,
    tried: Tried,
    count: int,
    known: Mapping[str, str],
) -> Diagnosis:
    """Signs in the weights of the last draws and from all draws before them, after those known."""
    ess = weights.ess(draws.log_weights)
    particles = tried.particles(1.0)
    is_covered = covers(model, rows, proposal, draws, particles)
    shape = weights.pareto_shape(draws.log_weights)
    signs = dict(known)
    if shape > weights.MAX_PARETO_SHAPE:
        signs["heavy weights"] = heavy_weights(shape, REMEDY)
    if ess < MIN_ESS * count or not is_covered:
        signs["poor proposal"] = (
            f"the draws at the end are worth {ess:.0f} independent ones, of {count} wanted"
            f"{'' if is_covered else ', and earlier ones show parts of the posterior that they miss'}: the log evidence may be too "
            f"low. {REMEDY}"
        )
    return Diagnosis({"ess": ess, "pareto_shape": shape}, signs)
