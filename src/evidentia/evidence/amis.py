"""Adaptive multiple importance sampling: few evaluations of a likelihood without gradients."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import ConfigurationError, check_count
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot, check_possible
from evidentia.evidence.missed_modes import completed_by_modes
from evidentia.evidence.narrow import look_closely
from evidentia.evidence.population.adapt import MOST_PARAMETERS, Rounds
from evidentia.evidence.population.check import covers
from evidentia.evidence.population.importance import (
    MANY_BATCHES,
    MIN_ESS,
    Sampling,
    WeightedDraws,
    weighted_draws,
)
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import host_generator
from evidentia.evidence.population.warning_signs import MAX_UNSEEN, heavy_weights
from evidentia.evidence.tempered_rounds import Round, rounds_from_prior
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows

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

    so that none is lost. Where components of the model are interchangeable, with up to 24 copies
    of each mode, mixtures are fitted to draws folded to one copy, and all densities are means over
    the copies. Three in ten of a round's draws come from the proposal before, and so a few from
    those before that: modes that a fit loses show later as large weights. At λ = 1, when proposals
    no longer improve, new draws from the best give log Ẑ, and its standard error. Weights above √N
    times their mean, for N draws, are cut there. Before, a search from draws from the prior adds
    modes that low temperatures hid (`missed_modes`); a close look at the top afterwards shows
    parts that are narrower than the proposal (`narrow`).

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
        for found in rounds_from_prior(model, rows, key, generator, self.num_particles):
            best, rounds = found.proposal, found.rounds
            yield _so_far(found, rows)
        assert best is not None and rounds is not None
        best = completed_by_modes(model, rows, best, rounds, generator)
        sampling = Sampling(model, rows, generator, self.num_particles)
        draws = weighted_draws(sampling, best, MANY_BATCHES)
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


def _so_far(found: Round, rows: Rows) -> Snapshot:
    """A snapshot after a round, which is the result if the run is stopped there.

    Its estimate is that of the last draws alone, since fits to earlier ones do not depend on them:
    that of all draws is six standard errors low with 7 parameters. There is none while the
    temperature rises, or if few draws are in the posterior.
    """
    log_weights = found.log_weights
    # With so few as `FEW_EFFECTIVE`, errors were a tenth of a nat, and the rms z 1.08.
    has_estimate = found.temperature == 1.0 and weights.ess(log_weights) >= weights.FEW_EFFECTIVE
    estimate = Estimate(weights.log_mean(log_weights), weights.relative_variance(log_weights))
    return Snapshot(
        estimate if has_estimate else None,
        rows.num_observations if has_estimate else 0,
        jnp.asarray(found.positions),
        log_weights,
        share_done=found.share_done,
        diagnose=lambda: _of_weights(log_weights),
    )


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
    if proposal.unseen > MAX_UNSEEN:
        signs["modes not found"] = (
            f"{100 * proposal.unseen:.0f}% of the posterior is in modes to which only one of many climbs led, so others were probably "
            f"not found: the log evidence may be too low. {REMEDY}"
        )
    return Diagnosis({**found.measured, "unseen": proposal.unseen}, signs)


def _of_weights(log_weights: Float[np.ndarray, " draws"]) -> Diagnosis:
    """The effective number of draws, and a sign if their largest weights are heavy."""
    shape = weights.pareto_shape(log_weights)
    heavy = {"heavy weights": heavy_weights(shape, REMEDY)} if shape > weights.MAX_PARETO_SHAPE else {}
    return Diagnosis({"ess": weights.ess(log_weights), "pareto_shape": shape}, heavy)
