"""Draws of a prior and of a posterior, for hypotheses about parameters that were fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.errors import ConfigurationError
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths

NUM_PRIOR = 1 << 17
LEAST, NUM_BATCHES = 20, 20  # draws of either side that tell anything; batches for their error


class Draws(NamedTuple):
    """Parameters by name, each (draws, …), with normalised weights.

    Attributes:
        values: by name.
        shares: of the draws; they sum to one.
    """

    values: Mapping[str, ndarray]
    shares: Float[ndarray, " draws"]

    @property
    def ess(self) -> float:
        """Effective number of draws."""
        return weights.ess(np.log(np.maximum(self.shares, 1e-300)))

    def error_of(self, values: Float[ndarray, " draws"]) -> float:
        """The standard error of the mean of values of the draws, which may be a Markov chain's.

        From means of consecutive batches, longer than the chain remembers.
        """
        batches = np.array_split(np.arange(len(values)), NUM_BATCHES)
        means = np.array(
            [self.shares[one] @ values[one] / max(self.shares[one].sum(), 1e-300) for one in batches]
        )
        sizes = np.array([self.shares[one].sum() for one in batches])
        mean = self.shares @ values
        return float(np.sqrt(np.sum(sizes**2 * (means - mean) ** 2) * NUM_BATCHES / (NUM_BATCHES - 1)))


def both_of(posterior: Any, prior: Any, seed: int) -> tuple[Draws, Draws, int]:
    """Draws of the posterior and of the prior, and the number of observations (0 if unknown).

    Args:
        posterior: an `Evidence`, or arrays by name.
        prior: arrays by name; not needed for the evidence of a model, whose prior is drawn from.
        seed: of the draws from the prior.

    Raises:
        ConfigurationError: no prior, or other names or shapes than those of the posterior.
    """
    if isinstance(posterior, Evidence):
        after = Draws(posterior.weighted.parameters, np.exp(posterior.weighted.log_weights))
        count = posterior.num_observations
        before = _of_model(posterior, seed) if prior is None else _plain("prior", prior)
    else:
        after, count = _plain("posterior", posterior), 0
        if prior is None:
            raise ConfigurationError(
                "prior must be given as arrays by name, as posterior is not an Evidence."
            )
        before = _plain("prior", prior)
    for name, values in after.values.items():
        if name not in before.values or before.values[name].shape[1:] != values.shape[1:]:
            raise ConfigurationError(
                f"prior must have draws of {name!r} of shape {values.shape[1:]} each, as posterior has; it has "
                f"{', '.join(f'{key} {value.shape[1:]}' for key, value in before.values.items())}."
            )
    return after, before, count


def _of_model(evidence: Evidence, seed: int) -> Draws:
    widths = evidence.widths
    if not isinstance(widths, ModelWidths) or set(widths.draws) != set(evidence.weighted):
        raise ConfigurationError(
            f"prior must be given as arrays by name: the prior of {evidence.model_name!r} cannot be drawn from, as its result "
            "was loaded or is a regression's, in the units of the table. Of a regression, evidence.summary() has the Bayes "
            "factor of each coefficient."
        )
    positions = widths.model.sample_prior(jax.random.key(seed), NUM_PRIOR)
    drawn = {name: np.asarray(values, float) for name, values in widths.model.constrain(positions).items()}
    return Draws(drawn, np.full(NUM_PRIOR, 1 / NUM_PRIOR))


def _plain(name: str, given: Any) -> Draws:
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError(
            f"{name} must be an Evidence or arrays of draws by name; got {type(given).__name__}."
        )
    try:
        values = {key: np.asarray(value, float) for key, value in given.items()}
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} must hold arrays of numbers by name; {error}.") from error
    counts = {key: value.shape[:1] for key, value in values.items()}
    if len(set(counts.values())) != 1 or () in counts.values():
        raise ConfigurationError(
            f"{name} must have the same number of draws of each parameter; got {counts}."
        )
    if missing := [key for key, value in values.items() if np.isnan(value).any()]:
        raise ConfigurationError(f"{name} must have no missing draws; those of {missing[0]!r} have.")
    count = next(iter(counts.values()))[0]
    if count < LEAST:
        raise ConfigurationError(f"{name} must have {LEAST} draws or more; got {count}.")
    return Draws(values, np.full(count, 1 / count))
