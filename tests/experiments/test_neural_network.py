"""The network's density, the pixels left out, and the verdict."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from evidentia.errors import DataError
from experiments import neural_network as experiment
from experiments.experiment import Settings
from experiments.real_data import mnist

pytestmark = pytest.mark.experiments

SETTING = experiment.Setting((4, 9), 40, 6, 3, 2, num_steps=experiment.NUM_LOOKS)


@pytest.fixture(scope="module")
def drawn():
    """Images of the digits 0 to 9, with zeros at the border and ink that depends on the digit."""
    generator = np.random.default_rng(0)
    digits = generator.integers(0, 10, 400)
    images = np.zeros((400, experiment.NUM_PIXELS), np.float32)
    images[:, 100:120] = 50 * (digits[:, None] == 4) + generator.integers(1, 200, (400, 20))
    return images, digits


def test_the_density_is_that_of_the_model(drawn):
    train, _ = experiment.subsample(*drawn, SETTING, seed=0)
    assert train["images"].shape == (32, 20)  # pixels that are 0 everywhere are left out
    key = jax.random.key(0)
    x = jax.tree.map(lambda leaf: 0.1 * jax.random.normal(key, leaf.shape), experiment.zero_weights(SETTING))
    theta = {"w": jnp.asarray(0.3), "v": jnp.asarray(-0.2)}
    logits = np.tanh(train["images"] @ np.asarray(x["w"])[:, :20].T) @ np.asarray(x["v"]).T
    log_likelihood = logits[range(32), train["labels"]] - np.log(np.exp(logits).sum(axis=1))
    prior = sum(norm(0, np.exp(theta[name])).logpdf(x[name]).sum() for name in ("w", "v"))
    expected = prior + log_likelihood.sum()
    assert np.isclose(experiment.log_joint(theta, x, train), expected, rtol=1e-5)


def test_pixels_have_mean_zero_and_deviation_one(drawn):
    images = np.concatenate([part["images"] for part in experiment.subsample(*drawn, SETTING, seed=0)])
    assert len(images) == 40
    assert np.allclose(images.mean(axis=0), 0, atol=1e-5) and np.allclose(images.std(axis=0), 1, atol=1e-4)


def test_one_method_learns_what_is_easy(drawn, monkeypatch):
    monkeypatch.setattr(experiment, "mnist", lambda data_dir: drawn)
    setting = SETTING._replace(num_images=100, num_steps=2 * experiment.NUM_LOOKS)
    found = experiment.repeat(experiment.make_method("PGD", setting), setting, Settings(), 0)
    assert len(found["error"]) == experiment.NUM_LOOKS
    assert found["error"][-1] < 0.25  # on 20 images of two classes
    assert np.isnan(found["ess"]).all()


def test_a_run_of_all_methods_is_a_record_of_numbers(drawn, monkeypatch):
    """Methods without weights omit the effective sample size: NaN is not valid JSON."""
    monkeypatch.setattr(experiment, "mnist", lambda data_dir: drawn)
    monkeypatch.setattr(experiment, "QUICK", {"4 or 9": SETTING})
    found = experiment.run(Settings(quick=True))
    json.dumps(found, allow_nan=False)
    rows = {row["network, method"]: row for row in experiment.table(found)}
    assert rows["4 or 9, PGD"]["ess"] is None and 0 < rows["4 or 9, JALA-EM, adaptive"]["ess"] <= 1
    assert experiment.draw(found).axes


def record(**percent):
    methods = {
        name: {"error": [[value / 100]], "lppd": [[-0.1]], "seconds": [1.0]}
        for name, value in percent.items()
    }
    return {"2, 4, 7 or 9, 40 units": {"setting": SETTING._asdict(), "methods": methods}}


def test_the_verdict_compares_the_methods():
    names = experiment.METHODS
    papers = dict(zip(names, (4.7, 9.2, 8.0, 9.2), strict=True))
    verdict = experiment.judge(record(**papers))
    assert verdict.agrees and "lowers JALA-EM's error" in verdict.measured
    assert not experiment.judge(record(**papers | {"SOUL": 4.0})).agrees


@pytest.mark.parametrize("shift, is_alike", [(0.0, True), (5.0, False)])
def test_methods_that_are_said_to_be_alike_are_compared_repeat_by_repeat(shift, is_alike):
    """Ten repeats differ by 1 ± 1 or so: 5 points more are far outside Student's t interval."""
    found = record(PGD=2.0, **{"JALA-EM": 9.0, "JALA-EM, adaptive": 9.0, "SOUL": 9.0})
    methods = found["2, 4, 7 or 9, 40 units"]["methods"]
    noise = np.random.default_rng(0).standard_normal(10)
    for name, errors in (("PGD", 0 * noise + 2), ("JALA-EM", 9 + shift + noise), ("SOUL", 9 - noise[::-1])):
        methods[name]["error"] = [[error / 100] for error in errors]
    verdict = experiment.judge(found)
    assert verdict.agrees == is_alike
    assert ("Not alike" in verdict.measured) == (not is_alike)


def test_a_folder_without_the_images_is_an_error(tmp_path):
    with pytest.raises(DataError, match="data_dir must have the file mnist/t10k-images"):
        mnist(tmp_path)
