"""Corner, trace, run, prior against posterior and predictive check of one small result."""

import dataclasses
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest

import evidentia as ev
from evidentia.arviz_bridge import predictive_check
from evidentia.display.factors_plot import draw_factors
from evidentia.display.posterior_plots import central, draw_nested_run, draw_prior_posterior
from evidentia.regression.regression import Regression
from evidentia.results.pictures import scalars_of
from tests.evidence_factory import make_evidence


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_scalars_by_the_name_of_a_parameter_or_an_entry():
    weighted = make_evidence().weighted
    assert list(scalars_of(weighted, None)) == weighted.columns
    found = scalars_of(weighted, ["covariance[1, 0]", "intercept"])
    np.testing.assert_array_equal(found["covariance[1, 0]"], weighted["covariance"][:, 1, 0])
    assert list(found) == ["covariance[1, 0]", "intercept"]
    with pytest.raises(ev.ConfigurationError, match=r"names must be among intercept, .*; got weights\[3\]"):
        scalars_of(weighted, ["weights[3]"])


def test_the_corner_shows_the_weighted_particles():
    evidence = make_evidence(num_particles=400)
    figure = evidence.plot_corner(names=["intercept", "weights"])
    assert len(figure.axes) == 16
    assert [ax.get_xlabel() for ax in figure.axes[12:]] == ["intercept", *(f"weights[{i}]" for i in range(3))]
    median = figure.axes[0].get_lines()[1].get_xdata()[0]
    values, weights = evidence.weighted["intercept"], np.exp(evidence.weighted.log_weights)
    assert weights[values < median].sum() == pytest.approx(0.5, abs=0.02)


def test_constants_have_limits():
    assert central(np.full(9, 3.0), np.full(9, 1 / 9), 0.99) == pytest.approx((2.7, 3.3))
    assert make_evidence(posterior={"a": np.zeros(64)}).plot_corner()


def test_the_trace_shows_each_particle_and_its_weight(linear):
    _, _, evidence = linear
    axes = evidence.plot_trace()
    assert [ax.get_ylabel() for ax in axes] == list(evidence.weighted.columns)
    points = axes[1].collections[0]
    weights = np.exp(evidence.weighted.log_weights)
    assert len(points.get_offsets()) == np.count_nonzero(weights > 0.01 * weights.mean())
    best = np.argmax(points.get_array())
    nats = evidence.weighted.log_likelihood
    place = np.argmax(evidence.weighted.log_weights)
    assert points.get_offsets()[best][0] == pytest.approx(nats[place] - nats.max(), abs=1e-3)


def test_prior_and_posterior_densities_have_area_one(linear):
    _, _, evidence = linear
    (ax,) = evidence.plot_prior_posterior(names=["intercept"])
    before, after = (patch.get_data() for patch in ax.patches)
    assert np.sum(before.values * np.diff(before.edges)) == pytest.approx(0.95, abs=0.05)
    assert np.sum(after.values * np.diff(after.edges)) == pytest.approx(1, abs=0.01)
    middle = np.argmin(np.abs(before.edges[:-1]))
    assert before.values[middle] == pytest.approx(1 / np.sqrt(2 * np.pi), rel=0.3)  # of a standard normal


def test_no_bin_of_a_scale_is_below_zero_and_a_long_tail_leaves_the_peak_its_bins():
    generator = np.random.default_rng(0)
    prior, posterior = np.abs(generator.normal(size=4000)), generator.lognormal(size=512)
    (ax,) = draw_prior_posterior({"s": prior}, {"s": posterior}, np.full(512, 1 / 512))
    before, after = (patch.get_data() for patch in ax.patches)
    assert min(before.edges[0], after.edges[0]) >= 0
    assert np.sum(after.edges < np.quantile(posterior, 0.75)) >= 4 and len(after.values) <= 240
    assert np.sum(after.values * np.diff(after.edges)) == pytest.approx(1, abs=0.01)
    assert ax.get_ylabel() == "density"


def test_one_far_draw_leaves_the_picture_of_predictions_as_it_is():
    generator = np.random.default_rng(0)
    drawn, observed = generator.normal(size=(20, 40)), generator.normal(size=40)
    drawn[3, 4], observed[0] = -1e4, 6.0
    (ax,) = predictive_check({"y": drawn}, {"y": observed}, 0)
    low, high = ax.get_xlim()
    assert -5 < low < -2 and 6 < high < 8  # all observations are inside


def test_points_of_a_comparison_are_off_the_frame():
    ax = draw_factors(["a", "b", "c"], np.array([0.0, -1.0, -6.0]), np.full(3, 0.01))
    assert ax.get_ylim() == (2.5, -0.5)
    low, high = ax.get_xlim()
    assert low < -6.2 and high > 0.2


def test_predictions_are_shown_beside_the_data(linear):
    _, data, evidence = linear
    (ax,) = evidence.plot_predictive()
    assert ax.get_xlabel() == "y" and len(ax.get_lines()) >= 50
    with pytest.raises(ev.ConfigurationError, match="needs the observations of 'y' in the data"):
        evidence.plot_predictive({"x": data["x"]})


