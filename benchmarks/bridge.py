"""Bridge sampling on ten models whose evidence is known: `python benchmarks/bridge.py`.

Each model is run with 20 seeds: 4,000 draws by four NUTS chains, or exact ones if the model has
them, and as many of the fitted densities. The truth is exact, or a quadrature of one to three
dimensions. The two hierarchical models are those of a vignette of R's bridgesampling, with its
data (R's random numbers of `set.seed(12345)`) and its published values: -37.53185 (error 0.145%)
and -37.79714 (0.164%).
"""

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import integrate, stats
from scipy.special import gammaln

import evidentia as ev

SEEDS = range(20)
PUBLISHED = {"hierarchical normal, H0": -37.53185, "hierarchical normal, H1": -37.79714}


@dataclass
class Problem:
    name: str
    model: ev.Model
    data: Any
    truth: float


def main() -> None:
    print("| model | parameters | truth | root mean squared error | standard error | within 2 | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for problem in problems():
        print(row(problem), flush=True)
        jax.clear_caches()


def row(problem: Problem) -> str:
    runs, seconds = [], []
    for seed in SEEDS:
        started = time.perf_counter()
        runs.append(ev.estimate(problem.model, problem.data, method=ev.BridgeSampling(), seed=seed))
        seconds.append(time.perf_counter() - started)
    errors = np.array([run.log_evidence for run in runs]) - problem.truth
    reported = np.array([run.standard_error for run in runs])
    size = sum(np.prod(each.shape[1:], dtype=int) for each in runs[0].posterior.values())
    signs = sorted({sign for run in runs for sign in run.signs})
    published = f" (R: {PUBLISHED[problem.name]})" if problem.name in PUBLISHED else ""
    return (
        f"| {problem.name} | {size} | {problem.truth:.4f}{published} | {np.sqrt(np.mean(errors**2)):.4f} | "
        f"{np.median(reported):.4f} | {np.sum(np.abs(errors) < 2 * reported)} of {len(runs)} | {np.median(seconds):.1f} |"
        + (f" {', '.join(signs)}" if signs else "")
    )


def problems() -> list[Problem]:
    makers = (
        linear,
        beta_binomial,
        gamma_poisson,
        normal,
        dirichlet,
        *hierarchical(),
        schools,
        challenger,
        mixture,
    )
    return [make() for make in makers]


def linear() -> Problem:
    model = ev.models.linear_regression(num_features=5)
    data, _ = model.simulate(200, 0)
    return Problem("linear regression", model, data, model.exact_log_evidence(data))


def beta_binomial() -> Problem:
    """Two of ten with a uniform prior: 1/11, as for every count (Gronau et al. 2017)."""
    model = ev.Model(
        {"rate": dist.Uniform(0, 1)},
        lambda params, batch: dist.Binomial(10, probs=params["rate"]).log_prob(batch["count"]),
    )
    return Problem("beta-binomial", model, {"count": np.array([2])}, -np.log(11))


def gamma_poisson() -> Problem:
    counts = np.random.default_rng(0).poisson(3.0, 30)
    model = ev.Model(
        {"rate": dist.Gamma(2.0, 0.5)},
        lambda params, batch: dist.Poisson(params["rate"]).log_prob(batch["y"]),
    )
    total, n = counts.sum(), len(counts)
    truth = gammaln(2 + total) - gammaln(2) + 2 * np.log(0.5) - (2 + total) * np.log(0.5 + n)
    return Problem("gamma-Poisson", model, {"y": counts}, truth - gammaln(counts + 1.0).sum())


def normal() -> Problem:
    """A mean and a variance from five observations: a skewed posterior with heavy tails."""
    y = np.random.default_rng(1).normal(1.5, 0.7, 5).astype(np.float32)
    model = ev.Model(
        {
            "variance": dist.InverseGamma(1.0, 1.0),
            "mean": lambda params: dist.Normal(0.0, 2.0 * jnp.sqrt(params["variance"])),
        },
        lambda params, batch: dist.Normal(params["mean"], jnp.sqrt(params["variance"])).log_prob(batch["y"]),
    )
    y64, n = y.astype(float), len(y)
    precision, shape = 1 / 4 + n, 1 + n / 2
    rate = 1.0 + 0.5 * (np.sum(y64**2) - np.sum(y64) ** 2 / precision)
    truth = (
        gammaln(shape) - shape * np.log(rate) + 0.5 * np.log(0.25 / precision) - 0.5 * n * np.log(2 * np.pi)
    )
    return Problem("normal mean and variance", model, {"y": y}, truth)


def dirichlet() -> Problem:
    """Counts of five kinds, one of which never came: a simplex, near its edge."""
    counts = np.array([12, 7, 3, 1, 0])
    model = ev.Model(
        {"shares": dist.Dirichlet(jnp.ones(5))},
        lambda params, batch: jnp.log(params["shares"])[batch["kind"]],
    )
    a = 1.0 + counts
    truth = (gammaln(a).sum() - gammaln(a.sum())) - (0 - gammaln(5.0))
    return Problem("Dirichlet-categorical", model, {"kind": np.repeat(np.arange(5), counts)}, truth)


def hierarchical():
    y = vignette_data()
    n = len(y)

    def log_marginal(tau2):
        """log p(y | τ²) under H0 and H1."""
        v = 1 + tau2
        base = -0.5 * n * np.log(2 * np.pi * v) - 0.5 * np.sum(y**2) / v
        precision = 1 + n / v
        return base, base - 0.5 * np.log(precision) + 0.5 * (np.sum(y) / v) ** 2 / precision

    def truth(which):
        def integrand(log_tau2):
            prior = stats.invgamma.logpdf(np.exp(log_tau2), 1.0) + log_tau2
            return np.exp(log_marginal(np.exp(log_tau2))[which] + prior + 35)

        return np.log(integrate.quad(integrand, -8, 12, limit=500, epsabs=0, epsrel=1e-9)[0]) - 35

    def make(which):
        prior = {"mu": dist.Normal(0, 1)} if which else {}
        prior["tau2"] = dist.InverseGamma(1.0, 1.0)
        prior["theta"] = lambda params: (
            dist.Normal(params.get("mu", 0.0), jnp.sqrt(params["tau2"])).expand([n]).to_event(1)
        )
        model = ev.Model(
            prior, lambda params, y: jnp.sum(dist.Normal(params["theta"], 1.0).log_prob(y)), pointwise=False
        )
        return Problem(f"hierarchical normal, H{which}", model, y.astype(np.float32), truth(which))

    return (lambda: make(0)), (lambda: make(1))


def vignette_data() -> np.ndarray:
    """The data of bridgesampling's vignette: normal θᵢ of variance 1/2, and yᵢ about them."""
    normals = r_normals(12345, 40)
    assert np.allclose(normals[:3], [0.5855288, 0.7094660, -0.1093033], atol=1e-7)  # as R prints them
    return np.sqrt(0.5) * normals[:20] + normals[20:]


def r_normals(seed: int, count: int) -> np.ndarray:
    """R's `set.seed(seed); rnorm(count)`: Mersenne twister, then inversion of 27 + 32 bits."""
    words, word = [], seed
    for step in range(50 + 625):
        word = (69069 * word + 1) % 2**32
        if step > 50:
            words.append(word)
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": np.array(words, np.uint32), "pos": 624}}
    uniform = twister.random_raw(2 * count) / (2**32 - 1)
    return stats.norm.ppf((np.floor(2**27 * uniform[::2]) + uniform[1::2]) / 2**27)


def schools() -> Problem:
    """Eight schools (Rubin 1981), effects in units of τ, with proper priors."""
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    model = ev.Model(
        {
            "mu": dist.Normal(0, 10),
            "tau": dist.HalfCauchy(5.0),
            "z": dist.Normal(0, 1).expand([8]).to_event(1),
        },
        lambda params, data: jnp.sum(
            dist.Normal(params["mu"] + params["tau"] * params["z"], data["sigma"]).log_prob(data["y"])
        ),
        pointwise=False,
    )

    def integrand(log_tau):
        tau = np.exp(log_tau)
        v = sigma**2 + tau**2
        precision = 1 / 100 + np.sum(1 / v)
        log_likelihood = -0.5 * np.sum(np.log(2 * np.pi * v)) - 0.5 * np.log(100 * precision)
        log_likelihood += -0.5 * np.sum(y**2 / v) + 0.5 * np.sum(y / v) ** 2 / precision
        return np.exp(log_likelihood + stats.halfcauchy.logpdf(tau, scale=5.0) + log_tau + 30)

    truth = np.log(integrate.quad(integrand, -20, 12, limit=500, epsabs=0, epsrel=1e-9)[0]) - 30
    return Problem(
        "eight schools", model, {"y": y.astype(np.float32), "sigma": sigma.astype(np.float32)}, truth
    )


def challenger() -> Problem:
    """O-rings of the Challenger (Dalal, Fowlkes and Hoadley 1989): 23 rows, a skewed posterior."""
    celsius = [66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58]
    failed = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1])
    x = (np.array(celsius) - 70.0) / 7.0
    model = ev.Model(
        {"intercept": dist.Normal(0, 5), "slope": dist.Normal(0, 5)},
        lambda params, batch: dist.Bernoulli(
            logits=params["intercept"] + params["slope"] * batch["x"]
        ).log_prob(batch["y"]),
    )

    def integrand(slope, intercept):
        sign = np.where(failed == 1, 1.0, -1.0)
        log_likelihood = -np.sum(np.logaddexp(0, -sign * (intercept + slope * x)))
        return np.exp(log_likelihood + stats.norm.logpdf([slope, intercept], scale=5).sum() + 15)

    found, _ = integrate.dblquad(integrand, -12, 8, -16, 8, epsabs=0, epsrel=1e-7)
    return Problem("O-rings, logistic", model, {"x": x.astype(np.float32), "y": failed}, np.log(found) - 15)


