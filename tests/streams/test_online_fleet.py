"""Streams of a fleet against exact evidences, against each other, and with bad batches."""

import math

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special, stats

import evidentia as ev
from evidentia.streams import state as states
from evidentia.streams.likelihoods import log_likelihoods

WIDTH = 3.0  # of the prior of each weight


def regression(num_features):
    """A linear regression with noise of scale one."""

    def log_likelihood(params, batch):
        return dist.Normal(batch["x"] @ params["weights"], 1.0).log_prob(batch["y"])

    return ev.Model({"weights": dist.Normal(0, WIDTH).expand([num_features]).to_event(1)}, log_likelihood)


def rows_of(seed, count, num_features):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, num_features)).astype(np.float32)
    y = x @ (WIDTH * generator.standard_normal(num_features)) + generator.standard_normal(count)
    return {"x": x, "y": y.astype(np.float32)}


def exact(rows):
    x, y = (np.asarray(rows[name], np.float64) for name in "xy")
    if not len(y):
        return 0.0
    covariance = np.eye(len(y)) + WIDTH**2 * x @ x.T
    return stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)


def part(rows, first, last):
    return {name: values[first:last] for name, values in rows.items()}


@pytest.fixture(scope="module")
def watched():
    """A fleet of forty regressions with ragged batches, and after each batch its estimates."""
    fleet, generator = ev.OnlineFleet(regression(3), seed=1), np.random.default_rng(0)
    data = {f"stream {index}": rows_of(index, 200, 3) for index in range(40)}
    seen, history = dict.fromkeys(data, 0), []
    for _ in range(12):
        sizes = {name: int(generator.integers(1, 16)) for name in data if generator.random() < 0.8}
        step = fleet.update({name: part(data[name], seen[name], seen[name] + sizes[name]) for name in sizes})
        assert not step.errors and set(step.results) == set(sizes)
        for name, update in step.results.items():
            before, seen[name] = exact(part(data[name], 0, seen[name])), seen[name] + sizes[name]
            assert update.num_observations == fleet[name].num_observations == seen[name]
            truth = exact(part(data[name], 0, seen[name]))
            history.append((update, truth, truth - before))
    return fleet, data, seen, history


@pytest.mark.slow
def test_log_evidence_is_exact_within_its_standard_error(watched):
    """Root mean square of about 380 errors in standard errors; those of one stream are related."""
    _, _, _, history = watched
    scores = np.array([(update.log_evidence - truth) / update.standard_error for update, truth, _ in history])
    assert 0.8 < np.sqrt(np.mean(scores**2)) < 1.2
    assert abs(scores.mean()) < 0.25
    errors = np.array([update.standard_error for update, _, _ in history])
    assert errors.max() < 0.1 and errors.mean() < 0.05


def test_log_predictive_is_that_of_the_batch_given_the_rows_before(watched):
    _, _, _, history = watched
    scores = np.array(
        [(update.log_predictive - gain) / update.log_predictive_standard_error for update, _, gain in history]
    )
    assert 0.7 < np.sqrt(np.mean(scores**2)) < 1.25


def test_most_rows_draw_nothing_afresh(watched):
    _, _, _, history = watched
    assert np.mean([update.num_annealing_steps == 0 for update, _, _ in history[-60:]]) > 0.5


def test_a_stream_does_not_depend_on_the_others(watched):
    _, data, _, _ = watched
    alone = ev.OnlineFleet(regression(3), seed=1)
    together = ev.OnlineFleet(regression(3), seed=1)
    for first in range(0, 60, 20):
        alone.update({"stream 7": part(data["stream 7"], first, first + 20)})
        together.update({name: part(rows, first, first + 20) for name, rows in data.items()})
    assert alone["stream 7"].log_evidence == together["stream 7"].log_evidence
    assert len(alone) == 1 and len(together) == 40


def test_a_stream_is_like_an_online(watched):
    fleet, data, seen, _ = watched
    stream, rows = fleet["stream 3"], part(data["stream 3"], 0, seen["stream 3"])
    precision = np.eye(3) / WIDTH**2 + rows["x"].T @ rows["x"]
    mean = np.linalg.solve(precision, rows["x"].T @ rows["y"])
    shares = np.exp(stream.weighted.log_weights)
    assert shares @ stream.weighted["weights"] == pytest.approx(
        mean, abs=4 * np.sqrt(np.diag(np.linalg.inv(precision)).max() / 100)
    )
    new = part(data["stream 3"], 190, 193)
    location, spread = new["x"] @ mean, 1 + np.sum(new["x"] @ np.linalg.inv(precision) * new["x"], axis=1)
    expected = stats.norm.logpdf(new["y"], location, np.sqrt(spread))
    assert stream.log_predictive(new) == pytest.approx(expected, abs=0.2)
    evidence = stream.evidence()
    assert evidence.log_evidence == stream.log_evidence and evidence.diagnostics["way"] == "batched"
    assert evidence.num_observations == stream.num_observations and not evidence.signs
    assert repr(stream).startswith("Stream(") and "40 streams" in repr(fleet)


