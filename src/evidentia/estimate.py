"""`estimate`: one call from a model and data to the log evidence. A thin shell around a method's init and update."""

import math
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from evidentia import weights
from evidentia.errors import (
    ConfigurationError,
    DiagnosticWarning,
    EstimationError,
    EvidenceWarning,
    ModelError,
)
from evidentia.evidence import SGAIS
from evidentia.evidence.sgais import SGAISInfo, SGAISState
from evidentia.model import BoundModel, Model
from evidentia.progress import Update, progress_bar
from evidentia.result import Evidence, Trajectory
from evidentia.rows import Rows
from evidentia.stream.arrays import as_arrays, next_chunk, num_rows, on_device

MAX_PARTICLES = 65_536  # that `target_standard_error` may take


def estimate(
    model: Model,
    data: Any,
    *,
    method: SGAIS | None = None,
    seed: int = 0,
    target_standard_error: float | None = None,
    progress: bool | Callable[[Update], None] = False,
) -> Evidence:
    """Estimate the log evidence log p(data) of a model, in nats.

    Args:
        model: a prior and a pointwise log-likelihood.
        data: one array, a tuple, or a mapping of arrays, all with observations on the leading axis (NumPy, JAX, pandas,
            Polars, Arrow). The built-in regressions take `{"x": (n, features), "y": (n,)}`.
        method: the estimator's configuration; `SGAIS()` if not given.
        seed: the same seed gives the same numbers on the same machine.
        target_standard_error: in nats. If a run's standard error is larger, another follows with as many more particles
            as that takes, up to `MAX_PARTICLES`; where that is not enough an EvidenceWarning says so.
        progress: True for a bar on standard error, or a function that is called with an `Update` after each chunk.

    Returns:
        The log evidence with its standard error, its trajectory over the data, and the posterior. After Ctrl-C, the
        result for the rows taken in so far, with `completed=False`.

    Raises:
        DataError, ModelError: what cannot be used, and what is needed instead.
        ConfigurationError: a method or seed that is none.
        EstimationError: the log-likelihood is NaN at a particle, or -inf at all; its `evidence` holds the result for
            the rows before.

    Example:
        >>> model = ev.models.linear_regression(num_features=2)  # doctest: +SKIP
        >>> evidence = ev.estimate(model, {"x": x, "y": y})  # doctest: +SKIP
    """
    method = SGAIS() if method is None else method
    if not isinstance(model, Model):
        raise ModelError(
            f"model must be an evidentia.Model; got {type(model).__name__}. See Model.from_numpyro."
        )
    if not isinstance(method, SGAIS):
        raise ConfigurationError(f"method must be a configuration such as SGAIS(); got {method!r}.")
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ConfigurationError(f"seed must be an integer from 0 to 2**32 - 1; got {seed!r}.")
    if target_standard_error is not None and not target_standard_error > 0:
        raise ConfigurationError(f"target_standard_error must be positive; got {target_standard_error}.")
    started = time.perf_counter()
    arrays = as_arrays(data)
    if model.check_data is not None:
        model.check_data(arrays)
    bound = model.bind(arrays)
    arrays = on_device(arrays)
    with _reporter(progress, bound.name) as report:
        evidence = _run(bound, arrays, method, int(seed), report, started)
        while evidence.completed and (more := _more_particles(evidence, target_standard_error)):
            method = replace(method, num_particles=more)
            evidence = _run(bound, arrays, method, int(seed), report, started)
    if target_standard_error is not None and evidence.standard_error > target_standard_error:
        warnings.warn(
            f"the standard error is {evidence.standard_error:.2g} nats with {method.num_particles:,} particles; "
            f"target_standard_error={target_standard_error:g} was not reached.",
            EvidenceWarning,
            stacklevel=2,
        )
    return evidence


def _more_particles(evidence: Evidence, target: float | None) -> int | None:
    """How many particles would bring the standard error, which falls as their root, to the target; None if no more."""
    if target is None or evidence.standard_error <= target:
        return None
    wanted = math.ceil(1.2 * evidence.method.num_particles * (evidence.standard_error / target) ** 2)
    return min(wanted, MAX_PARTICLES) if evidence.method.num_particles < MAX_PARTICLES else None


