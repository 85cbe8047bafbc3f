"""Fleets: exact evidences, agreement with `estimate`, hard posteriors, order, errors, laziness."""

import math
import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import EstimationError
from evidentia.fleet import FleetUpdate

LINEAR = ev.models.linear_regression(num_features=2)


def simulated(count: int, num_rows: int = 50) -> list:
    return [LINEAR.simulate(num_rows, seed)[0] for seed in range(count)]


@pytest.mark.slow
def test_log_evidence_is_exact_and_its_errors_are_calibrated():
    data = simulated(64)
    found = [record.evidences["linear regression"] for record in ev.estimate_many(LINEAR, data)]
    assert {evidence.diagnostics["way"] for evidence in found} == {"batched"}
    exact = np.array([LINEAR.exact_log_evidence(one) for one in data])
    z = [(one.log_evidence - truth) / one.standard_error for one, truth in zip(found, exact, strict=True)]
    # 64 independent standard normals: mean within 4/√64, root mean square within 1 ± 4/√128.
    assert abs(np.mean(z)) < 0.5
    assert 0.65 < math.sqrt(np.mean(np.square(z))) < 1.35


def test_posterior_is_that_of_the_conjugate_model():
    """The posterior of the weights of a linear model with unit noise is N((I + XᵀX)⁻¹ Xᵀy, …)."""
    (data,) = simulated(1)
    (record,) = ev.estimate_many(LINEAR, [data])
    evidence = record.evidences["linear regression"]
    design = np.column_stack([data["x"], np.ones(50)])
    covariance = np.linalg.inv(np.eye(3) + design.T @ design)
    mean, deviation = covariance @ design.T @ data["y"], np.sqrt(np.diag(covariance))
    found = np.append(evidence.mean["weights"], evidence.mean["intercept"])
    spread = np.append(evidence.deviation["weights"], evidence.deviation["intercept"])
    # About 450 effective draws: means within 4/√450 deviations, deviations within 4/√900.
    assert np.abs(found - mean).max() < 0.19 * deviation.min()
    np.testing.assert_allclose(spread, deviation, rtol=0.14)
    draws = evidence.posterior["weights"]
    assert draws.shape == (100, 2)
    assert np.abs(draws.mean(0) - mean[:2]).max() < 4 * deviation.max() / math.sqrt(100)


def test_rows_of_different_numbers_are_padded_without_effect():
    data = [LINEAR.simulate(rows, 0)[0] for rows in (41, 45, 48)]
    for record, one in zip(ev.estimate_many(LINEAR, data), data, strict=True):
        evidence = record.evidences["linear regression"]
        assert evidence.num_observations == len(one["y"])
        assert abs(evidence.log_evidence - LINEAR.exact_log_evidence(one)) < 5 * evidence.standard_error


def test_numbers_do_not_depend_on_the_batch_or_the_executor():
    data = {f"series {index}": one for index, one in enumerate(simulated(70))}
    alone = [record.evidences["linear regression"] for record in ev.estimate_many(LINEAR, data)]
    with ThreadPoolExecutor(2) as executor:
        records = list(ev.estimate_many(LINEAR, data, executor=executor))
    assert [record.name for record in records] == list(data)
    threaded = [record.evidences["linear regression"] for record in records]
    assert [one.log_evidence for one in threaded] == [one.log_evidence for one in alone]
    last = "series 69"
    (record,) = ev.estimate_many(LINEAR, {last: data[last]})
    assert record.evidences["linear regression"].log_evidence == alone[-1].log_evidence
    (record,) = ev.estimate_many(LINEAR, {last: data[last]}, seed=1)
    assert record.evidences["linear regression"].log_evidence != alone[-1].log_evidence


# --- Posteriors that are not Gaussian ------------------------------------------------------------


def integrated(height, limit: float) -> float:
    """log ∫ exp(height) over (-limit, limit), by the trapezoidal rule."""
    grid = np.linspace(-limit, limit, 20_001)
    heights = np.array([height(theta) for theta in grid])
    return float(heights.max() + np.log(np.exp(heights - heights.max()).sum() * (grid[1] - grid[0])))


def bimodal(params, batch):
    """Two modes, near 1 and -1.3, of different mass."""
    return dist.Normal(params["theta"] ** 2 + 0.3 * params["theta"], 0.5).log_prob(batch["y"])


