"""Faults planted in the estimator do not end in a wrong number without a word.

Those of a proposal's density and draws are in `population/test_mixture_density.py`.
"""

from dataclasses import dataclass
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.method import Diagnosis
from evidentia.evidence.population import about_modes, redrawing, warning_signs
from evidentia.kernels.kernel import Moved

ROWS = np.zeros(100, np.float32)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")]


def two_modes(params, y):
    """Modes at -1 and 1 of width 0.1 after a hundred rows; the left one has 3/4 of the mass."""
    tilt = np.log(3) / len(ROWS) * (params["m"] < 0)
    return -0.5 * (jnp.abs(params["m"]) - 1 - 0 * y) ** 2 - 0.5 * jnp.log(2 * jnp.pi) + tilt


def exact() -> float:
    grid = np.linspace(-6, 6, 200_001)
    heights = -50 * (np.abs(grid) - 1) ** 2 - 50 * np.log(2 * np.pi) + np.log(3) * (grid < 0)
    density = np.exp(heights - heights.max() - 0.5 * grid**2) / np.sqrt(2 * np.pi)
    return float(np.log(np.trapezoid(density, grid)) + heights.max())


MODEL = ev.Model({"m": dist.Normal(0, 1)}, two_modes)


def is_caught(evidence: ev.Evidence, truth: float) -> bool:
    """Whether the number is right within its error, or its verdict warns of it."""
    is_right = abs(evidence.log_evidence - truth) < 4.5 * evidence.standard_error
    return is_right or evidence.verdict.word != "trusted"


def mode_removed(removed: int):
    """Proposals at many modes lack the one with this number, from the left."""
    about_many_modes = redrawing.about_many_modes

    def with_one_removed(*args):
        found = about_many_modes(*args)
        if found is None or len(found.components) == 1:
            return found
        kept = sorted(found.components, key=lambda mode: mode.centre[0])
        del kept[removed]
        return found._replace(components=tuple(kept))

    return patch.object(redrawing, "about_many_modes", with_one_removed)


@pytest.mark.parametrize("removed", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_mode_that_is_removed_is_noticed(removed, seed):
    with mode_removed(removed):
        evidence = ev.estimate(MODEL, ROWS, seed=seed)
    assert is_caught(evidence, exact())


def test_a_mode_that_is_removed_is_a_silent_failure_without_the_checks():
    nothing = np.empty((0, 1))
    with (
        mode_removed(0),
        patch.object(redrawing, "about_one_mode", lambda *_: None),
        patch.object(redrawing, "covers", lambda *_: True),
        patch.object(about_modes, "exceeding", lambda *_: nothing),
        patch.object(about_modes, "rises", lambda *_: nothing),
        patch.object(warning_signs, "compare_with_path", lambda *_, effective: Diagnosis()),
    ):
        evidence = ev.estimate(MODEL, ROWS)
    assert evidence.log_evidence - exact() == pytest.approx(np.log(1 / 4), abs=0.02)
    assert not is_caught(evidence, exact())


@dataclass(frozen=True)
class AcceptsAll(ev.kernels.RandomWalk):
    """A random walk that forgets to reject."""

    def move(self, key, positions, density, scale):
        steps = jax.random.normal(key, positions.shape) @ scale.factor.T
        return Moved(positions + steps, jnp.zeros(len(positions)))


@pytest.mark.parametrize("seed", range(3))
def test_moves_that_do_not_keep_the_posterior_do_not_change_its_evidence(seed):
    evidence = ev.estimate(MODEL, ROWS, method=ev.SGAIS(exact_kernel=AcceptsAll()), seed=seed)
    assert is_caught(evidence, exact())


def test_moves_that_do_not_keep_their_density_are_noticed_by_a_method_that_depends_on_them():
    evidence = ev.estimate(MODEL, ROWS, method=ev.SMC(kernel=AcceptsAll()))
    assert evidence.verdict.word == "doubtful"
    assert "AcceptsAll" in evidence.signs["moves change the prior"]
    assert abs(evidence.diagnostics["prior_change"]) > 5


def test_moves_that_keep_their_density_give_no_sign():
    evidence = ev.estimate(MODEL, ROWS, method=ev.SMC())
    assert "moves change the prior" not in evidence.signs
    assert abs(evidence.diagnostics["prior_change"]) < 5


def test_moves_without_a_correction_are_not_asked_to_keep_their_density():
    evidence = ev.estimate(MODEL, ROWS, method=ev.SMC(kernel=ev.kernels.BAOAB()))
    assert np.isnan(evidence.diagnostics["prior_change"])
