"""The sequential estimator: chunks, exact evidences, hybrid, published settings, rejections."""

import jax
import numpy as np
import pytest

import evidentia as ev
from evidentia.data.arrays import as_arrays, on_device
from evidentia.errors import ConfigurationError
from evidentia.posterior.rows import Window
from tests.evidence.scores import fresh_scores
from tests.evidence.test_analytic_truths import CASES

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("name", ["linear", "normal-inverse-gamma"])
def test_estimates_agree_with_the_exact_evidence(name):
    found = fresh_scores(ev.Sequential(), CASES[name], range(4))
    assert np.all(np.abs(found) < 4), found
    assert abs(found.mean()) < 4 / np.sqrt(4), found


def test_from_the_prior_it_is_right_with_few_parameters():
    found = fresh_scores(ev.Sequential(initial=None), CASES["beta-bernoulli"], range(6))
    assert np.all(np.abs(found) < 4), found


def test_chunks_are_those_of_the_paper():
    method, start, stops = ev.Sequential.published(), 0, []
    while start < 4000:
        state = method.init(_bound(), jax.random.key(0))._replace(num_observations=start)
        start = method.next_stop(state, 4000)
        stops.append(start)
    assert stops[:6] == [20, 40, 60, 80, 100, 125]
    grown = list(zip(stops[4:-2], np.diff(stops)[4:-1], strict=True))
    assert all(size == min(stop // 4, 500) for stop, size in grown)
    assert grown[-1][1] == 500 and stops[-1] == 4000


def test_steady_chunks_are_those_of_the_thesis():
    method, start, sizes = ev.Sequential(initial=None, chunks="steady"), 0, []
    while start < 9000:
        state = method.init(_bound(), jax.random.key(0))._replace(num_observations=start)
        sizes.append(method.next_stop(state, 9000) - start)
        start += sizes[-1]
    assert sizes[:25] == list(range(20, 501, 20)) and set(sizes[25:-1]) == {500}
    with pytest.raises(ConfigurationError, match="chunks must be 'quarter' or 'steady'; got 'linear'"):
        ev.Sequential(chunks="linear")  # type: ignore[arg-type]


def test_published_settings_lag_behind():
    """Ten unweighted particles from the prior; the docstring explains why they are too low."""
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(1000, 0)
    with pytest.warns(ev.DiagnosticWarning):
        evidence = ev.estimate(model, data, method=ev.Sequential.published())
    assert evidence.log_evidence < model.exact_log_evidence(data) - 3


def test_as_published_the_first_rows_are_replaced_and_nothing_is_corrected():
    """The hybrid passes the first rows too, and has the same particles after them."""
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)
    initial = ev.NestedSampling.published()
    found = {}
    for name, method in {
        "plain": ev.Sequential.published(),
        "hybrid": ev.Sequential.published(initial),
    }.items():
        arrays = on_device(as_arrays(data))
        found[name] = list(method.run(model.bind(arrays), Window(arrays, 0, 200), jax.random.key(0)))
    plain, hybrid = found["plain"], found["hybrid"]
    stops = [20, 40, 60, 80, 100, 125, 156, 195, 200]
    assert [each.num_observations for each in plain] == stops
    assert [each.num_observations for each in hybrid] == stops
    assert plain[3].estimate == hybrid[3].estimate
    np.testing.assert_array_equal(plain[4].positions, hybrid[4].positions)
    assert hybrid[4].estimate.log_evidence > plain[4].estimate.log_evidence + 10
    assert all(each.estimate.log_evidence == each.estimate.raw for each in hybrid)
    assert initial.num_particles == 2


def test_any_estimator_can_begin():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)
    for initial in (ev.SMC(), ev.SGAIS()):
        method = ev.Sequential(initial=initial, initial_rows=100)
        evidence = ev.estimate(model, data, method=method, in_order=True)
        assert evidence.trajectory.num_observations[0] == 100
        first = {name: array[:100] for name, array in data.items()}
        for n, exact in ((100, model.exact_log_evidence(first)), (200, model.exact_log_evidence(data))):
            entry = evidence.trajectory.at(n)
            assert abs(entry["log_evidence"] - exact) < 4.5 * entry["standard_error"]


def test_the_initial_estimator_must_know_its_error():
    model = ev.models.linear_regression(num_features=3)
    method = ev.Sequential(initial=ev.Laplace(importance_sampling=False))
    with pytest.raises(ev.EstimationError, match=r"initial must be a method that knows its standard error"):
        ev.estimate(model, model.simulate(200, 0)[0], method=method)


def test_warnings_of_the_initial_estimator_are_passed_on():
    model = ev.models.linear_regression(num_features=3)
    method = ev.Sequential(initial=ev.PriorSampling(num_particles=64))
    with pytest.warns(ev.DiagnosticWarning, match=r"regression: the first rows: .* effective draws"):
        ev.estimate(model, model.simulate(200, 0)[0], method=method)


def test_the_smallest_ess_is_that_of_the_chunks():
    model = ev.models.linear_regression(num_features=3)
    evidence = ev.estimate(model, model.simulate(200, 0)[0], method=ev.Sequential())
    assert 0 < evidence.diagnostics["smallest_ess"] < 1


def test_data_shorter_than_the_initial_rows_are_the_initial_estimator_s():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)
    evidence = ev.estimate(model, data, method=ev.Sequential(initial_rows=300))
    assert list(evidence.trajectory.num_observations) == [200]
    assert abs(evidence.log_evidence - model.exact_log_evidence(data)) < 4 * evidence.standard_error


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_particles": 1}, r"num_particles must be an integer of at least 2; got 1\."),
        ({"num_moves": 0}, r"num_moves must be an integer of at least 1; got 0\."),
        ({"initial_rows": 1}, r"initial_rows must be an integer of at least 2; got 1\."),
        (
            {"kernel": ev.kernels.HMC()},
            r"kernel must be a move along gradient.*kernels\.BAOAB\(\); got HMC.* log density",
        ),
        (
            {"exact_kernel": ev.kernels.BAOAB()},
            r"exact_kernel must be a move that uses.*kernels\.HMC\(\); got BAOAB.* needs a gradient",
        ),
        ({"exact_kernel": ev.kernels.ULA()}, r"exact_kernel must not weight the particles.*got ULA"),
        ({"gradient": 5}, r"gradient must be an estimator such as gradients\.ControlVariate\(\); got 5\."),
        ({"initial": 5}, r"initial must be a configuration such as NestedSampling\(\); got 5\."),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.Sequential(**fields)


def _bound():
    model = ev.models.linear_regression(num_features=3)
    return model.bind(model.simulate(2, 0)[0])
