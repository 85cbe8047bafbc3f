"""The network's density, the images, the methods' settings, and the verdict."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from evidentia.errors import DataError
from experiments import digit_network as network
from experiments import neural_network as experiment
from experiments.experiment import Settings
from experiments.real_data import mnist

pytestmark = pytest.mark.experiments

SETTING = network.Setting((4, 9), 40, 6, 3, 2, num_steps=network.NUM_LOOKS)
FOUR = "2, 4, 7 or 9, 40 units"


@pytest.fixture(scope="module")
def drawn():
    """Images of the digits 0 to 9, with zeros at the border and ink that depends on the digit."""
    generator = np.random.default_rng(0)
    digits = generator.integers(0, 10, 400)
    images = np.zeros((400, network.NUM_PIXELS), np.float32)
    images[:, 100:120] = 50 * (digits[:, None] == 4) + generator.integers(1, 200, (400, 20))
    return images, digits


def test_the_density_is_that_of_the_model(drawn):
    train, _ = network.subsample(*drawn, SETTING, seed=0)
    assert train["images"].shape == (32, 20)  # pixels that do not vary are left out
    key = jax.random.key(0)
    x = jax.tree.map(lambda leaf: 0.1 * jax.random.normal(key, leaf.shape), network.zero_weights(SETTING))
    theta = {"w": jnp.asarray(0.3), "v": jnp.asarray(-0.2)}
    logits = np.tanh(train["images"] @ np.asarray(x["w"])[:, :20].T) @ np.asarray(x["v"]).T
    log_likelihood = logits[range(32), train["labels"]] - np.log(np.exp(logits).sum(axis=1))
    prior = sum(norm(0, np.exp(theta[name])).logpdf(x[name]).sum() for name in ("w", "v"))
    expected = prior + log_likelihood.sum()
    assert np.isclose(network.log_joint(theta, x, train), expected, rtol=1e-5)


def test_pixels_have_mean_zero_and_deviation_one(drawn):
    images = np.concatenate([part["images"] for part in network.subsample(*drawn, SETTING, seed=0)])
    assert len(images) == 40
    assert np.allclose(images.mean(axis=0), 0, atol=1e-5) and np.allclose(images.std(axis=0), 1, atol=1e-4)


def test_images_and_split_are_stratified(drawn):
    images, digits = drawn
    share = (digits == 9).sum() / np.isin(digits, (4, 9)).sum()
    for part, count in zip(network.subsample(images, digits, SETTING, seed=0), (32, 8), strict=True):
        assert len(part["labels"]) == count
        assert abs(part["labels"].sum() - share * count) <= 1.5  # both draws round
    rows = network.stratified(digits, 100, np.random.default_rng(0))
    assert len(set(rows)) == 100
    counts = np.bincount(digits[rows], minlength=10)
    assert np.all(np.abs(counts - np.bincount(digits) / 4) < 1)


def test_no_step_changes_theta_by_more_than_one():
    method = network.make_method("PGD", SETTING)
    theta = {"w": jnp.zeros(()), "v": jnp.zeros(())}
    gradient = {"w": jnp.asarray(1e9), "v": jnp.asarray(-6.0)}
    after, _ = method.ascend(theta, method.transformation.init(theta), gradient)
    assert np.isclose(after["w"], network.STEP_SIZE * network.LARGEST_GRADIENT, rtol=1e-4)
    gradient["w"] = jnp.asarray(3.0 * 3 * network.NUM_PIXELS)  # three for each of the weights
    after, _ = method.ascend(theta, method.transformation.init(theta), gradient)
    assert np.allclose([after["w"], after["v"]], [0.3, -0.1])


def test_the_predictive_density_is_that_of_the_mean_probability():
    """One particle is sure and right, one sure and wrong; alone, the latter is clipped."""
    example = {"w": jnp.zeros((1, 1)), "v": jnp.zeros((2, 1))}
    test = {"images": jnp.array([[9.0]]), "labels": jnp.array([0])}
    right, wrong = [200.0, -200.0, 1.0], [-200.0, 200.0, 1.0]  # v, then w
    both = network.score(jnp.array([right, wrong]), example, test)
    assert np.isclose(both["lppd"], np.log(0.5))
    alone = network.score(jnp.array([wrong]), example, test)
    assert np.isclose(alone["lppd"], np.log(1e-30)) and alone["error"] == 1


def test_one_method_learns_what_is_easy(drawn, monkeypatch):
    monkeypatch.setattr(experiment, "mnist", lambda data_dir: drawn)
    setting = SETTING._replace(num_images=70, num_steps=2 * network.NUM_LOOKS)
    found = experiment.repeat(network.make_method("PGD", setting), setting, Settings(), 0)
    assert len(found["error"]) == network.NUM_LOOKS
    assert found["error"][-1] < 0.25  # on 14 images of two classes
    assert "ess" not in found


def test_a_run_is_a_record_of_numbers(drawn, monkeypatch):
    monkeypatch.setattr(experiment, "mnist", lambda data_dir: drawn)
    setting = SETTING._replace(methods=("PGD", "SOUL", "JALA-EM, adaptive"))
    found = experiment.run(Settings(), {"4 or 9": setting})
    json.dumps(found, allow_nan=False)
    rows = {row["network, method"]: row for row in experiment.table(found)}
    assert rows["4 or 9, PGD"]["ess"] is None and 0 < rows["4 or 9, JALA-EM, adaptive"]["ess"] <= 1
    assert experiment.draw(found).axes


def record(repeats=1, **percent):
    """A record with four digits, 500 test images; the repeats of a method lie a point apart."""
    spread = np.linspace(-1, 1, repeats) * (repeats > 1)
    methods = {
        name: {"error": [[(value + each) / 100] for each in spread], "lppd": [[-0.1]], "seconds": [1.0]}
        for name, value in percent.items()
    }
    setting = network.Setting((2, 4, 7, 9), 2500, 50, 40, repeats)
    return {FOUR: {"setting": setting._asdict(), "methods": methods}}


def test_the_verdict_compares_the_methods():
    papers = {"PGD": 4.7, "JALA-EM": 9.2, "SOUL": 9.2}
    verdict = experiment.judge(record(**papers))
    assert verdict.agrees and "Not run: 2, 4, 7 or 9, 512 units" in verdict.measured
    assert not experiment.judge(record(**papers | {"SOUL": 4.0})).agrees
    verdict = experiment.judge(record(**papers | {"JALA-EM": 18.0}))
    assert not verdict.agrees and f"{FOUR}, JALA-EM, SOUL +" in verdict.measured


def test_errors_join_repeats_and_images():
    """Repeats of 9, 10 and 11% have a deviation of 1 point; 500 images one of 1.34 points."""
    mean = experiment.means(record(3, PGD=10.0))[FOUR, "PGD"]
    assert np.isclose(mean.value, 10) and np.isclose(mean.error, np.sqrt(1 / 3 + 10 * 90 / 500))
    assert np.isclose(experiment.distance(mean, mean._replace(value=10 + mean.error)), -np.sqrt(0.5))


def test_jala_em_has_the_papers_threshold():
    method = network.make_method("JALA-EM", SETTING)
    assert method.ess_threshold == 1 / 1.05 and replace(method, ess_threshold=0.0).target_ess is None


def test_a_folder_without_the_images_is_an_error(tmp_path):
    with pytest.raises(DataError, match="data_dir must have the file mnist/t10k-images"):
        mnist(tmp_path)
