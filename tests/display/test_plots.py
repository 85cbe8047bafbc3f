"""Plots show the right numbers with units, in given or new axes."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import evidentia as ev
from evidentia.errors import ConfigurationError
from evidentia.results.comparison_plot import plot_comparison
from tests.evidence_factory import make_evidence

FEW = {"better": make_evidence(-1000.0, 0.2), "worse": make_evidence(-1004.0, 0.3, seed=1)}
FAR = {"better": make_evidence(-1000.0, 0.2), "worse": make_evidence(-3000.0, 0.3, seed=1)}


def new_axes(rows=1):
    return Figure().subplots(rows, 1)


def test_the_curve_is_the_log_evidence_per_observation():
    evidence = make_evidence()
    ax = evidence.plot(ax=new_axes())
    (curve,) = ax.get_lines()
    trajectory = evidence.trajectory
    np.testing.assert_allclose(curve.get_xdata(), trajectory.num_observations)
    np.testing.assert_allclose(curve.get_ydata(), trajectory.log_evidence / trajectory.num_observations)
    assert ax.get_ylabel() == "log evidence per observation (nats)"
    assert ax.get_xlabel() == "number of observations"
    assert ax.get_xscale() == "log"
    assert [ax.xaxis.get_major_formatter()(count) for count in (500, 2000, 1e6)] == ["500", "2k", "1M"]


def test_the_band_is_two_standard_errors():
    evidence = make_evidence(standard_error=2.0)
    ax = evidence.plot(ax=new_axes())
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices[:, 1]
    last = evidence.log_evidence / 1000
    assert edges.max() >= last + 4 / 1000 - 1e-12
    assert np.any(np.isclose(edges, last - 4 / 1000))


def test_without_axes_a_new_figure_is_made():
    ax = make_evidence().plot()
    assert ax.figure in [plt.figure(number) for number in plt.get_fignums()]
    plt.close(ax.figure)


def test_a_comparison_shows_factors_against_the_best_and_probabilities():
    upper, lower = plot_comparison(FEW, axes=new_axes(2))
    best, other = upper.get_lines()
    np.testing.assert_allclose(best.get_ydata(), 0)
    difference = FEW["worse"].trajectory.log_evidence - FEW["better"].trajectory.log_evidence
    np.testing.assert_allclose(other.get_ydata(), difference)
    probabilities = sum(curve.get_ydata() for curve in lower.get_lines())
    np.testing.assert_allclose(probabilities, 1)
    assert [label.get_text() for label in upper.get_legend().get_texts()] == ["better", "worse"]
    assert "nats" in upper.get_ylabel()


def test_models_are_told_apart_without_colour():
    upper, _ = plot_comparison(FEW, axes=new_axes(2))
    first, second = upper.get_lines()
    assert first.get_linestyle() != second.get_linestyle()


def test_large_factors_are_on_a_logarithmic_scale():
    assert plot_comparison(FAR, axes=new_axes(2))[0].get_yscale() == "symlog"
    assert plot_comparison(FEW, axes=new_axes(2))[0].get_yscale() == "linear"


def test_one_model_alone_cannot_be_compared():
    with pytest.raises(ConfigurationError, match="needs at least two models; got 1"):
        plot_comparison({"alone": make_evidence()})


def test_the_posterior_shows_every_scalar_by_name():
    ax = make_evidence().plot_posterior(ax=new_axes())
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[:4] == ["intercept", "weights[0]", "weights[1]", "weights[2]"]
    assert len(labels) == 1 + 3 + 4


def test_the_posterior_can_be_limited_and_says_so():
    ax = make_evidence().plot_posterior(limit=3, ax=new_axes())
    assert len(ax.get_yticklabels()) == 3
    assert "the first 3 of 8" in ax.get_xlabel()
    ax = make_evidence().plot_posterior(names=["weights"], ax=new_axes())
    assert len(ax.get_yticklabels()) == 3


def test_an_unknown_parameter_is_refused():
    with pytest.raises(
        ConfigurationError, match="names must be among intercept, weights, covariance; got slope"
    ):
        make_evidence().plot_posterior(names=["slope"])


def test_a_picture_needs_trajectories():
    flat = {name: one.to_dict() for name, one in FEW.items()}
    with pytest.raises(ev.ConfigurationError, match="a picture needs an Evidence"):
        plot_comparison(flat)
    with pytest.raises(ev.ConfigurationError, match="effects must be of group_effects"):
        ev.plot_effects(pd.DataFrame({"x": [1.0]}))