@pytest.mark.slow
def test_a_bimodal_posterior_goes_to_estimate_and_is_right():
    model = ev.Model({"theta": dist.Normal(0, 2)}, bimodal, name="bimodal")
    data = [{"y": np.random.default_rng(seed).normal(1.3, 0.5, 20)} for seed in range(2)]
    for record, one in zip(ev.estimate_many(model, data), data, strict=True):
        evidence = record.evidences["bimodal"]
        assert evidence.diagnostics["reason"] == "several modes were found"

        def height(theta, y=one["y"]):
            residuals = (y - theta**2 - 0.3 * theta) / 0.5
            constant = 0.5 * math.log(2 * math.pi) * (len(y) + 1) + len(y) * math.log(0.5) + math.log(2)
            return -0.5 * (residuals @ residuals + theta**2 / 4) - constant

        assert abs(evidence.log_evidence - integrated(height, 10)) < 5 * evidence.standard_error


@pytest.mark.slow
def test_a_funnel_is_not_silently_wrong():
    """y ~ N(z, 1), z ~ N(0, eᵛ), v ~ N(0, 3²): the evidence is ∫ N(y; 0, 1 + eᵛ) N(v; 0, 9) dv."""
    model = ev.Model(
        {"v": dist.Normal(0, 3), "z": lambda params: dist.Normal(0, jnp.exp(params["v"] / 2))},
        lambda params, batch: dist.Normal(params["z"], 1.0).log_prob(batch["y"]),
        name="funnel",
    )
    for record, y in zip(ev.estimate_many(model, [{"y": [0.5]}, {"y": [4.0]}]), (0.5, 4.0), strict=True):

        def height(v, y=y):
            variance = 1 + math.exp(v)
            return -0.5 * (y**2 / variance + math.log(variance) + v**2 / 9) - math.log(6 * math.pi)

        evidence = record.evidences["funnel"]
        assert abs(evidence.log_evidence - integrated(height, 25)) < 5 * evidence.standard_error


@pytest.mark.slow
def test_models_with_symmetries_go_to_estimate():
    """A product of factors: the sign of both can change together."""
    model = ev.Model(
        {"a": dist.Normal(0, 1), "b": dist.Normal(0, 1)},
        lambda params, batch: dist.Normal(params["a"] * params["b"], 1.0).log_prob(batch["y"]),
        name="product",
    )
    data = {"y": np.random.default_rng(0).normal(1, 1, 20)}
    (record,) = ev.estimate_many(model, [data])
    evidence = record.evidences["product"]
    assert evidence.diagnostics["reason"] == "the model has symmetries"
    again = ev.estimate(model, data, seed=evidence.seed)
    assert again.log_evidence == evidence.log_evidence
    assert again.standard_error == evidence.standard_error


@pytest.mark.slow
def test_a_method_runs_all_tasks():
    data = simulated(2)
    records = list(ev.estimate_many({"linear": LINEAR}, data, method=ev.Laplace(num_particles=64)))
    for record, one in zip(records, data, strict=True):
        evidence = record.evidences["linear"]
        assert evidence.diagnostics["method"] == "Laplace"
        again = ev.estimate(LINEAR, one, method=ev.Laplace(num_particles=64), seed=evidence.seed)
        assert again.log_evidence == evidence.log_evidence


# --- Order, laziness, errors ---------------------------------------------------------------------


def test_datasets_are_read_as_they_are_needed():
    num_read = 0

    def endless():
        nonlocal num_read
        (data,) = simulated(1)
        while True:
            num_read += 1
            yield data

    records = ev.estimate_many(LINEAR, endless())
    assert num_read == 0
    assert [next(records).name for _ in range(3)] == [0, 1, 2]
    assert num_read <= 64
    records.close()


