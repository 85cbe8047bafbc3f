"""Prior sampling and the harmonic mean on the simplest of problems, where both fail: histograms beside the exact value.

A hundred observations y_i ~ N(2, 1); the model is y_i ~ N(m, 1) with m ~ N(0, 1), whose posterior is exact. Both estimators
have ten draws, from the prior and from the posterior; each is repeated many times on the same observations.

    python experiments/simple_estimators.py --out results      # 2,000 repeats, seconds
    python experiments/simple_estimators.py --out results --quick

Source: Cameron (2020), MSc thesis, Stellenbosch, chapter 3.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import numpyro.distributions as dist

import evidentia as ev
from evidentia.evidence.harmonic_mean import log_harmonic_mean
from evidentia.evidence.prior_sampling import log_mean_likelihood
from evidentia.plot import COLORS
from evidentia.rows import Rows, log_likelihood_sums

NUM_OBSERVATIONS, TRUE_MEAN, NUM_DRAWS = 100, 2.0, 10


def posterior(y: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of m given the observations."""
    precision = 1 + len(y)
    return float(np.sum(y, dtype=np.float64) / precision), precision**-0.5


def exact_log_evidence(y: np.ndarray) -> float:
    """The log density of y ~ N(0, I + 1 1ᵀ), in nats."""
    n, y = len(y), y.astype(np.float64)
    return float(-0.5 * (n * np.log(2 * np.pi) + np.log(1 + n) + np.sum(y**2) - np.sum(y) ** 2 / (1 + n)))


def sample_posterior(y: np.ndarray, num_draws: int, seed: int) -> dict[str, np.ndarray]:
    """Exact draws of m."""
    mean, deviation = posterior(y)
    return {"m": mean + deviation * np.random.default_rng(seed).standard_normal(num_draws)}


MODEL = ev.Model(
    prior={"m": dist.Normal(0, 1)},
    log_likelihood=lambda params, y: dist.Normal(params["m"], 1.0).log_prob(y),
    name="Gaussian mean",
    exact_log_evidence=exact_log_evidence,
    sample_posterior=sample_posterior,
)


def simulate(seed: int) -> np.ndarray:
    """A hundred observations."""
    return np.random.default_rng(seed).normal(TRUE_MEAN, 1.0, NUM_OBSERVATIONS).astype(np.float32)


def repeat(y: np.ndarray, repeats: int, seed: int) -> dict[str, np.ndarray]:
    """Log evidences of independent repeats, by estimator: their draws are evaluated together."""
    bound, rows = MODEL.bind(y), Rows(jnp.asarray(y), 0, len(y))
    from_prior = bound.sample_prior(jax.random.key(seed), repeats * NUM_DRAWS)
    from_posterior = jnp.asarray(sample_posterior(y, repeats * NUM_DRAWS, seed)["m"], jnp.float32)[:, None]
    estimators = {
        "prior sampling": (log_mean_likelihood, from_prior),
        "harmonic mean": (log_harmonic_mean, from_posterior),
    }
    found = {}
    for name, (estimator, positions) in estimators.items():
        deviations, offset = log_likelihood_sums(bound, positions, rows)
        log_likelihoods = (deviations + offset).reshape(repeats, NUM_DRAWS)
        found[name] = np.array([estimator(values)[0] for values in log_likelihoods])
    return found


def summarise(log_evidences: np.ndarray, exact: float) -> dict[str, float]:
    """Errors in nats."""
    errors = log_evidences - exact
    low, median, high = np.quantile(errors, [0.1, 0.5, 0.9])
    return {
        "median_error": float(median),
        "quantile_10_error": float(low),
        "quantile_90_error": float(high),
        "mean_error": float(errors.mean()),
        "median_factor": float(np.exp(median)),
        "share_too_low": float(np.mean(errors < 0)),
        "share_more_than_5_nats_too_low": float(np.mean(errors < -5)),
        "share_within_half_a_nat": float(np.mean(np.abs(errors) < 0.5)),
        "log_of_mean_estimate_error": float(np.logaddexp.reduce(errors) - np.log(len(errors))),
    }


def draw(found: dict[str, np.ndarray], exact: float, path: Path) -> None:
    """One histogram above the other; what is below the axis is counted in its first bar."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 6), layout="constrained")
    for ax, (name, values), color, (low, high) in zip(
        (upper, lower), found.items(), COLORS, ((-62, 4), (-2, 5)), strict=False
    ):
        errors = values - exact
        below = float(np.mean(errors < low))
        edges = np.linspace(low, high, 45)
        ax.hist(np.clip(errors, low, high), edges, weights=np.full(len(errors), 1 / len(errors)), color=color)
        ax.axvline(0, color="black", linestyle="--", linewidth=1.5)
        ax.axvline(np.median(errors), color="black", linestyle=":", linewidth=1.5)
        ax.plot([], [], "k--", label="exact")
        ax.plot([], [], "k:", label=f"median, {np.median(errors):+.1f} nats".replace("-", "−"))
        ax.legend(loc="upper left", bbox_to_anchor=(0.32, 1), frameon=False)
        note = f" ({100 * below:.0f}% lie lower and are in the first bar)" if below > 0.005 else ""
        ax.set_title(f"{name}, {NUM_DRAWS} draws{note}", loc="left", fontsize="medium")
        ax.set_ylabel("share of repeats")
        ax.set_xlim(low, high)
        ax.spines[["top", "right"]].set_visible(False)
    lower.set_xlabel("log evidence estimate − exact log evidence (nats)")
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


def run(repeats: int, seed: int = 0) -> tuple[dict, dict[str, np.ndarray], float]:
    """The numbers, the repeats' log evidences, and the exact one."""
    y = simulate(seed)
    exact = exact_log_evidence(y)
    found = repeat(y, repeats, seed)
    numbers = {
        "num_observations": NUM_OBSERVATIONS,
        "num_draws": NUM_DRAWS,
        "repeats": repeats,
        "seed": seed,
        "exact_log_evidence": exact,
        **{name.replace(" ", "_"): summarise(values, exact) for name, values in found.items()},
    }
    return numbers, found, exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the numbers and the figure")
    parser.add_argument("--quick", action="store_true", help="200 repeats in place of 2,000")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    numbers, found, exact = run(200 if arguments.quick else 2000, arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / "simple_estimators"
    stem.with_suffix(".json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    draw(found, exact, stem.with_suffix(".png"))
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
