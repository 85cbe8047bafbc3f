"""Censored times: densities against SciPy's, and evidences against sums over a grid in float64."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.stats
from scipy.special import logsumexp

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.censored import events_of
from evidentia.regression.families import family
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.prediction import fitted
from evidentia.regression.response import respond, response_of
from evidentia.regression.table import as_table
from tests.evidence_factory import make_evidence

stats: Any = scipy.stats  # whose types are incomplete
FAMILIES = "exponential", "weibull", "lognormal"
ROWS = 60
GENERATOR = np.random.default_rng(1)
X = 20 + 3 * GENERATOR.standard_normal(ROWS)
Z = (X - X.mean()) / X.std()
EVENT_TIMES = 1000 * np.exp(0.3 + 0.8 * Z + 0.6 * np.log(GENERATOR.exponential(size=ROWS)))
CENSORING = GENERATOR.exponential(3000, ROWS)
TABLE = pd.DataFrame(
    {
        "t": np.minimum(EVENT_TIMES, CENSORING),
        "d": EVENT_TIMES <= CENSORING,
        "x": X,
        "k": np.arange(ROWS) % 15,
    }
)
MAINTAINED = [9, 13, 13, 18, 23, 28, 31, 34, 45, 48, 161]
OTHERS = [5, 5, 8, 8, 12, 16, 23, 27, 30, 33, 43, 45]
AML = pd.DataFrame(  # survival of leukaemia, in R's package survival (Miller 1981)
    {
        "time": MAINTAINED + OTHERS,
        "status": [1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1],
        "x": ["Maintained"] * 11 + ["Nonmaintained"] * 12,
    }
)


def law_of(name, location, scale):
    if name == "lognormal":
        return stats.lognorm(scale, scale=np.exp(location))
    return stats.weibull_min(1 / scale, scale=np.exp(location))


def log_density(name, y, status, predictor, scale):
    """In the units of the table, as the model computes it in float32."""
    law = family(name)
    response = respond(pd.Series(y), status, np.zeros(len(y)), law, "y", True)
    batch = {key: jnp.asarray(values) for key, values in response.arrays.items()}
    shifted = jnp.asarray(predictor - response.location, jnp.float32)
    found = law.log_density(shifted, batch, {"scale": jnp.float32(scale)})
    return np.asarray(found, np.float64) - response.location * (status > 0)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("scale", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_densities_of_events_and_chances_of_later_ones(name, scale, unit):
    y, predictor, status = (
        one.ravel() for one in np.meshgrid([0.3, 1.0, 2.0], np.linspace(-2, 2, 5), [0.0, 1.0])
    )
    scale = 1.0 if name == "exponential" else scale
    law = law_of(name, predictor + math.log(unit), scale)
    exact = np.where(status > 0, law.logpdf(unit * y), law.logsf(unit * y))
    found = log_density(name, unit * y, status, predictor + math.log(unit), scale)
    is_seen = exact > -1e4
    np.testing.assert_allclose(found[is_seen], exact[is_seen], rtol=2e-5, atol=2e-5)
    assert (found[~is_seen] < -9e3).all()


def test_the_likelihood_is_that_of_survreg():
    """survreg(Surv(time, status) ~ x, aml): 4.109, -0.929, scale 0.791, log-likelihood -80.5."""
    predictor = 4.109 - 0.929 * (AML["x"] == "Nonmaintained").to_numpy()
    found = log_density("weibull", AML["time"].to_numpy(float), AML["status"].to_numpy(), predictor, 0.791)
    assert found.sum() == pytest.approx(-80.5, abs=0.05)


def on_a_grid(name, table=TABLE, num=101):
    """The evidence with the documented priors: a sum over intercept, effect and log scale."""
    t, d = table["t"].to_numpy(), table["d"].to_numpy(bool)
    location = math.log(t.mean() / d.mean())
    a, b = np.linspace(-1.5, 1.5, num), np.linspace(-1.0, 2.5, num)
    log_scales = np.linspace(-2.0, 1.5, 81) if family(name).extra else np.zeros(1)
    eta = location + a[:, None, None] + b[:, None] * Z
    log_joint = np.empty((num, num, len(log_scales)))
    for place, log_scale in enumerate(log_scales):
        law = law_of(name, eta, math.exp(log_scale))
        log_joint[:, :, place] = law.logpdf(t) @ d + law.logsf(t) @ ~d
    normal = stats.norm(0, 2.5)
    log_joint += normal.logpdf(a)[:, None, None] + normal.logpdf(b)[:, None]
    steps = math.log(a[1] - a[0]) + math.log(b[1] - b[0])
    if len(log_scales) > 1:
        log_joint += log_scales - np.exp(log_scales)  # of an exponential scale
        steps += math.log(log_scales[1] - log_scales[0])
    return float(np.asarray(logsumexp(log_joint))) + steps


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("weibull", marks=pytest.mark.slow),
        pytest.param("exponential", marks=pytest.mark.reference),
        pytest.param("lognormal", marks=pytest.mark.reference),
    ],
)
def test_evidence(name):
    found = ev.estimate(ev.Regression("Surv(t, d) ~ x", name), TABLE)
    assert abs(found.log_evidence - on_a_grid(name)) < 4 * found.standard_error < 0.05
    assert found.response == "Surv(t, d)"


@pytest.mark.reference
def test_without_censored_times_a_lognormal_is_a_gaussian_of_logarithms():
    priors = {"Intercept": dist.Normal(7.0, 3.0), "x": dist.Normal(0.0, 1.0), "scale": dist.HalfNormal(2.0)}
    whole = TABLE.assign(t=EVENT_TIMES)
    plain = ev.estimate(ev.Regression("log(t) ~ x", prior="normal", priors=priors), whole)
    for formula in ("t ~ x", "Surv(t) ~ x", "Surv(t, t > 0) ~ x"):
        found = ev.estimate(ev.Regression(formula, "lognormal", priors=priors), whole)
        jacobian = -np.log(EVENT_TIMES).sum()
        error = math.hypot(found.standard_error, plain.standard_error)
        assert abs(found.log_evidence - plain.log_evidence - jacobian) < 4 * error


@pytest.mark.reference
def test_without_censored_times_exponential_is_gamma_and_weibull_with_a_scale_of_one():
    priors = {"Intercept": dist.Normal(7.0, 3.0), "x": dist.Normal(0.0, 1.0)}
    whole = TABLE.assign(t=EVENT_TIMES)
    one = dist.Uniform(0.999, 1.001)
    found = [
        ev.estimate(ev.Regression("t ~ x", name, priors={**priors, **more}), whole)
        for name, more in (("exponential", {}), ("gamma", {"dispersion": one}), ("weibull", {"scale": one}))
    ]
    for other in found[1:]:
        error = math.hypot(found[0].standard_error, other.standard_error)
        assert abs(other.log_evidence - found[0].log_evidence) < 4 * error + 0.005


def test_a_status_is_read_as_in_r():
    for status in ([0, 1, 1], [False, True, True], [1, 2, 2], [1.0, 2.0, 2.0]):
        np.testing.assert_array_equal(events_of(np.array(status), 3), [0, 1, 1])
    np.testing.assert_array_equal(events_of(np.array([1, 1]), 2), [1, 1])
    np.testing.assert_array_equal(events_of(np.array([0, 0]), 2), [0, 0])
    np.testing.assert_array_equal(events_of(None, 2), [1, 1])


def test_the_ways_to_write_an_event_give_the_same_model():
    table = AML.assign(two=AML["status"] + 1, text=np.where(AML["status"] == 1, "dead", "alive"))

    def prepared(formula):
        rows = as_table(table, parse(formula).variables)
        return response_of(frame_of(parse(formula), rows), rows, family("weibull"))

    exact = prepared("Surv(time, status) ~ x")
    assert exact.location == pytest.approx(math.log(AML["time"].sum() / 18))
    for written in ("status == 1", "two", "two == 2", "text == 'dead'", "text != 'alive'"):
        found = prepared(f"Surv(time, {written}) ~ x")
        assert found.location == exact.location
        np.testing.assert_array_equal(found.arrays["event"], exact.arrays["event"])


@pytest.mark.parametrize(
    "status, words",
    [
        (
            [0, 1, 2],
            r"must be 0 \(censored\) and 1 \(event\), True and False, or 1 and 2; it has 0, 1, 2 \(row 0",
        ),
        (
            [0, 1, 3],
            r"it has 0, 1, 3 \(row 2 .* has 3\)\. Of several kinds of event, take one: Surv\(time, status == 1\)",
        ),
        (["dead", "alive", "dead"], r"got 'dead'\. Of text, write Surv\(time, status == 'dead'\)"),
        ([-1, 0, 1], "it has -1, 0, 1"),
    ],
)
def test_other_statuses_are_refused(status, words):
    table = TABLE.assign(d=np.resize(np.array(status), ROWS))
    with pytest.raises(DataError, match=words):
        ev.estimate(ev.Regression("Surv(t, d) ~ x", "weibull"), table)


def test_times_are_positive():
    with pytest.raises(DataError, match="the time t must hold positive numbers .* row 3 of these, has 0"):
        ev.estimate(
            ev.Regression("Surv(t, d) ~ x", "weibull"), TABLE.assign(t=TABLE["t"].where(TABLE.index != 3, 0))
        )


def test_a_scale_has_no_unit_information():
    with pytest.raises(ConfigurationError, match="'unit-information' is not known for this family"):
        ev.estimate(ev.Regression("Surv(t, d) ~ x", "weibull", prior="unit-information"), TABLE)


MEANS = {"exponential": 1.0, "weibull": math.gamma(1.7), "lognormal": math.exp(0.7**2 / 2)}


@pytest.mark.parametrize("name", FAMILIES)
def test_means(name):
    """Of observed times; means of the events alone would be too early where some are censored."""
    draws = {"Intercept": np.full(64, 5.0), "x": np.full(64, 0.1), "scale": np.full(64, 0.7)}
    evidence = make_evidence(posterior=draws)
    found = fitted(ev.Regression("Surv(t) ~ x", name), evidence, TABLE)
    np.testing.assert_allclose(found.predicted[:, 0], np.exp(5 + 0.1 * X) * MEANS[name], rtol=1e-9)
    np.testing.assert_allclose(found.observed[:, 0], TABLE["t"])
    assert len(fitted(ev.Regression("Surv(t, d) ~ x", name), evidence, TABLE).observed) == 0


@pytest.mark.slow
def test_terms_are_selected_and_averaged():
    found = ev.select_terms("Surv(time, status) ~ x", AML, family="weibull")
    assert found.formulas[0] in ("Surv(time, status) ~ x", "Surv(time, status) ~ 1")
    kept, other = found.predict({"x": ["Maintained", "Nonmaintained"]})
    assert kept > other > 20


@pytest.mark.slow
def test_other_observations_of_the_same_times_are_not_compared():
    """A density of times that are all events is another one."""
    censored = ev.estimate(ev.Regression("Surv(t, d) ~ x", "exponential"), TABLE)
    plain = ev.estimate(ev.Regression("t ~ x", "exponential"), TABLE)
    with pytest.raises(
        ConfigurationError, match=r"of the same response; .*'a' is of Surv\(t, d\), 'b' is of t"
    ):
        ev.compare({"a": censored, "b": plain})
