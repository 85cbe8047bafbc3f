"""Adaptive importance sampling: rounds of draws from mixtures that are fitted to all draws so far.

A draw counts by all mixtures that were drawn from, so none is lost (`Rounds`): with n_k draws
expected from the part q_k of these mixtures,

    wᵢ = p(θᵢ) p(D | θᵢ)^λ / Σ_k n_k q_k(θᵢ).

`AMIS` begins at the prior and raises the temperature λ. `learn` begins with a mixture that
overlaps with the posterior. On ridges, or with a component too many, a posterior is not Gaussian
about any mode, at any number of rows; a mixture of a few Student t's fits its particles, and
improves with draws weighted by all rows. A tenth of the draws stays with the mixture at the start,
so that no part of it is forgotten by chance. A part that this covers too thinly to be drawn is
lost for good, and no weight shows it, so rounds have many draws while rows are few.

Source: Cornuet, Marin, Mira, Robert (2012), Scandinavian Journal of Statistics 39, 798 (draws of
all rounds); Veach, Guibas (1995), SIGGRAPH, 419 (the mixture of all as the density: the balance
heuristic).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.population.importance import GOOD, MIN_ESS, Sampling
from evidentia.evidence.population.mixture import (
    MOST_COMPONENTS,
    Mixture,
    improved,
    together,
    without_smallest,
)
from evidentia.evidence.population.particles import Particles
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import is_summed, rows_of_density, symmetrised
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import Positions, fold

DRAWS = 2  # in a round, as a multiple of the particles
WORK = 30_000_000  # rows times draws of a round, up to which there are more
MOST_DRAWS = 4096
MORE_COMPONENTS, DRAWS_OF_EACH = 24, 256  # where there are more draws
KEPT = 0.1  # share of the draws that stays with the first mixture
NEAR_COPIES = 24  # copies of a draw up to which all count
MOST_PARAMETERS = 100  # since the covariance of more is not known from so few draws


class Drawn(NamedTuple):
    """Draws with their log prior densities and log-likelihoods, in nats."""

    positions: Float[np.ndarray, "draws parameters"]
    log_priors: Float[np.ndarray, " draws"]
    log_likelihoods: Float[np.ndarray, " draws"]

    def log_heights(self, temperature: float = 1.0) -> Float[np.ndarray, " draws"]:
        """log p(θ) p(D | θ)^λ, with zero likelihood to the power zero one."""
        return self.log_priors + temperature * self.log_likelihoods if temperature else self.log_priors


class Rounds(NamedTuple):
    """The draws of all rounds, weighted by the mixture of all that they came from.

    Attributes:
        drawn: the draws.
        log_terms: log density at each draw of each part of the mixtures.
        counts: the number of draws expected from each part.
    """

    drawn: Drawn
    log_terms: Float[np.ndarray, "parts draws"]
    counts: Float[np.ndarray, " parts"]

    @classmethod
    def before(cls, num_parameters: int) -> "Rounds":
        """No draws yet, and no parts."""
        none = np.zeros(0)
        positions = np.zeros((0, num_parameters), np.float32)
        return cls(Drawn(positions, none, none), np.zeros((0, 0)), none)

    def log_weights(self, temperature: float = 1.0) -> Float[np.ndarray, " draws"]:
        """Log weights of the draws for the posterior at a temperature."""
        return self.drawn.log_heights(temperature) - log_mixture(self.log_terms, self.counts)

    def particles(self, temperature: float = 1.0) -> Particles:
        """The draws that matter at a temperature, weighted."""
        share = np.exp(weights.normalise(self.log_weights(temperature)))
        matters = share > 1e-9 / len(share)
        positions = self.drawn.positions[matters].astype(np.float64)
        return Particles(positions, share[matters] / share[matters].sum())

    def with_part(self, log_terms: Float[np.ndarray, " draws"]) -> "Rounds":
        """With a part that nothing was drawn from yet, given its log density at the draws."""
        return self._replace(
            log_terms=np.concatenate([self.log_terms, log_terms[None]]), counts=np.append(self.counts, 0.0)
        )

    def with_draws(
        self,
        drawn: Drawn,
        log_terms: Float[np.ndarray, "parts draws"],
        shares: Float[np.ndarray, " parts"],
    ) -> "Rounds":
        """With the draws of a round, from a mixture of the parts with these shares."""
        together = Drawn(*(np.concatenate(pair) for pair in zip(self.drawn, drawn, strict=True)))
        counts = self.counts + len(drawn.positions) * shares
        return Rounds(together, np.concatenate([self.log_terms, log_terms], axis=1), counts)


def log_mixture(
    log_terms: Float[np.ndarray, "parts draws"], shares: Float[np.ndarray, " parts"]
) -> Float[np.ndarray, " draws"]:
    """Log of a weighted sum of densities."""
    has_share = shares > 0
    return np.logaddexp.reduce(np.log(shares[has_share])[:, None] + log_terms[has_share], axis=0)


def evaluated(model: BoundModel, rows: Rows, positions: Float[Array, "draws parameters"]) -> Drawn:
    """Draws with what the model says of them."""
    deviations, offset = rows.log_likelihoods(model, positions)
    return Drawn(np.asarray(positions), model.log_priors(positions), deviations + offset)


def is_learnable(model: BoundModel) -> bool:
    """Whether a mixture can be learnt: not if there are too many parameters."""
    return model.num_parameters <= MOST_PARAMETERS


class Effort(NamedTuple):
    """How much is done to learn a mixture.

    Attributes:
        num_rounds: the most rounds.
        size: draws in each.
        good: the effective fraction of them that is good enough.
        most_components: of a fit.
    """

    num_rounds: int
    size: int
    good: float
    most_components: int


def learn(sampling: Sampling, start: Mixture, effort: Effort | None = None) -> Mixture:
    """A mixture for the posterior, learnt in rounds from one that overlaps with it.

    It is the first whose draws have even weights, or that learnt from all rounds. It is as checked
    as the start. The effort is that for the rows (`effort_for`) if none is given.
    """
    model, rows, generator, _ = sampling
    num_rounds, size, good, most_components = effort or effort_for(sampling, start)
    start = without_smallest(start, 2 * MORE_COMPONENTS)
    proposal, parts, shares = start, [start], np.ones(1)
    rounds = Rounds.before(model.num_parameters).with_part(np.zeros(0))
    for _ in range(num_rounds):
        drawn = evaluated(model, rows, proposal.draw(generator, size))
        log_terms = np.stack([near_density(model, part, drawn.positions) for part in parts])
        if weights.ess(drawn.log_heights() - log_mixture(log_terms, shares)) >= good * size:
            break
        rounds = rounds.with_draws(drawn, log_terms, shares)
        fit = improved(proposal, _for_fit(model, rounds), most_components)
        parts.append(fit)
        rounds = rounds.with_part(near_density(model, fit, rounds.drawn.positions))
        shares = np.zeros(len(parts))
        shares[0], shares[-1] = KEPT, 1 - KEPT
        proposal = together([fit, start], [1 - KEPT, KEPT])
    return _about_one_copy(model, proposal.as_known_as(start), generator)


def effort_for(sampling: Sampling, start: Mixture) -> Effort:
    """Few rounds of many draws while these are cheap, else more rounds of few."""
    cost = max(sampling.rows.size, rows_of_density(sampling.model, NEAR_COPIES))
    least, affordable = DRAWS * sampling.count, WORK // cost
    num_rounds, size, good = 8, least, MIN_ESS
    if affordable > least:
        # Eight rounds took twice the time on mixtures of three with 200 rows (4.2 CPU s instead of
        # 2.3), for standard errors of 0.020 nats instead of 0.026.
        num_rounds, size, good = 4, min(MOST_DRAWS, affordable), GOOD
    # As many as at the start, learnt when more draws were affordable: fewer lose arms of a ridge.
    supported = max(MOST_COMPONENTS, size // DRAWS_OF_EACH, len(start.components))
    return Effort(num_rounds, size, good, min(MORE_COMPONENTS, supported))


def _for_fit(model: BoundModel, rounds: Rounds) -> Particles:
    """All draws, folded, with weights that are tempered so that a tenth of them is effective."""
    log_weights = rounds.log_weights()
    target = 0.1 * len(log_weights)
    power = weights.next_temperature(np.zeros_like(log_weights), log_weights, 0.0, target)
    share = np.exp(weights.normalise(power * np.maximum(log_weights, np.finfo(float).min / 2)))
    positions = rounds.drawn.positions
    folded = fold(model, positions, share)[0] if model.symmetry else positions
    return Particles(np.asarray(folded, np.float64), share)


def _about_one_copy(model: BoundModel, proposal: Mixture, generator: np.random.Generator) -> Mixture:
    """The proposal with the domain of its draws, if there are too many copies for a sum.

    The centre of the draws says which copy of the posterior the proposal is about.
    """
    if not model.symmetry or is_summed(model):
        return proposal
    count = 2048
    draws = proposal.draw(generator, count)
    _, centre = fold(model, draws, np.full(count, 1 / count))
    return proposal._replace(domain=centre)


def near_density(model: BoundModel, proposal: Mixture, positions: Positions) -> Float[np.ndarray, " draws"]:
    """The density for the weights of draws that a mixture is fitted to: at all copies if few.

    With many copies it is that at one, which gives exact weights of the whole posterior, too.
    """
    if is_summed(model, NEAR_COPIES):
        return symmetrised(model, proposal, positions)
    return proposal.log_density(np.asarray(positions, np.float64))
