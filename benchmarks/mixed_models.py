"""Mixed models of textbooks, each by a second way that shares little with the first.

    python benchmarks/mixed_models.py                    # half an hour on 2 cores
    python benchmarks/mixed_models.py --only toenail --seeds 20

The first way is `ev.Regression`, which integrates the effects of groups out. The second has them
as parameters: `BridgeSampling`, from draws of four NUTS chains. For sleepstudy it is exact in the
effects, a Gaussian integral, and importance sampling over deviations and correlation, in float64;
for persons and items it sums over fixed nodes.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from scipy import optimize, stats

import evidentia as ev

TABLES = Path(__file__).parents[2] / "shared" / "data" / "tables"


class Problem(NamedTuple):
    """A regression of a table, and its second way.

    Attributes:
        columns: of the table, whose effects do not vary.
        response: 0 and 1, or numbers.
        factors: by which intercepts vary.
        second_way: of this problem, a log evidence with its standard error; None if there is none.
    """

    regression: ev.Regression
    table: pd.DataFrame
    columns: list[Any]
    response: np.ndarray
    factors: list[str]
    second_way: Callable[["Problem", int], tuple[float, float]] | None = None


def standardised(values: Any) -> np.ndarray:
    """Values with mean 0 and deviation 1."""
    values = np.asarray(values, float)
    return ((values - values.mean()) / values.std()).astype(np.float32)


def by_bridge_sampling(problem: Problem, num_draws: int) -> tuple[float, float]:
    """A logistic regression with all random intercepts as parameters."""
    columns = np.column_stack([standardised(column) for column in problem.columns])
    data = {"y": problem.response.astype(np.float32), "x": columns}
    prior: dict[str, Any] = {
        "intercept": dist.Normal(0, 2.5),
        "effects": dist.Normal(0, 2.5).expand([columns.shape[1]]).to_event(1),
    }
    for name in problem.factors:
        codes, levels = pd.factorize(problem.table[name])
        data[name] = codes.astype(np.int32)
        prior[f"sd_{name}"] = dist.Exponential(1.0)
        prior[f"u_{name}"] = dist.Normal(0, 1).expand([len(levels)]).to_event(1)

    def log_likelihood(params, rows):
        predictor = params["intercept"] + rows["x"] @ params["effects"]
        for name in problem.factors:
            predictor = predictor + params[f"sd_{name}"] * params[f"u_{name}"][rows[name]]
        return dist.Bernoulli(logits=predictor).log_prob(rows["y"])

    method = ev.BridgeSampling(num_particles=num_draws)
    found = ev.estimate(ev.Model(prior, log_likelihood), data, method=method)
    return found.log_evidence, found.standard_error


def by_fixed_nodes(problem: Problem, num_draws: int) -> tuple[float, float]:
    """Persons are rows, whose effects are summed over fixed nodes; those of items are parameters.

    Bridge sampling from 4,000 draws of all 342 effects does not converge, and says so.
    """
    persons, items = (pd.factorize(problem.table[name])[0] for name in problem.factors)
    shape = persons.max() + 1, items.max() + 1
    answers, anger = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
    answers[persons, items], anger[persons] = problem.response, standardised(problem.columns[0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    log_weights = np.log(weights / np.sqrt(2 * np.pi)).astype(np.float32)

    def log_likelihood(params, rows):
        fixed = params["intercept"] + params["anger"] * rows["anger"][:, None] + params["items"]
        predictor = fixed[:, None] + params["sd_person"] * nodes.astype(np.float32)[:, None]
        terms = rows["answers"][:, None] * predictor - jax.nn.softplus(predictor)
        return jax.nn.logsumexp(jnp.sum(terms, axis=2) + log_weights, axis=1)

    wide, one = dist.Normal(0, 2.5), dist.Exponential(1.0)
    prior = {"intercept": wide, "anger": wide, "sd_person": one, "sd_item": one}
    prior["items"] = lambda params: dist.Normal(0, params["sd_item"]).expand([shape[1]]).to_event(1)
    method = ev.Laplace(num_particles=min(num_draws, 4096))
    found = ev.estimate(ev.Model(prior, log_likelihood), {"answers": answers, "anger": anger}, method=method)
    return found.log_evidence, found.standard_error


def sleepstudy_by_quadrature(problem: Problem, num_draws: int) -> tuple[float, float]:
    """Exact but for deviations and correlation: Student t draws about their mode, weighted."""
    y = problem.table["Reaction"].to_numpy()
    location, scale = y.mean(), y.std()
    days = standardised(problem.table["Days"]).astype(float)
    fixed = np.column_stack([np.ones(len(y)), days])
    codes = pd.factorize(problem.table["Subject"])[0]
    same = codes[:, None] == codes[None]
    standard = (y - location) / scale

    def log_joint(at):  # log σ, log sd, log sd, atanh of the correlation
        sigma, first, second = np.exp(at[:3])
        correlation = np.tanh(at[3])
        between = np.array(
            [[first**2, correlation * first * second], [correlation * first * second, second**2]]
        )
        covariance = same * (fixed @ between @ fixed.T) + sigma**2 * np.eye(len(y)) + 2.5**2 * fixed @ fixed.T
        prior = -sigma - first - second + np.sum(at[:3]) + np.log(0.5) + np.log1p(-(correlation**2))
        return stats.multivariate_normal.logpdf(standard, np.zeros(len(y)), covariance) + prior

    mode = optimize.minimize(lambda at: -log_joint(at), np.array([-0.7, -0.5, -0.5, 0.0]))
    proposal = stats.multivariate_t(mode.x, 1.3 * mode.hess_inv, df=6)
    draws = proposal.rvs(num_draws, random_state=np.random.default_rng(0))
    log_weights = np.array([log_joint(one) for one in draws]) - proposal.logpdf(draws)
    peak = log_weights.max()
    weights = np.exp(log_weights - peak)
    error = weights.std() / weights.mean() / np.sqrt(num_draws)
    return peak + np.log(weights.mean()) - len(y) * np.log(scale), error


def sleepstudy() -> Problem:
    """Reaction times of 18 subjects over ten days (lme4)."""
    table = pd.read_csv(TABLES / "sleepstudy.csv")
    regression = ev.Regression("Reaction ~ Days + (Days | Subject)", prior="normal")
    return Problem(
        regression, table, [table["Days"]], table["Reaction"], ["Subject"], sleepstudy_by_quadrature
    )


def toenail() -> Problem:
    """Severity of an infection of 294 patients at up to seven visits."""
    table = pd.read_csv(TABLES / "toenail.csv")
    regression = ev.Regression("outcome ~ treatment * time + (1 | patientID)", family="bernoulli")
    treated = table["treatment"] == "terbinafine"
    columns = [treated, table["time"], treated * table["time"]]
    severe = (table["outcome"] == "moderate or severe").to_numpy()
    return Problem(regression, table, columns, severe, ["patientID"], by_bridge_sampling)


def verbal_aggression(formula: str, factors: list[str]) -> Problem:
    """Answers of 316 persons to 24 items."""
    table = pd.read_csv(TABLES / "VerbAgg.csv")
    regression = ev.Regression(formula, family="bernoulli")
    yes = (table["r2"] == "Y").to_numpy()
    second_way = by_bridge_sampling if len(factors) == 1 else by_fixed_nodes
    return Problem(regression, table, [table["Anger"]], yes, factors, second_way)


def lecturers() -> Problem:
    """Ratings of 1,128 lecturers by 2,972 students (InstEval of lme4)."""
    table = pd.read_parquet(TABLES / "InstEval.parquet")
    regression = ev.Regression("y ~ service + (1 | s) + (1 | d)", prior="normal")
    return Problem(regression, table, [table["service"]], table["y"].to_numpy(), ["s", "d"])


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "sleepstudy": sleepstudy,
    "toenail": toenail,
    "persons": lambda: verbal_aggression("r2 ~ Anger + (1 | id)", ["id"]),
    "persons and items": lambda: verbal_aggression("r2 ~ Anger + (1 | id) + (1 | item)", ["id", "item"]),
    "lecturers": lecturers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(PROBLEMS), help="one problem")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=20_000, help="of the second way; 0 leaves it out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| problem | seed | log evidence | verdict | seconds | second way | seconds |")
    print("|---|--:|--:|---|--:|--:|--:|")
    for name in [arguments.only] if arguments.only else PROBLEMS:
        problem = PROBLEMS[name]()
        for seed in range(arguments.seeds):
            started = time.perf_counter()
            found = ev.estimate(problem.regression, problem.table, seed=seed)
            cell = f"{found.log_evidence:,.3f} ± {found.standard_error:.3f} | {found.verdict.word}"
            print(f"| {name} | {seed} | {cell} | {time.perf_counter() - started:.0f} | | |", flush=True)
        if arguments.draws and problem.second_way is not None:
            started = time.perf_counter()
            value, error = problem.second_way(problem, arguments.draws)
            seconds = time.perf_counter() - started
            print(f"| {name} | | | | | {value:,.3f} ± {error:.3f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
