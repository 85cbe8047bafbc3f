"""Model averages of models with exact evidence."""

import math

import jax
import numpy as np
import pytest

import evidentia as ev
from experiments.conjugate import Gaussian, LinearRegression
from tests.evidence_factory import make_evidence


def rows(count=300, seed=0):
    return np.random.default_rng(seed).normal(0.3, 1.2, count)


def pair():
    return {"vague": Gaussian(rows=0.01), "sharp": Gaussian(rows=10.0)}


def fed(averaged, data, size=20):
    return [averaged.update(data[start : start + size]) for start in range(0, len(data), size)]


def test_without_forgetting_they_are_the_posterior_probabilities():
    data, prior = rows(), {"vague": 3.0, "sharp": 1.0}
    averaged = ev.ModelAverage(pair(), prior)
    update = fed(averaged, data)[-1]
    whole = pair()
    for online in whole.values():
        online.update(data)
    joint = {"vague": 0.75, "sharp": 0.25}
    joint = {name: share * math.exp(whole[name].log_evidence) for name, share in joint.items()}
    for name, value in joint.items():
        assert update.probabilities[name] == pytest.approx(value / sum(joint.values()), rel=1e-9)
    # The product of the average's predictions is its evidence, the prior mean of the evidences.
    assert update.log_evidence == pytest.approx(math.log(sum(joint.values())))
    assert averaged.num_observations == update.num_observations == 300 and update.batch_size == 20
    assert update.updates["sharp"].log_evidence == averaged.onlines["sharp"].log_evidence


class Noisy(Gaussian):
    """Reports a log evidence error that grows with the rows since `drawn_at`."""

    drawn_at = 0

    def update(self, batch):
        update = super().update(batch)
        update.log_predictive_standard_error = 0.1 * math.sqrt(len(batch) / 100)
        rows = self.num_observations - self.drawn_at
        update.standard_error = self.standard_error = 0.1 * math.sqrt(rows / 100)
        return update


def test_probabilities_and_their_errors_are_those_of_compare():
    averaged = ev.ModelAverage({"a": Noisy(rows=0.01), "b": Noisy(rows=0.02), "c": Gaussian(rows=0.5)})
    fed(averaged, rows())
    comparison = ev.compare(
        {
            name: make_evidence(online.log_evidence, online.standard_error, 300)
            for name, online in averaged.onlines.items()
        }
    )
    for name, probability, error in zip(
        comparison.names, comparison.probability, comparison.probability_error, strict=True
    ):
        assert averaged.probabilities[name] == pytest.approx(probability, rel=1e-12)
        assert averaged.probability_errors[name] == pytest.approx(error, rel=1e-12)
    assert 0.0 < averaged.probability_errors["a"] < 0.5
    assert "±" in repr(averaged) and "300 observations" in repr(averaged)


def test_forgetting_is_per_row_and_falls_back_to_the_prior():
    """The log odds are the prior's plus Σ α^(b (n - i)) rᵢ for batches with log ratios rᵢ."""
    forgetting, size, ratio = 0.99, 10, []
    averaged = ev.ModelAverage(pair(), {"vague": 0.9, "sharp": 0.1}, forgetting)
    for update in fed(averaged, rows(100), size):
        ratio.append(update.updates["vague"].log_predictive - update.updates["sharp"].log_predictive)
    expected = sum(forgetting ** (size * (len(ratio) - 1 - i)) * value for i, value in enumerate(ratio))
    found = averaged.probabilities
    assert math.log(found["vague"] / found["sharp"]) == pytest.approx(math.log(9) + expected)


@pytest.mark.parametrize("drawn_at", [0, 200], ids=["along the path", "drawn anew at the end"])
def test_errors_with_forgetting_fade_too(drawn_at):
    """A log evidence error that falls after redrawing does not reduce that of the predictions."""
    averaged = ev.ModelAverage({"a": Noisy(rows=0.01), "b": Noisy(rows=0.02)}, forgetting=0.99)
    data = rows(200)
    averaged.update(data[:100])
    for online in averaged.onlines.values():
        online.drawn_at = drawn_at
    averaged.update(data[100:])
    shrink = 0.99**100
    variance = 2 * (0.1**2 * shrink**2 + (0.02 - 0.01))
    share = averaged.probabilities["a"]
    assert averaged.probability_errors["a"] == pytest.approx(share * (1 - share) * math.sqrt(variance))


