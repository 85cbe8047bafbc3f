"""A run of a method over arrays in memory, on many devices or on a cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia import weights
from evidentia.cluster.rows import PartitionedRows
from evidentia.display.progress import Update
from evidentia.errors import EvidentiaError, check_memory
from evidentia.estimation.inner_error import InnerError, inner_error, with_rule
from evidentia.evidence.float32 import signs_of_edge, signs_of_precision, signs_of_rounding
from evidentia.evidence.method import Diagnosis, Estimate, Method, Snapshot
from evidentia.evidence.population.importance import MIN_ESS
from evidentia.evidence.population.warning_signs import MAX_DIFFERENCE
from evidentia.model.bound import BoundModel
from evidentia.model.hierarchy import NUM_DRAWS, with_recentred_effects
from evidentia.posterior.rows import Window
from evidentia.posterior.units import Units
from evidentia.results.made import make_evidence
from evidentia.results.result import Evidence
from evidentia.trajectory import trajectory_of


def _check_memory(method: Method, bound: BoundModel) -> None:
    """Raise ConfigurationError if the particles alone exceed the memory of the machine."""
    size = method.num_particles * bound.num_parameters * 4  # float32
    check_memory(f"num_particles={method.num_particles:,}", "positions", size)


def _is_good(evidence: Evidence | None) -> bool:
    """Whether a run has no signs, and enough of its redrawn particles, if any, are effective."""
    if evidence is None or evidence.signs:
        return False
    return float(evidence.diagnostics.get("effective_draws", 1.0)) >= MIN_ESS


def is_better(second: Evidence | None, first: Evidence | None) -> bool:
    """Whether the second of two runs in different coordinates is the one to believe.

    It has fewer signs, or as many and a smaller standard error. But it may not have less evidence
    than the first by `MAX_DIFFERENCE` joint standard errors: a run that misses a part of the
    posterior has less, and may miss it without a sign where the first had one.
    """
    if first is None or second is None or not math.isfinite(second.standard_error):
        return second is not None and first is None
    joint = math.hypot(first.standard_error, second.standard_error)
    if second.log_evidence < first.log_evidence - MAX_DIFFERENCE * joint:
        return False
    return (len(second.signs), second.standard_error) < (len(first.signs), first.standard_error)


class ArrayRun:
    """A run over arrays in memory, on many devices or on a cluster."""

    def __init__(
        self,
        bound: BoundModel,
        rows: Window | PartitionedRows,
        known: Mapping[str, str],
        seed: int,
        started: float,
        method: Method,
        *,
        units: Units | None = None,
    ):
        _check_memory(method, bound)
        self._why_whole = None if units is None else units.reason
        self._rows_per_unit = 1.0 if units is None else units.num_rows / rows.size
        self._bound, self._rows, self._fingerprints, self._seed = bound, rows, known, seed
        self._started, self._method = started, method
        self._history: list[Update] = []
        self._last: Snapshot | None = None  # the latest with observations
        self._latest: Update | None = None
        self._inner: tuple[Snapshot, InnerError | None] | None = None  # known for this snapshot
        self._before: Evidence | None = None  # of the run that is repeated
        self._found: tuple[Snapshot, bool, Evidence] | None = None  # and whether it is the end

    def updates(self) -> Iterator[Update]:
        """Yield an update per snapshot; the trajectory keeps the latest per number of rows.

        The run is repeated if local variables need a better rule, and if it left doubts that other
        coordinates of effects may remove; of these two the better one counts.
        """
        yield from self._updates()
        if (better := self._better_bound()) is not None:
            yield from self._again(better)
        if (recentred := self._recentred()) is not None:
            first, known = self.evidence(completed=True), (self._bound, self._history, self._last)
            with suppress(EvidentiaError):  # the first run has a result
                yield from self._again(recentred)
            if not is_better(self.evidence(completed=True), first):
                self._bound, self._history, self._last = known
        if self._bound.evaluations is not None:
            self._bound.evaluations.check_repeats()

    def _again(self, bound: BoundModel) -> Iterator[Update]:
        """The run with another form of the model; stopped, it leaves the result so far."""
        self._before = self.evidence(completed=False)
        self._bound, self._history, self._last = bound, [], None
        yield from self._updates()

    def _updates(self) -> Iterator[Update]:
        num_steps, rows = 0, self._rows
        for snapshot in self._heard(self._method.run(self._bound, rows, jax.random.key(self._seed))):  # type: ignore[arg-type]
            num_steps += snapshot.num_steps
            found = snapshot.estimate or Estimate(math.nan, math.nan)
            self._latest = update = Update(
                self._num_rows(snapshot.num_observations),
                self._num_rows(self._rows.size),
                found.log_evidence,
                found.standard_error,
                num_steps,
                time.perf_counter() - self._started,
                snapshot.share_done,
            )
            if snapshot.num_observations:
                if self._history and self._history[-1].num_observations == update.num_observations:
                    self._history.pop()
                self._history.append(update)
                self._last = snapshot
            yield update

    def _heard(self, snapshots: Iterator[Snapshot]) -> Iterator[Snapshot]:
        """The snapshots until a likelihood outside JAX was asked to stop; it returns NaN since."""
        evaluations = self._bound.evaluations
        try:
            for snapshot in snapshots:
                if evaluations is not None:
                    evaluations.raise_stop()
                yield snapshot
        except EvidentiaError:
            if evaluations is not None:
                evaluations.raise_stop()
            raise

    def evidence(self, *, completed: bool) -> Evidence | None:
        """The result of the last snapshot with an estimate; the first, if a repetition stopped."""
        if self._before is not None and not completed:
            return self._before
        if self._last is None or self._last.estimate is None:
            return None
        if self._found is None or self._found[0] is not self._last or self._found[1] != completed:
            self._found = self._last, completed, self._made(self._last, self._last.estimate, completed)
        return self._found[2]

    def _made(self, snapshot: Snapshot, last: Estimate, completed: bool) -> Evidence:
        diagnosis = snapshot.diagnose()
        if inner := self._inner_error():
            last = last._replace(raw=last.raw + inner.shift, variance=last.variance + inner.variance)
            diagnosis = Diagnosis(
                {**diagnosis.measured, "inner_shift": inner.shift, "inner_rule": inner.level},
                {**diagnosis.signs, **inner.signs},
            )
            self._history[-1] = replace(
                self._history[-1], log_evidence=last.log_evidence, standard_error=last.standard_error
            )
        if isinstance(self._rows, Window):
            seen = self._rows.part(0, snapshot.num_observations)
            edge = signs_of_edge(self._bound, seen, last.log_evidence, self._seed)
            rounded = signs_of_rounding(self._bound, snapshot.positions, snapshot.log_weights)
            precise = signs_of_precision(self._bound, last.log_evidence)
            diagnosis = diagnosis._replace(signs={**diagnosis.signs, **edge, **rounded, **precise})
        if self._bound.evaluations is not None:
            diagnosis = diagnosis._replace(signs={**self._bound.evaluations.signs, **diagnosis.signs})
        found = make_evidence(
            self._bound,
            self._method,
            self._seed,
            last,
            (snapshot.positions, snapshot.log_weights),
            trajectory_of(self._history),
            diagnosis,
            seconds=self._history[-1].seconds,
            completed=completed,
            fingerprints=self._fingerprints if snapshot.num_observations == self._rows.size else {},
            known=self._known(snapshot.positions),
        )
        more: dict[str, Any] = {}
        if self._why_whole is not None:
            more["trajectory"] = f"none over rows: {self._why_whole}"
        if self._bound.evaluations is not None:
            more["num_evaluations"] = self._bound.evaluations.num_evaluations
        return replace(found, diagnostics={**found.diagnostics, **more}) if more else found

    def _known(self, positions: Any) -> dict[str, np.ndarray]:
        """The log-likelihood at each particle, of a function outside JAX, which remembers it."""
        evaluations, rows = self._bound.evaluations, self._rows
        if evaluations is None or evaluations.failure is not None or not isinstance(rows, Window):
            return {}
        deviations, offset = rows.log_likelihoods(self._bound, positions)
        return {"log_likelihood": deviations + offset}

    def _inner_error(self) -> InnerError | None:
        assert self._last is not None
        if self._inner is None or self._inner[0] is not self._last:
            rows: Any = self._rows  # of any kind
            found = inner_error(self._bound, rows, self._last.positions, self._last.log_weights)
            self._inner = self._last, found
        return self._inner[1]

    def _better_bound(self) -> BoundModel | None:
        """The model with the rule for local variables that is needed; None if its own is fine.

        Workers of a cluster bind the model themselves, by the first rule.
        """
        if self._last is None or self._last.estimate is None or isinstance(self._rows, PartitionedRows):
            return None
        found = self._inner_error()
        return None if found is None or found.better is None else with_rule(self._bound, found.better)

    def _recentred(self) -> BoundModel | None:
        """The model with effects in other coordinates; None without effects, or without doubts."""
        rows, last = self._rows, self._last
        if last is None or last.estimate is None or self._bound.evaluations is not None:
            return None
        if not isinstance(rows, Window) or rows.shards is not None:
            return None
        shares = np.exp(weights.normalise(last.log_weights))
        if _is_good(self.evidence(completed=True)) or not np.isfinite(shares).all():
            return None
        chosen = np.random.default_rng(0).choice(len(shares), NUM_DRAWS, p=shares / shares.sum())
        arrays = jax.tree.map(lambda leaf: leaf[rows.start : rows.stop], rows.arrays)
        with suppress(MemoryError, jax.errors.JaxRuntimeError):  # of derivatives by all rows
            return with_recentred_effects(self._bound, arrays, jnp.asarray(last.positions)[chosen])

    def _num_rows(self, units: int) -> int:
        return round(units * self._rows_per_unit)  # packs of groups count as of mean size

    def unfinished(self) -> str:
        """What a run lacks that was stopped before its first result, and what to do."""
        begun = f"{type(self._method).__name__}() had a log evidence: it was"
        latest = self._latest
        if latest is None:
            return (
                f"{begun} in its first step, which includes compilation. Allow more seconds; ev.use_compilation_cache keeps "
                "compiled programs for later processes."
            )
        return (
            f"{begun} at step {latest.num_annealing_steps:,}, with {100 * latest.share:.0f}% of the work done. Allow more "
            "seconds, or use fewer particles."
        )

    def stopped(self) -> str:
        """A sentence with the number of rows, or of steps if the method uses all rows at once."""
        if self._before is not None:
            return (
                "stopped when the run was repeated, in a better form of the model; the result is that before."
            )
        last = self._history[-1]
        if last.share_done is None:
            return stopped_after(last.num_observations, last.total_observations)
        return f"stopped after {last.num_annealing_steps} steps; the result is the estimate at that point."


def stopped_after(num_observations: int, total: int | None) -> str:
    """A sentence with the number of rows used."""
    of_total = "" if total is None else f" of {total}"
    return f"stopped after {num_observations}{of_total} observations; the result is for those."
