"""Streams in which rows of old groups keep arriving: exact, in any order, in bounded memory."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError, ModelError
from evidentia.online.pasts import begun
from evidentia.posterior.rows import Window
from evidentia.posterior.units import bound_to

RNG = np.random.default_rng(0)
GROUPS, ROWS = 7, 120
GROUP = RNG.integers(0, GROUPS - 1, ROWS).astype(np.int32)  # the last one has no rows
X = RNG.normal(size=ROWS).astype(np.float32)
Y = (0.5 + RNG.normal(size=GROUPS)[GROUP] + 0.5 * X + 0.7 * RNG.normal(size=ROWS)).astype(np.float32)


def straight(group, x, y):
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(mean, 1.0))
        slope = numpyro.sample("slope", dist.Normal(0, 0.5))
    numpyro.sample("y", dist.Normal(level[group] + slope[group] * x, 0.7), obs=y)


def binary(group, y):
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(mean, 1.0))
    numpyro.sample("y", dist.Bernoulli(logits=level[group]), obs=y)


def robust(group, x, y):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(0, 1.0))
    numpyro.sample("y", dist.StudentT(4.0, level[group] + x, scale), obs=y)


LINES = {"group": GROUP, "x": X, "y": Y}
COINS = {"group": GROUP, "y": (Y > 0.5).astype(np.int32)}
STREAMS = {"moments": (straight, LINES), "counts": (binary, COINS), "rows": (robust, LINES)}
POSITIONS = np.array([[-0.4], [0.3], [1.1]])


def rows_of(data, index):
    return {name: array[index] for name, array in data.items()}


def fed(model, past, batches):
    """The past after batches, and the sum of their log-likelihoods given the rows before."""
    total = 0.0
    for batch in batches:
        arriving, chunk = past.arriving(batch).stage(past.num_observations + len(batch["y"]))
        assert chunk.num_observations == len(batch["y"])
        assert arriving.window.num_observations == past.num_observations
        total = total + chunk.exact_log_likelihoods(model, POSITIONS)
        past = arriving.absorb(model, chunk, None).past
    return past, total


@pytest.fixture(scope="module", params=STREAMS)
def stream(request):
    """A model, its data, the past after batches of 20 rows, and their log-likelihoods."""
    program, data = STREAMS[request.param]
    model = ev.Model.from_numpyro(program, groups="group")
    bound, empty = begun(model, rows_of(data, np.arange(20)), 500, 0)
    past, total = fed(bound, empty, [rows_of(data, np.arange(k, k + 20)) for k in range(0, ROWS, 20)])
    return SimpleNamespace(
        kind=request.param, model=model, data=data, bound=bound, empty=empty, past=past, total=total
    )


def all_at_once(stream, data):
    """The log-likelihood of rows as `estimate` has it."""
    units = bound_to(stream.model, data)
    count = len(next(iter(units.arrays.values())))
    arrays = {name: jnp.asarray(array) for name, array in units.arrays.items()}
    return Window(arrays, 0, count).exact_log_likelihoods(units.model, POSITIONS)


@pytest.mark.slow
def test_batches_given_those_before_add_up_to_all_rows(stream):
    exact = all_at_once(stream, stream.data)
    np.testing.assert_allclose(stream.total, exact, atol=2e-4)
    np.testing.assert_allclose(
        stream.past.window.exact_log_likelihoods(stream.bound, POSITIONS), exact, atol=2e-4
    )
    assert stream.past.num_observations == stream.past.window.num_observations == ROWS
    assert stream.past.is_consistent


def test_no_more_is_kept_than_what_the_rows_tell(stream):
    """Six moments of x and y, two kinds of coins, or all rows."""
    sizes = np.bincount(stream.past.rows.arrays["group"], minlength=GROUPS)
    most = {"moments": 6, "counts": 2, "rows": ROWS}[stream.kind]
    assert sizes.max() <= most and sizes[-1] == 0
    assert (sizes.sum() == ROWS) == (stream.kind == "rows")
    assert stream.bound.densities.pointwise.is_quadratic == (stream.kind == "moments")


def test_the_order_of_arrival_does_not_matter(stream):
    order = np.random.default_rng(1).permutation(ROWS)
    batches = [rows_of(stream.data, part) for part in np.array_split(order, 5)]
    past, total = fed(stream.bound, stream.empty, batches)
    np.testing.assert_allclose(total, stream.total, atol=2e-4)
    assert len(past.rows.copies) == len(stream.past.rows.copies)


@pytest.mark.slow
def test_a_row_is_predicted_from_the_rows_of_its_group(stream):
    """Of one particle the prediction is the ratio of two likelihoods; group 6 has no row yet."""
    new = rows_of(stream.data, np.array([3, 50, 50, 4]))
    new["group"] = np.array([0, 5, 6, 5], np.int32)
    position = jnp.asarray(POSITIONS[:1], jnp.float32)
    found = stream.past.log_predictives(stream.bound, position, np.zeros(1), new)
    before = all_at_once(stream, stream.data)[0]
    for row in range(4):
        beside = {name: np.append(array, new[name][row]) for name, array in stream.data.items()}
        assert found[row] == pytest.approx(all_at_once(stream, beside)[0] - before, abs=2e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": GROUP[:3] + GROUPS}, r"no latent site has 1\d values or more on its leading axis"),
        ({"group": np.array([0, -1, 2])}, "an integer of 0 and up; got int32 of shape .3,., from -1"),
        ({"group": np.array([0.5, 1.0, 2.0])}, "must have the number of each row's group, an integer"),
        ({"group": np.array([0.0, np.nan, 2.0])}, r"batch\['group'\] .*NaN"),
        ({"group": None}, "batch must have the column 'group', which is groups= of the model; got y"),
    ],
)
def test_wrong_labels_are_named(change, message):
    batch = {**rows_of(COINS, slice(3)), **change}
    online = ev.Online(ev.Model.from_numpyro(binary, groups="group"))
    with pytest.raises((DataError, ModelError), match=message):
        online.update({name: array for name, array in batch.items() if array is not None})
    assert online.num_observations == 0


def test_a_late_group_beyond_those_of_the_model_is_named(stream):
    late = {**rows_of(stream.data, slice(3)), "group": np.array([0, 7, 2], np.int32)}
    with pytest.raises(
        DataError, match=r"has the group 7, but the model has 7, with numbers from 0: give its latents"
    ):
        stream.past.check(None, late)


@pytest.mark.slow
def test_a_checkpoint_goes_on_bit_for_bit(tmp_path):
    model = ev.Model.from_numpyro(binary, groups="group")
    online = ev.Online(model, ev.SGAIS(refresh=False))
    online.update(rows_of(COINS, slice(40)))
    online.save(tmp_path)
    loaded = ev.Online.load(tmp_path, model)
    content = online.packed()
    for first in (40, 80):
        updates = [one.update(rows_of(COINS, slice(first, first + 40))) for one in (online, loaded)]
        assert updates[0].log_evidence == updates[1].log_evidence
    with pytest.raises(DataError, match="has the group 7, but the model has 7"):
        online.update({**rows_of(COINS, slice(2)), "group": np.array([0, 7])})
    assert online.num_observations == ROWS
    other = ev.Model.from_numpyro(lambda group, y: binary(group, 1 - y), groups="group")
    with pytest.raises(ev.CheckpointError, match="whose log likelihood differs"):
        ev.Online.load(tmp_path, other)
    past = content["state"].past
    labels = past.rows.arrays["group"][::-1].copy()
    broken = past._replace(rows=past.rows._replace(arrays={**past.rows.arrays, "group": labels}))
    with pytest.raises(ev.CheckpointError, match="past of its state do not fit the rest"):
        ev.Online.unpacked({**content, "state": content["state"]._replace(past=broken)}, model)


def test_rows_that_nothing_sums_up_are_kept_up_to_a_number():
    model = ev.Model.from_numpyro(robust, groups="group")
    _, past = begun(model, rows_of(LINES, slice(20)), 100, 0)
    with pytest.raises(
        ConfigurationError,
        match=r"at most reservoir_size=100 different rows of all groups; got 120, 2\d of them of group \d. The moments of some "
        r"columns do not tell all \('x': it enters by 'pow'; 'y': it enters by 'pow'\). Give a larger",
    ):
        past.arriving(LINES).stage(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("method", [ev.SGAIS(), ev.Sequential(num_particles=128)])
def test_the_evidence_is_exact_all_along(method):
    online = ev.Online(ev.Model.from_numpyro(straight, groups="group"), method)
    for stop in (30, 60, 90, 120):
        update = online.update(rows_of(LINES, slice(stop - 30, stop)))
        exact = log_evidence_of_lines(rows_of(LINES, slice(stop)))
        assert abs(update.log_evidence - exact) < 4 * update.standard_error < 1.0
    assert online.evidence().num_observations == ROWS


def log_evidence_of_lines(data):
    """The log density of a normal vector."""
    group, x, y = data["group"], data["x"].astype(float), data["y"].astype(float)
    is_same = group[:, None] == group
    covariance = 4.0 + is_same * (1.0 + 0.25 * np.outer(x, x)) + 0.49 * np.eye(len(y))
    squares = y @ np.linalg.solve(covariance, y)
    return -0.5 * (len(y) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + squares)


@pytest.mark.slow
def test_monitors_and_sources_take_groups_that_come_back():
    """The level of all groups jumps by three at row 60, between two batches."""
    model = ev.Model.from_numpyro(straight, groups="group")
    shifted = {**LINES, "y": Y + 3.0 * (np.arange(ROWS) >= 60)}
    detector = ev.ChangeDetector(ev.Online(model), false_alarm_rate=1e-2)
    reports = [detector.update(rows_of(shifted, slice(k, k + 20))) for k in range(0, ROWS, 20)]
    assert [report.alarm.row for report in reports if report.alarm] == [60]
    average = ev.ModelAverage(
        {"lines": ev.Online(model), "robust": ev.Online(ev.Model.from_numpyro(robust, groups="group"))}
    )
    average.update(rows_of(LINES, slice(60)))
    assert average.update(rows_of(LINES, slice(60, 120))).probabilities["lines"] > 0.5
    from evidentia.data.sources import ArraySource

    found = ev.estimate(model, ArraySource(LINES))
    assert abs(found.log_evidence - log_evidence_of_lines(LINES)) < 4 * found.standard_error < 0.5
