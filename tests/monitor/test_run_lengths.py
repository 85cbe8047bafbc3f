"""Run lengths: exact sums over all partitions, bounds with pruning, alarms, checkpoints."""

import doctest
import itertools
import json
import math
import pickle

import numpy as np
import pytest
from scipy.special import betaln, logsumexp

import evidentia as ev
from evidentia.checkpoint.folder import CheckpointFolder
from evidentia.errors import CheckpointError, ConfigurationError, DataError, EstimationError
from evidentia.monitor import (
    BetaBernoulli,
    BetaHazard,
    ConjugateRegression,
    GammaPoisson,
    ModelAverage,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalMean,
    RunLengths,
    conjugate,
    hazards,
    run_lengths,
    segmentation,
)

# Annual flow of the Nile at Aswan, 1871 to 1970, in 10¹⁰ m³; Cobb (1978).
NILE = np.array(
    "11.2 11.6 9.63 12.1 11.6 11.6 8.13 12.3 13.7 11.4 9.95 9.35 11.1 9.94 10.2 9.6 11.8 7.99 9.58 11.4 11 12.1 "
    "11.5 12.5 12.6 12.2 10.3 11 7.74 8.4 8.74 6.94 9.4 8.33 7.01 9.16 6.92 10.2 10.5 9.69 8.31 7.26 4.56 8.24 "
    "7.02 11.2 11 8.32 7.64 8.21 7.68 8.45 8.64 8.62 6.98 8.45 7.44 7.96 10.4 7.59 7.81 8.65 8.45 9.44 9.84 8.97 "
    "8.22 10.1 7.71 6.76 6.49 8.46 8.12 7.42 8.01 10.4 8.6 8.74 8.48 8.9 7.44 7.49 8.38 10.5 9.18 9.86 7.97 9.23 "
    "9.75 8.15 10.2 9.06 9.01 11.7 9.12 7.46 9.19 7.18 7.14 7.4".split(),
    float,
)
NILE_MODEL = NormalInverseGamma(mean=10.0, rows_of_prior=0.1, shape=2.0, scale=2.0)
STEPS = np.random.default_rng(810).normal(np.repeat([0, 5, 0], 1000), 1)
GENERATOR = np.random.default_rng(0)
ROWS = {  # with a change in the middle of nine rows
    NormalInverseGamma(): np.repeat([0.0, 6.0], [4, 5]) + GENERATOR.normal(0, 1, 9),
    NormalMean(1.0, 0.0, 4.0): np.repeat([0.0, 6.0], [4, 5]) + GENERATOR.normal(0, 1, 9),
    GammaPoisson(1.0, 0.2): GENERATOR.poisson(np.repeat([1.0, 9.0], [4, 5])),
    BetaBernoulli(): np.repeat([0, 1], [4, 5]),
    NormalInverseWishart(2): np.repeat([0.0, 6.0], [4, 5])[:, None] + GENERATOR.normal(0, 1, (9, 2)),
    ConjugateRegression(1): np.stack([np.ones(9), np.repeat([0.0, 6.0], [4, 5])], 1),
}
every_model = pytest.mark.parametrize("model", ROWS, ids=lambda model: type(model).__name__)


def segment(model, rows):
    parameters, log_evidence = model.prior[None], 0.0
    for row in model.rows(rows):
        log_evidence += float(model.log_predictive(parameters, row)[0])
        parameters = model.updated(parameters, row)
    return log_evidence


def partitions(model, rows):
    """The changes and the log evidence of every partition, without the hazard's factor."""
    number = len(rows)
    of_segment = {(i, j): segment(model, rows[i:j]) for i, j in itertools.combinations(range(number + 1), 2)}
    for chosen in itertools.product([False, True], repeat=number - 1):
        changes = [row for row, change in enumerate(chosen, 1) if change]
        edges = [0, *changes, number]
        yield changes, sum(of_segment[pair] for pair in itertools.pairwise(edges))


def fed(runs, rows):
    runs.update(rows)
    return runs