def _run(bound: BoundModel, arrays: Any, method: SGAIS, seed: int, report, started: float) -> Evidence:
    """One pass over the data. After Ctrl-C, or in an EstimationError, the evidence of the rows taken in so far."""
    state = method.init(bound, jax.random.key(seed))
    run = _Run(bound, arrays, method, seed, [], [])
    try:
        while state.num_observations < num_rows(arrays):
            past, chunk = next_chunk(
                arrays,
                state.num_observations,
                method.next_chunk_size(state),
                round_above=max(state.num_observations, state.tried_at) if method.chunk_growth > 0 else None,
            )
            is_last = chunk.stop == num_rows(arrays)
            state, info = method.update(bound, state, past, chunk, is_last=is_last)
            if state.num_observations > past.size:
                run.add(state, info, time.perf_counter() - started)
                report(run.updates[-1])
    except KeyboardInterrupt:
        if not run.updates:
            raise
        message = f"stopped after {state.num_observations} of {num_rows(arrays)} observations"
        warnings.warn(f"{message}; the result is for those.", EvidenceWarning, stacklevel=3)
        return run.evidence(state, completed=False)
    except EstimationError as error:
        if run.updates:
            error.evidence = run.evidence(state, completed=False)
        raise
    return run.evidence(state, completed=True)


def _reporter(
    progress: bool | Callable[[Update], None], name: str
) -> AbstractContextManager[Callable[[Update], None]]:
    if callable(progress):
        return nullcontext(progress)
    return progress_bar(name) if progress else nullcontext(lambda update: None)


@dataclass(frozen=True)
class _Run:
    """What a run leaves behind, update by update."""

    bound: BoundModel
    arrays: Any
    method: SGAIS
    seed: int
    updates: list[Update]
    infos: list[SGAISInfo]

    def add(self, state: SGAISState, info: SGAISInfo, seconds: float) -> None:
        log_evidence, standard_error = self.method.summary(state)
        steps = len(info.steps) + (self.updates[-1].num_annealing_steps if self.updates else 0)
        total = num_rows(self.arrays)
        self.updates.append(
            Update(state.num_observations, total, log_evidence, standard_error, steps, seconds)
        )
        self.infos.append(info)

    def evidence(self, state: SGAISState, *, completed: bool) -> Evidence:
        columns = {
            name: np.array([asdict(update)[name] for update in self.updates])
            for name in asdict(self.updates[0])
        }
        trajectory = Trajectory(
            num_observations=columns["num_observations"],
            log_evidence=columns["log_evidence"],
            standard_error=columns["standard_error"],
            num_annealing_steps=np.diff(columns["num_annealing_steps"], prepend=0),
            seconds=columns["seconds"],
        )
        last = self.updates[-1]
        rows = Rows(self.arrays, 0, state.num_observations)
        diagnostics, signs = self.method.diagnose(self.bound, state, rows, self.infos)
        for sentence in signs.values():
            warnings.warn(f"{self.bound.name}: {sentence}", DiagnosticWarning, stacklevel=4)
        params = self.bound.constrain(state.population.positions)
        return Evidence(
            log_evidence=last.log_evidence,
            standard_error=last.standard_error,
            num_observations=last.num_observations,
            trajectory=trajectory,
            posterior={name: np.asarray(values) for name, values in params.items()},
            log_weights=weights.normalise(state.population.log_weights),
            method=self.method,
            model_name=self.bound.name,
            seed=self.seed,
            seconds=last.seconds,
            completed=completed,
            diagnostics={**diagnostics, **self._shares(last), "warnings": "; ".join(signs)},
        )

    def _shares(self, last: Update) -> dict[str, float]:
        """Which part of the squared standard error stems from where."""
        refreshed = [
            update for update, info in zip(self.updates, self.infos, strict=True) if info.is_refreshed
        ]
        start, name = (refreshed[-1], "last_refresh") if refreshed else (self.updates[0], "first_chunk")
        share = min(1.0, start.standard_error**2 / last.standard_error**2) if last.standard_error else 1.0
        return {f"variance_share_{name}": share, "variance_share_later_chunks": 1.0 - share}
