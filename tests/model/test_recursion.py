"""Recursions: likelihood, evidence, data of one sequence and of many, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev

SLOPE = {"slope": dist.Normal(0.0, 1.0)}
Y = np.random.default_rng(0).normal(size=40).astype(np.float32)


def first(params):
    return 0.0


def step(params, before, row):
    """An autoregression of first order, with y_0 = 0 and noise of deviation one."""
    mean = params["slope"] * before
    return row["y"], dist.Normal(mean, 1.0).log_prob(row["y"])


def exact_log_evidence(sequences):
    """log N(y; 0, I + x xᵀ), with the values before as x, in float64."""
    before = np.concatenate([np.concatenate([[0.0], y[:-1]]) for y in sequences])
    after = np.concatenate(sequences).astype(float)
    precision, projection = 1 + before @ before, before @ after
    constant = len(after) * np.log(2 * np.pi) + np.log(precision)
    return -0.5 * (constant + after @ after - projection**2 / precision)


def test_the_evidence_of_an_autoregression_is_that_of_its_regression():
    model = ev.Model.from_recursion(SLOPE, first, step)
    found = ev.estimate(model, {"y": Y})
    assert abs(found.log_evidence - exact_log_evidence([Y])) < 4 * found.standard_error < 0.1
    assert found.num_observations == 40


@pytest.mark.slow
def test_many_sequences_of_their_own_lengths_are_independent():
    model = ev.Model.from_recursion(SLOPE, first, step, many_sequences=True)
    data = {"y": Y.reshape(4, 10), "lengths": np.array([10, 3, 1, 7])}
    sequences = [row[:length] for row, length in zip(data["y"], data["lengths"], strict=True)]
    found = ev.estimate(model, data)
    assert abs(found.log_evidence - exact_log_evidence(sequences)) < 4 * found.standard_error < 0.1
    assert found.num_observations == 4


@pytest.mark.slow
def test_sequences_arrive_in_a_stream():
    model = ev.Model.from_recursion(SLOPE, first, step, many_sequences=True)
    online = ev.Online(model)
    for batch in Y.reshape(4, 2, 5):
        online.update({"y": batch})
    exact = exact_log_evidence(Y.reshape(8, 5))
    assert abs(online.log_evidence - exact) < 4 * online.standard_error < 0.4


def test_a_state_may_have_any_structure_and_takes_the_precision_of_the_step():
    """A cumulative mean, from an integer count and a sum; in 64 bits too."""

    def running(params, state, row):
        mean = params["slope"] + state["sum"] / jnp.maximum(state["count"], 1)
        after = {"count": state["count"] + 1, "sum": state["sum"] + row}
        return after, dist.Normal(mean, 1.0).log_prob(row)

    model = ev.Model.from_recursion(SLOPE, lambda params: {"count": 0, "sum": 0}, running)
    means = np.cumsum(np.concatenate([[0.0], Y[:-1]])) / np.maximum(np.arange(40), 1)
    expected = dist.Normal(means, 1.0).log_prob(Y - 0.5).sum()
    np.testing.assert_allclose(model.log_likelihood({"slope": 0.5}, Y), expected, rtol=1e-5)
    assert model.bind_whole(Y[None]).densities.runs_in_float64


def test_a_missing_value_is_the_steps_own_business():
    def predicting(params, before, row):
        is_missing = jnp.isnan(row["y"])
        mean = params["slope"] * before
        y = jnp.where(is_missing, mean, row["y"])
        return y, jnp.where(is_missing, 0.0, dist.Normal(mean, 1.0).log_prob(y))

    y = np.where(np.arange(40) == 39, np.nan, Y)  # at the end it leaves the evidence as it is
    model = ev.Model.from_recursion(SLOPE, first, predicting, missing=("y",))
    found = ev.estimate(model, {"y": y})
    assert abs(found.log_evidence - exact_log_evidence([Y[:-1]])) < 4 * found.standard_error < 0.1
    with pytest.raises(ev.DataError, match=r"data\['y'\] has NaN or infinite values in 1 of 40 rows"):
        ev.estimate(ev.Model.from_recursion(SLOPE, first, step), {"y": y})


def grows(params, state, row):
    return jnp.concatenate([state, row["y"][None]]), state.sum()


@pytest.mark.parametrize(
    ("init", "step", "message"),
    [
        (
            lambda params: jnp.zeros(1),
            grows,
            r"it got float32\[1\], and returned float32\[2\]. A state cannot grow",
        ),
        (
            lambda params: (0.0, 1.0),
            lambda params, state, row: (state[0], row["y"]),
            r"it got \(float32\[\], float32\[\]\), and returned float32\[\]",
        ),
        (
            first,
            lambda params, state, row: state,
            r"return a tuple \(state, log_predictive\); it returned float32\[\]",
        ),
        (first, lambda params, state, row: 1 / 0, "step failed with ZeroDivisionError: division by zero"),
        (
            first,
            lambda params, state, row: (state, state > 0),
            r"as one real number, .*; it returned bool\[\]",
        ),
        (
            first,
            lambda params, state, row: (state, row["y"] * jnp.ones(2)),
            r"it returned float32\[2\]. Sum over",
        ),
        (
            first,
            lambda params, state, row: row["z"],
            "uses 'z', which is neither a parameter in the prior .slope. nor in data .y.",
        ),
        (lambda params: params["other"], step, "uses 'other', which is neither a parameter"),
        (lambda: 0.0, step, r"init failed with TypeError: .* given. It is called as init\(params\)"),
        (first, lambda state, row: (state, 0.0), r"It is called as step\(params, state, row\)"),
        (
            first,
            lambda params, state, row: (state, params["slope"] if row["y"] > 0 else 0.0),
            "step failed with TracerBoolConversionError: .* use jnp.where in place of if",
        ),
    ],
)
def test_a_step_that_cannot_be_used_is_refused(init, step, message):
    model = ev.Model.from_recursion(SLOPE, init, step)
    with pytest.raises(ev.ModelError, match=message):
        ev.estimate(model, {"y": Y})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"init": 0.0}, "init must be a function; got 0.0"),
        ({"step": None}, "step must be a function; got None"),
        ({"time": 3}, "time must be the name of an array in the data; got 3"),
        (
            {"missing": "y"},
            r"missing must be a tuple of names of arrays in the data, such as \('y',\); got 'y'",
        ),
    ],
)
def test_arguments_of_the_wrong_type_are_named(arguments, message):
    with pytest.raises(ev.ModelError, match=message):
        ev.Model.from_recursion(SLOPE, **{"init": first, "step": step, **arguments})


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            [0, 2, 1],
            r"data\['t'\] must increase from row to row; row 2 has the time 1, after 2. Sort the rows",
        ),
        ([0, 1, 1], "row 2 has the same time as the row before. Keep one row for each time"),
        (None, "data must have the column 't' of times, one for each row; got y"),
    ],
)
def test_times_must_increase(times, message):
    model = ev.Model.from_recursion(SLOPE, first, step, time="t")
    data = {"y": Y[:3]} if times is None else {"y": Y[:3], "t": np.array(times)}
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(model, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"y": np.zeros((2, 0))},
            "each sequence must have at least one row; data has 2 sequences of length 0",
        ),
        (
            {"y": np.ones((2, 5)), "lengths": [5, 0]},
            "must lie between 1 and 5, .*; sequence 1 has 0. Leave out",
        ),
        ({"y": np.ones((2, 5)), "lengths": [5, 6]}, "sequence 1 has 6"),
        ({"y": np.ones((2, 5)), "lengths": [5.0, 6.0]}, r"one integer for each of 2 sequences; got float32"),
        ({"y": np.ones(5)}, r"sequences on the leading axis, and time on the second, .*; y has shape \(5,\)"),
        ({"y": np.ones((2, 5)), "x": np.ones((2, 4))}, r"y has shape \(2, 5\), x has shape \(2, 4\)"),
        (
            {"y": np.ones((2, 3)), "t": np.array([[0, 1, 2], [0, 1, 1]]), "lengths": [3, 3]},
            "row 2 of sequence 1",
        ),
    ],
)
def test_many_sequences_must_have_one_shape(data, message):
    time = "t" if "t" in data else None
    model = ev.Model.from_recursion(SLOPE, first, step, many_sequences=True, time=time)
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(model, data)


def test_one_sequence_must_have_one_length():
    model = ev.Model.from_recursion(SLOPE, first, step)
    with pytest.raises(
        ev.DataError, match=r"time on the leading axis, of the same length; x has shape \(39,\), y has"
    ):
        ev.estimate(model, {"y": Y, "x": Y[1:]})
    with pytest.raises(ev.DataError, match="at least one observation; got 0"):
        ev.estimate(model, {"y": Y[:0]})


def test_times_beyond_the_length_of_a_sequence_do_not_matter():
    model = ev.Model.from_recursion(SLOPE, first, step, many_sequences=True, time="t")
    data = {"y": np.ones((1, 3), np.float32), "t": np.array([[1, 2, 0]]), "lengths": np.array([2])}
    model.check_data(data)


def test_an_undefined_predictive_is_named_with_its_row():
    def logarithm(params, before, row):
        return row["y"], dist.Normal(params["slope"] + jnp.log(before), 1.0).log_prob(row["y"])

    model = ev.Model.from_recursion(SLOPE, lambda params: 1.0, logarithm)
    with pytest.raises(ev.EstimationError) as caught:
        ev.estimate(model, {"y": np.array([1.0, 2.0, -3.0, 4.0, 5.0])})
    assert "The log predictive of row 3 is not finite at the draw slope=" in caught.value.__notes__[-1]


def test_a_missing_value_that_the_step_does_not_expect_is_named_with_its_row():
    """NumPyro gives NaN the density 0, and the row after it is NaN."""
    y = np.where(np.arange(40) == 5, np.nan, Y)
    with pytest.raises(ev.EstimationError) as caught:
        ev.estimate(ev.Model.from_recursion(SLOPE, first, step, missing=("y",)), {"y": y})
    assert "The log predictive of row 5 is not finite at the draw slope=" in caught.value.__notes__[-1]


def test_a_name_of_missing_values_must_be_in_the_data():
    model = ev.Model.from_recursion(SLOPE, first, step, missing=("z",))
    with pytest.raises(ev.DataError, match=r"missing names 'z', which is not in data \(y\)"):
        ev.estimate(model, {"y": Y})


def test_gradients_of_long_sequences_are_those_of_the_sum():
    """ℓ'(a) = Σ (y_t - a y_{t-1}) y_{t-1}, for 10,000 rows in float32."""
    y = np.random.default_rng(1).normal(size=10_000).astype(np.float32)
    model = ev.Model.from_recursion(SLOPE, first, step)
    found = jax.grad(lambda slope: model.log_likelihood({"slope": slope}, {"y": y}))(0.3)
    before = np.concatenate([[0.0], y[:-1].astype(float)])
    np.testing.assert_allclose(found, np.sum((y - 0.3 * before) * before), rtol=1e-4)
