"""The monitors of models against the objects that they are made of."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import distributions as dist

import evidentia as ev
from evidentia.errors import EvidentiaError
from evidentia.service.batches import Rows
from evidentia.service.bundle import bundled, unbundled
from evidentia.service.models import monitor_of
from evidentia.service.monitors import RECORDS
from evidentia.service.settings import checked
from tests.service.conftest import no_models

COLUMNS = {"x": ["flow"], "y": "pressure"}
MODELS = {
    "kind": "models",
    "columns": COLUMNS,
    "models": {"steady": "linear", "rough": {"type": "linear", "noise_scale": 2.0}},
    "forgetting": 0.99,
}
CHANGES = {"kind": "changes", "columns": COLUMNS, "model": "linear", "max_candidates": 2}


def monitor(settings, load=no_models):
    given = checked({"streams": {"s": {"source": "x", "monitors": {"m": settings}}}})
    return monitor_of(given.streams["s"].monitors["m"], 0, "streams.s.monitors.m", load)


def batches_of(num_batches, keys=("a", "b"), size=20, shift_from=None, seed=0):
    """Batches of each key; the pressure rises by five from a batch on."""
    generator = np.random.default_rng(seed)
    rows = Rows(["flow", "pressure"], key="key", batch_size=size)
    for batch in range(num_batches):
        for key in keys:
            flow, noise = generator.normal(size=(2, size))
            pressure = 0.5 * flow + noise + 5.0 * (shift_from is not None and batch >= shift_from)
            rows.add({"flow": x, "pressure": y, "key": key} for x, y in zip(flow, pressure, strict=True))
        yield rows.take()


def arrays(batch):
    return {"x": batch.columns["flow"][:, None], "y": batch.columns["pressure"]}


def resumed(settings, before):
    after = monitor(settings)
    after.restore(unbundled(bundled(before.packed()), RECORDS))
    return after


def test_models_are_fleets_with_an_average_for_each_key():
    found = monitor(MODELS)
    fleets = {
        "steady": ev.OnlineFleet(ev.models.linear_regression(1)),
        "rough": ev.OnlineFleet(ev.models.linear_regression(1, noise_scale=2.0)),
    }
    log_weights = np.zeros(2)
    for batches in batches_of(3):
        outcome = found.update(batches)["a"]
        steps = {name: fleet.update({"a": arrays(batches["a"])}) for name, fleet in fleets.items()}
        updates = [step.results["a"] for step in steps.values()]
        assert list(outcome.log_evidence.values()) == [update.log_evidence for update in updates]
        log_weights = 0.99**20 * log_weights + [update.log_predictive for update in updates]
        weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        assert list(outcome.probabilities.values()) == pytest.approx(weights, rel=1e-9)
    assert outcome.num_observations == 60 and outcome.probabilities["steady"] > 0.5


def test_resumed_models_go_on_bit_for_bit_and_new_keys_come_at_any_time():
    *first, last = batches_of(3, ("a", "b"))
    whole = monitor(MODELS)
    for batches in first:
        whole.update(batches)
    half = resumed(MODELS, whole)
    (new,) = batches_of(1, ("c",), seed=1)
    assert half.update(last | new) == whole.update(last | new)
    for one in (half, whole):
        one.forget("a")
        one.forget("nobody")
    found = whole.update(last)
    assert half.update(last) == found
    assert found["a"].num_observations == 20 and found["b"].num_observations == 80


@pytest.mark.slow
def test_a_batch_that_one_model_refuses_changes_none():
    plain, strict = own_model(math.inf), own_model(50.0)
    models = {"m.py:plain": plain, "m.py:strict": strict}
    settings = MODELS | {
        "columns": {"y": "pressure"},
        "models": {"plain": "m.py:plain", "strict": "m.py:strict"},
    }
    (good,) = batches_of(1)
    found, reference = (monitor(settings, lambda name, _: models[name]) for _ in range(2))
    for one in (found, reference):
        one.update(good)
    bad = good["a"]._replace(columns=good["a"].columns | {"pressure": np.full(20, 60.0)})
    outcomes = found.update({"a": bad, "b": good["b"], "new": bad})
    assert isinstance(outcomes["a"], EvidentiaError) and isinstance(outcomes["new"], EvidentiaError)
    assert outcomes["b"] == reference.update({"b": good["b"]})["b"]
    later = {"a": good["a"], "new": good["a"]}
    assert found.update(later) == reference.update(later)


def own_model(limit):
    """A normal mean, whose likelihood is NaN for rows above a limit."""

    def log_likelihood(params, batch):
        return jnp.where(batch["y"] > limit, jnp.nan, -0.5 * (batch["y"] - params["mean"]) ** 2)

    return ev.Model(prior={"mean": dist.Normal(0.0, 1.0)}, log_likelihood=log_likelihood)


@pytest.mark.slow
def test_changes_are_a_fleet_of_detectors():
    found, alarms = monitor(CHANGES), []
    detectors = ev.ChangeDetectorFleet(ev.models.linear_regression(1), max_candidates=2)
    for number, batches in enumerate(batches_of(6, shift_from=4)):
        if number == 3:
            found = resumed(CHANGES, found)
        outcomes = found.update(batches)
        reports = detectors.update({key: arrays(batch) for key, batch in batches.items()}).results
        for key, outcome in outcomes.items():
            assert outcome.log_evidence == {"linear": reports[key].update.log_evidence}
            alarms += [(key, alarm["row"]) for alarm in outcome.alarms]
    assert alarms == [("a", 80), ("b", 80)]