@pytest.mark.slow
def test_posteriors_with_several_modes_are_not_wrong_without_a_word():
    """Two modes of unequal mass, up to 30 of their widths apart: y ~ N(θ² + θ/50, 1)."""

    def log_likelihood(params, batch):
        return dist.Normal(params["a"] ** 2 + 0.02 * params["a"], 1.0).log_prob(batch)

    model, generator = ev.Model({"a": dist.Normal(0, 3)}, log_likelihood), np.random.default_rng(0)
    values = 3 * generator.standard_normal(24)
    data = {
        index: (value**2 + 0.02 * value + generator.standard_normal(120)).astype(np.float32)
        for index, value in enumerate(values)
    }
    fleet, places = ev.OnlineFleet(model), np.linspace(-20, 20, 200_001)
    means = places**2 + 0.02 * places
    for first, last in ((0, 20), (20, 50), (50, 120)):
        assert not fleet.update({name: rows[first:last] for name, rows in data.items()}).errors
        for name, rows in data.items():
            y = rows[:last].astype(np.float64)
            heights = -0.5 * (np.sum(y**2) - 2 * y.sum() * means + last * means**2 + (places / 3) ** 2)
            constant = math.log(places[1] - places[0]) - 0.5 * (last + 1) * math.log(2 * math.pi)
            truth = special.logsumexp(heights) + constant - math.log(3)
            error = fleet[name].standard_error
            assert abs(fleet[name].log_evidence - truth) < max(5 * error, 0.1), (name, last)
    reasons = [stream.evidence().diagnostics.get("reason") for stream in fleet.values()]
    assert reasons.count(states.ITS_SHAPE) > 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["symmetry", "many parameters", "long"])
def test_other_streams_are_those_of_online(kind, monkeypatch):
    monkeypatch.setattr(states, "MAX_ROWS", 600)
    model, rows, reason = regression(3), rows_of(0, 900, 3), states.ITS_LENGTH
    if kind == "symmetry":

        def mixture(params, batch):
            located = dist.Normal(params["means"], 1.0).log_prob(batch["y"][:, None])
            return jnp.logaddexp(located[:, 0], located[:, 1]) - math.log(2)

        model = ev.Model({"means": dist.Normal(0, 5).expand([2]).to_event(1)}, mixture)
        reason = states.ITS_SYMMETRY
    elif kind == "many parameters":
        model, rows, reason = regression(11), rows_of(0, 900, 11), states.ITS_PARAMETERS
    fleet = ev.OnlineFleet(model)
    fleet.update({"a": part(rows, 0, 400)})
    fleet.update({"a": part(rows, 400, 700)})
    evidence = fleet["a"].evidence()
    assert (evidence.diagnostics["way"], evidence.diagnostics["reason"]) == ("online", reason)
    expected = ev.Online(model, seed=evidence.seed, reservoir_size=600)
    for first, last in ((0, 700),) if kind == "long" else ((0, 400), (400, 700)):
        update = expected.update(part(rows, first, last))
    assert evidence.log_evidence == update.log_evidence
    assert fleet["a"].log_predictive(part(rows, 700, 702)).shape == (2,)
    if kind != "symmetry":
        assert abs(evidence.log_evidence - exact(part(rows, 0, 700))) < 5 * evidence.standard_error


def test_bad_batches_leave_their_streams_as_they_were():
    fleet, rows = ev.OnlineFleet(regression(3)), rows_of(0, 60, 3)
    fleet.update({"a": part(rows, 0, 20), "b": part(rows, 20, 40), 3: part(rows, 0, 40)})
    before = {name: stream.state for name, stream in fleet.items()}
    wrong = part(rows, 0, 2)
    wrong["y"] = np.array([1.0, np.nan])
    step = fleet.update({"a": wrong, "b": {"y": [1.0]}, "new": {"y": []}, 3: part(rows, 40, 60)})
    assert list(step.results) == [3] and set(step.errors) == {"a", "b", "new"}
    assert "batches['a']['y'] has NaN" in str(step.errors["a"])
    assert "batches['b'] holds" in str(step.errors["b"])
    assert isinstance(step.errors["new"], ev.DataError) and "new" not in fleet
    assert fleet["a"].state is before["a"] and fleet["b"].state is before["b"]
    del fleet["a"]
    assert list(fleet) == ["b", 3]