def test_a_formula_predicts_categories_beside_those_of_its_table():
    table = {"y": [1.0, 2.0, 4.0, 3.0, 6.0], "x": [1.0, 2.0, 3.0, 4.0, 5.0]}
    evidence = ev.estimate(Regression("log(y) ~ x"), table)
    np.testing.assert_allclose(evidence._predictor.observed(table)["log(y)"], np.log(table["y"]))
    own = evidence._predictor
    words = dataclasses.replace(own, law=own.law._replace(kind="binary"), levels=(0.0, np.log(2.0)))
    assert words.observed({"y": [1.0, 2.0, 1.0]})["log(y)"].tolist() == [0, 1, 0]
    assert evidence.plot_predictive(table)[0].get_xlabel() == "log(y)"
    with pytest.raises(ev.ConfigurationError, match=r"observed: of a Regression, a table"):
        evidence.plot_predictive()


def test_the_run_has_the_error_of_each_step():
    evidence = make_evidence()
    upper, lower = evidence.plot_run()
    np.testing.assert_allclose(lower.get_lines()[0].get_ydata(), evidence.trajectory.standard_error)
    assert "nats" in upper.get_ylabel() and "nats" in lower.get_ylabel()


def test_a_nested_run_against_the_prior_mass():
    """Of L = 1/X the evidence above a mass X is -log X; the masses are those of the particles."""
    left = np.exp(-np.arange(0, 8, 0.01))
    widths = -np.diff(left, append=0)
    log_likelihood = -np.log(left)
    log_evidence = np.log(np.sum(widths / left))
    log_weights = np.log(widths / left) - log_evidence
    _, lower = draw_nested_run(log_weights, log_likelihood, log_evidence, 0.1, "1/X")
    shrunk, share = lower.get_lines()[0].get_data()
    np.testing.assert_allclose(shrunk, -np.log(left), atol=1e-9)
    np.testing.assert_allclose(share[:-1], shrunk[1:] / 9, atol=0.01)  # 8, and 1 of the mass left


def test_a_nested_run_that_begins_where_weights_underflow():
    """L = exp(-1000 X^(1/10)), a Gaussian peak in 20 dimensions, and L = 0 beyond X = 1/2."""
    left = np.exp(-np.arange(0, 60, 0.01))
    log_widths = np.log(-np.diff(left, append=0))
    log_likelihood = np.where(left > 0.5, -np.inf, -1000 * left**0.1)
    log_evidence = np.logaddexp.reduce(log_widths + log_likelihood)
    log_weights = log_widths + log_likelihood - log_evidence
    assert np.count_nonzero(np.exp(log_weights)) < np.count_nonzero(left <= 0.5) - 100
    _, lower = draw_nested_run(log_weights, log_likelihood, log_evidence, 0.1, "peak")
    np.testing.assert_allclose(lower.get_lines()[0].get_xdata(), -np.log(left[left <= 0.5]), atol=1e-9)


def test_particles_that_do_not_matter_are_left_out(linear):
    weights = np.array([0.4, 0.4, 0.1999, 1e-4])
    values = np.array([0.0, 1.0, 2.0, 100.0])
    evidence = make_evidence(posterior={"a": values, "b": values**2}, num_particles=4)
    weighted = dataclasses.replace(
        evidence.weighted,
        log_weights=np.log(weights),
        known={"log_likelihood": np.array([0, -1, -2, -999.0])},
    )
    found = dataclasses.replace(evidence, weighted=weighted)
    trace, _ = found.plot_trace()
    assert trace.get_xlim()[0] > -10 and trace.get_ylim()[1] < 10
    points = found.plot_corner().axes[2].get_lines()[0]
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([values, values**2])[:3])


def test_what_cannot_be_shown(linear):
    _, _, evidence = linear
    loaded = pickle.loads(pickle.dumps(make_evidence()))
    with pytest.raises(
        ev.ConfigurationError, match="a run with steps; got PriorSampling with all data at once"
    ):
        evidence.plot_run()
    with pytest.raises(ev.ConfigurationError, match="log_likelihood needs the model and its data"):
        loaded.plot_trace()
    with pytest.raises(ev.ConfigurationError, match="plot_prior_posterior needs the model in memory"):
        loaded.plot_prior_posterior()
    with pytest.raises(ev.ConfigurationError, match="'softmax regression' cannot predict"):
        loaded.plot_predictive()
    with pytest.raises(
        ev.ConfigurationError, match="more particles than scalars; got 8 with weights that matter and 8"
    ):
        make_evidence(num_particles=8).plot_corner()
    many = make_evidence(posterior={"w": np.zeros((64, 20))})
    with pytest.raises(
        ev.ConfigurationError, match=r"1 to 12 scalars; got 20. .*names=\['w\[0\]', 'w\[1\]'\]"
    ):
        many.plot_corner()
