"""`Online`: evidence of a stream in constant memory and time, a shell around `online.state`."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.data.arrays import checked_batch
from evidentia.data.digits import Digits
from evidentia.errors import (
    CheckpointError,
    ConfigurationError,
    DiagnosticWarning,
    ModelError,
    check_count,
    check_seed,
    kind_of,
    warn,
)
from evidentia.evidence.sequential import Sequential
from evidentia.evidence.sgais import SGAIS
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.online import state as states
from evidentia.online.fingerprint import bind_as_saved, fingerprint, known_of
from evidentia.online.packed import RECORDS, check_storable, checked
from evidentia.online.pasts import begun
from evidentia.online.prefix import of_segments
from evidentia.online.state import OnlineState, OnlineUpdate, StreamMethod
from evidentia.results.made import make_evidence
from evidentia.results.predicting import of_model
from evidentia.results.result import Evidence
from evidentia.results.weighted import Weighted
from evidentia.system.sharing import OneAtATime, check_not_forked

MIN_RESERVOIR = 500  # rows; a smaller sample does not show the shape of the likelihood


class Online:
    """The log evidence of a stream after every batch, in constant memory and time per batch.

    Past rows are kept only in a uniform reservoir. While it holds every row, the estimate is that
    of data in memory; after that, running sums over the whole stream account for the rows left
    out, to third order about the posterior (`online.past`), or weighted nodes, where that fails
    (`online.squashed`). Of a sequence all rows are kept
    (`online.prefix`), and of groups what their rows tell (`online.returning`).

    Threads may share it: batches are processed one at a time, and all count.

    Attributes:
        model, method, seed, reservoir_size: as given.
        alone: a context manager, in which no other thread changes this object.

    Args:
        model: a prior and a pointwise log-likelihood.
        method: a configuration of a method that never revisits all rows: `SGAIS`, by default
            `SGAIS()`, `Sequential` or `OnlineNestedSampling`. A chunk of the last two never spans
            two batches, so that small batches cost them time, and the first one accuracy.
        seed: the same seed and batches give the same numbers on the same machine.
        reservoir_size: number of rows kept, at least 500. More rows reduce the sampling error,
            which by default is far below the standard error of the particles.

    Raises:
        ModelError, ConfigurationError: an argument is invalid.

    Example:
        >>> online = ev.Online(model, seed=0)  # doctest: +SKIP
        >>> for batch in batches:  # doctest: +SKIP
        ...     update = online.update(batch)
        ...     print(update.num_observations, update.log_evidence, update.log_predictive)

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Algorithm 1 (the evidence, batch
    by batch), and Proceedings 33(1), 18, section 7 (streams, by the sequential estimator); Cameron
    (2020), MSc thesis, section 4.3 (by nested sampling).
    """

    def __init__(
        self,
        model: Model,
        method: StreamMethod | None = None,
        *,
        seed: int = 0,
        reservoir_size: int = 100_000,
    ):
        if not isinstance(model, Model):
            raise ModelError(
                f"model must be an evidentia.Model; got {kind_of(model)}. See Model.from_numpyro."
            )
        method = SGAIS() if method is None else method
        if not isinstance(method, StreamMethod):
            raise ConfigurationError(
                "method must be a configuration of SGAIS, Sequential or OnlineNestedSampling, which never revisit all rows; got "
                f"{method!r}. Other methods need data in memory: see estimate."
            )
        check_seed(seed)
        check_count("reservoir_size", reservoir_size, MIN_RESERVOIR)
        if isinstance(method, Sequential) and method.initial_rows > reservoir_size:
            raise ConfigurationError(
                f"reservoir_size must be at least the method's initial_rows, {method.initial_rows:,}, which are used together; got "
                f"{reservoir_size:,}."
            )
        self.model: Model = model
        self.method: StreamMethod = method
        self.seed: int = int(seed)
        self.reservoir_size: int = reservoir_size
        self.alone: OneAtATime = OneAtATime()
        self._bound: BoundModel | None = None
        self._state: OnlineState | None = None
        self._digits = Digits()

    def update(self, batch: Any) -> OnlineUpdate:
        """Process a batch of one or more rows, in the same structure as the data of `estimate`.

        Raises:
            DataError: the batch is empty, has values that are not finite numbers, or differs from
                the first batch in columns or types.
            EstimationError: the log-likelihood is NaN or +inf at a particle, or -inf at all.
            ModelError: the model cannot be bound to the first batch.
            ConfigurationError: the reservoir exceeds the memory.

        After an error the state is as it was before the batch.
        """
        with self.alone:
            arrays = self._checked(batch)
            bound, state = self._bound, self._state
            if bound is None or state is None:
                bound, past = begun(self.model, arrays, self.reservoir_size, self.seed)
                state = states.init(bound, self.method, past, self.seed)
            state, update = states.take_in_batch(bound, self.method, state, arrays)
            self._bound, self._state = bound, state
        return update

    def redraw(self) -> None:
        """Redraw the particles by importance sampling from the past if that lowers the variance.

        With `SGAIS(refresh=True)` this happens at round numbers of rows (100, 200, 500, 1,000,
        2,000, …); call it at the end of a stream. Other methods keep their particles. Raises
        ConfigurationError before the first batch.
        """
        with self.alone:
            bound, state = self._started()
            self._state = states.redraw(bound, self.method, state)

    def log_predictive(self, batch: Any) -> Float[np.ndarray, " rows"]:
        """log p(row | rows seen) of each row of a batch, in nats, float64.

        The batch is not processed. Raises DataError for an invalid batch, and ConfigurationError
        before the first batch.
        """
        arrays, (bound, state) = self._checked(batch), self._started()
        particles = state.path.population
        return state.past.log_predictives(bound, particles.positions, particles.log_weights, arrays)

    def evidence(self) -> Evidence:
        """The result so far, as `estimate` returns it.

        Each of its `signs` is issued as a DiagnosticWarning. Its trajectory has the updates at
        round numbers of rows and the last one. Raises ConfigurationError before the first batch.
        """
        found = self.result()
        warn(found.signs.values(), DiagnosticWarning)
        return found

    def result(self) -> Evidence:
        """The result of `evidence`, without warnings."""
        bound, state = self._started()
        population = state.path.population
        found = make_evidence(
            bound,
            self.method,
            self.seed,
            states.estimate(self.method, state),
            (population.positions, population.log_weights),
            states.trajectory(self.method, state),
            states.diagnose(bound, self.method, state),
            seconds=state.seconds,
            completed=True,
            fingerprints={},
        )
        return replace(found, _predictor=of_model(self.model))

    @property
    def num_observations(self) -> int:
        """Rows seen so far."""
        return 0 if self._state is None else self._state.path.num_observations

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen, in nats; zero before the first batch."""
        return 0.0 if self._state is None else states.estimate(self.method, self._state).log_evidence

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`, in nats."""
        return 0.0 if self._state is None else states.estimate(self.method, self._state).standard_error

    @property
    def weighted(self) -> Weighted:
        """The particles: constrained parameters by name, with `log_weights`."""
        bound, state = self._started()
        population = state.path.population
        params = {name: np.asarray(one) for name, one in bound.constrain(population.positions).items()}
        return Weighted(params, weights.normalise(population.log_weights))

    @property
    def posterior(self) -> dict[str, np.ndarray]:
        """Equally weighted draws of the parameters by name, resampled with the seed."""
        return self.weighted.draws(self.seed)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, from which `load` continues bit for bit as this object would.

        The file is complete at any time: it is written beside the previous one, which stays as
        `checkpoint.previous`, and renamed. The folder may be a URL, where one object is replaced.

        Raises CheckpointError, and leaves the previous one unchanged, if the disk is full, another
        process writes there, or the method has a kernel of your own.
        """
        with CheckpointFolder(folder) as checkpoints:
            checkpoints.write(
                self.packed(), {"num_observations": self.num_observations, "model": self.model.name}
            )

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> "Online":
        """Load a saved object, given the same model, since functions are not written to files.

        Raises CheckpointError if there is no checkpoint, the file is damaged, or the model is
        different.
        """
        content, _ = read(folder, RECORDS)
        if not isinstance(content, dict) or "method" not in content:
            raise CheckpointError(
                f"folder must be one that Online.save wrote; {folder} holds something else."
            )
        return cls.unpacked(cast("dict[str, Any]", content), model)

    @property
    def state(self) -> OnlineState | None:
        """The immutable state so far, for `restore`; None before the first batch."""
        return self._state

    def restore(self, state: OnlineState | None) -> None:
        """Return to an earlier `state` of this object and discard the batches after it."""
        with self.alone:
            self._state = state

    def packed(self) -> dict[str, Any]:
        """This object without the model's functions, for a custom checkpoint.

        Raises CheckpointError if the method has a kernel or gradient that evidentia does not know.
        """
        check_storable(self.method)
        names = "method", "seed", "reservoir_size"
        kept = {name: getattr(self, name) for name in names}
        state, bound, known = self._state, self._bound, None  # another thread may update meanwhile
        if state is not None and bound is not None:
            check_not_forked()
            known = fingerprint(bound, known_of(state))
        return {**kept, "state": state, "fingerprint": known}

    @classmethod
    def unpacked(cls, content: dict[str, Any], model: Model) -> "Online":
        """Rebuild a packed object. Raises CheckpointError if damaged or of another model."""
        packed = checked(content)
        online = cls(model, packed.method, seed=packed.seed, reservoir_size=packed.reservoir_size)
        if packed.state is not None and packed.fingerprint is not None:
            online._bound = bind_as_saved(packed.fingerprint, of_segments(model), known_of(packed.state))
            online._state = packed.state
        return online

    def restarted(self, seed: int | None = None) -> "Online":
        """A new object with the same model and method, before any batch."""
        seed = self.seed if seed is None else seed
        return Online(self.model, self.method, seed=seed, reservoir_size=self.reservoir_size)

    def __repr__(self) -> str:
        return f"Online({self.model!r}, {self.num_observations:,} observations)"

    def _started(self) -> tuple[BoundModel, OnlineState]:
        check_not_forked()
        bound, state = self._bound, self._state
        if state is None or bound is None:
            raise ConfigurationError("no batch has been processed yet: call update first.")
        return bound, state

    def _checked(self, batch: Any) -> Any:
        check_not_forked()
        check, first = self.model.check_data, None
        if self._state is not None:
            past = self._state.past
            check, first = partial(past.check, self.model.check_data), past.example
        return checked_batch(batch, "batch", check, first, self._digits, self.model.missing)