@every_model
def test_evidence_run_length_and_segmentation_by_enumeration(model):
    """Sums and the maximum over all 256 partitions of nine rows."""
    rows, h = ROWS[model], 0.2
    every = [
        (changes, value + len(changes) * math.log(h) + (8 - len(changes)) * math.log1p(-h))
        for changes, value in partitions(model, rows)
    ]
    runs = fed(RunLengths(model, hazard=h), rows)
    exact = logsumexp([value for _, value in every])
    assert runs.log_evidence == pytest.approx(exact, abs=1e-10)
    assert runs.pruning_error == 0 and runs.log_evidence_bounds == (runs.log_evidence,) * 2
    last = np.zeros(9)
    for changes, value in every:
        last[changes[-1] if changes else 0] += math.exp(value - exact)
    lengths, probabilities = runs.run_length
    assert lengths.tolist() == list(range(1, 10))
    assert probabilities == pytest.approx(last[::-1], abs=1e-12)
    assert runs.change_probability(4) == pytest.approx(last[4:].sum(), abs=1e-12)
    assert runs.change_probability(3, 5) == pytest.approx(last[3:6].sum(), abs=1e-12)
    assert runs.most_likely_changes().tolist() == max(every, key=lambda one: one[1])[0]


def test_the_nile():
    """Values computed independently by sums; the flow fell in 1899, row 28."""
    runs = RunLengths(NILE_MODEL, hazard=1 / 100)
    assert runs.update(NILE[:28]).log_evidence == pytest.approx(-51.95620815, abs=1e-8)
    assert runs.update(NILE[28:30]).log_evidence == pytest.approx(-58.62555627, abs=1e-8)
    assert runs.change_probability(26, 30) == pytest.approx(0.220, abs=5e-4)
    assert runs.update(NILE[30:31]).alarms == ()
    assert runs.change_probability(26, 30) == pytest.approx(0.457, abs=5e-4)
    (alarm,) = runs.update(NILE[31:32]).alarms
    assert runs.change_probability(26, 30) == pytest.approx(0.886, abs=5e-4)
    assert (alarm.row, alarm.num_observations, alarm.interval) == (28, 32, (26, 29))
    assert alarm.probability == pytest.approx(runs.change_probability(1), abs=1e-12)
    of_change = {
        (i, j): runs.change_probability(i, j) / alarm.probability for i in range(1, 32) for j in range(i, 32)
    }
    assert of_change[alarm.interval] >= 0.95
    assert all(share < 0.95 for (i, j), share in of_change.items() if j - i < 3), "no shorter one"
    update = runs.update(NILE[32:])
    assert update.log_evidence == pytest.approx(-179.52695197, abs=1e-8) and update.alarms == ()
    lengths, probabilities = runs.run_length
    assert 100 - lengths[np.argmax(probabilities)] == 28
    assert probabilities.max() == pytest.approx(0.687, abs=5e-4)
    assert runs.most_likely_changes().tolist() == [28]


def test_steps_up_and_down_within_two_rows():
    runs = RunLengths(NormalMean(1.0, spread=5.0), hazard=1 / 1000, threshold=0.99, max_runs=3000)
    update = runs.update(STEPS)
    assert update.log_evidence == pytest.approx(-4232.08216045, abs=1e-7)
    assert [alarm.num_observations for alarm in update.alarms] == [1002, 2002]
    assert all(
        alarm.interval[0] <= row <= alarm.interval[1] + 1
        for alarm, row in zip(update.alarms, (1000, 2000), strict=True)
    )


def test_rows_count_one_by_one_in_any_batches():
    one, other = (RunLengths(NILE_MODEL, 0.01, max_runs=20) for _ in range(2))
    together = one.update(NILE)
    apart = [other.update(NILE[i : i + 7]) for i in range(0, 100, 7)]
    assert one.log_evidence == other.log_evidence
    assert together.log_predictive == pytest.approx(sum(update.log_predictive for update in apart), abs=1e-9)
    assert together.alarms == tuple(alarm for update in apart for alarm in update.alarms)
    assert np.array_equal(one.run_length.probabilities, other.run_length.probabilities)


