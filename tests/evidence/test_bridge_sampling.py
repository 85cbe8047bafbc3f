"""Bridge sampling of models: exact evidences, forms of draws, and draws that do not belong."""

import pickle
from dataclasses import replace

import arviz
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import evidentia as ev
from evidentia.arviz_bridge import inference_data
from tests.evidence.test_analytic_truths import CASES

MODEL = ev.models.linear_regression(num_features=3)
DATA, _ = MODEL.simulate(200, 0)
EXACT = MODEL.exact_log_evidence(DATA)
DRAWS = {name: np.asarray(array) for name, array in MODEL.sample_posterior(DATA, 2000, 0).items()}
CHAINS = {name: array.reshape(4, 500, *array.shape[1:]) for name, array in DRAWS.items()}


def estimate(draws, model=MODEL, data=DATA, **options):
    return ev.estimate(model, data, method=ev.BridgeSampling(draws), **options)


@pytest.mark.slow
def test_the_exact_evidence_from_exact_draws():
    runs = [ev.estimate(MODEL, DATA, method=ev.BridgeSampling(num_particles=2000), seed=s) for s in range(20)]
    scores = np.array([(run.log_evidence - EXACT) / run.standard_error for run in runs])
    assert np.abs(scores).max() < 4.5 and abs(scores.mean()) < 4 / np.sqrt(20), scores
    assert max(run.standard_error for run in runs) < 0.01 and not any(run.signs for run in runs)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["beta-bernoulli", "gamma-poisson", "normal-inverse-gamma"])
def test_the_exact_evidence_from_chains(name):
    case = CASES[name]
    data = case.simulate(np.random.default_rng(0), 50)
    runs = [ev.estimate(case.numpyro, data, method=ev.BridgeSampling(), seed=seed) for seed in range(4)]
    scores = np.array([(run.log_evidence - case.exact(data)) / run.standard_error for run in runs])
    assert np.abs(scores).max() < 4.5 and abs(scores.mean()) < 4 / np.sqrt(4), scores


def scale(y):
    width = numpyro.sample("width", dist.HalfNormal(2.0))
    numpyro.deterministic("twice", 2 * width)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(0, width), obs=y)


