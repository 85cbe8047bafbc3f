"""`estimate`: argument checks, progress, interruption, and no change of JAX's precision."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.estimation.target import MAX_PARTICLES, more_particles, to_target

MODEL = ev.models.linear_regression(num_features=3)


def data(num_observations=2000):
    return MODEL.simulate(num_observations, 0)[0]


@pytest.mark.slow
def test_progress_is_told_after_each_chunk():
    updates = []
    evidence = ev.estimate(MODEL, data(), progress=updates.append)
    assert [update.num_observations for update in updates] == list(evidence.trajectory.num_observations)
    assert updates[-1].total_observations == 2000
    assert updates[-1].log_evidence == evidence.log_evidence
    assert updates[-1].num_annealing_steps == evidence.trajectory.num_annealing_steps.sum()


@pytest.mark.slow
def test_ctrl_c_returns_what_was_estimated_so_far():
    def interrupt(update):
        if update.num_observations >= 500:
            raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning, match="stopped after 500 of 2000 observations"):
        evidence = ev.estimate(MODEL, data(), in_order=True, progress=interrupt)
    assert not evidence.completed and evidence.num_observations == 500
    same = {name: array[:500] for name, array in data().items()}
    assert abs(evidence.log_evidence - MODEL.exact_log_evidence(same)) < 4.5 * evidence.standard_error


@pytest.mark.slow
def test_results_know_the_rows_of_their_data_in_any_order():
    given = data(500)
    other = {name: array[::-1].astype(np.float64) for name, array in given.items()}
    known = [ev.estimate(MODEL, one, in_order=place > 0) for place, one in enumerate((given, other))]
    assert known[0].fingerprints == known[1].fingerprints and list(known[0].fingerprints) == ["x", "y"]
    later = ev.estimate(MODEL, {name: array[500:] for name, array in data(1000).items()})
    with pytest.raises(ev.DataError, match="must be given the same data"):
        ev.compare({"first": known[0], "later": later})


@pytest.mark.slow
def test_a_result_of_a_part_of_the_rows_has_no_fingerprint_of_all():
    def interrupt(update):
        if update.num_observations >= 500:
            raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning, match="stopped"):
        assert ev.estimate(MODEL, data(), progress=interrupt).fingerprints == {}


def test_ctrl_c_before_the_first_chunk_is_passed_on(monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(ev.SGAIS, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ev.estimate(MODEL, data())


def test_precision_of_jax_is_left_alone():
    ev.estimate(MODEL, data())
    assert not jax.config.jax_enable_x64


def test_a_formula_alone_is_told_its_name():
    with pytest.raises(ev.ModelError, match=r"got str\. A formula is ev\.Regression\('y ~ x'\)\."):
        ev.estimate("y ~ x", {"x": [1.0], "y": [2.0]})


def test_a_model_that_is_none_is_refused():
    with pytest.raises(
        ev.ModelError, match=r"model must be an evidentia\.Model or a Regression; got function"
    ):
        ev.estimate(lambda: None, data())


def test_a_method_that_is_none_is_refused():
    with pytest.raises(
        ev.ConfigurationError, match=r"method must be a configuration such as SGAIS\(\); got 'sgais'"
    ):
        ev.estimate(MODEL, data(), method="sgais")


class NoDataClass:
    num_particles = 8

    def run(self, model, rows, key):
        raise NotImplementedError


def test_a_method_must_be_a_data_class():
    """Its number of particles is replaced after a run, which would be lost if that failed."""
    for make in (
        lambda: ev.estimate(MODEL, data(), method=NoDataClass()),
        lambda: ev.Sequential(initial=NoDataClass()),
    ):
        with pytest.raises(ev.ConfigurationError, match="must be a configuration such as .*NoDataClass"):
            make()


@pytest.mark.parametrize("error", [1.0, np.inf])
@pytest.mark.parametrize("target", [1e-3, 1e-170, 1e-320])
def test_a_target_that_no_number_of_particles_reaches_asks_for_the_most(error, target):
    found = SimpleNamespace(standard_error=error, method=ev.SMC(num_particles=64))
    assert more_particles(found, target) == MAX_PARTICLES


@pytest.mark.parametrize("seed", [-1, 1.5, "0"])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ev.ConfigurationError, match="seed must be an integer from 0"):
        ev.estimate(MODEL, data(), seed=seed)


@pytest.mark.slow
def test_a_single_row_has_an_evidence():
    one = {"x": np.ones((1, 3)), "y": np.ones(1)}
    evidence = ev.estimate(MODEL, one)
    assert abs(evidence.log_evidence - MODEL.exact_log_evidence(one)) < 4.5 * evidence.standard_error < 0.1


@pytest.mark.reference
def test_a_target_for_the_standard_error_is_reached():
    model, small = MODEL, data(200)
    method = ev.SMC(num_particles=32, chain_length=1)
    coarse = ev.estimate(model, small, method=method)
    fine = ev.estimate(model, small, method=method, target_standard_error=0.15)
    assert coarse.standard_error > 0.15 >= fine.standard_error
    assert fine.num_particles > 32 and fine.method.num_particles == fine.num_particles
    assert abs(fine.log_evidence - model.exact_log_evidence(small)) < 4.5 * fine.standard_error


def test_a_target_that_is_met_changes_nothing():
    evidence = ev.estimate(MODEL, data(), target_standard_error=10.0)
    assert evidence.num_particles == ev.SGAIS().num_particles


def test_a_target_where_no_error_is_known_is_reported():
    method = ev.Laplace(importance_sampling=False)
    with pytest.warns(ev.EvidenceWarning, match=r"the standard error is unknown with 1,024 particles"):
        evidence = ev.estimate(MODEL, data(200), method=method, target_standard_error=0.1)
    assert np.isnan(evidence.standard_error)


@pytest.mark.slow
def test_ctrl_c_returns_what_was_known_by_then():
    def interrupt(update):
        if update.num_annealing_steps >= 30:
            raise KeyboardInterrupt

    stopped = "stopped after [0-9]+ steps; the result is the estimate at that point"
    early = pytest.warns(
        ev.errors.DiagnosticWarning, match="the log evidence is too low by an unknown amount"
    )
    with early, pytest.warns(ev.EvidenceWarning, match=stopped):
        evidence = ev.estimate(
            MODEL, data(200), method=ev.NestedSampling(num_particles=64), progress=interrupt
        )
    assert not evidence.completed and np.isfinite(evidence.log_evidence)
    assert evidence.num_observations == 200 and len(evidence.trajectory) == 1


@pytest.mark.slow
def test_ctrl_c_in_a_second_run_returns_the_first():
    method, chunks = ev.SMC(num_particles=32, chain_length=1, chunk_size=10), []

    def interrupt(update):
        chunks.append(update.num_observations)
        if len(chunks) == 30:  # the first run has twenty
            raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning) as caught:
        evidence = ev.estimate(MODEL, data(200), method=method, target_standard_error=0.4, progress=interrupt)
    assert len(chunks) == 30 and evidence.completed and evidence.num_particles == 32
    assert re.match(
        r"the run with \d+ particles was stopped; the result is that with 32\.", str(caught[0].message)
    )


def test_a_target_out_of_reach_is_reported():
    def run(method):
        error = method.num_particles**-0.5
        return SimpleNamespace(completed=True, standard_error=error, method=method), ["of one run"]

    evidence, messages = to_target(run, ev.SMC(num_particles=16), 0.001, most=64)
    assert evidence.method.num_particles == 64
    said = "the standard error is 0.12 nats with 64 particles; target_standard_error=0.001 was not reached."
    assert messages == ["of one run", said]


def test_a_target_that_is_none_is_refused():
    with pytest.raises(ev.ConfigurationError, match=r"target_standard_error must be positive; got 0\."):
        ev.estimate(MODEL, data(200), target_standard_error=0)


def test_all_data_as_one_unit_have_no_row_numbers():
    model = ev.Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.nan * params["m"],
        pointwise=False,
    )
    with pytest.raises(ev.EstimationError, match="NaN") as raised:
        ev.estimate(model, {"y": np.zeros(3)})
    assert not hasattr(raised.value, "__notes__")
