"""Priors beyond float32, and narrow modes beside wide ones: both were wrong in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import gammaln

import evidentia as ev

SHAPE = 1e-4  # 99 of 100 draws from Gamma(SHAPE, SHAPE) are zero in float32


def precision_model() -> ev.Model:
    return ev.Model(
        prior={"precision": dist.Gamma(SHAPE, SHAPE)},
        log_likelihood=lambda params, batch: dist.Normal(0, params["precision"] ** -0.5).log_prob(batch["y"]),
    )


def exact_of(rows: np.ndarray) -> float:
    half, squares = len(rows) / 2, 0.5 * np.sum(rows.astype(float) ** 2)
    return (
        -half * np.log(2 * np.pi)
        + SHAPE * np.log(SHAPE)
        - gammaln(SHAPE)
        + gammaln(SHAPE + half)
        - (SHAPE + half) * np.log(SHAPE + squares)
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_gamma_prior_over_hundreds_of_orders_of_magnitude(seed):
    rows = np.random.default_rng(5).normal(0, 2, 10).astype(np.float32)
    evidence = ev.estimate(precision_model(), {"y": rows}, seed=seed)
    assert evidence.log_evidence == pytest.approx(exact_of(rows), abs=4 * evidence.standard_error + 0.005)
    assert evidence.verdict.word == "trusted"


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [ev.SMC(), ev.NestedSampling(), ev.AMIS()], ids=lambda each: type(each).__name__
)
def test_other_methods_start_inside_float32_too(method):
    rows = np.random.default_rng(5).normal(0, 2, 10).astype(np.float32)
    evidence = ev.estimate(precision_model(), {"y": rows}, method=method)
    assert evidence.log_evidence == pytest.approx(exact_of(rows), abs=4 * evidence.standard_error)


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")  # heavy weights, too
def test_a_prior_that_matters_beyond_float32_is_doubtful():
    # The likelihood hardly depends on the precision, so all of the prior counts.
    model = ev.Model(
        prior={"precision": dist.Gamma(SHAPE, SHAPE)},
        log_likelihood=lambda params, batch: (
            -(batch["y"] ** 2) * (1 + params["precision"] / (1 + params["precision"]))
        ),
    )
    with pytest.warns(ev.DiagnosticWarning, match="become zero or infinite in float32"):
        evidence = ev.estimate(model, {"y": np.ones(3, np.float32)})
    assert evidence.verdict.word == "doubtful"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_shares_that_float32_rounds_to_the_edge_are_doubtful():
    """A fifth of Dirichlet(0.1, 0.1, 0.1) has a last share below 10⁻⁷, where float32 rounds."""
    model = ev.Model(
        prior={"shares": dist.Dirichlet(0.1 * jnp.ones(3))},
        log_likelihood=lambda params, batch: jnp.log(params["shares"][batch["y"]]),
    )
    evidence = ev.estimate(model, {"y": np.zeros(10, np.int32)})
    assert evidence.signs.keys() & {"edge of float32", "prior beyond float32"}
    assert evidence.verdict.word == "doubtful"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_a_probability_near_zero_with_a_beta_prior_is_doubtful():
    """A sixth of Beta(0.02, 0.02) lies below 10⁻³⁸, where float32 has no numbers."""
    model = ev.Model(
        prior={"share": dist.Beta(0.02, 0.02)},
        log_likelihood=lambda params, batch: dist.Bernoulli(params["share"]).log_prob(batch["y"]),
    )
    evidence = ev.estimate(model, {"y": np.zeros(10, np.int32)})
    assert "become zero or infinite in float32" in evidence.signs["prior beyond float32"]
    assert evidence.verdict.word == "doubtful"


def test_narrow_priors_far_from_zero_are_not_at_an_edge():
    """Draws of Normal(10⁶, 0.01) take a few values in float32, and none is an edge."""
    model = ev.Model(
        prior={"mean": dist.Normal(1e6, 0.01), "scale": dist.LogNormal(50.0, 1e-6)},
        log_likelihood=lambda params, batch: dist.Normal(params["mean"], params["scale"]).log_prob(
            batch["y"]
        ),
    )
    bound = model.bind({"y": jnp.full(3, 1e6)})
    assert not bound.is_at_edge(bound.sample_prior(jax.random.key(0), 512)).any()


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 5])
def test_a_spike_beside_a_slab_is_found(size):
    def log_likelihood(params, batch):
        def normal(mean, deviation):
            return dist.Normal(mean, deviation).log_prob(params["x"]).sum()

        both = jnp.logaddexp(jnp.log(100.0) + normal(0.031, 0.01), normal(0.0, 0.1))
        return both * jnp.ones(batch["y"].shape[0])

    model = ev.Model(
        prior={"x": dist.Uniform(-0.5, 0.5).expand([size]).to_event(1)}, log_likelihood=log_likelihood
    )
    evidence = ev.estimate(model, {"y": np.zeros(1, np.float32)})
    assert evidence.log_evidence == pytest.approx(np.log(101), abs=4 * evidence.standard_error + 0.01)
