"""Modes that a proposal misses are found from draws from the prior, with their mass."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.missed_modes import AT_ONCE, INSIDE, Met, _climb, _with_climb, completed_by_modes
from evidentia.evidence.population.adapt import Rounds
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import host_generator
from evidentia.evidence.tempered_rounds import rounds_from_prior
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Window

WIDE, NARROW = (np.array([-1.0, -1.0]), 0.2), (np.array([1.5, 1.0]), 0.03)
PRIOR = {"x": dist.Normal(0.0, 1.0).expand([2]).to_event(1)}


def log_density(x, *peaks):
    """A mixture of Gaussians of equal shares, divided by the prior density of `PRIOR`."""
    terms = [
        -0.5 * jnp.sum(((x - centre) / width) ** 2) - 2 * jnp.log(width) - jnp.log(len(peaks))
        for centre, width in peaks
    ]
    return jax.nn.logsumexp(jnp.stack(terms)) + 0.5 * jnp.sum(x**2)  # log evidence zero


def completed(monkeypatch, *peaks, known):
    """A proposal of the known peak, and that after the search."""
    model = ev.Model(PRIOR, lambda p, y: log_density(p["x"], *peaks) + 0 * y)
    y = np.zeros(1, np.float32)
    bound, rows, generator = model.bind(y), Window(jnp.asarray(y), 0, 1), np.random.default_rng(1)
    key = jax.random.key(0)
    for found in rounds_from_prior(bound, rows, key, host_generator(key), 512):
        rounds = found.rounds  # only the first round: draws from the prior, and a few more
        if found.num_before > 1:
            break
    # All draws so far show only the known peak, its share of the evidence.
    monkeypatch.setattr(Rounds, "log_weights", lambda _: -np.log([len(peaks)]))
    centre, width = known
    proposal = Mixture((LocalGaussian(centre, np.eye(2) / width**2, 0.0),), np.zeros(1))
    return proposal, completed_by_modes(bound, rows, proposal, rounds, generator)


@pytest.mark.slow
def test_a_narrow_peak_beside_a_wide_one_is_found_and_counted(monkeypatch):
    before, after = completed(monkeypatch, WIDE, NARROW, known=WIDE)
    assert len(after.components) == 2
    assert after.shares == pytest.approx([0.5, 0.5], abs=0.02)
    centre, width = NARROW
    assert after.components[1].centre == pytest.approx(centre, abs=0.2 * width)
    assert np.linalg.inv(after.components[1].precision) == pytest.approx(
        np.eye(2) * width**2, abs=0.1 * width**2
    )
    assert after.unseen == 0.0  # several climbs led there
    assert before.unseen == 0.0


def test_a_proposal_that_misses_nothing_stays(monkeypatch):
    before, after = completed(monkeypatch, WIDE, known=WIDE)
    assert after is before


def test_one_mode_costs_few_evaluations_and_the_share_not_found_is_said(monkeypatch):
    model = ev.Model.from_callable(
        lambda x: -0.5 * np.sum((x / 0.1) ** 2, -1), lambda u: 4 * u - 2, num_parameters=2, vectorized=True
    )
    taken = []

    def counted(bound, rows, proposal, *rest):
        before = bound.evaluations.num_evaluations
        after = completed_by_modes(bound, rows, proposal, *rest)
        taken.append(bound.evaluations.num_evaluations - before)
        assert after is proposal
        return after._replace(unseen=0.2)

    monkeypatch.setattr("evidentia.evidence.amis.completed_by_modes", counted)
    with pytest.warns(ev.DiagnosticWarning, match="only one of many climbs led"):
        found = ev.estimate(model, method=ev.AMIS(), seed=0)
    assert 0 < taken[0] <= AT_ONCE * INSIDE
    assert found.verdict.word == "doubtful"
    assert "20% of the posterior is in modes to which only one of many climbs led" in str(found.verdict)


def test_a_climb_ends_at_the_top_with_its_gaussian():
    scale, centre = np.diag([2.0, 0.5]), np.array([0.3, -0.2])
    precision = np.array([[400.0, 150.0], [150.0, 900.0]])

    def heights(white):
        steps = white @ scale.T - centre
        return -0.5 * np.einsum("ni,ij,nj->n", steps, precision, steps)

    mode = _climb(heights, np.array([1.0, 1.0]), 0.2, scale)
    assert mode.centre == pytest.approx(centre, abs=1e-3)
    assert mode.precision == pytest.approx(precision, rel=1e-6)
    assert mode.log_mass == pytest.approx(np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1], abs=0.02)


def test_climbs_to_one_top_are_counted_together():
    def at(x):
        return Met(LocalGaussian(np.array([x]), np.eye(1), 0.0), 0.1, True)

    met = []
    for found in (at(0.0), at(5.0), at(0.1)):
        met = _with_climb(met, found)
    assert [each.times for each in met] == [2, 1]


def peaks(seed):
    """Twelve peaks in three dimensions, of unequal widths; the log evidence is -3 log 20."""
    generator = np.random.default_rng(seed)
    centres = generator.uniform(-9, 9, (12, 3))
    widths = np.exp(generator.uniform(np.log(0.08), np.log(0.3), 12))

    def log_likelihood(x):
        squares = np.sum((x[:, None] - centres) ** 2, -1) / widths**2
        return np.logaddexp.reduce(-0.5 * squares - 3 * np.log(widths * np.sqrt(2 * np.pi)), axis=1) - np.log(
            12
        )

    return ev.Model.from_callable(log_likelihood, lambda u: 20 * u - 10, num_parameters=3, vectorized=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
@pytest.mark.parametrize("seed", range(6))
def test_peaks_of_unequal_widths_are_found_or_doubted(seed):
    found = ev.estimate(peaks(seed), method=ev.AMIS(num_particles=4096), seed=seed)
    error = found.log_evidence + 3 * np.log(20)
    assert found.verdict.word != "trusted" or abs(error) < 4 * found.standard_error + 0.05