@pytest.mark.parametrize("max_runs", [10, 30, 100])
def test_bounds_hold_after_every_row(max_runs):
    """The exact evidence and distribution are within the stated errors, at every row."""
    rows = STEPS[900:1300]
    for model in (NormalInverseGamma(), NormalMean(1.0, spread=5.0)):
        exact, pruned = RunLengths(model, 0.01), RunLengths(model, 0.01, max_runs=max_runs)
        widths = []
        for row in rows:
            exact.update([row])
            update = pruned.update([row])
            low, high = pruned.log_evidence_bounds
            assert low - 1e-9 <= exact.log_evidence <= high + 1e-9
            assert low <= pruned.log_evidence <= high and update.pruning_error == high - low
            lengths, probabilities = pruned.run_length
            assert len(lengths) <= max_runs + 1
            kept = np.zeros(len(exact.run_length.lengths))
            kept[lengths - 1] = probabilities
            distance = 0.5 * np.abs(kept - exact.run_length.probabilities).sum()
            assert distance <= 1 - math.exp(-update.pruning_error) + 1e-9
            widths.append(update.pruning_error)
        assert widths[-1] < {10: 60, 30: 2, 100: 0.2}[max_runs]
        assert pruned.most_likely_changes().tolist() == exact.most_likely_changes().tolist() == [100]


def test_an_infinite_bound_is_said():
    """Equal rows have no finite bound under an unknown variance."""
    runs = fed(RunLengths(NormalInverseGamma(), 0.1, max_runs=5), np.ones(20))
    assert runs.pruning_error == math.inf and math.isfinite(runs.log_evidence)
    assert fed(RunLengths(NormalMean(), 0.1, max_runs=5), np.ones(20)).pruning_error < 5


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 9.0), (0.5, 0.5), (3.0, 200.0)])
def test_a_learnt_hazard_is_integrated(alpha, beta):
    """∫ h^c (1-h)^(n-1-c) Beta(h) dh of every partition with c changes, in closed form."""
    model, rows = NormalInverseGamma(), ROWS[NormalInverseGamma()]
    every = [
        value + betaln(alpha + len(changes), beta + 8 - len(changes)) - betaln(alpha, beta)
        for changes, value in partitions(model, rows)
    ]
    runs = fed(RunLengths(model, BetaHazard(alpha, beta)), rows)
    # The grid leaves out a prior probability of 10⁻⁶ on each side.
    assert runs.log_evidence == pytest.approx(logsumexp(every), abs=1e-4)
    found = runs.hazard_posterior
    assert found.probabilities.sum() == pytest.approx(1)
    counts = np.array([len(changes) for changes, _ in partitions(model, rows)])
    mean = np.exp(np.array(every) - logsumexp(every)) @ ((alpha + counts) / (alpha + beta + 8))
    assert found.mean == pytest.approx(mean, rel=2e-3)


def test_the_grid_is_fine_enough_for_tens_of_changes():
    """Log odds from 64 to 512 nodes: forty changes in 400 rows."""
    rows = np.repeat(np.random.default_rng(2).normal(0, 9, 40), 10) + np.random.default_rng(3).normal(
        0, 1, 400
    )
    found = [
        fed(RunLengths(NormalMean(1.0, spread=9.0), BetaHazard(1, 50, nodes), max_runs=40), rows).log_evidence
        for nodes in (64, 512)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-3)


def test_useless_starts_are_forgotten():
    runs = fed(RunLengths(NormalMean(1.0, spread=5.0), 1e-3, max_runs=50, history=0), STEPS)
    assert len(runs._state.best.starts) < 500
    assert runs.most_likely_changes().tolist() == [1000, 2001]
    best = segmentation.BestPaths(np.array([[-1.0], [-2.0]]), np.array([0, 3]), np.array([[-1], [0]]), 9)
    assert segmentation.changes(best, np.array([0, 3])).tolist() == []


