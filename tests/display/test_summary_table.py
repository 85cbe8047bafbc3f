"""The table of a result's parameters, and of a formula's coefficients."""

import pickle

import numpy as np
import pytest

import evidentia as ev
from evidentia.display.summary_table import Row, number, summary_of
from evidentia.display.words import factor
from evidentia.posterior.summary import summarise
from tests.evidence_factory import make_evidence
from tests.regression.attitude import ATTITUDE


def test_coefficients_are_printed_with_their_bayes_factors():
    """BayesFactor's regressionBF prints 417,939 for the first of these."""
    evidence = ev.estimate(ev.Regression("rating ~ complaints"), ATTITUDE)
    first, _, header, *rows = str(evidence).splitlines()
    assert first == repr(evidence) and "\n" not in repr(evidence)
    assert header.split() == ["coefficient", "mean", "sd", "95%", "interval", "BF10", "evidence"]
    assert [row.split()[0] for row in rows] == ["Intercept", "complaints", "scale"]
    assert rows[1].endswith("417,939  extreme for")
    assert max(map(len, str(evidence).splitlines()[1:])) <= 80
    assert evidence._repr_html_().endswith(evidence.summary()._repr_html_())


def test_other_models_have_all_parameters_without_bayes_factors():
    evidence = make_evidence()
    summary = evidence.summary()
    expected = summarise(evidence.weighted, evidence.weighted.log_weights, (0.025, 0.975))
    assert summary.names == tuple(one.name for one in expected)
    np.testing.assert_allclose(summary.mean, [one.mean for one in expected])
    np.testing.assert_allclose(summary.high, [one.quantiles[1] for one in expected])
    assert np.isnan(summary.log_bayes_factor).all()
    error = np.sqrt(
        np.exp(2 * evidence.weighted.log_weights) @ (evidence.weighted["intercept"] - summary.mean[0]) ** 2
    )
    assert summary.mcse[0] == pytest.approx(error, rel=1e-6) and repr(summary).split()[4] == "mcse"
    assert "BF10" not in repr(summary) and str(evidence) == repr(evidence)


def test_a_formula_without_coefficients_has_a_scale():
    evidence = ev.estimate(ev.Regression("rating ~ 0"), ATTITUDE)
    assert evidence.summary().names == ("scale",)


def test_files_and_pickles_hold_the_same_table(tmp_path):
    evidence = ev.estimate(ev.Regression("rating ~ complaints"), ATTITUDE)
    evidence.save(tmp_path / "saved")
    loaded = ev.load(tmp_path / "saved")
    loaded.save(tmp_path / "again")
    for other in (loaded, ev.load(tmp_path / "again"), pickle.loads(pickle.dumps(evidence))):
        assert repr(other.summary()) == repr(evidence.summary()) and str(other) == str(evidence)
        np.testing.assert_array_equal(other.summary().mean, evidence.summary().mean)


def test_rows_that_are_none_are_a_damaged_file(tmp_path, monkeypatch):
    evidence = ev.estimate(ev.Regression("rating ~ complaints"), ATTITUDE)
    monkeypatch.setattr(type(evidence._coefficients), "known_rows", lambda self: [("x", "1", *[0.0] * 6)])
    evidence.save(tmp_path / "saved")
    with pytest.raises(ev.CheckpointError, match="is damaged: mean of Row is a str"):
        ev.load(tmp_path / "saved")


def test_as_a_data_frame_and_a_dictionary():
    summary = summary_of(
        "y ~ x", [Row("Intercept", 1.0, 0.5, 0.0, 2.0), Row("x", 2.0, 1.0, 0.0, 4.0, 800.0, 0.1)]
    )
    frame = summary.to_pandas()
    assert list(frame.columns) == ["mean", "sd", "low", "high", "mcse", "bf10", "log_bf10", "log_bf10_error"]
    assert frame.loc["x", "log_bf10"] == 800.0 and frame.loc["x", "bf10"] == np.inf
    assert summary.to_dict()["x"]["mean"] == 2.0
    assert "<td>2.73e+347 ± 10%</td>" in summary._repr_html_()


def test_long_names_have_a_line_of_their_own_on_the_terminal():
    name = "C(a_long_name_of_a_column, contr.treatment)[T.another]"
    summary = summary_of(
        "y ~ x", [Row(name, 1.23456, 0.5, -12345.6, 12345.6, 5.0, 0.2)], left_out="'z' is 2 'x'"
    )
    header, named, row, note = repr(summary).splitlines()
    assert named == name and row.startswith("   ") and max(len(header), len(row)) <= 80
    assert note == "left out: 'z' is 2 'x'"
    assert name in summary._repr_html_() and summary.names == (name,)
    assert summary._repr_html_().endswith("<p>left out: &#x27;z&#x27; is 2 &#x27;x&#x27;</p>")


@pytest.mark.parametrize(
    "log_factor, error, shown",
    [
        (np.log(17.26), 0.0, "17.3"),
        (np.log(417_938.6), 0.0, "417,939"),
        (100.0, 0.0, "2.69e+43"),
        (-3.2, 0.02, "0.0408 ± 2%"),
        (-800.0, 0.0, "3.67e-348"),
        (40.0, 0.9, "e^40.00 ± 0.90"),
        (40.0, np.nan, "about e^40"),
        (np.nan, np.nan, ""),
    ],
)
def test_bayes_factors_as_they_are_shown(log_factor, error, shown):
    assert factor(log_factor, error) == shown


def test_numbers_have_four_digits():
    assert [number(one) for one in (0.00012344, 1.0, -123456.7, 1e9)] == [
        "0.0001234",
        "1",
        "-123,457",
        "1e+09",
    ]