@pytest.mark.slow
def test_draws_of_numpyro_on_its_own_scale():
    y = np.random.default_rng(0).normal(0, 1.5, 40).astype(np.float32)
    sampler = MCMC(
        NUTS(scale),
        num_warmup=300,
        num_samples=500,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    sampler.run(jax.random.key(0), y=y)
    model = ev.Model.from_numpyro(scale)
    widths = np.exp(np.linspace(-4, 4, 20_001))
    squares, n = np.sum(y.astype(float) ** 2), len(y)
    density = (
        np.exp(
            -0.5 * n * np.log(2 * np.pi) - n * np.log(widths) - 0.5 * squares / widths**2 - widths**2 / 8 + 80
        )
        * np.sqrt(2 / np.pi)
        / 2
    )
    exact = np.log(np.trapezoid(density, widths)) - 80
    from_arviz = estimate(arviz.from_numpyro(sampler), model, {"y": y})
    assert abs(from_arviz.log_evidence - exact) < 4.5 * from_arviz.standard_error < 0.1
    by_chain = estimate(sampler.get_samples(group_by_chain=True), model, {"y": y})
    assert by_chain.log_evidence == from_arviz.log_evidence
    flat = estimate(sampler.get_samples(), model, {"y": y})
    assert abs(flat.log_evidence - exact) < 4.5 * flat.standard_error


@pytest.mark.slow
def test_all_forms_of_draws_give_the_same():
    xarray = pytest.importorskip("xarray", minversion="2024.10")
    groups = {"posterior": CHAINS, "sample_stats": {"lp": np.zeros((4, 500))}}
    idata = inference_data(groups, {})
    posterior = xarray.Dataset({n: (("chain", "draw", "k")[: a.ndim], a) for n, a in CHAINS.items()})
    turned = posterior.transpose("draw", ...)
    tree = xarray.DataTree.from_dict({"posterior": posterior.assign(other=("draw", np.zeros(500)))})
    reference = estimate(CHAINS)
    for draws in (idata, posterior, turned, tree):
        assert estimate(draws).log_evidence == reference.log_evidence
    assert abs(estimate(DRAWS).log_evidence - EXACT) < 4.5 * reference.standard_error


def test_the_result_holds_the_draws_and_a_second_opinion():
    found = estimate({**CHAINS, "generated": np.zeros((4, 500, 7))})
    assert (
        np.allclose(found.posterior["weights"], DRAWS["weights"], atol=1e-5) and found.num_particles == 2000
    )
    told = found.diagnostics
    assert abs(told["importance_log_evidence"] - EXACT) < 4.5 * told["importance_standard_error"]
    assert told["pareto_shape"] < 0.7 and told["rhat"] < 1.05 and 1500 < told["ess"] <= 2000
    again = estimate(CHAINS)
    assert (again.log_evidence, again.seed) == (found.log_evidence, 0)
    assert estimate(CHAINS, seed=1).log_evidence != found.log_evidence


def test_a_method_with_draws_shows_compares_and_saves_without_them(tmp_path):
    method = ev.BridgeSampling(DRAWS)
    assert repr(method) == "BridgeSampling(draws=<weights, intercept>, num_particles=4000)"
    copies = ev.BridgeSampling(dict(DRAWS)), pickle.loads(pickle.dumps(method)), replace(method)
    assert all(copy == method and hash(copy) == hash(method) for copy in copies)
    assert method != ev.BridgeSampling() and method != ev.BridgeSampling(CHAINS)
    found = estimate(DRAWS)
    assert len(str(found.to_dict()["method"])) < 200
    found.save(tmp_path / "bridge")
    assert ev.load(tmp_path / "bridge").method == repr(method)
    many = {f"parameter_{number}": np.zeros(3) for number in range(100)}
    assert len(repr(ev.BridgeSampling(many))) < 120


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({"weights": DRAWS["weights"]}, r"model 'linear regression': intercept missing \(given: weights\)"),
        (
            {"weights": DRAWS["weights"][:, :2], "slope": 1},
            r"intercept missing \(given: weights, slope\); weights has shape \(2000, 2\) instead of \(draws, 3\) or \(chains",
        ),
        (
            {**DRAWS, "intercept": DRAWS["intercept"][:7]},
            "chains differ: 1 of 2,000 for weights, 1 of 7 for intercept",
        ),
        ({**DRAWS, "intercept": CHAINS["intercept"]}, "1 of 2,000 for weights, 4 of 500 for intercept"),
        (
            {**DRAWS, "intercept": np.full(2000, "a")},
            r"intercept has shape \(2000,\) of <U1 instead of \(draws\)",
        ),
        (
            {**DRAWS, "intercept": np.full(2000, np.nan)},
            r"lie in the support of intercept .*2,000 of 2,000 draws .*nan",
        ),
        (
            {name: array[:9] for name, array in DRAWS.items()},
            "draws must give at least 10 draws in each chain",
        ),
    ],
)
def test_draws_that_do_not_belong_are_refused_with_the_difference(draws, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        estimate(draws)


def simplex_and_interval(y):
    numpyro.sample("shares", dist.Dirichlet(np.ones(3, np.float32)))
    bound = numpyro.sample("bound", dist.Uniform(1.0, 3.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(0, bound), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "bound",
            3.5,
            r"draws\['bound'\] must lie in the support of bound .* 1 of 40 draws do not, such as 3.5 \(chain 1, draw 7\)",
        ),
        (
            "shares",
            [0.5, 0.4, 0.4],
            r"draws\['shares'\] must lie in the support .*\[0.5, 0.4, 0.4\].*not transformed",
        ),
        ("shares", [1.2, -0.3, 0.1], r"draws\['shares'\] must lie in the support"),
    ],
)
def test_values_outside_of_the_support_are_refused(name, value, message):
    draws = {"shares": np.full((2, 20, 3), 1 / 3), "bound": np.full((2, 20), 2.0)}
    draws[name][1, 7] = value
    with pytest.raises(ev.ConfigurationError, match=message):
        estimate(draws, ev.Model.from_numpyro(simplex_and_interval), {"y": np.zeros(5, np.float32)})


@pytest.mark.parametrize(
    "draws", [3, "draws", np.zeros((4, 100)), {}, {1: np.zeros(3)}, ev.SGAIS(), {"a": [[1], [1, 2]]}]
)
def test_other_forms_are_refused_at_once(draws):
    with pytest.raises(ev.ConfigurationError, match=r"draws"):
        ev.BridgeSampling(draws)
    with pytest.raises(
        ev.ConfigurationError, match="num_particles must be an integer of at least 100; got 99"
    ):
        ev.BridgeSampling(num_particles=99)


def test_draws_that_the_model_rules_out_are_refused():
    model = ev.Model(
        {"edge": dist.Normal(0, 5)},
        lambda params, y: jax.numpy.where(y < params["edge"], 0.0, -jax.numpy.inf),
    )
    with pytest.raises(
        ev.ConfigurationError, match="its density is zero at 100 of 200.*another model, or other data"
    ):
        estimate({"edge": np.r_[np.zeros(100), np.full(100, 5.0)]}, model, np.full(3, 2.0))