def test_unknown_errors_stay_unknown():
    class Unknown(Gaussian):
        def update(self, batch):
            update = super().update(batch)
            update.standard_error = self.standard_error = update.log_predictive_standard_error = math.nan
            return update

    for forgetting in (1.0, 0.99):
        averaged = ev.ModelAverage({"a": Unknown(), "b": Gaussian(rows=1.0)}, forgetting=forgetting)
        fed(averaged, rows(40))
        assert math.isnan(averaged.probability_errors["a"]) and "?" in repr(averaged)


def switching(count=40_000, period=10_000, seed=0):
    """y depends on the first column for one period, on the second for the next, and so on."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, 2))
    first = (np.arange(count) // period) % 2 == 0
    return x, np.where(first, 2.0 * x[:, 0], -1.5 * x[:, 1]) + generator.normal(size=count)


def test_with_forgetting_the_average_beats_each_model_where_the_best_one_changes():
    """Measured for periods of 10⁴ rows: -72,890 nats (average), -99,417 and -107,703 (models)."""
    x, y = switching()
    averaged = ev.ModelAverage(
        {"first": LinearRegression([0]), "second": LinearRegression([1])}, forgetting=0.999
    )
    forever = ev.ModelAverage({"first": LinearRegression([0]), "second": LinearRegression([1])})
    for start in range(0, len(y), 100):
        update = averaged.update((x[start : start + 100], y[start : start + 100]))
        forever.update((x[start : start + 100], y[start : start + 100]))
        if start in (9_900, 29_900):
            assert update.probabilities["first"] > 0.999
        if start in (19_900, 39_900):
            assert update.probabilities["second"] > 0.999
    singles = [online.log_evidence for online in averaged.onlines.values()]
    assert averaged.log_evidence > max(singles) + 20_000
    assert forever.log_evidence == pytest.approx(max(singles), abs=1.0)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_log_predictive_of_one_row_is_what_an_update_would_find(forgetting):
    averaged = ev.ModelAverage(pair(), forgetting=forgetting)
    fed(averaged, rows(60))
    before = averaged.probabilities
    (pointwise,) = averaged.log_predictive(np.array([2.5]))
    assert averaged.probabilities == before and averaged.num_observations == 60
    assert averaged.update(np.array([2.5])).log_predictive == pytest.approx(pointwise)
    assert averaged.log_predictive(rows(7)).shape == (7,)


def test_models_that_have_seen_rows_bring_their_evidence():
    data, onlines = rows(), pair()
    for online in onlines.values():
        online.update(data[:100])
    averaged = ev.ModelAverage(onlines)
    fed(averaged, data[100:])
    complete = ev.ModelAverage(pair())
    fed(complete, data)
    assert averaged.probabilities == pytest.approx(complete.probabilities)


def test_an_average_that_was_saved_goes_on_as_if_it_had_not_been():
    averaged, again = (ev.ModelAverage(pair(), forgetting=0.99) for _ in range(2))
    fed(averaged, rows())
    for name, online in again.onlines.items():
        online.__dict__.update(averaged.onlines[name].__dict__)
    again = ev.ModelAverage(again.onlines, forgetting=0.99).resume(averaged.state)
    for part in np.split(rows(40, seed=1), 2):
        one, other = averaged.update(part), again.update(part)
        assert one.probabilities == other.probabilities and one.log_evidence == other.log_evidence
    with pytest.raises(ev.ConfigurationError, match="state must be for 1 models; got one for 2"):
        ev.ModelAverage({"a": Gaussian()}).resume(averaged.state)


def linear_pair():
    x, y = switching(400, 400)
    averaged = ev.ModelAverage({"first": LinearRegression([0], 5.0), "both": LinearRegression([0, 1], 5.0)})
    averaged.update((x, y))
    return averaged


def test_predictions_weigh_models_and_particles():
    averaged = linear_pair()
    functions = {"first": lambda params: 3.0 * params["w"][:1], "both": lambda params: params["w"][1:]}
    found = averaged.predict(functions, num_draws=4000, seed=1)
    shares = averaged.probabilities
    assert 0.05 < shares["both"] < 0.95, "otherwise the test shows nothing"
    parts = {
        "first": 3.0 * averaged.onlines["first"].weighted["w"][:, :1],
        "both": averaged.onlines["both"].weighted["w"][:, 1:],
    }
    np.testing.assert_allclose(
        found.mean, sum(shares[name] * part.mean(0) for name, part in parts.items()), rtol=1e-5
    )
    assert found.draws.shape == (4000, 1) and len(found.models) == 4000
    share = np.mean(np.array(found.models) == "both")
    assert abs(share - shares["both"]) < 4 * math.sqrt(shares["both"] * shares["first"] / 4000)
    assert abs(found.draws.mean() - found.mean[0]) < 4 * found.draws.std() / math.sqrt(4000)
    for name, part in parts.items():
        drawn = found.draws[np.array(found.models) == name]
        assert np.isin(drawn.round(4), part.astype(np.float32).round(4)).all(), (
            "draws come from the model's particles"
        )


@pytest.mark.slow
def test_random_predictions_draw_with_different_keys():
    averaged = linear_pair()

    def simulate(key, params):
        return params["w"][0] + jax.random.normal(key)

    found = averaged.predict(simulate, num_draws=2000)
    assert len(np.unique(found.draws)) > 1990
    assert found.mean == pytest.approx(found.draws.mean())
    # The variance of a draw is that of the noise, one, plus that of w, to four standard errors.
    same = averaged.predict(lambda params: params["w"][0], num_draws=2000)
    spread = same.draws.var()
    assert abs(found.draws.var() - 1 - spread) < 4 * (1 + spread) * math.sqrt(2 / 2000)
    other = averaged.predict(lambda params: params["w"][0], num_draws=2000, seed=1)
    assert not np.array_equal(same.draws, other.draws) and same.mean == other.mean


def test_a_model_without_a_draw_is_left_out():
    averaged = ev.ModelAverage({"a": Gaussian(), "b": Gaussian()}, {"a": 1e-12, "b": 1.0})
    for function in (lambda key, params: params["mean"], lambda params: params["mean"]):
        assert set(averaged.predict(function, num_draws=50).models) == {"b"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"onlines": {}}, "onlines must map at least one name to an Online; got an empty mapping"),
        ({"onlines": [Gaussian()]}, "onlines must map at least one name to an Online; got list"),
        ({"onlines": {"a": 3}}, r"onlines\['a'\] must be an evidentia.Online; got int"),
        ({"onlines": pair(), "prior_probabilities": {"vague": 1.0}}, "prior_probabilities must name the models sharp, vague; it names vague"),
        ({"onlines": pair(), "prior_probabilities": {"vague": 1.0, "sharp": 0.0}}, "prior_probabilities must be positive and finite"),
        ({"onlines": pair(), "forgetting": 1.1}, "forgetting must be above 0 and at most 1; got 1.1"),
    ],
)  # fmt: skip
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.ModelAverage(**arguments)


def test_models_must_have_seen_the_same_rows():
    onlines = pair()
    onlines["sharp"].update(rows(10))
    with pytest.raises(ev.ConfigurationError, match="same observations; 'vague' has 0, 'sharp' has 10"):
        ev.ModelAverage(onlines)
    averaged = ev.ModelAverage(pair())
    averaged.onlines["sharp"].update(rows(10))
    with pytest.raises(ev.ConfigurationError, match="same observations"):
        averaged.update(rows(5))
    assert averaged.onlines["vague"].num_observations == 0


@pytest.mark.parametrize(
    "functions, message",
    [
        (3, "functions must be one function, or one for each of both, first; got int"),
        ({"first": lambda params: 0.0}, "one for each of both, first; got first"),
        (lambda a, b, c: 0.0, r"take \(params\), or all \(key, params\); got numbers of arguments: 3"),
        ({"first": lambda p: 0.0, "both": lambda k, p: 0.0}, "numbers of arguments: 1 for 'first', 2 for 'both'"),
        ({"first": lambda p: p["w"], "both": lambda p: p["w"]}, r"same shape; got \(1,\) for 'first', \(2,\)"),
    ],
)  # fmt: skip
def test_functions_that_do_not_fit(functions, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        linear_pair().predict(functions)


def test_arguments_with_defaults_are_not_asked_for():
    averaged, shift = linear_pair(), 1.0
    found = averaged.predict(lambda params, by=shift: params["w"][..., :1] + by, num_draws=8)
    plain = averaged.predict(lambda params: params["w"][..., :1] + shift, num_draws=8)
    np.testing.assert_array_equal(found.draws, plain.draws)
    with pytest.raises(ev.ConfigurationError, match="seed must be an integer"):
        averaged.predict(lambda params: params["w"][..., :1], seed=-1)