def test_no_second_alarm_for_one_change_and_none_for_a_stationary_share_of_streams():
    """Shiryaev: at most a tenth of alarms at 0.9 is false, with parameters from the prior."""
    false = alarms = 0
    for generator in np.random.default_rng(5).spawn(60):
        change = 1 + generator.geometric(0.02)
        rows = generator.normal(np.repeat(generator.normal(0, 5, 2), [change, 60]), 1)
        found = RunLengths(NormalMean(1.0, spread=5.0), 0.02, history=0).update(rows).alarms
        alarms += bool(found)
        false += bool(found) and found[0].num_observations <= change
    assert alarms > 40
    assert false <= 0.1 * alarms + 3 * math.sqrt(0.09 * alarms)


def test_predictive_density_of_single_rows_integrates_to_one():
    runs = fed(RunLengths(NILE_MODEL, 0.01), NILE[:40])
    before = runs.state
    grid = np.linspace(-200, 220, 8001)
    assert np.exp(runs.log_predictive(grid)).sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)
    assert runs.state[0] is before[0]
    assert runs.log_predictive(NILE[40:41])[0] == pytest.approx(runs.update(NILE[40:41]).log_predictive)


def test_it_is_averaged_with_other_models():
    models = {"calm": RunLengths(NILE_MODEL, 1e-9), "changing": RunLengths(NILE_MODEL, 0.01)}
    averaged = ModelAverage(models)
    for i in range(0, 100, 10):
        averaged.update(NILE[i : i + 10])
    assert averaged.probabilities["changing"] > 0.99
    with pytest.raises(DataError, match="row 0 of the batch is nan"):
        averaged.update([math.nan])
    assert averaged.num_observations == 100