@pytest.mark.slow
def test_errors_are_kept_beside_results():
    good = simulated(1)[0]
    data = [good, {"x": good["x"], "y": np.full(50, np.nan)}, {"x": good["x"][:, :1], "y": good["y"]}]

    def nan(params, batch):
        return jnp.sqrt(-1.0 - params["theta"] ** 2) * batch["y"]

    models = {"linear": LINEAR, "nan": ev.Model({"theta": dist.Normal(0, 1)}, nan, name="nan")}
    updates: list[FleetUpdate] = []
    first, second, third = ev.estimate_many(models, data, progress=updates.append)
    assert list(first.evidences) == ["linear"]
    assert isinstance(first.errors["nan"], EstimationError | ev.ModelError)
    assert first.comparison.best == "linear"
    assert all(isinstance(error, ev.DataError) for error in second.errors.values())
    assert "data['y']" in str(second.errors["linear"])
    assert isinstance(third.errors["linear"], ev.EvidentiaError)
    assert [update.num_errors for update in updates] == [1, 3, 5]
    assert (updates[-1].num_datasets, updates[-1].total_datasets) == (3, 3)


class Later(ThreadPoolExecutor):
    """Runs the first job last, and loses the second, as if a worker had died."""

    def __init__(self):
        super().__init__(1)
        self.held, self.count = None, 0

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        if self.count == 1:
            self.held = Future(), fn, args
            return self.held[0]
        if self.count == 2:
            raise RuntimeError("a worker died")
        done = Future()
        done.set_result(fn(*args, **kwargs))
        if self.count == 3:
            future, first, words = self.held
            future.set_result(first(*words))
        return done


@pytest.mark.parametrize("as_completed", [False, True])
def test_a_lost_job_leaves_errors_and_the_rest_goes_on(as_completed):
    (data,) = simulated(1)
    records = list(
        ev.estimate_many(LINEAR, [data] * 150, executor=Later(), as_completed=as_completed)
    )  # fmt: skip
    names = [record.name for record in records]
    assert sorted(names) == list(range(150))
    assert (names == sorted(names)) != as_completed
    lost = {record.name for record in records if record.errors}
    assert lost == set(range(64, 128))


def test_an_interruption_cancels_what_is_pending():
    futures: list[Future] = []

    class Stuck(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            if futures:
                raise KeyboardInterrupt
            futures.append(Future())
            return futures[-1]

    executor = Stuck(1)
    (data,) = simulated(1)
    with pytest.raises(KeyboardInterrupt):
        next(ev.estimate_many(LINEAR, [data] * 200, executor=executor))
    assert [future.cancelled() for future in futures] == [True]


@pytest.mark.slow
def test_processes_give_the_same_numbers():
    data = simulated(3)
    expected = [
        record.evidences["linear regression"].log_evidence for record in ev.estimate_many(LINEAR, data)
    ]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        records = list(ev.estimate_many(LINEAR, data, executor=executor))
    assert [record.evidences["linear regression"].log_evidence for record in records] == expected


# --- Arguments -----------------------------------------------------------------------------------


def unpicklable() -> ev.Model:
    return ev.Model({"theta": dist.Normal(0, 1)}, lambda params, batch: batch["y"] * 0.0, name="local")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"models": {}}, ev.ModelError, "map at least one name to a model; got an empty mapping"),
        ({"models": {1: LINEAR}}, ev.ModelError, "names in models must be strings; got 1"),
        ({"models": {"a": 3}}, ev.ModelError, r"models\['a'\] must be an evidentia.Model .* got int"),
        ({"models": [LINEAR]}, ev.ModelError, "models must be .*, or map names to them; got list"),
        ({"datasets": 3}, ev.DataError, "datasets must be a mapping .* got int"),
        ({"datasets": pd.DataFrame({"y": [1.0]})}, ev.DataError, "datasets must be .* got DataFrame"),
        ({"datasets": {1: 2}}, ev.DataError, "names in datasets must be strings; got 1"),
        ({"method": ev.SGAIS}, ev.ConfigurationError, "method must be a configuration"),
        ({"seed": -1}, ev.ConfigurationError, "seed must be an integer"),
        ({"executor": 3}, ev.ConfigurationError, "executor must have the method submit .* got 3"),
    ],
)
def test_invalid_arguments_are_named_at_the_call(changes, error, message):
    with pytest.raises(error, match=message):
        ev.estimate_many(**{"models": LINEAR, "datasets": [], **changes})


def test_models_that_processes_cannot_receive_are_named():
    executor = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with pytest.raises(ev.ModelError, match=r"models\['local'\] cannot be sent to another process"):
        ev.estimate_many(unpicklable(), [], executor=executor)
    executor = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
    with pytest.raises(ev.ConfigurationError, match="must not fork this process"):
        ev.estimate_many(LINEAR, [], executor=executor)
