"""A second opinion on a path: what is pooled, and when more runs are asked."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.population.moves import MOST_MOVES, StepInfo
from evidentia.evidence.population.particles import Population, estimate_of
from evidentia.evidence.population.path import needs_second_opinion, pooled, with_second_opinion

COUNT = 100


def a_run(log_evidence, place=0.0, variance=0.04):
    positions = jnp.full((COUNT, 1), place)
    return Population(jax.random.key(0), positions, np.zeros(COUNT), log_evidence, variance)


def test_evidences_are_averaged_and_particles_follow_them():
    found = pooled([a_run(np.log(3.0), 0.0), a_run(np.log(1.0), 1.0)])
    assert found.log_evidence == pytest.approx(np.log(2.0))
    assert float(found.positions.mean()) == pytest.approx(0.25, abs=0.011)
    # Between the runs: (0.5² + 0.5²) / (2 · 1) = 0.25 in units of the mean squared, divided by 2.
    assert estimate_of(found).variance == pytest.approx(0.25)


def test_each_half_is_of_all_runs_with_relatives_together():
    families = np.repeat(np.arange(COUNT // 4), 4)
    runs = [a_run(0.0, place)._replace(ancestors=families[None]) for place in (0.0, 1.0)]
    places = runs[0].positions + jnp.arange(COUNT)[:, None]
    runs = [run._replace(positions=run.positions * 1000 + places) for run in runs]
    found = pooled(runs)
    numbers = np.asarray(found.positions)[:, 0].astype(int)
    first, second = np.split(numbers, 2)
    for half in (first, second):
        assert 0.3 < np.mean(half >= 1000) < 0.7
    assert len(set(first // 4) & set(second // 4)) <= 2  # of each run, the family in the middle
    assert len(set(found.ancestors[0])) == len(set(numbers // 4))


def test_the_variance_is_at_least_that_within_the_runs():
    assert estimate_of(pooled([a_run(0.0), a_run(0.0)])).variance == pytest.approx(0.02)


@pytest.mark.parametrize(("others", "number"), [([0.3, 0.0], 1), ([1.0, 0.9, 0.1, 0.8, 0.2], 2)])
def test_more_runs_are_asked_if_two_disagree(others, number):
    asked = []

    def run(key):
        asked.append(key)
        return a_run(others[len(asked) - 1])

    with_second_opinion(a_run(0.0), run)
    assert len(asked) == number and len({str(jax.random.key_data(key)) for key in asked}) == number


def test_it_is_needed_where_many_moves_leave_the_particles_correlated():
    stuck = StepInfo(0.7, correlation=0.5, num_moves=MOST_MOVES)
    moved, moved_once = stuck._replace(correlation=0.1), stuck._replace(num_moves=1)
    assert needs_second_opinion([stuck, moved])
    assert not needs_second_opinion([moved, moved_once])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
@pytest.mark.parametrize("method", [ev.SGAIS.published(), ev.SGAIS(exact_kernel=None), ev.SMC(), ev.AIS()])
def test_methods_whose_moves_are_not_repeated_ask_for_none(monkeypatch, method):
    """They take the moves that they name, however correlated: here there are two modes."""
    monkeypatch.setattr("evidentia.evidence.population.path.with_second_opinion", None)
    model = ev.Model(
        {"mean": dist.Normal(0.5, 3.0)},
        lambda params, batch: dist.Normal(jnp.abs(params["mean"]), 1.0).log_prob(batch["y"]),
    )
    ev.estimate(model, {"y": np.linspace(4, 6, 60, dtype=np.float32)}, method=method)
