"""The likelihood itself: the evidence of a model whose log-likelihood uses no parameter."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array

from evidentia.errors import check_count
from evidentia.evidence.method import Estimate, Snapshot, check_defined, check_possible
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window


@dataclass(frozen=True)
class Likelihood:
    """The exact evidence of a model without parameters, or whose likelihood uses none of them.

        p(D) = ∫ p(D) p(θ) dθ,        p(θ | D) = p(θ).

    `estimate` takes it in place of any other method for such a model: everything is fixed or
    observed, or the log-likelihood is a constant. The log evidence is the log-likelihood, computed
    in float64, with standard error 0; the posterior, draws from the prior, or empty.

    Attributes:
        num_particles: number of draws from the prior.

    Raises:
        ConfigurationError: `num_particles` is not a positive integer.
    """

    num_particles: int = 512

    def __post_init__(self) -> None:
        check_count("num_particles", self.num_particles, 1)

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Yield the only snapshot.

        Raises EstimationError if the log-likelihood is NaN or infinite.
        """
        positions = model.sample_prior(key, self.num_particles)
        values = rows.exact_log_likelihoods(model, np.asarray(positions[:1]))
        check_defined(np.where(values == np.inf, np.nan, values), rows.span, "evaluation")
        check_possible(values, rows.span, "evaluation")
        yield Snapshot(
            Estimate(float(values[0]), is_unbiased=False),
            num_observations=rows.size,
            positions=positions,
            log_weights=np.zeros(self.num_particles),
            share_done=1.0,
        )
