"""`estimate`: one call from a model and data to the log evidence. A thin shell around a method's iterator."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from evidentia import weights
from evidentia.errors import (
    ConfigurationError,
    DiagnosticWarning,
    EstimationError,
    EvidenceWarning,
    EvidentiaError,
    ModelError,
)
from evidentia.evidence import SGAIS
from evidentia.evidence.estimator import Estimator, Snapshot
from evidentia.fields import check_seed
from evidentia.model import BoundModel, Model
from evidentia.progress import Update, reporter
from evidentia.result import Evidence, Trajectory
from evidentia.rows import Rows
from evidentia.source_estimate import STOPPED, estimate_source
from evidentia.stream.arrays import as_arrays, num_rows, on_device
from evidentia.stream.sources import Source

MAX_PARTICLES = 65_536  # that `target_standard_error` may take
TRAJECTORY = "num_observations", "log_evidence", "standard_error", "num_annealing_steps", "seconds"


def estimate(
    model: Model,
    data: Any,
    *,
    method: Estimator | None = None,
    seed: int = 0,
    target_standard_error: float | None = None,
    progress: bool | Callable[[Update], None] = False,
) -> Evidence:
    """Estimate the log evidence log p(data) of a model, in nats.

    Args:
        model: a prior and a pointwise log-likelihood.
        data: one array, a tuple, or a mapping of arrays, all with observations on the leading axis (NumPy, JAX, pandas,
            Polars, Arrow). The built-in regressions take `{"x": (n, features), "y": (n,)}`. Or a source, such as `read_parquet`
            gives: it is read once, row after row, by an `Online`, so that it may be larger than memory.
        method: the estimator's configuration; `SGAIS()` if not given, which is the one for a source.
        seed: the same seed gives the same numbers on the same machine.
        target_standard_error: in nats. If a run's standard error is larger, another follows with as many more particles
            as that takes, up to `MAX_PARTICLES`; where that is not enough an EvidenceWarning says so.
        progress: True for a bar on standard error, or a function that is called with an `Update` after each chunk, or after
            each step of a method that takes all rows at once.

    Returns:
        The log evidence with its standard error, its trajectory over the data, and the posterior. After Ctrl-C, with
        `completed=False`, the result for the rows taken in so far, or what a method that takes all rows at once knew by
        then. Where that is nothing, as on the way of `AIS`, the KeyboardInterrupt goes on.

    Raises:
        DataError, ModelError: what cannot be used, and what is needed instead.
        ConfigurationError: a method or seed that is none.
        EstimationError: the log-likelihood is NaN at a particle, or -inf at all. The `evidence` of an error half-way, be it
            of the data of a source, holds the result for the rows before.

    Example:
        >>> model = ev.models.linear_regression(num_features=2)  # doctest: +SKIP
        >>> evidence = ev.estimate(model, {"x": x, "y": y})  # doctest: +SKIP
    """
    chosen: Estimator = SGAIS() if method is None else method
    if not isinstance(model, Model):
        raise ModelError(
            f"model must be an evidentia.Model; got {type(model).__name__}. See Model.from_numpyro."
        )
    if isinstance(chosen, type) or not isinstance(chosen, Estimator):
        raise ConfigurationError(f"method must be a configuration such as SGAIS(); got {chosen!r}.")
    check_seed(seed)
    if target_standard_error is not None and not target_standard_error > 0:
        raise ConfigurationError(f"target_standard_error must be positive; got {target_standard_error}.")
    started = time.perf_counter()
    if isinstance(data, Source):
        run = partial(estimate_source, model, data)
    else:
        arrays = as_arrays(data)
        if model.check_data is not None:
            model.check_data(arrays)
        run = partial(_run, model.bind(arrays), Rows(on_device(arrays), 0, num_rows(arrays)))
    with reporter(progress, model.name) as report:
        evidence = run(chosen, int(seed), report, started)
        while evidence.completed and (more := _more_particles(evidence, target_standard_error)):
            try:
                evidence = run(replace(chosen, num_particles=more), int(seed), report, started)  # type: ignore[type-var]
            except KeyboardInterrupt:
                break  # with nothing that is newer
            except EvidentiaError as error:  # such as that of a source that can be read only once
                error.evidence = evidence
                raise
    if target_standard_error is not None and not evidence.standard_error <= target_standard_error:
        known = "not known" if math.isnan(evidence.standard_error) else f"{evidence.standard_error:.2g} nats"
        warnings.warn(
            f"the standard error is {known} with {evidence.method.num_particles:,} particles; "
            f"target_standard_error={target_standard_error:g} was not reached.",
            EvidenceWarning,
            stacklevel=2,
        )
    return evidence


def _more_particles(evidence: Evidence, target: float | None) -> int | None:
    """How many particles would bring the standard error, which falls as their root, to the target; None if no more."""
    if target is None or not evidence.standard_error > target:  # nor where it is not known
        return None
    wanted = math.ceil(1.2 * evidence.method.num_particles * (evidence.standard_error / target) ** 2)
    return min(wanted, MAX_PARTICLES) if evidence.method.num_particles < MAX_PARTICLES else None


def _run(bound: BoundModel, rows: Rows, method: Estimator, seed: int, report, started: float) -> Evidence:
    """One run of the method. After Ctrl-C, or in an EstimationError, the evidence of the last estimate."""
    run = _Run(bound, rows, method, seed)
    try:
        for snapshot in method.run(bound, rows, jax.random.key(seed)):
            report(run.add(snapshot, time.perf_counter() - started))
    except KeyboardInterrupt:
        if run.last is None:
            raise
        warnings.warn(run.stopped(), EvidenceWarning, stacklevel=3)
        return run.evidence(completed=False)
    except EstimationError as error:
        if run.last is not None:
            error.evidence = run.evidence(completed=False)
        raise
    return run.evidence(completed=True)


@dataclass
class _Run:
    """What a run leaves behind, update by update; `last` is the newest snapshot with an estimate."""

    bound: BoundModel
    rows: Rows
    method: Estimator
    seed: int
    updates: list[Update] = field(default_factory=list)
    last: Snapshot | None = None
    num_steps: int = 0

    def add(self, snapshot: Snapshot, seconds: float) -> Update:
        """Take in a snapshot. Of several estimates for the same rows the trajectory keeps the newest."""
        self.num_steps += snapshot.num_steps
        update = Update(
            snapshot.num_observations,
            self.rows.size,
            snapshot.log_evidence,
            snapshot.standard_error,
            self.num_steps,
            seconds,
            snapshot.share_done,
        )
        if snapshot.num_observations:
            if self.updates and self.updates[-1].num_observations == snapshot.num_observations:
                self.updates.pop()
            self.updates.append(update)
            self.last = snapshot
        return update

    def stopped(self) -> str:
        """Where the run was stopped, in words."""
        last = self.updates[-1]
        if last.share_done is None:
            return STOPPED.format(last.num_observations, f" of {last.total_observations}")
        return f"stopped after {last.num_annealing_steps} steps; the result is what was known by then."

    def evidence(self, *, completed: bool) -> Evidence:
        """The result, as of the last estimate."""
        assert self.last is not None
        last, columns = self.updates[-1], [asdict(update) for update in self.updates]
        trajectory = {name: np.array([column[name] for column in columns]) for name in TRAJECTORY}
        trajectory["num_annealing_steps"] = np.diff(trajectory["num_annealing_steps"], prepend=0)
        diagnosis = self.last.diagnose()
        for sentence in diagnosis.signs.values():
            warnings.warn(f"{self.bound.name}: {sentence}", DiagnosticWarning, stacklevel=4)
        params = self.bound.constrain(self.last.positions)
        return Evidence(
            log_evidence=last.log_evidence,
            standard_error=last.standard_error,
            num_observations=last.num_observations,
            trajectory=Trajectory(**trajectory),
            posterior={name: np.asarray(values) for name, values in params.items()},
            log_weights=weights.normalise(self.last.log_weights),
            method=self.method,
            model_name=self.bound.name,
            seed=self.seed,
            seconds=last.seconds,
            completed=completed,
            diagnostics={**diagnosis.measured, "warnings": "; ".join(diagnosis.signs)},
        )
