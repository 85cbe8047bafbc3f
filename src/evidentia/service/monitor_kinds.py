"""The three kinds of monitors: models side by side, changes of one model, run lengths.

All are fleets: a stream without keys has one key. A key that has not occurred before begins with
its first batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.checkpoint.packing import as_damaged
from evidentia.errors import EvidentiaError
from evidentia.model.model import Model
from evidentia.monitor.average import ModelAverage
from evidentia.monitor.average_records import AverageState
from evidentia.monitor.change_records import ChangeReport
from evidentia.monitor.run_lengths import RunLengths
from evidentia.online.state import OnlineUpdate
from evidentia.results.configurations import jsonable
from evidentia.service.batches import Batch
from evidentia.service.monitors import Outcome, arrays_of
from evidentia.service.settings import Changes, Columns
from evidentia.streams.change_fleet import ChangeDetectorFleet
from evidentia.streams.intake import Name
from evidentia.streams.online_fleet import OnlineFleet


class ModelsMonitor:
    """Models side by side: an `OnlineFleet` each, and a `ModelAverage` for every key.

    Args:
        models: by name.
        columns: of the models' data.
        forgetting: α of the averages.
        seed: of the fleets.
    """

    def __init__(
        self, models: Mapping[str, Model], columns: Columns | dict[str, Columns], forgetting: float, seed: int
    ):
        self.models = tuple(models)
        self._columns, self._forgetting = columns, forgetting
        self._fleets = {name: OnlineFleet(model, seed=seed) for name, model in models.items()}
        self._averages: dict[str, ModelAverage] = {}

    def update(self, batches: Mapping[str, Batch]) -> dict[str, Outcome | Exception]:
        """As `Monitor.update`: of a key, either every model processes the batch or none does."""
        arrays: dict[Name, Any] = {key: arrays_of(batch, self._columns) for key, batch in batches.items()}
        before = {
            name: {key: fleet[key].state for key in batches if key in fleet}
            for name, fleet in self._fleets.items()
        }
        steps = {name: fleet.update(arrays) for name, fleet in self._fleets.items()}
        found: dict[str, Outcome | Exception] = {}
        for key in batches:
            errors = [step.errors[key] for step in steps.values() if key in step.errors]
            if errors:
                self._return_to(key, before)
                found[key] = errors[0]
            else:
                found[key] = self._outcome(key, {name: step.results[key] for name, step in steps.items()})
        return found

    def forget(self, key: str) -> None:
        """As `Monitor.forget`."""
        for fleet in self._fleets.values():
            if key in fleet:
                del fleet[key]
        self._averages.pop(key, None)

    def packed(self) -> Any:
        """As `Monitor.packed`."""
        return {
            "fleets": {name: fleet.packed() for name, fleet in self._fleets.items()},
            "averages": {key: average.state for key, average in self._averages.items()},
        }

    def restore(self, content: Any) -> None:
        """As `Monitor.restore`."""
        with as_damaged():
            self._fleets = {
                name: OnlineFleet.unpacked(content["fleets"][name], fleet.model)
                for name, fleet in self._fleets.items()
            }
            self._averages = {
                key: self._average(key).resume(state) for key, state in content["averages"].items()
            }

    def _return_to(self, key: str, before: Mapping[str, Mapping[str, Any]]) -> None:
        for name, fleet in self._fleets.items():
            if key in before[name]:
                fleet[key].restore(before[name][key])
            elif key in fleet:
                del fleet[key]

    def _outcome(self, key: str, updates: Mapping[str, OnlineUpdate]) -> Outcome:
        if key not in self._averages:
            none = np.zeros(
                len(self.models)
            )  # the fleets have processed the first batch, the average has not
            self._averages[key] = self._average(key).resume(AverageState(0.0, none, none))
        found = self._averages[key].concluded(updates)
        return Outcome(
            found.num_observations,
            found.batch_size,
            found.log_predictive,
            {name: update.log_evidence for name, update in updates.items()},
            {name: update.standard_error for name, update in updates.items()},
            found.probabilities,
        )

    def _average(self, key: str) -> ModelAverage:
        streams = {name: fleet[key] for name, fleet in self._fleets.items()}
        return ModelAverage(streams, forgetting=self._forgetting)


class ChangesMonitor:
    """Changes of one model: a `ChangeDetectorFleet`.

    Args:
        name: of the model.
        model: of every key.
        settings: the arguments of the detectors.
        seed: of the fleet.
    """

    def __init__(self, name: str, model: Model, settings: Changes, seed: int):
        self.models = (name,)
        self._columns = settings.columns
        self._fleet = ChangeDetectorFleet(
            model,
            settings.false_alarm_rate,
            settings.on_change,
            settings.max_candidates,
            restart_every=settings.restart_every,
            tempering=settings.tempering,
            seed=seed,
        )

    def update(self, batches: Mapping[str, Batch]) -> dict[str, Outcome | Exception]:
        """As `Monitor.update`."""
        step = self._fleet.update({key: arrays_of(batch, self._columns) for key, batch in batches.items()})
        outcomes = {key: self._outcome(report) for key, report in step.results.items()}
        return {str(key): found for key, found in (outcomes | step.errors).items()}

    def forget(self, key: str) -> None:
        """As `Monitor.forget`."""
        if key in self._fleet:
            del self._fleet[key]

    def packed(self) -> Any:
        """As `Monitor.packed`."""
        return self._fleet.packed()

    def restore(self, content: Any) -> None:
        """As `Monitor.restore`."""
        self._fleet = ChangeDetectorFleet.unpacked(content, self._fleet.model)

    def _outcome(self, report: ChangeReport) -> Outcome:
        (name,), update = self.models, report.update
        alarms = () if report.alarm is None else (jsonable(report.alarm._asdict()),)
        return Outcome(
            report.num_observations,
            update.batch_size,
            update.log_predictive,
            {name: update.log_evidence},
            {name: update.standard_error},
            {name: 1.0},
            alarms,
        )


class RunLengthsMonitor:
    """Bayesian online change points: a `RunLengths` for every key.

    Args:
        name: of the model.
        template: without rows; each key begins as it is.
        columns: of the rows.
    """

    def __init__(self, name: str, template: RunLengths, columns: Columns):
        self.models = (name,)
        self._template, self._columns = template, columns
        self._runs: dict[str, RunLengths] = {}

    def update(self, batches: Mapping[str, Batch]) -> dict[str, Outcome | Exception]:
        """As `Monitor.update`."""
        found: dict[str, Outcome | Exception] = {}
        for key, batch in batches.items():
            runs = self._runs.get(key) or self._template.restarted()
            rows, (mean, deviation) = arrays_of(batch, self._columns), runs.next_row
            try:
                update = runs.update(rows)
            except EvidentiaError as error:
                found[key] = error
                continue
            self._runs[key] = runs
            (name,) = self.models
            found[key] = Outcome(
                update.num_observations,
                update.batch_size,
                update.log_predictive,
                {name: update.log_evidence},
                {name: 0.0},
                {name: 1.0},
                tuple(jsonable(alarm._asdict()) for alarm in update.alarms),
                _residual(rows, mean, deviation),
            )
        return found

    def forget(self, key: str) -> None:
        """As `Monitor.forget`."""
        self._runs.pop(key, None)

    def packed(self) -> Any:
        """As `Monitor.packed`."""
        return {key: runs.state[0] for key, runs in self._runs.items()}

    def restore(self, content: Any) -> None:
        """As `Monitor.restore`."""
        with as_damaged():
            for key, state in content.items():
                self._runs[key] = self._template.restarted()
                self._runs[key].restore((state, ()))


def _residual(rows: ndarray, mean: float, deviation: float) -> float:
    """Of the first row, if rows are numbers."""
    return float((rows[0] - mean) / deviation) if rows.ndim == 1 and 0 < deviation < math.inf else math.nan