@pytest.mark.parametrize("hazard", [0.01, BetaHazard(1, 99)])
def test_a_checkpoint_continues_bit_for_bit(tmp_path, hazard):
    runs = fed(RunLengths(NILE_MODEL, hazard, max_runs=30, threshold=0.8, history=20), NILE[:50])
    runs.save(tmp_path / "runs")
    loaded = RunLengths.load(tmp_path / "runs", NILE_MODEL)
    assert repr(loaded) == repr(runs)
    assert loaded.update(NILE[50:]) == runs.update(NILE[50:])
    assert loaded.most_likely_changes().tolist() == runs.most_likely_changes().tolist()
    for one, other in zip(loaded.state[1], runs.state[1], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert pickle.loads(pickle.dumps(runs)).log_evidence == runs.log_evidence
    empty = RunLengths(NILE_MODEL, hazard)
    empty.save(tmp_path / "empty")
    assert RunLengths.load(tmp_path / "empty", NILE_MODEL).update(NILE) == empty.update(NILE)


def test_checkpoints_of_other_things(tmp_path):
    fed(RunLengths(NILE_MODEL, 0.01), NILE[:5]).save(tmp_path / "runs")
    for model in (NormalInverseGamma(), NormalMean()):
        with pytest.raises(
            CheckpointError, match="model must be the one that was saved, a NormalInverseGamma"
        ):
            RunLengths.load(tmp_path / "runs", model)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        RunLengths.load(tmp_path, NILE_MODEL)
    ev.Online(ev.models.linear_regression(num_features=1)).save(tmp_path / "online")
    with pytest.raises(CheckpointError, match="is a checkpoint of something else"):
        RunLengths.load(tmp_path / "online", NILE_MODEL)
    with CheckpointFolder(tmp_path / "other") as folder:
        folder.write({"state": None}, {})
    with pytest.raises(CheckpointError, match=r"folder must be one that RunLengths\.save wrote"):
        RunLengths.load(tmp_path / "other", NILE_MODEL)


@pytest.mark.parametrize("hazard", [0, 1, 1.5, -0.1, math.nan, math.inf])
def test_hazards_are_between_zero_and_one(hazard):
    with pytest.raises(ConfigurationError, match="hazard (is the probability of|must be a number)"):
        RunLengths(NILE_MODEL, hazard)


def test_arguments_that_are_invalid():
    for model in (None, NormalInverseGamma, "normal", object()):
        with pytest.raises(ConfigurationError, match="model must have prior, rows, log_predictive, updated"):
            RunLengths(model)
    with pytest.raises(
        ConfigurationError, match="hazard must be a number between 0 and 1, or a BetaHazard; got str"
    ):
        RunLengths(NILE_MODEL, "often")
    for field, value in (("max_runs", 1), ("history", -1), ("threshold", 1), ("threshold", "high")):
        with pytest.raises(ConfigurationError, match=field):
            RunLengths(NILE_MODEL, **{field: value})
    for field, value in (("alpha", 0), ("beta", -1), ("num_nodes", 1)):
        with pytest.raises(ConfigurationError, match=field):
            BetaHazard(**{field: value})
    runs = fed(RunLengths(NILE_MODEL), NILE)
    with pytest.raises(ConfigurationError, match="first"):
        runs.change_probability(-1)
    with pytest.raises(ConfigurationError, match="last must be an integer of at least 5; got 4"):
        runs.change_probability(5, 4)


def test_rows_that_are_invalid_change_nothing():
    runs = fed(RunLengths(NILE_MODEL), NILE[:10])
    before = runs.state
    with pytest.raises(DataError, match=r"batch must be finite; row 1 of the batch is nan\."):
        runs.update([1.0, math.nan])
    with pytest.raises(DataError, match="batch must have at least one row"):
        runs.update([])
    with pytest.raises(EstimationError, match=r"row 11 of the stream has no density in any run: 1e\+300\."):
        fed(RunLengths(NormalMean()), NILE[:10]).update([1.0, 1e300])
    assert runs.state[0] is before[0] and runs.state[1] == before[1]


def test_the_picture():
    runs = fed(RunLengths(NILE_MODEL, 0.01, history=60), NILE)
    upper, lower = runs.plot()
    assert len(upper.lines[0].get_xdata()) == 60 and upper.lines[0].get_xdata()[0] == 40
    assert (lower.get_xlabel(), lower.get_ylabel()) == ("row", "rows in the current run")
    image = lower.collections[0].get_array()
    heights = lower.collections[0].get_coordinates()[:, 0, 1]
    assert image.shape[1] == 60
    likely = np.nanargmax(image[:, -1])
    assert heights[likely] < 72 < heights[likely + 1], "the run that began with row 28"
    assert len(lower.lines) == 0, "the change is before the rows shown"
    assert len(fed(RunLengths(NILE_MODEL, 0.01), NILE).plot()[1].lines) == 1
    for empty in (RunLengths(NILE_MODEL), fed(RunLengths(NILE_MODEL, history=0), NILE)):
        with pytest.raises(ConfigurationError, match="no rows are kept to plot"):
            empty.plot()


def test_series_of_the_benchmark(shared_data):
    path = shared_data / "tcpd" / "nile.json"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    series = json.loads(path.read_text())["series"][0]["raw"]
    assert np.array(series) / 100 == pytest.approx(NILE, abs=0.051)


@pytest.mark.parametrize(
    "module", [run_lengths, hazards, conjugate.normal, conjugate.counts, conjugate.vectors]
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module, extraglobs={"ev": ev, "np": np})
    assert result.attempted and not result.failed


def test_the_next_row_is_a_mixture_over_the_runs():
    model = NormalMean(standard_deviation=1.0, spread=5.0)
    runs = RunLengths(model, hazard=0.2)
    assert all(math.isnan(one) for one in runs.next_row)
    rows = np.array([0.3, 4.0, 4.5])
    runs.update(rows)
    starts = 3 - runs.run_length.lengths
    posteriors = []
    for start in starts:
        parameters = model.prior[None]
        for row in rows[start:]:
            parameters = model.updated(parameters, row)
        posteriors.append(parameters[0])
    means, variances = np.array(posteriors).T
    shares = runs.run_length.probabilities
    mean, deviation = runs.next_row
    assert mean == pytest.approx(shares @ means, rel=1e-12)
    assert deviation**2 == pytest.approx(shares @ (variances + 1.0 + means**2) - mean**2, rel=1e-12)
