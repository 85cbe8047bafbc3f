"""Averaging models online: their probabilities as the data come in, and what they predict
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.comparison import model_probabilities, prior_of
from evidentia.display import text
from evidentia.errors import ConfigurationError
from evidentia.monitor.prediction import Prediction, predict
from evidentia.monitor.protocols import OnlineLike, UpdateLike, all_or_none


class AverageUpdate(NamedTuple):
    """What a batch brought.

    Attributes:
        num_observations: rows seen, with this batch.
        batch_size: rows of this batch.
        log_predictive: log Σ πₖ pₖ(batch) of the average, with the probabilities πₖ from before
            the batch, in nats.
        log_evidence: the sum of these over all batches: the cumulative log predictive density of
            the average, in nats.
        probabilities: of the models by name, after the batch.
        updates: what each model's `update` returned, by name.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: float
    probabilities: dict[str, float]
    updates: dict[str, UpdateLike]


class AverageState(NamedTuple):
    """The numbers of an average, for a checkpoint; the models are saved by themselves.

    Attributes:
        log_evidence: cumulative log predictive density of the average, in nats.
        log_weights: float64, the models' log w, in nats.
        variances: float64, the Monte Carlo variances of `log_weights`, in nats².
    """

    log_evidence: float
    log_weights: Float[ndarray, " models"]
    variances: Float[ndarray, " models"]