def mixture() -> Problem:
    """Two normal components of unknown order, from six observations: copies that overlap."""
    y = np.array([-1.9, -1.2, -0.3, 0.4, 1.6, 2.1])
    model = ev.Model(
        {
            "share": dist.Beta(2.0, 2.0),
            "first": dist.Normal(0, 2),
            "second": dist.Normal(0, 2),
        },
        lambda params, batch: jnp.logaddexp(
            jnp.log(params["share"]) + dist.Normal(params["first"], 1.0).log_prob(batch["y"]),
            jnp.log1p(-params["share"]) + dist.Normal(params["second"], 1.0).log_prob(batch["y"]),
        ),
    )
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(80)
    shares, share_weights = np.polynomial.legendre.leggauss(40)
    shares, share_weights = (shares + 1) / 2, share_weights / 2
    means = 2 * nodes
    densities = stats.norm.pdf(y[:, None], means)  # (rows, nodes)
    total = 0.0
    for share, weight in zip(shares, share_weights, strict=True):
        likelihood = np.prod(share * densities[:, :, None] + (1 - share) * densities[:, None, :], axis=0)
        total += (
            weight * stats.beta.pdf(share, 2, 2) * (node_weights @ likelihood @ node_weights) / (2 * np.pi)
        )
    return Problem("two components", model, {"y": y.astype(np.float32)}, float(np.log(total)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
