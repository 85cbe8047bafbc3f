"""Online model averaging: model probabilities and the models' combined predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.display import text
from evidentia.errors import ConfigurationError, as_number, kind_of
from evidentia.model.model import Model
from evidentia.monitor import saving
from evidentia.monitor.average_records import AverageState, AverageUpdate
from evidentia.monitor.prediction import Prediction, predict
from evidentia.monitor.protocols import OnlineLike, UpdateLike, all_or_none, is_online
from evidentia.results.comparing import model_probabilities
from evidentia.results.model_priors import prior_of
from evidentia.system.sharing import OneAtATime


class ModelAverage:
    """Several models on one stream: their probabilities and their combined prediction.

    With prior probabilities πₖ and `forgetting` α, a batch of b rows updates the weights to

        log wₖ ← α^b log wₖ + log pₖ(batch | rows before),     πₖ(after) ∝ πₖ wₖ.

    With α = 1 this is Bayes' rule: πₖ(after) are the posterior probabilities, as in
    `evidentia.compare`. With α < 1 the evidence of older rows counts less, with a memory of about
    1 / (1 - α) rows, so the average follows a stream in which the best model changes (dynamic
    model averaging); without data the probabilities return to the prior. α applies per row,
    however rows are split into batches. Nothing is forgotten within a batch, so batches should be
    short compared with the memory.

    Attributes:
        onlines: the models by name.
        prior_probabilities: of the models by name.
        forgetting: α.
        log_evidence: of the average so far, in nats: log Σ πₖ pₖ(D) without forgetting; with it
            the sum of the `log_predictive` of all batches, added to the former of the rows that
            the models had seen before.
        standard_error: of `log_evidence`, in nats.
        alone: a context manager, in which no other thread changes this object.

    Args:
        onlines: an `evidentia.Online`, or any `OnlineLike`, by name. They may already have seen
            rows, all the same number; their evidence then counts in full.
        prior_probabilities: of the models by name, normalised to sum to one; equal if not given.
        forgetting: α in (0, 1].

    Raises:
        ConfigurationError: no models, different numbers of observations, or a prior or
            `forgetting` out of range.

    Example:
        >>> averaged = ev.ModelAverage(  # doctest: +SKIP
        ...     {"linear": ev.Online(linear), "softmax": ev.Online(softmax)}
        ... )
        >>> averaged.update(batch).probabilities  # doctest: +SKIP
        {'linear': 0.93, 'softmax': 0.07}

    Source: Raftery, Kárný, Ettler (2010), Technometrics 52(1), Eq. 7 and 8. They flatten the
    weights towards equal ones, we towards the prior; the two agree for equal prior probabilities.
    """

    def __init__(
        self,
        onlines: Mapping[str, OnlineLike],
        prior_probabilities: Mapping[str, float] | None = None,
        forgetting: float = 1.0,
    ):
        if not isinstance(onlines, Mapping) or not onlines:
            given = "an empty mapping" if isinstance(onlines, Mapping) else type(onlines).__name__
            raise ConfigurationError(f"onlines must map at least one name to an Online; got {given}.")
        for name, online in onlines.items():
            if not isinstance(name, str):
                raise ConfigurationError(f"the names in onlines must be strings; got {name!r}.")
            if not is_online(online):
                raise ConfigurationError(
                    f"onlines[{name!r}] must be an evidentia.Online; got {kind_of(online)}."
                )
        if not 0 < as_number(forgetting) <= 1:
            raise ConfigurationError(f"forgetting must be above 0 and at most 1; got {forgetting}.")
        self.alone: OneAtATime = OneAtATime()
        self.onlines: dict[str, OnlineLike] = dict(onlines)
        probabilities = prior_of(list(onlines), prior_probabilities, "prior_probabilities")
        by_name = zip(onlines, probabilities.tolist(), strict=True)
        self.prior_probabilities: dict[str, float] = dict(by_name)
        self.forgetting = forgetting
        self._check_same_rows()
        self._weigh_anew(list(onlines.values()))

    @property
    def num_observations(self) -> int:
        """Rows seen."""
        return next(iter(self.onlines.values())).num_observations

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`, in nats; NaN if a model's is unknown."""
        return math.sqrt(self._variance)

    @property
    def state(self) -> AverageState:
        """The average's own numbers; `resume` needs these, the models and the settings."""
        with self.alone:
            return AverageState(self.log_evidence, self._log_weights, self._variances, self._variance)

    def resume(self, state: AverageState) -> ModelAverage:
        """Restore the numbers of a saved average with the same models and settings; return self.

        Raises:
            ConfigurationError: the state has another number of models.
        """
        if len(state.log_weights) != len(self.onlines):
            raise ConfigurationError(
                f"state must be for {len(self.onlines)} models; got one for {len(state.log_weights)}."
            )
        with self.alone:
            self.log_evidence, self._log_weights, self._variances, self._variance = state
        return self

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint with all models, from which `load` continues bit for bit.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written, or a
        model is not an `Online`.
        """
        settings = {"prior_probabilities": self.prior_probabilities, "forgetting": self.forgetting}
        with self.alone:
            onlines = {name: saving.packed_online(online) for name, online in self.onlines.items()}
            content = {"settings": settings, "onlines": onlines, "state": self.state}
            saving.write(folder, "average", content, self.num_observations)

    @classmethod
    def load(cls, folder: str | Path, models: Mapping[str, Model]) -> ModelAverage:
        """Load a saved average, given the same models by name.

        Raises CheckpointError if there is none, it is damaged, or a model is different, and
        ConfigurationError if the names differ.
        """
        return saving.read_average(cls, folder, models, AverageState)

    @property
    def probabilities(self) -> dict[str, float]:
        """Probabilities of the models given the rows seen, by name."""
        return dict(zip(self.onlines, self._probabilities()[0].tolist(), strict=True))

    @property
    def probability_errors(self) -> dict[str, float]:
        """Monte Carlo errors of `probabilities` to first order, as in `evidentia.compare`.

        With forgetting, the variance of a log weight is multiplied by α^(2b), and that of the
        batch's log predictive density is added. NaN if a model's error is unknown.
        """
        return dict(zip(self.onlines, self._probabilities()[1].tolist(), strict=True))

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{name}: {text.probability(share, error)}"
            for name, share, error in zip(self.onlines, *self._probabilities(), strict=True)
        )
        return f"ModelAverage({shares}; {self.num_observations:,} observations)"

    def update(self, batch: Any) -> AverageUpdate:
        """Update every model with a batch, and then the probabilities.

        Returns:
            The result of the batch.

        Raises:
            EvidentiaError: raised by a model's `update`.
            ConfigurationError: the models have not seen the same rows.

        After an error, every `Online` is as it was before the batch.
        """
        with self.alone, all_or_none(self.onlines.values()):
            return self._updated(batch)

    def _updated(self, batch: Any) -> AverageUpdate:
        self._check_same_rows()
        return self.concluded({name: online.update(batch) for name, online in self.onlines.items()})

    def concluded(self, updates: Mapping[str, UpdateLike]) -> AverageUpdate:
        """The result of a batch, from what it did to each of `onlines`.

        For models that were updated elsewhere, such as the streams of several `OnlineFleet`s.
        """
        some = next(iter(updates.values()))
        shrink = self.forgetting**some.batch_size
        found = [updates[name] for name in self.onlines]
        log_predictives = np.array([update.log_predictive for update in found], np.float64)
        log_joint = self._log_shares(shrink) + log_predictives
        combined = weights.log_sum_exp(log_joint)
        if self.forgetting == 1:  # not a running sum: a model may have revised its estimate for earlier rows
            self._weigh_anew(found)
        else:
            errors = np.array([update.log_predictive_standard_error for update in found])
            self.log_evidence += combined
            self._variance += float(np.exp(2 * (log_joint - combined)) @ errors**2)
            self._log_weights = shrink * self._log_weights + log_predictives
            self._variances = shrink**2 * self._variances + errors**2
        return AverageUpdate(
            some.num_observations,
            some.batch_size,
            combined,
            self.log_evidence,
            self.standard_error,
            self.probabilities,
            dict(updates),
        )

    def _weigh_anew(self, found: Sequence[OnlineLike | UpdateLike]) -> None:
        """Weigh the models by their evidences, of which that of the average is the mean."""
        self._log_weights = np.array([one.log_evidence for one in found], np.float64)
        self._variances = np.array([one.standard_error for one in found], np.float64) ** 2
        log_joint = np.log(list(self.prior_probabilities.values())) + self._log_weights
        self.log_evidence: float = weights.log_sum_exp(log_joint)
        self._variance = float(np.exp(2 * (log_joint - self.log_evidence)) @ self._variances)

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """log Σ πₖ pₖ(row | rows seen) of each row by itself, in nats; updates no model.

        The probabilities are those that `update` would use for this batch.
        """
        with self.alone:
            rows = np.stack(
                [np.asarray(online.log_predictive(batch), np.float64) for online in self.onlines.values()]
            )
            shares = self._log_shares(self.forgetting ** rows.shape[1])
        return np.logaddexp.reduce(shares[:, None] + rows, axis=0)

    def predict(
        self,
        functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
        num_draws: int = 1000,
        seed: int = 0,
    ) -> Prediction:
        """Predict with all models, weighted by model probability and particle weight.

        Args:
            functions: the quantity to predict: a JAX function of one particle's parameters,
                `function(params)`, such as the expected y at new x; or `function(key, params)`,
                which draws a random value, such as y itself. One function for all models, or one
                per model by name. It is vectorised over the particles.
            num_draws: number of draws.
            seed: seed of the draws.

        Returns:
            Draws, the model of each draw, and the mean, which is over all particles for
            `function(params)` and over the draws for `function(key, params)`.

        Raises:
            ConfigurationError: names that do not match the models, functions with other
                arguments, or results of different shapes.

        Example:
            >>> def price(params):  # doctest: +SKIP
            ...     return new_x @ params["weights"] + params["intercept"]
            >>> averaged.predict(price).mean  # doctest: +SKIP
        """
        with self.alone:
            return predict(self.onlines, self._probabilities()[0], functions, num_draws, seed)

    def _log_shares(self, shrink: float) -> Float[ndarray, " models"]:
        return weights.normalise(np.log(list(self.prior_probabilities.values())) + shrink * self._log_weights)

    def _probabilities(self) -> tuple[Float[ndarray, " models"], Float[ndarray, " models"]]:
        state = self.state
        return model_probabilities(
            state.log_weights, np.sqrt(state.variances), np.array(list(self.prior_probabilities.values()))
        )

    def _check_same_rows(self) -> None:
        counts = {name: online.num_observations for name, online in self.onlines.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name!r} has {count:,}" for name, count in counts.items())
            raise ConfigurationError(f"the models must have seen the same observations; {listed}.")
