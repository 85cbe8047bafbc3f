"""Laplace's approximation: exact with importance sampling, its error without, and its limits."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import evidentia as ev
from evidentia.data.arrays import as_arrays, on_device
from evidentia.evidence import laplace
from evidentia.posterior.modes import find_modes
from evidentia.posterior.rows import Window
from tests.evidence.scores import run, scores
from tests.evidence.test_analytic_truths import CASES

pytestmark = pytest.mark.reference

AS_IT_STANDS = ev.Laplace(importance_sampling=False)


@pytest.mark.parametrize(("name", "size"), [("linear", 200), ("normal-inverse-gamma", 2)])
def test_importance_sampling_agrees_with_the_exact_evidence(name, size):
    """For a Gaussian posterior, and for one far from Gaussian."""
    data = CASES[name].simulate(np.random.default_rng(size), 200)
    found = scores(ev.Laplace(), CASES[name], range(4), data, size)
    assert np.all(np.abs(found) < 4.5) and abs(found.mean()) < 4 / np.sqrt(4), found


def test_the_standard_error_is_what_repeats_vary_by(monkeypatch):
    case, repeats = CASES["normal-inverse-gamma"], 40
    data = case.simulate(np.random.default_rng(0), 200)
    # Search the mode once, since all seeds find the same one.
    arrays = on_device(as_arrays(data))
    modes = find_modes(case.explicit.bind(arrays), Window(arrays, 0, 20), jax.random.key(0))
    monkeypatch.setattr(laplace, "find_modes", lambda *arguments: modes)
    found = scores(ev.Laplace(), case, range(repeats), data, 20)
    assert abs(found.mean()) < 4 / np.sqrt(repeats), found.mean()
    assert abs(found.std() - 1) < 4 / np.sqrt(2 * repeats), found.std()


def test_as_it_stands_it_is_exact_for_a_gaussian_and_its_error_is_not_known():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 200)
    evidence = ev.estimate(case.explicit, data, method=AS_IT_STANDS)
    assert evidence.log_evidence == pytest.approx(case.exact(data), abs=1e-5)
    assert math.isnan(evidence.standard_error) and evidence.to_dict()["standard_error"] is None
    assert "± ? nats" in repr(evidence)
    mean = evidence.posterior["weights"].mean(0)
    assert np.abs(mean - [1.0, -2.0, 0.5]).max() < 5 / np.sqrt(200)
    assert evidence.plot() is not None


def test_as_it_stands_its_error_falls_as_one_over_the_rows():
    # The next term for the Poisson rate, by Stirling's series: 1/12 (1/(2 + Σy)), with Σy ≈ 3 n.
    case = CASES["gamma-poisson"]
    data = case.simulate(np.random.default_rng(0), 300)
    for size in (5, 300):
        first = {"y": data["y"][:size]}
        error = run(AS_IT_STANDS, case.explicit, data, size).estimate.log_evidence - case.exact(first)
        assert error == pytest.approx(-1 / 12 / (2 + first["y"].sum()), rel=0.05, abs=2e-5)


def test_interchangeable_components_are_counted_once_each_order():
    # Two Gaussians of known width in either order; the truth is a sum over a grid of both means.
    def log_likelihood(params, y):
        return jax.nn.logsumexp(dist.Normal(params["m"], 0.5).log_prob(y[:, None]), axis=1) - jnp.log(2)

    model = ev.Model({"m": dist.Normal(0, 3).expand([2]).to_event(1)}, log_likelihood, exchangeable=("m",))
    generator = np.random.default_rng(0)
    y = generator.normal(generator.choice([-1.0, 1.5], 60), 0.5).astype(np.float32)
    grid = np.linspace(-3, 3, 601)
    density = norm.pdf(y[:, None], grid, 0.5)  # (rows, grid)
    mixed = np.zeros((601, 601))
    for row in density:
        mixed += np.log(0.5 * (row[:, None] + row))
    mixed += norm.logpdf(grid, 0, 3)[:, None] + norm.logpdf(grid, 0, 3)
    exact = np.logaddexp.reduce(mixed, axis=None) + 2 * np.log(grid[1] - grid[0])
    evidence = ev.estimate(model, y, method=ev.Laplace())
    assert abs(evidence.log_evidence - exact) < 4.5 * evidence.standard_error
    assert evidence.diagnostics["num_modes"] == 1
    # One order too many or too few would be off by log 2.
    assert ev.estimate(model, y, method=AS_IT_STANDS).log_evidence == pytest.approx(exact, abs=0.1)


def test_two_modes_are_found_and_counted():
    # The sign of m is almost unknown: two modes at -1 and 1, with twice the evidence.
    one = ev.Model({"m": dist.Normal(0, 1)}, lambda p, y: dist.Normal(p["m"], 1.0).log_prob(y))
    two = ev.Model({"m": dist.Normal(1e-6, 1)}, lambda p, y: dist.Normal(jnp.abs(p["m"]), 1.0).log_prob(y))
    y = np.random.default_rng(0).normal(1.0, 1.0, 200).astype(np.float32)
    first, second = (ev.estimate(model, y, method=ev.Laplace()) for model in (one, two))
    assert second.diagnostics["num_modes"] == 2
    difference = second.log_evidence - first.log_evidence - math.log(2)
    assert abs(difference) < 4.5 * math.hypot(first.standard_error, second.standard_error)


def counts_that_overflow(generator):
    x = generator.normal(size=(2000, 4)).astype(np.float32)
    counts = generator.poisson(np.exp(2 + 0.5 * x[:, 0]))
    model = ev.Model(
        {"w": dist.Normal(0, 5).expand([4]).to_event(1), "m": dist.Normal(0, 5)},
        lambda p, b: dist.Poisson(jnp.exp(b["x"] @ p["w"] + p["m"])).log_prob(b["y"]),
    )
    return model, {"x": x, "y": counts.astype(np.int32)}, 2.0


def narrow_scale_far_out(generator):
    model = ev.Model(
        {"m": dist.Normal(0, 1000), "s": dist.LogNormal(0, 5)},
        lambda p, y: dist.Normal(p["m"], p["s"]).log_prob(y),
    )
    return model, (1500 + 0.1 * generator.normal(size=300)).astype(np.float32), 1500.0


@pytest.mark.parametrize("problem", [counts_that_overflow, narrow_scale_far_out])
def test_modes_far_from_the_draws_of_the_prior_are_found(problem):
    model, data, truth = problem(np.random.default_rng(0))
    rows = Window(jax.tree.map(jnp.asarray, data), 0, len(jax.tree.leaves(data)[0]))
    bound = model.bind(data)
    (mode,) = find_modes(bound, rows, jax.random.key(0))
    assert bound.constrain(jnp.asarray(mode.centre)[None])["m"][0] == pytest.approx(truth, abs=0.05)


def test_a_posterior_far_from_a_gaussian_is_said_loudly():
    # The data determine only the product of two factors: a cross with four long arms.
    model = ev.Model(
        {"a": dist.Normal(0, 1), "b": dist.Normal(0, 1)},
        lambda p, y: dist.Normal(p["a"] * p["b"], 1.0).log_prob(y),
    )
    y = np.random.default_rng(0).normal(size=3000).astype(np.float32)
    with pytest.warns(ev.DiagnosticWarning, match=r"far from Gaussian .* Use SGAIS\(\)"):
        ev.estimate(model, y, method=ev.Laplace())


def test_no_mode_is_an_error_that_says_what_to_do():
    # The prior density rises towards the edge of the likelihood's support: there is no mode.
    model = ev.Model({"m": dist.Normal(0, 1)}, lambda p, y: jnp.where(p["m"] > 2.5, 0.0, -jnp.inf) + 0 * y)
    with pytest.raises(ev.EstimationError, match=r"no mode .* Use SGAIS\(\), which needs no mode"):
        ev.estimate(model, np.zeros(5, np.float32), method=ev.Laplace())


def test_same_seed_same_numbers():
    case = CASES["linear"]
    data = case.simulate(np.random.default_rng(0), 200)
    runs = [ev.estimate(case.explicit, data, method=ev.Laplace(), seed=seed) for seed in (0, 0, 1)]
    assert runs[0].log_evidence == runs[1].log_evidence != runs[2].log_evidence
    assert runs[0].num_particles == 1024 and runs[0].ess > 900
