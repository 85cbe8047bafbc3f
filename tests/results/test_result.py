"""Evidence and its trajectory: access, summaries, ArviZ, JSON."""

import json
import math

import arviz
import matplotlib.pyplot as plt
import numpy as np
import pytest

import evidentia as ev
from evidentia.results.configurations import configuration
from tests.evidence_factory import Method, make_evidence

COLUMNS = ("num_observations", "log_evidence", "standard_error", "num_annealing_steps", "seconds")
SMALL = ev.Trajectory([500, 1000, 2000], [-70.0, -140.0, -290.0], [0.1, 0.2, 0.3], [9, 1, 1], [0.5, 0.6, 0.7])


def test_trajectory_has_columns_of_the_right_types():
    assert len(SMALL) == 3 and SMALL.columns == COLUMNS
    for name in COLUMNS:
        assert SMALL[name].dtype == (np.int64 if name.startswith("num_") else np.float64)
    assert repr(SMALL) == "Trajectory(3 updates, from 500 to 2,000 observations)"


@pytest.mark.parametrize(("count", "expected"), [(500, -70.0), (999, -70.0), (1000, -140.0), (10**9, -290.0)])
def test_trajectory_at_is_the_last_entry_with_at_most_that_many_rows(count, expected):
    entry = SMALL.at(count)
    assert entry["log_evidence"] == expected and tuple(entry) == COLUMNS


def test_trajectory_before_its_start_is_refused():
    with pytest.raises(ev.ConfigurationError, match="no entry for num_observations=499: it starts at 500"):
        SMALL.at(499)
    empty = ev.Trajectory([], [], [], [], [])
    assert repr(empty) == "Trajectory(no updates)"
    with pytest.raises(ev.ConfigurationError, match="it is empty"):
        empty.at(1)


@pytest.mark.parametrize("column", ["time", 0, "columns"])
def test_unknown_column_is_refused(column):
    with pytest.raises(
        ev.ConfigurationError, match="a trajectory has no column .*; it has num_observations, log_ev"
    ):
        SMALL[column]


def test_columns_of_different_length_are_refused():
    with pytest.raises(ev.ConfigurationError, match="must have the same length; got {'num_observations': 2"):
        ev.Trajectory([1, 2], [0.0], [0.0], [1], [0.0])


def test_trajectory_as_tables():
    arrow, frame = SMALL.to_arrow(), SMALL.to_pandas()
    assert tuple(arrow.column_names) == tuple(frame.columns) == COLUMNS
    assert arrow["log_evidence"].to_pylist() == list(frame["log_evidence"]) == [-70.0, -140.0, -290.0]


def test_repr_is_one_line():
    assert (
        repr(make_evidence())
        == "Evidence(softmax regression: -1,234.50 ± 0.12 nats, 1,000 observations, 3.4 s)"
    )
    assert repr(make_evidence(completed=False)).endswith("3.4 s, stopped early)")


def test_one_observation_is_all_data_and_is_not_counted():
    found = make_evidence(num_observations=1)
    assert repr(found) == "Evidence(softmax regression: -1,234.50 ± 0.12 nats, 3.4 s)"
    assert "observation" not in found._repr_html_()
    ax = found.plot()
    assert ax.get_ylabel() == "log evidence (nats)" and not len(ax.get_xticks())
    plt.close("all")


def test_html_repr_for_notebooks():
    page = make_evidence(model_name="<mine>", completed=False)._repr_html_()
    assert "<td>-1,234.50 ± 0.12</td>" in page and "&lt;mine&gt;" in page and "(stopped early)" in page


def test_effective_sample_size():
    assert make_evidence(equal_weights=True).ess == pytest.approx(64)
    assert 1 < make_evidence().ess < 64


def test_plot_returns_its_axes():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert make_evidence().plot(ax=ax) is ax and ax.lines


def test_arviz_gets_each_particle_once_if_weights_are_equal():
    evidence = make_evidence(equal_weights=True)
    data = evidence.to_arviz()
    for name, values in evidence.posterior.items():
        np.testing.assert_array_equal(data.posterior[name].values, values[None])
    assert list(data.sample_stats["particle"].values[0]) == list(range(64))


def test_arviz_draws_follow_the_weights():
    """Particle i occurs ⌊M Wᵢ⌋ or ⌈M Wᵢ⌉ times (systematic resampling); no weights are needed."""
    evidence = make_evidence(num_particles=2000)
    data = evidence.to_arviz()
    counts = np.bincount(data.sample_stats["particle"].values[0], minlength=2000)
    assert (np.abs(counts - 2000 * np.exp(evidence.weighted.log_weights)) < 1 + 1e-3).all()
    summary = arviz.summary(data, kind="stats")
    mean = np.exp(evidence.weighted.log_weights) @ evidence.weighted["weights"]
    deviation = evidence.weighted["weights"].std(0)
    assert list(summary.index[:2]) == ["intercept", "weights[0]"]
    assert (np.abs(summary["mean"][1:4] - mean) < 4 * deviation / math.sqrt(evidence.ess)).all()
    particles = data.sample_stats["particle"].values
    np.testing.assert_array_equal(
        data.sample_stats["log_weight"].values, evidence.weighted.log_weights[particles]
    )


def test_arviz_attributes_and_netcdf(tmp_path):
    data = make_evidence(completed=False).to_arviz()
    data.to_netcdf(str(tmp_path / "evidence.nc"))
    again = arviz.from_netcdf(str(tmp_path / "evidence.nc"))
    assert again.attrs["log_evidence"] == -1234.5 and again.attrs["standard_error"] == 0.12
    assert again.posterior.attrs["completed"] == 0
    assert again.attrs["method"] == "Method(num_particles=64, kernel=Kernel(step_size=0.1))"
    assert "equal weights" in again.attrs["draws"]


def test_dictionary_is_json():
    evidence = make_evidence(
        standard_error=math.inf, diagnostics={"count": np.int64(3), "values": np.arange(2)}
    )
    stored = json.loads(json.dumps(evidence.to_dict(), allow_nan=False))
    assert stored["log_evidence"] == -1234.5 and stored["standard_error"] is None
    assert stored["log_evidence_per_observation"] == pytest.approx(-1.2345)
    assert stored["num_annealing_steps"] == 68
    assert stored["method"] == {
        "type": "Method",
        "num_particles": 64,
        "kernel": {"type": "Kernel", "step_size": 0.1},
    }
    assert stored["diagnostics"] == {"count": 3, "values": [0, 1]}
    assert list(stored["parameters"])[:2] == ["intercept", "weights[0]"]
    assert stored["parameters"]["weights[0]"]["quantile_05"] < stored["parameters"]["weights[0]"]["mean"]


def test_configuration_shows_what_is_no_dataclass_by_its_repr():
    assert configuration(Method) == repr(Method)
    assert configuration(len) == "<built-in function len>"
    assert configuration(None) is None
