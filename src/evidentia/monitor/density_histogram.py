"""A histogram of log predictive densities, for valid alarms even if the model is wrong."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import gammaln

from evidentia.errors import ConfigurationError, check_count
from evidentia.monitor.protocols import OnlineLike
from evidentia.online.state import OnlineUpdate
from evidentia.results.weighted import Weighted, evenly_weighted
from evidentia.system.sharing import OneAtATime


class DensityHistogram:
    """A histogram of the log densities of a fixed model, for use with a `ChangeDetector`.

    `fit` splits a first batch in two. The model learns from one half and is then fixed. Its log
    densities at the m rows of the other half divide the line into m + 1 spacings, which are merged
    into bins of aₖ adjacent spacings. If that half and all later rows are exchangeable, the next
    row falls into each spacing with equal probability, for any distribution of the rows and
    however wrong the model is: bin k has the probability

        p₀(k) = (aₖ + nₖ) / (m + 1 + n)

    after n later rows, nₖ of them in bin k. This is exact, so E[number of batches] ≥ 1 / rate up
    to the first alarm holds for every distribution. Restarted copies have a Dirichlet(½, …, ½)
    prior instead and add no cost: a batch takes one pass of the fixed model over its rows. Only
    changes in how probable the rows are can be detected. After an alarm, call `fit` again: the new
    segment would be a restarted copy, without the exact guarantee and blind to differences among
    rows that the fixed model finds improbable.

    Attributes:
        scorer: the fixed model.
        edges: increasing log densities between bins, in nats.
        prior: parameters of the Dirichlet: the spacings in each bin, or ½ each.
        counts: later rows in each bin.
        alone: a context manager, in which no other thread changes this object or its copies.
        num_fitted: rows of the batch given to `fit`.

    Example:
        >>> histogram = DensityHistogram.fit(ev.Online(model), batches[0])  # doctest: +SKIP
        >>> detector = ev.ChangeDetector(histogram, false_alarm_rate=1e-3)  # doctest: +SKIP
        >>> alarms = [detector.update(batch).alarm for batch in batches[1:]]  # doctest: +SKIP

    Source: the ranks are those of conformal prediction, Vovk, Gammerman, Shafer (2005), chapter 7;
    as an e-detector, Shin, Ramdas, Rinaldo (2022).
    """

    def __init__(
        self,
        scorer: OnlineLike,
        edges: Float[ndarray, " edges"],
        prior: Float[ndarray, " bins"] | None = None,
        num_fitted: int = 0,
        seed: int = 0,
    ):
        self.alone: OneAtATime = OneAtATime()
        self.scorer: OnlineLike = scorer
        self.edges: Float[ndarray, " edges"] = np.asarray(edges, np.float64)
        self.num_fitted: int = num_fitted
        self.seed: int = seed
        even = np.full(len(edges) + 1, 0.5)
        self.prior: Float[ndarray, " bins"] = even if prior is None else np.asarray(prior, np.float64)
        self.counts: Int[ndarray, " bins"] = np.zeros(len(edges) + 1, np.int64)
        self.log_evidence: float = 0.0
        self.standard_error: float = 0.0
        # The last batch's content and counts, shared by all copies; the counts last added here.
        self._shared: list[Any] = [None, None]
        self._taken: Int[ndarray, " bins"] | None = None
        self._generator = np.random.default_rng(seed)

    @classmethod
    def fit(cls, online: OnlineLike, batch: Any, num_bins: int = 20, seed: int = 0) -> DensityHistogram:
        """Fit the model to every second row of a batch, and place the bins with the others.

        Args:
            online: the model; a copy is fitted, and `online` is unchanged.
            batch: rows from before any change: an array, a tuple or a mapping of arrays.
            num_bins: number of bins, at least two and at most the rows that place them.
            seed: of the copy, and of the noise of 10⁻⁹ nats that separates equal densities.

        Raises:
            ConfigurationError: too few rows for the number of bins.
        """
        check_count("num_bins", num_bins, 2)
        learning, placing = (jax.tree.map(itemgetter(slice(start, None, 2)), batch) for start in (0, 1))
        scorer = online.restarted(seed)
        scorer.update(learning)
        histogram = cls(scorer, np.empty(0), seed=seed)
        scores = np.sort(histogram._scores(placing))
        if len(scores) < num_bins:
            raise ConfigurationError(
                f"batch must have at least {2 * num_bins} rows for {num_bins} bins; half of the batch has {len(scores)}."
            )
        places = np.unique(np.linspace(0, len(scores), num_bins + 1).astype(int)[1:-1])
        # There are j - i spacings between the edges at the sorted scores i and j.
        prior = np.diff(np.concatenate([[0], places, [len(scores) + 1]]))
        return cls(scorer, scores[places - 1], prior, len(jax.tree.leaves(batch)[0]), seed)

    @property
    def num_observations(self) -> int:
        """Rows seen, including those of the batch given to `fit`."""
        return self.num_fitted + int(self.counts.sum())

    def update(self, batch: Any) -> OnlineUpdate:
        """Add a batch to the counts; the result is exact."""
        with self.alone:
            return self._updated(batch)

    def _updated(self, batch: Any) -> OnlineUpdate:
        counts = self._counts_of(batch)
        after = self.counts + counts
        log_predictive = _log_normaliser(self.prior + after) - _log_normaliser(self.prior + self.counts)
        self.counts = after
        self.log_evidence += log_predictive
        counted = self.num_observations, int(counts.sum()), log_predictive, self.log_evidence
        return OnlineUpdate(*counted, standard_error=0.0, num_annealing_steps=0, seconds=0.0)

    def restarted(self, seed: int = 0) -> DensityHistogram:
        """A copy with the same fixed model and bins, a Dirichlet(½, …, ½) prior and no rows."""
        copy = DensityHistogram(self.scorer, self.edges, seed=self.seed)
        copy._shared, copy._generator, copy.alone = self._shared, self._generator, self.alone
        return copy

    @property
    def state(self) -> tuple[Any, ...]:
        """A snapshot after the batches so far, which updates do not modify; see `restore`."""
        return self.counts, self.log_evidence, self._taken

    def restore(self, state: tuple[Any, ...]) -> None:
        """Return to an earlier `state` of this object, undoing the batches since."""
        self.counts, self.log_evidence, self._taken = state

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """Log probability of each row's bin, in nats."""
        return np.log(self._shares)[np.searchsorted(self.edges, self._scores(batch))]

    @property
    def posterior(self) -> dict[str, ndarray]:
        """The mean probability of each bin, as a single particle."""
        return {"probabilities": self._shares[None]}

    @property
    def weighted(self) -> Weighted:
        """The same with its weight."""
        return evenly_weighted(self.posterior, 1)

    @property
    def _shares(self) -> Float[ndarray, " bins"]:
        return (self.prior + self.counts) / (self.prior + self.counts).sum()

    def _scores(self, batch: Any) -> Float[ndarray, " rows"]:
        densities = np.asarray(self.scorer.log_predictive(batch), np.float64)
        return densities + 1e-9 * self._generator.random(len(densities))

    def _counts_of(self, batch: Any) -> Int[ndarray, " bins"]:
        """Count the rows of a batch in each bin; all copies share one pass and tie-breaking."""
        # Compare content, as an array may have been refilled. If these counts were already added
        # here, this is a new batch with the same content.
        content = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(batch)]
        if self._shared[0] != content or self._shared[1] is self._taken:
            bins = np.searchsorted(self.edges, self._scores(batch))
            self._shared[:] = content, np.bincount(bins, minlength=len(self.counts))
        self._taken = self._shared[1]
        return self._shared[1]


def _log_normaliser(parameters: Float[ndarray, " bins"]) -> float:
    """Of a Dirichlet density; a difference of two is the log probability of a sequence of bins."""
    return float(gammaln(parameters).sum() - gammaln(parameters.sum()))
