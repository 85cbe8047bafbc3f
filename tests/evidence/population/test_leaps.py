"""Leaps: rows of which only a sample is near, and what speaks against a path that stands."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

import evidentia as ev
from evidentia.data.arrays import on_device
from evidentia.errors import ConfigurationError, UnfinishedError
from evidentia.evidence import sgais
from evidentia.evidence.population import leaps, warning_signs
from evidentia.posterior.rows import Window

MODEL = ev.models.linear_regression(num_features=1)


class Elsewhere(NamedTuple):
    """Rows of which some are near."""

    near: Window
    num_observations: int


@pytest.fixture(scope="module")
def rows():
    data, _ = MODEL.simulate(150, 0)
    return MODEL.bind(data), Elsewhere(Window(on_device(data), 0, 150), 10_000)


@pytest.mark.slow
def test_particles_of_a_sample_do_not_check_a_redraw_for_all_rows(rows, monkeypatch):
    """Redraws fail, so that there is no proposal at the end."""
    model, elsewhere = rows
    asked = []
    monkeypatch.setattr(leaps, "draw_anew", lambda model, rows, *_: asked.append(rows))
    monkeypatch.setattr(leaps, "only_mode", lambda *_: None)
    with pytest.raises(UnfinishedError, match="that of 150 random rows out of 10,000.*give them as arrays"):
        list(ev.SGAIS(num_particles=16).run(model, elsewhere, jax.random.key(0)))
    assert len(asked) > 0 and elsewhere not in asked


@pytest.mark.slow
def test_a_path_alone_is_refused_for_a_sample(rows):
    model, elsewhere = rows
    with pytest.raises(ConfigurationError, match="needs refresh=True"):
        list(ev.SGAIS(refresh=False).run(model, elsewhere, jax.random.key(0)))
    found = list(ev.SGAIS(refresh=False, num_particles=16).run(model, elsewhere.near, jax.random.key(0)))
    assert np.isfinite(found[-1].estimate.log_evidence)


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
@pytest.mark.parametrize(("excess", "is_sign"), [(3.0, True), (-3.0, False)])
def test_draws_that_are_not_used_speak_against_a_path_with_less_evidence(excess, is_sign, monkeypatch):
    """The draws are good, so that the excess is all by which they differ from the path."""

    def not_enough(*arguments):
        found = draw_anew(*arguments)
        draws = found.draws._replace(offset=found.draws.offset + excess)
        return found._replace(draws=draws, is_enough=False)

    draw_anew = leaps.draw_anew
    monkeypatch.setattr(leaps, "draw_anew", not_enough)
    data, _ = MODEL.simulate(50, 0)
    evidence = ev.estimate(MODEL, data)
    assert evidence.diagnostics["num_refreshes"] == 0
    assert ("path contradicts" in evidence.signs) == is_sign


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
@pytest.mark.parametrize(("is_repeated", "most"), [(True, 0.0), (True, 1.0), (False, 0.0)])
def test_only_runs_that_were_repeated_can_differ(is_repeated, most, monkeypatch):
    monkeypatch.setattr(sgais, "needs_second_opinion", lambda _: is_repeated)
    monkeypatch.setattr(warning_signs, "MAX_PATH_ERROR", most)
    data, _ = MODEL.simulate(50, 0)
    evidence = ev.estimate(MODEL, data, method=ev.SGAIS(refresh=False, num_particles=64))
    assert ("runs differ" in evidence.signs) == (is_repeated and most == 0.0)
