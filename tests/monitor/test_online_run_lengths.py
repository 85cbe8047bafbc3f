"""Run lengths with a model per run: exact models agree with `RunLengths`, estimates with both."""

import math

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError, EstimationError
from evidentia.monitor import BetaHazard, NormalInverseGamma, OnlineRunLengths, RunLengths
from experiments.conjugate import Gaussian

PRIOR = {"shape": 3.0, "scale": 2.0}
ROWS = np.random.default_rng(0).normal(np.repeat([0.0, 3.0], 30), 1)


def by_row(runs, rows):
    return [runs.update(rows[i : i + 1]) for i in range(len(rows))]


@pytest.mark.parametrize("hazard", [0.05, BetaHazard(1, 19)])
def test_exact_models_give_the_exact_recursion(hazard):
    exact = RunLengths(NormalInverseGamma(0.0, 1.0, **PRIOR), hazard)
    runs = OnlineRunLengths(Gaussian(rows=1.0, **PRIOR), hazard, max_runs=60)
    updates, others = by_row(runs, ROWS), by_row(exact, ROWS)
    assert [one.log_evidence for one in updates] == pytest.approx(
        [one.log_evidence for one in others], abs=1e-9
    )
    assert updates[-1].left_out == updates[-1].standard_error == 0
    assert runs.run_length.probabilities == pytest.approx(exact.run_length.probabilities, abs=1e-10)
    assert runs.change_probability(25, 35) == pytest.approx(exact.change_probability(25, 35), abs=1e-10)
    alarms = [one.alarm for one in updates if one.alarm]
    assert [one[:2] for one in alarms] == [one[:2] for update in others for one in update.alarms]


def test_few_runs_leave_little_out():
    exact = RunLengths(NormalInverseGamma(0.0, 1.0, **PRIOR), 0.02)
    runs = OnlineRunLengths(Gaussian(rows=1.0, **PRIOR), 0.02, max_runs=6)
    updates = by_row(runs, ROWS)
    exact.update(ROWS)
    assert len(runs.runs) <= 7 and 0 < updates[-1].left_out < 0.6
    assert runs.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    assert abs(next(one.alarm.row for one in updates if one.alarm) - 30) <= 1


class Noisy(Gaussian):
    """Its evidence is off by a random number of known standard deviation, fixed for each run."""

    def __init__(self, generator=None, **settings):
        super().__init__(**settings)
        self.generator = generator
        self.error = 0.0

    def restarted(self, seed):
        return Noisy(np.random.default_rng((self.generator, seed)), **self.settings)

    def update(self, batch):
        found = super().update(batch)
        if self.standard_error == 0:
            self.standard_error = 0.2
            self.log_evidence += 0.2 * self.generator.standard_normal()
        return found


def test_the_standard_error_bounds_the_scatter():
    """Over 60 seeds, of log evidences whose runs have errors of 0.2 nats."""
    exact = RunLengths(NormalInverseGamma(0.0, 1.0, **PRIOR), 0.05)
    exact.update(ROWS)
    found, stated = [], []
    for seed in range(60):
        runs = OnlineRunLengths(Noisy(0, rows=1.0, **PRIOR), 0.05, max_runs=60, seed=seed)
        by_row(runs, ROWS)
        found.append(runs.log_evidence - exact.log_evidence)
        stated.append(runs.standard_error)
    assert np.std(found) < 1.3 * np.mean(stated)  # 1.3: three standard errors of a scatter from 60
    assert (
        abs(np.mean(found)) < 3 * np.mean(stated) / math.sqrt(60) + 0.05
    )  # 0.05: the bias of a log of means


class Failing(Gaussian):
    def update(self, batch):
        if batch[0] > 100:
            raise EstimationError("too large")
        return super().update(batch)


def test_errors_change_nothing():
    runs = OnlineRunLengths(Failing(rows=1.0, **PRIOR))
    by_row(runs, ROWS[:10])
    before = runs.log_evidence, runs.run_length.probabilities.tolist(), runs.num_observations
    with pytest.raises(EstimationError, match="too large"):
        runs.update(np.array([1e3]))
    assert (runs.log_evidence, runs.run_length.probabilities.tolist(), runs.num_observations) == before


def test_arguments_that_are_invalid():
    for online in (None, Gaussian, NormalInverseGamma()):
        with pytest.raises(ConfigurationError, match=r"online must be an evidentia\.Online"):
            OnlineRunLengths(online)
    model = Gaussian(rows=1.0, **PRIOR)
    for field, value in (("hazard", 0), ("max_runs", 1), ("threshold", 2), ("seed", -1)):
        with pytest.raises(ConfigurationError, match=field):
            OnlineRunLengths(model, **{field: value})
    with pytest.raises(ConfigurationError, match="first"):
        OnlineRunLengths(model).change_probability(-1)


@pytest.mark.slow
def test_particles_find_a_change_of_a_regression():
    """The evidence agrees with the exact sum over partitions, within standard errors."""
    model = ev.models.linear_regression(num_features=2)
    data, _ = model.simulate(400, seed=0)
    data["y"][200:] *= -1
    batches = [{name: rows[i : i + 50] for name, rows in data.items()} for i in range(0, 400, 50)]
    runs = OnlineRunLengths(ev.Online(model), hazard=0.1, max_runs=4)
    updates = [runs.update(batch) for batch in batches]
    assert [update.alarm.row for update in updates if update.alarm] == [200]

    def exact(i, j):
        return model.exact_log_evidence({name: rows[50 * i : 50 * j] for name, rows in data.items()})

    log_sums = [0.0]  # over partitions of the first batches, with the factors of their changes
    for n in range(1, 9):
        terms = [
            log_sums[i] + exact(i, n) + (i > 0) * math.log(0.1) + (n - i - 1) * math.log(0.9)
            for i in range(n)
        ]
        log_sums.append(float(np.logaddexp.reduce(terms)))
    assert runs.log_evidence == pytest.approx(
        log_sums[-1], abs=4 * runs.standard_error + updates[-1].left_out
    )
    with pytest.raises(DataError):
        runs.update({"x": np.zeros((0, 2)), "y": np.zeros(0)})
    assert runs.num_observations == 400