def test_draws_from_other_data_are_contradicted():
    half = MODEL.sample_posterior({name: array[:100] for name, array in DATA.items()}, 2000, 0)
    with pytest.warns(
        ev.DiagnosticWarning, match="may be of another posterior, with other data or another prior"
    ):
        found = estimate(half)
    assert found.signs.keys() == {"draws contradicted"}


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_chains_that_differ_are_a_sign():
    apart = {name: array.copy() for name, array in CHAINS.items()}
    apart["intercept"][0] += 0.2
    signs = estimate(apart).signs
    assert "chains of posterior draws differ, or their halves (r-hat" in signs["chains differ"]
    assert "are worth 7 independent ones" in signs["few effective draws"]
    drifting = {name: array.copy() for name, array in DRAWS.items()}
    drifting["intercept"] += np.linspace(0, 0.5, 2000)
    assert {"chains differ", "few effective draws"} <= estimate(drifting).signs.keys()


def test_without_convergence_there_is_no_evidence_to_compare():
    far = {name: array.copy() for name, array in CHAINS.items()}
    far["intercept"][:, 250:] += 100.0
    with pytest.raises(ev.EstimationError, match="did not converge in 1,000 iterations") as caught:
        estimate(far)
    assert caught.value.evidence is None
    with pytest.raises(ev.ConfigurationError, match="must be an Evidence"):
        ev.compare({"bridge": caught.value.evidence, "other": estimate(CHAINS)})


def two_components():
    """Six observations of two components of unknown order: the copies of the posterior overlap."""
    y = np.array([-1.9, -1.2, -0.3, 0.4, 1.6, 2.1])
    model = ev.Model(
        {"means": dist.Normal(0, 2).expand([2]).to_event(1)},
        lambda params, batch: (
            jax.nn.logsumexp(dist.Normal(params["means"], 1.0).log_prob(batch["y"][:, None]), axis=1)
            - np.log(2)
        ),
        exchangeable=("means",),
    )
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(100)
    density = np.exp(-0.5 * (y[:, None] - 2 * nodes) ** 2) / np.sqrt(2 * np.pi)
    likelihood = np.prod(0.5 * density[:, :, None] + 0.5 * density[:, None, :], axis=0)
    return model, {"y": y.astype(np.float32)}, np.log(node_weights @ likelihood @ node_weights / (2 * np.pi))


def draws_of_components(model, data, seed):
    """Exact draws by rejection from the prior: each order of the components is as frequent."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 2, (60_000, 2))
    density = np.exp(-0.5 * (data["y"] - means[..., None]) ** 2).mean(axis=1)
    likelihood = np.prod(density, axis=1)
    return means[rng.random(len(means)) * likelihood.max() < likelihood][:1000]


@pytest.mark.slow
def test_components_may_be_in_any_order():
    model, data, exact = two_components()
    scores = []
    for seed in range(20):
        draws = draws_of_components(model, data, seed)
        assert len(draws) == 1000 and 400 < np.sum(draws[:, 0] < draws[:, 1]) < 600
        run = estimate({"means": draws}, model, data, seed=seed)
        assert run.diagnostics["log_copies"] == pytest.approx(np.log(2))
        scores.append((run.log_evidence - exact) / run.standard_error)
    assert np.abs(scores).max() < 4.5 and abs(np.mean(scores)) < 4 / np.sqrt(20), scores


@pytest.mark.reference
def test_chains_may_be_in_any_order_of_the_components():
    model, data, exact = two_components()
    for seed in range(3):
        run = ev.estimate(model, data, method=ev.BridgeSampling(), seed=seed)
        assert abs(run.log_evidence - exact) < 4.5 * run.standard_error < 0.1


SCHOOLS = (
    np.array([28, 8, -3, 7, -1, 1, 18, 12], np.float32),
    np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32),
)


def centred_schools(y, s):
    """Effects centred at their mean: the density has no bound where their scale is zero."""
    mean, scale = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("scale", dist.HalfCauchy(5))
    effects = numpyro.sample("effects", dist.Normal(mean, scale).expand([8]).to_event(1))
    with numpyro.plate("schools", 8):
        numpyro.sample("y", dist.Normal(effects, s), obs=y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")
def test_chains_do_not_start_where_the_density_has_no_bound():
    """They ended with a singular covariance: climbs from the prior went to a scale of zero."""
    y, s = SCHOOLS
    model = ev.Model.from_numpyro(centred_schools)
    found = ev.estimate(model, {"y": y, "s": s}, method=ev.BridgeSampling(), seed=1)
    assert found.log_evidence == pytest.approx(-31.31134752, abs=4 * found.standard_error)
    assert found.standard_error < 0.4
