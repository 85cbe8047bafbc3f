"""Bounds on the log evidence: they contain the exact value, and a gap reveals bad mixing."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev

pytestmark = pytest.mark.reference

LINEAR = ev.models.linear_regression(num_features=3)
MORE = ev.models.linear_regression(num_features=5)
ROUGH = ev.AIS(target_ess=0.7, kernel=ev.kernels.HMC(num_trajectories=1, num_steps=1))


@pytest.mark.parametrize("method", [ev.AIS(), ev.SMC(), ev.SGAIS()], ids=lambda m: type(m).__name__)
def test_the_exact_value_lies_between(method):
    # benchmarks/sandwich.py requires 95 of 100 seeds. Here four of four happen by chance once in a
    # hundred at a coverage of 0.3, so only a coarse error fails this test.
    for seed in range(4):
        found = ev.sandwich(LINEAR, 200, method=method, seed=seed)
        assert found.lower < found.exact < found.upper, found


def test_a_gap_shows_what_the_standard_error_does_not():
    rough = [ev.sandwich(MORE, 100, method=ROUGH, seed=seed) for seed in range(4)]
    fine = ev.sandwich(MORE, 100, seed=0)
    assert min(found.gap for found in rough) > 5 > 2 > fine.gap
    assert max(found.forward.standard_error for found in rough) < 1.5
    # Over 12 seeds the forward estimate was 0.7 too low on average, with a spread of 2.8 where it
    # reports 0.8 (scores of 3.7 in the root mean square), and the reverse one 13 too high.
    scores = [(found.forward.log_evidence - found.exact) / found.forward.standard_error for found in rough]
    assert np.sqrt(np.mean(np.square(scores))) > 2
    assert np.mean([found.reverse.log_evidence - found.exact for found in rough]) > 5


def test_a_simulator_of_one_s_own():
    model = ev.Model(
        {"mean": dist.Normal(0, 1)},
        lambda params, batch: dist.Normal(params["mean"], 1).log_prob(batch["y"]),
    )

    def simulate(seed):
        rng = np.random.default_rng(seed)
        mean = rng.normal()
        return {"y": rng.normal(mean, 1, size=40)}, {"mean": mean}

    found = ev.sandwich(model, simulate, method=ev.AIS(num_particles=128), seed=2)
    y = np.float32(simulate(2)[0]["y"]).astype(float)
    exact = -20 * np.log(2 * np.pi) - 0.5 * np.log(41) - 0.5 * (y @ y - y.sum() ** 2 / 41)
    assert found.lower < exact < found.upper
    assert found.exact is None and found.num_observations == 40
    assert found.params["mean"] == simulate(2)[1]["mean"]


def test_what_is_shown(tmp_path):
    import json

    import matplotlib.pyplot as plt

    updates = []
    found = ev.sandwich(MORE, 100, method=ROUGH, seed=1, progress=updates.append)
    shares = [update.share for update in updates]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert "gap" in repr(found) and "100 observations" in repr(found)
    assert json.loads(json.dumps(found.to_dict()))["forward"]["log_evidence"] == found.forward.log_evidence
    axes = found.plot()
    assert axes.get_xlabel().startswith("log evidence (nats from −")
    assert [label.get_text().split("\n")[0] for label in axes.get_yticklabels()] == ["reverse", "forward"]
    plt.close(axes.figure)


def test_the_same_seed_repeats_and_another_differs():
    first, again, other = (ev.sandwich(MORE, 100, method=ROUGH, seed=seed).lower for seed in (1, 1, 2))
    assert first == again != other


NO_SIMULATOR = ev.Model(
    {"m": dist.Normal(0, 1)}, lambda params, batch: dist.Normal(params["m"], 1).log_prob(batch["y"])
)


@pytest.mark.parametrize(
    ("model", "data", "options", "error", "message"),
    [
        (
            LINEAR,
            1,
            {},
            ev.ConfigurationError,
            r"data must be a number of observations, at least 2, .* got 1\.",
        ),
        (NO_SIMULATOR, 50, {}, ev.ModelError, r"Model\('model'\) cannot simulate: instead of"),
        (NO_SIMULATOR, lambda seed: 3, {}, ev.ConfigurationError, r"returns a tuple .* it returned int\."),
        (
            NO_SIMULATOR,
            lambda seed: ({"y": np.zeros(5)}, {"mean": 0.0}),
            {},
            ev.ModelError,
            r"must be those of model, \{'m': \(\)\} \(name: shape\); got \{'mean': \(\)\}\.",
        ),
        (
            LINEAR,
            50,
            {"method": ev.Sequential()},
            ev.ConfigurationError,
            r"method must be AIS\(\), SMC\(\) or SGAIS\(\)",
        ),
        (
            LINEAR,
            50,
            {"confidence": 1.0},
            ev.ConfigurationError,
            r"confidence must lie between 0 and 1; got 1\.0\.",
        ),
        (LINEAR, 50, {"seed": -1}, ev.ConfigurationError, r"seed must be an integer from 0"),
        ("linear", 50, {}, ev.ModelError, r"model must be an evidentia\.Model; got str\."),
    ],
)
def test_what_cannot_be_used_is_refused(model, data, options, error, message):
    with pytest.raises(error, match=message):
        ev.sandwich(model, data, **options)
