"""Hidden Markov chains: forward algorithm, evidence by a sum over paths, symmetry, data."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import evidentia as ev
from evidentia.evidence.population.mixture import Mixture
from evidentia.posterior.copies import symmetrised
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.symmetry import reorder
from tests import second_truth  # noqa: F401  # first: it puts benchmarks/ on the path

from fresh_families.sequences import chain_log_evidence as exact_log_evidence  # isort: skip

CHAIN = {
    "initial": jnp.array([0.4, 0.3, 0.3]),
    "transition": jnp.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]),
    "emission": jnp.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]),
}
Y = np.array([0, 0, 1, 2, 2, 2, 1, 0, 0, 1])
MODEL = ev.models.hidden_markov(3, num_categories=3)


def test_the_forward_algorithm_gives_the_likelihood_of_a_chain():
    """The value of ten observations is a public test case."""
    assert float(MODEL.log_likelihood(CHAIN, {"y": Y})) == pytest.approx(-11.91728050, abs=1e-5)


def test_a_missing_value_is_summed_out_and_one_at_the_end_is_none():
    missing = np.where(np.arange(10) == 4, np.nan, Y)
    terms = [MODEL.log_likelihood(CHAIN, {"y": np.where(np.arange(10) == 4, each, Y)}) for each in range(3)]
    found = MODEL.log_likelihood(CHAIN, {"y": missing})
    np.testing.assert_allclose(found, jax.nn.logsumexp(jnp.asarray(terms)), atol=1e-5)
    longer = np.concatenate([Y, np.full(5, np.nan)])
    np.testing.assert_allclose(
        MODEL.log_likelihood(CHAIN, {"y": longer}), MODEL.log_likelihood(CHAIN, {"y": Y}), atol=1e-5
    )


def test_each_of_many_sequences_has_its_likelihood():
    many = ev.models.hidden_markov(3, num_categories=3, many_sequences=True)
    found = many.log_likelihood(CHAIN, {"y": np.stack([Y, Y[::-1]])})
    expected = [MODEL.log_likelihood(CHAIN, {"y": each}) for each in (Y, Y[::-1])]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_value_that_no_state_explains_neither_underflows_nor_loses_the_gradient():
    """In log space, in float64: Σ_k p_k N(y; m_k, 1) where all densities underflow in float32."""
    model, y = ev.models.hidden_markov(2, "normal"), np.array([0.0, 300.0, 0.0])
    params = {
        "initial": jnp.array([0.5, 0.5]),
        "transition": jnp.array([[1 - 1e-6, 1e-6], [0.5, 0.5]]),
        "variances": jnp.ones(2),
        "means": jnp.array([0.0, 1.0]),
    }
    log_states = np.log([0.5, 0.5])
    total = 0.0
    for value in y:
        log_joint = log_states - 0.5 * (value - np.array([0.0, 1.0])) ** 2 - 0.5 * np.log(2 * np.pi)
        total += np.logaddexp(*log_joint)
        filtered = log_joint - np.logaddexp(*log_joint)
        log_states = np.logaddexp.reduce(
            filtered[:, None] + np.log(np.asarray(params["transition"], float)), 0
        )
    value, gradient = jax.value_and_grad(model.log_likelihood)(params, {"y": y})
    np.testing.assert_allclose(value, total, rtol=1e-6)
    assert all(np.isfinite(each).all() for each in gradient.values())


@pytest.mark.parametrize(
    "emission",
    ["normal", *(pytest.param(each, marks=pytest.mark.slow) for each in ("categorical", "poisson"))],
)
def test_the_mean_likelihood_over_the_prior_is_the_sum_over_all_paths(emission):
    """Draws from the prior are unbiased: for five observations, one of them missing."""
    y = np.array([0.0, 1.0, 1.0, np.nan, 2.0])
    model = ev.models.hidden_markov(2, emission, num_categories=3 if emission == "categorical" else None)
    found = ev.estimate(model, {"y": y}, method=ev.PriorSampling(num_particles=20_000))
    exact = exact_log_evidence(y, 2, emission)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_states", "emission", "length"), [(1, "poisson", 20), (2, "normal", 9), (3, "categorical", 7)]
)
def test_the_evidence_is_the_sum_over_all_paths(num_states, emission, length):
    model = ev.models.hidden_markov(
        num_states, emission, num_categories=3 if emission == "categorical" else None
    )
    data, _ = model.simulate(length, seed=1)
    found = ev.estimate(model, data)
    exact = exact_log_evidence(data["y"], num_states, emission)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.2


@pytest.mark.reference
@pytest.mark.parametrize(("num_states", "emission", "length"), [(2, "normal", 9), (3, "categorical", 8)])
def test_standard_errors_cover_the_evidence_of_many_series(num_states, emission, length):
    """20 series: the root mean square of 20 standard normals is below 1.5 but for 1 in 10⁴."""
    categories, scores = 3 if emission == "categorical" else None, []
    model = ev.models.hidden_markov(num_states, emission, num_categories=categories)
    for seed in range(20):
        data, _ = model.simulate(length, seed)
        found = ev.estimate(model, data, seed=seed)
        exact = exact_log_evidence(data["y"], num_states, emission)
        scores.append((found.log_evidence - exact) / found.standard_error)
    assert np.sqrt(np.mean(np.square(scores))) < 1.5


@pytest.mark.reference
def test_a_real_series_has_states(shared_data):
    """Monthly moves of an exchange rate: one state is exact, and two are a hundred nats better."""
    text = (shared_data / "tcpd" / "usd_isk.json").read_text(encoding="utf-8")
    price = np.array(json.loads(text)["series"][0]["raw"])
    data = {"y": np.float32(100 / 3 * np.diff(np.log(price)))}
    one, two = (ev.estimate(ev.models.hidden_markov(states, "normal"), data) for states in (1, 2))
    spread = np.eye(len(price) - 1) + 4.0  # means and variances integrated out
    exact = stats.multivariate_t.logpdf(data["y"], np.zeros(len(price) - 1), spread, df=2)
    assert abs(one.log_evidence - exact) < 4 * one.standard_error < 0.01
    assert two.log_evidence - one.log_evidence > 100


def test_states_have_no_order():
    bound = MODEL.bind_whole({"y": Y[None]})
    assert bound.symmetry.components == (
        *(("initial", 0), ("transition", 0), ("transition", 1), ("emission", 0)),
    )
    positions = bound.sample_prior(jax.random.key(0), 20)
    orders = np.tile([2, 0, 1], (20, 1))
    moved, rows = reorder(bound, positions, orders), {"y": Y[None]}
    at = jax.vmap(bound.log_likelihood, (0, None))
    np.testing.assert_allclose(at(positions, rows), at(moved, rows), atol=1e-3)
    before, after = bound.constrain(positions), bound.constrain(moved)
    expected = np.asarray(before["transition"])[:, [2, 0, 1]][:, :, [2, 0, 1]]
    np.testing.assert_allclose(after["transition"], expected, atol=1e-4)


def test_a_proposal_about_one_order_counts_all_of_them():
    """Near a mode with distant copies it is the density over 3!."""
    bound = MODEL.bind_whole({"y": Y[None]})
    position = np.asarray(bound.unconstrain(CHAIN), np.float64)
    density = Mixture((LocalGaussian(position, 400 * np.eye(len(position)), 0.0),))
    alone = density.log_density(position[None])
    np.testing.assert_allclose(symmetrised(bound, density, position[None]), alone - np.log(6), atol=1e-6)


def test_simulated_chains_stay_as_long_as_their_transitions_say():
    data, params = ev.models.hidden_markov(2, "poisson").simulate(2_000, seed=0)
    stationary = np.linalg.matrix_power(params["transition"].astype(float), 1_000)[0]
    spread = params["rates"].max()
    assert abs(data["y"].mean() - stationary @ params["rates"]) < 0.3 * spread + 0.1
    many = ev.models.hidden_markov(2, "poisson", many_sequences=True)
    assert many.simulate(7, seed=0)[0]["y"].shape == (7, 100)


def test_new_sequences_are_as_long_as_the_data():
    draws = {name: np.stack([np.asarray(value)] * 50) for name, value in CHAIN.items()}
    found = MODEL.predict(draws, {"y": Y}, 0)["y"]
    assert found.shape == (50, 10) and set(np.unique(found)) <= {0, 1, 2}
    many = ev.models.hidden_markov(3, num_categories=3, many_sequences=True)
    assert many.predict(draws, {"y": np.zeros((4, 6))}, 0)["y"].shape == (50, 4, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_states": 0}, "num_states must be an integer of at least 1; got 0"),
        ({"num_states": 2}, "num_categories must be an integer of at least 1; got None"),
        (
            {"num_states": 2, "emission": "gamma"},
            "emission must be one of 'categorical', 'normal', 'poisson'; got 'gamma'",
        ),
        (
            {"num_states": 2, "emission": "normal", "num_categories": 3},
            "num_categories=3 needs emission='categorical'; got 'normal'",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.models.hidden_markov(**arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": np.array([0, 1, 3])}, r"integers 0 to 2, as num_categories=3; got values from 0 to 3"),
        ({"y": np.array([0, 0.5, np.nan])}, r"integers 0 to 2"),
        ({"y": np.zeros((4, 2), int)}, r"must have shape \(T,\), as many_sequences=False; got \(4, 2\)"),
        ({"y": np.full(3, np.nan)}, r"must have an observation"),
        ({"x": np.zeros(3)}, r"the model needs data with 'y'; got 'x'"),
        (np.zeros(3), r"the model needs data as a mapping with 'y'; got ndarray"),
        ({"y": np.zeros(0)}, r"data must have at least one observation; got 0"),
    ],
)
def test_bad_data_are_named(data, message):
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(MODEL, data)
    with pytest.raises(ev.DataError, match=r"\(sequences, T\)"):
        ev.estimate(ev.models.hidden_markov(2, "normal", many_sequences=True), {"y": np.zeros(5)})


@pytest.mark.parametrize("values", [[0.5, 1.0], [-1.0, 2.0]])
def test_counts_are_integers_from_zero(values):
    with pytest.raises(ev.DataError, match="must hold counts, integers from 0"):
        ev.estimate(ev.models.hidden_markov(2, "poisson"), {"y": np.array(values)})