@pytest.mark.slow
def test_an_impossible_row_is_an_error_of_its_stream():
    model = ev.Model(
        {"rate": dist.Gamma(2.0, 1.0)}, lambda params, y: dist.Poisson(params["rate"]).log_prob(y)
    )
    fleet = ev.OnlineFleet(model)
    fleet.update({"a": np.array([1, 2, 3]), "b": np.array([2, 2])})
    step = fleet.update({"a": np.array([-1]), "b": np.array([4])})
    assert isinstance(step.errors["a"], ev.EvidentiaError) and list(step.results) == ["b"]
    assert fleet["a"].num_observations == 3
    with pytest.raises(ev.EvidentiaError):
        fleet["a"].update(np.array([-1]))
    assert fleet["a"].update(np.array([2])).num_observations == 4


def test_a_single_stream_checks_its_batches_as_the_fleet_does():
    fleet = ev.OnlineFleet(ev.models.softmax_regression(num_features=1, num_classes=2))
    x = np.ones((3, 1), np.float32)
    fleet.update({"a": {"x": x, "y": np.array([0, 1, 1])}})
    with pytest.raises(ev.DataError, match="y"):
        fleet["a"].update({"x": x, "y": np.array([0, 1, 9])})
    assert fleet["a"].num_observations == 3
    with pytest.raises(ev.ConfigurationError, match="seed must be an integer"):
        fleet["a"].restarted(seed=-1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ev.OnlineFleet(3), ev.ModelError, "model must be an evidentia.Model; got int"),
        (lambda: ev.OnlineFleet(regression(1), seed=-1), ev.ConfigurationError, "seed"),
        (
            lambda: ev.OnlineFleet(regression(1)).update([1]),
            ev.DataError,
            "batches must map names .* got list",
        ),
        (
            lambda: ev.OnlineFleet(regression(1)).update({1.5: [1]}),
            ev.DataError,
            "names in batches must be strings or integers; got 1.5",
        ),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.slow
def test_ctrl_c_leaves_every_stream_as_it_was(monkeypatch):
    fleet, rows = ev.OnlineFleet(regression(2)), rows_of(0, 60, 2)
    fleet.update({"a": part(rows, 0, 20), "b": part(rows, 20, 40)})
    before = {name: stream.state for name, stream in fleet.items()}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(states, "log_likelihoods", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fleet.update({"a": part(rows, 40, 60), "c": part(rows, 40, 60)})
    assert list(fleet) == ["a", "b"]
    assert all(fleet[name].state is state for name, state in before.items())


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path):
    model, data = regression(3), {"a": rows_of(0, 90, 3), 7: rows_of(1, 90, 3)}
    fleet = ev.OnlineFleet(model, seed=4)
    fleet.save(tmp_path / "empty")
    assert len(ev.OnlineFleet.load(tmp_path / "empty", model)) == 0
    fleet.update({name: part(rows, 0, 30) for name, rows in data.items()})
    fleet.save(tmp_path / "fleet")
    loaded = ev.OnlineFleet.load(tmp_path / "fleet", regression(3))
    assert list(loaded) == ["a", 7] and loaded.seed == 4
    for first in (30, 60):
        batches = {name: part(rows, first, first + 30) for name, rows in data.items()}
        one, other = fleet.update(batches), loaded.update(batches)
        for name in data:
            assert one.results[name]._replace(seconds=0.0) == other.results[name]._replace(seconds=0.0)
    wider = ev.Model(
        {"weights": dist.Normal(0, 4).expand([3]).to_event(1)},
        lambda params, batch: dist.Normal(batch["x"] @ params["weights"], 1.0).log_prob(batch["y"]),
    )
    with pytest.raises(ev.CheckpointError, match="log prior differs"):
        ev.OnlineFleet.load(tmp_path / "fleet", wider)
    with pytest.raises(ev.CheckpointError, match="one that ChangeDetectorFleet.save wrote"):
        ev.ChangeDetectorFleet.load(tmp_path / "fleet", model)
    with pytest.raises(ev.CheckpointError, match="something else"):
        ev.Online.load(tmp_path / "fleet", model)


@pytest.mark.slow
def test_likelihoods_of_ragged_data_sets():
    model = regression(2)
    datasets = [rows_of(seed, count, 2) for seed, count in enumerate((1, 16, 17, 300, 5, 1000))]
    positions = np.random.default_rng(0).standard_normal((6, 4, 2)).astype(np.float32)
    found = log_likelihoods(model.bind(datasets[0]), positions, datasets)
    for values, places, rows in zip(found, positions, datasets, strict=True):
        residuals = rows["y"][:, None] - rows["x"].astype(np.float64) @ places.T
        expected = stats.norm.logpdf(residuals).sum(0)
        assert values == pytest.approx(expected, rel=1e-5)