class ModelAverage:
    """Several models on one stream: probabilities, and the combined prediction.

    With prior probabilities πₖ and `forgetting` α, a batch of b rows takes the weights

        log wₖ ← α^b log wₖ + log pₖ(batch | rows before),     πₖ(after) ∝ πₖ wₖ.

    With α = 1 that is Bayes' rule: πₖ(after) are the posterior probabilities, those of
    `evidentia.compare`. With α < 1 the evidence of a row counts for less the longer ago it was,
    with a memory of about 1 / (1 - α) rows, so that the average follows a stream in which the best
    model changes (dynamic model averaging); without data the probabilities go back to the prior. α
    counts per row, however rows are cut into batches; within a batch nothing is forgotten, so
    batches should be short against the memory.

    Attributes:
        onlines: the models by name.
        prior: their prior probabilities by name.
        forgetting: α.
        log_evidence: cumulative log predictive density of the average since it was made, in nats.

    Args:
        onlines: an `evidentia.Online`, or anything `OnlineLike`, by name. They may have seen rows,
            all the same number: their evidence then counts in full.
        prior: probabilities by name, divided by their sum; equal if not given.
        forgetting: α in (0, 1].

    Raises:
        ConfigurationError: no models, different numbers of observations, a prior or `forgetting`
            out of range.

    Example:
        >>> averaged = ev.ModelAverage({"linear": ev.Online(linear), "softmax": ev.Online(softmax)})  # doctest: +SKIP
        >>> averaged.update(batch).probabilities  # doctest: +SKIP
        {'linear': 0.93, 'softmax': 0.07}

    Source: Raftery, Kárný, Ettler (2010), Technometrics 52(1), Eq. 7 and 8; there the weights are
    flattened towards equal ones, here towards the prior, which is the same for equal prior
    probabilities.
    """

    def __init__(
        self,
        onlines: Mapping[str, OnlineLike],
        prior: Mapping[str, float] | None = None,
        forgetting: float = 1.0,
    ):
        if not isinstance(onlines, Mapping) or not onlines:
            given = "an empty mapping" if isinstance(onlines, Mapping) else type(onlines).__name__
            raise ConfigurationError(f"onlines must map at least one name to an Online; got {given}.")
        for name, online in onlines.items():
            if not callable(getattr(online, "update", None)):
                raise ConfigurationError(
                    f"onlines[{name!r}] must be an evidentia.Online; got {type(online).__name__}."
                )
        if not 0 < forgetting <= 1:
            raise ConfigurationError(f"forgetting must be above 0 and at most 1; got {forgetting}.")
        self.onlines = dict(onlines)
        probabilities = prior_of(list(onlines), prior, "prior")
        self.prior = dict(zip(onlines, probabilities.tolist(), strict=True))
        self.forgetting = forgetting
        self.log_evidence = 0.0
        self._check_same_rows()
        self._log_weights = np.array([online.log_evidence for online in onlines.values()], np.float64)
        self._variances = np.array([online.standard_error for online in onlines.values()], np.float64) ** 2

    @property
    def num_observations(self) -> int:
        """Rows seen."""
        return next(iter(self.onlines.values())).num_observations

    @property
    def state(self) -> AverageState:
        """The numbers. With the models and the settings they are all that `resume` needs."""
        return AverageState(self.log_evidence, self._log_weights, self._variances)

    def resume(self, state: AverageState) -> ModelAverage:
        """Take over the numbers of an average that was saved, whose models and settings this was
        made with; returns itself.

        Raises:
            ConfigurationError: if they are of another number of models.
        """
        if len(state.log_weights) != len(self.onlines):
            raise ConfigurationError(
                f"state must be of {len(self.onlines)} models; got one of {len(state.log_weights)}."
            )
        self.log_evidence, self._log_weights, self._variances = state
        return self

    @property
    def probabilities(self) -> dict[str, float]:
        """The models' probabilities given the rows seen, by name; `probability_errors` has their
        Monte Carlo errors.
        """
        return dict(zip(self.onlines, self._probabilities()[0].tolist(), strict=True))

    @property
    def probability_errors(self) -> dict[str, float]:
        """Standard errors of `probabilities` from those of the log evidences, to first order, as
        in `evidentia.compare`.

        With forgetting, the variance of a log weight is α^(2b) of the one before plus that of the
        batch's log predictive density. NaN where a model does not know its error.
        """
        return dict(zip(self.onlines, self._probabilities()[1].tolist(), strict=True))

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{name}: {text.probability(share, error)}"
            for name, share, error in zip(self.onlines, *self._probabilities(), strict=True)
        )
        return f"ModelAverage({shares}; {self.num_observations:,} observations)"

    def update(self, batch: Any) -> AverageUpdate:
        """Every model takes a batch in, and the probabilities follow.

        Returns:
            What it brought.

        Raises:
            EvidentiaError: as a model's `update` does.
            ConfigurationError: if the models have not seen the same rows.

        After an error every `Online` is as it was before the batch.
        """
        self._check_same_rows()
        with all_or_none(self.onlines.values()):
            updates = {name: online.update(batch) for name, online in self.onlines.items()}
        some = next(iter(updates.values()))
        shrink = self.forgetting**some.batch_size
        log_predictives = np.array([update.log_predictive for update in updates.values()], np.float64)
        combined = weights.log_sum_exp(self._log_shares(shrink) + log_predictives)
        self.log_evidence += combined
        if self.forgetting == 1:  # not the sum: a model may have improved its estimate for earlier rows
            self._log_weights = np.array([update.log_evidence for update in updates.values()])
            self._variances = np.array([update.standard_error for update in updates.values()]) ** 2
        else:
            errors = np.array([update.log_predictive_standard_error for update in updates.values()])
            self._log_weights = shrink * self._log_weights + log_predictives
            self._variances = shrink**2 * self._variances + errors**2
        return AverageUpdate(
            self.num_observations, some.batch_size, combined, self.log_evidence, self.probabilities, updates
        )

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """log Σ πₖ pₖ(row | rows seen) of each row by itself, in nats; takes nothing in.

        The probabilities are those that `update` would use for this batch.
        """
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
        """Predictions of all models together, by their probabilities and their weighted particles.

        Args:
            functions: what to predict: a JAX function of one particle's parameters,
                `function(params)`, such as the expected y at new x; or `function(key, params)`,
                which draws, such as y itself. One function for all models, or one per model by
                name. It is vectorised over the particles.
            num_draws: how many draws.
            seed: of the draws.

        Returns:
            Draws, their models, and the mean: of `function(params)` over all particles; of
            `function(key, params)` over the draws.

        Raises:
            ConfigurationError: names that do not fit, a function of other arguments, results of
                different shapes.

        Example:
            >>> def price(params):  # doctest: +SKIP
            ...     return new_x @ params["weights"] + params["intercept"]
            >>> averaged.predict(price).mean  # doctest: +SKIP
        """
        return predict(self.onlines, self._probabilities()[0], functions, num_draws, seed)

    def _log_shares(self, shrink: float) -> Float[ndarray, " models"]:
        return weights.normalise(np.log(list(self.prior.values())) + shrink * self._log_weights)

    def _probabilities(self) -> tuple[Float[ndarray, " models"], Float[ndarray, " models"]]:
        return model_probabilities(
            self._log_weights, np.sqrt(self._variances), np.array(list(self.prior.values()))
        )

    def _check_same_rows(self) -> None:
        counts = {name: online.num_observations for name, online in self.onlines.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name!r} has {count:,}" for name, count in counts.items())
            raise ConfigurationError(f"the models must have seen the same observations; {listed}.")
