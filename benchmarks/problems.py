"""The benchmark's models and data, with the true log evidence at any number of rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from reference import importance_sampling

import evidentia as ev
from evidentia.posterior.rows import Window

Truth = Callable[[Any], tuple[float, float]]  # data -> log evidence and its standard error
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
ROWS = 1_000_000


@dataclass(frozen=True)
class Problem:
    """A model with data; `truth` maps data to the log evidence and its standard error."""

    name: str
    model: ev.Model
    data: dict[str, np.ndarray]
    truth: Truth
    bound: float  # largest allowed root mean square error, in nats

    def first(self, num_rows: int) -> dict[str, np.ndarray]:
        """The first rows of the data."""
        return {name: array[:num_rows] for name, array in self.data.items()}


def linear() -> Problem:
    """Linear regression with 5 features: 6 parameters, exact."""
    model = ev.models.linear_regression(num_features=5)
    return Problem("linear", model, model.simulate(ROWS, 0)[0], _exact(model), 0.5)


def scaled_linear() -> Problem:
    """Linear regression, feature scales from 10⁻³ to 10³, correlations of 0.99; exact."""
    model = ev.models.linear_regression(num_features=5)
    generator = np.random.default_rng(0)
    common = generator.standard_normal((ROWS, 1))
    x = np.sqrt(0.99) * common + np.sqrt(0.01) * generator.standard_normal((ROWS, 5))
    x = (x * 10.0 ** np.linspace(-3, 3, 5)).astype(np.float32)
    weights = generator.standard_normal(6)
    y = (x @ weights[:5] + weights[5] + generator.standard_normal(ROWS)).astype(np.float32)
    return Problem("scaled linear", model, {"x": x, "y": y}, _exact(model), 1.0)


def softmax() -> Problem:
    """Softmax regression with 10 features and 4 classes: 44 parameters."""
    model = ev.models.softmax_regression(num_features=10, num_classes=4)
    data, params = model.simulate(ROWS, 0)
    return Problem("softmax", model, data, laplace_truth(model, params), 1.0)


def student_t() -> Problem:
    """Linear regression, 5 features, Student-t(4) noise of unknown scale: 7 parameters."""

    def log_likelihood(params, batch):
        mean = batch["x"] @ params["weights"] + params["intercept"]
        return dist.StudentT(4.0, mean, params["scale"]).log_prob(batch["y"])

    model = ev.Model(
        prior={
            "weights": dist.Normal(0, 1).expand([5]).to_event(1),
            "intercept": dist.Normal(0, 1),
            "scale": dist.HalfNormal(1),
        },
        log_likelihood=log_likelihood,
        name="Student-t regression",
    )
    generator = np.random.default_rng(0)
    params = {"weights": generator.standard_normal(5), "intercept": 0.5, "scale": 0.7}
    x = generator.standard_normal((ROWS, 5), np.float32)
    y = x @ params["weights"] + params["intercept"] + params["scale"] * generator.standard_t(4, ROWS)
    data = {"x": x, "y": y.astype(np.float32)}
    return Problem("Student-t", model, data, laplace_truth(model, params), 1.0)


def rare() -> Problem:
    """Logistic regression with 5 positives among a million rows, the first of them late.

    The posterior is far from Gaussian.
    """

    def log_likelihood(params, batch):
        logits = batch["x"] @ params["weights"] + params["intercept"]
        return batch["y"] * logits - jax.nn.softplus(logits)

    model = ev.Model(
        prior={"weights": dist.Normal(0, 1).expand([3]).to_event(1), "intercept": dist.Normal(0, 10)},
        log_likelihood=log_likelihood,
        name="rare positives",
    )
    generator = np.random.default_rng(0)
    x = generator.standard_normal((ROWS, 3), np.float32)
    scores = x @ np.array([1.0, -1.0, 0.5]) + generator.gumbel(size=ROWS)
    y = np.zeros(ROWS, np.float32)
    y[np.argsort(-scores)[:5]] = 1
    start = {"weights": np.zeros(3), "intercept": -5.0}
    return Problem(
        "rare positives", model, {"x": x, "y": y}, laplace_truth(model, start, num_draws=2000), 1.5
    )


def mixture(seed: int) -> Problem:
    """A Gaussian mixture: 5 components, 2 dimensions, 24 free parameters, data from its prior."""
    model = ev.models.gaussian_mixture(num_components=5, num_features=2)
    data, params = model.simulate(ROWS, seed)
    return Problem(
        f"mixture {seed}", model, data, laplace_truth(model, params, copies=5, num_draws=2000), 2.0
    )


def ijcnn1() -> Problem | None:
    """Softmax regression on ijcnn1: 2 classes, 22 features (10 collinear); None if missing."""
    names = [f"f{i}" for i in range(1, 23)]
    return _table("ijcnn1", "ijcnn1.parquet", names, "label")


def skin(standardised: bool) -> Problem | None:
    """Softmax regression on the table skin: 2 classes; None if missing."""
    name = "skin (standardised)" if standardised else "skin (raw)"
    return _table(name, "skin.parquet", ["b", "g", "r"], "skin", standardised=standardised)


def _table(name, file, features, target, *, standardised=False) -> Problem | None:
    path = SHARED_DATA / file
    if not path.exists():
        return None
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    x = np.stack([table.column(feature).to_numpy() for feature in features], 1).astype(np.float32)
    if standardised:
        x = (x - x.mean(0)) / x.std(0)
    order = np.random.default_rng(0).permutation(len(x))
    data = {"x": x[order], "y": table.column(target).to_numpy().astype(np.int32)[order]}
    model = ev.models.softmax_regression(num_features=len(features), num_classes=2)
    start = {"weights": np.zeros((len(features), 2)), "intercept": np.zeros(2)}
    return Problem(name, model, data, laplace_truth(model, start), 1.5)


def _exact(model: ev.Model) -> Truth:
    return lambda data: (model.exact_log_evidence(data), 0.0)


def laplace_truth(model: ev.Model, params: dict, *, copies: int = 1, num_draws: int = 1000) -> Truth:
    """Truth by importance sampling about the mode near `params`.

    `copies` is the number of interchangeable components; all their permutations count.
    """

    def truth(data):
        bound = model.bind(data)
        num_rows = len(next(iter(data.values())))
        rows = Window(jax.tree.map(jnp.asarray, data), 0, num_rows)
        start = bound.unconstrain(jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), params))
        draws = num_draws if num_rows > 10_000 else 5 * num_draws
        log_evidence, error = importance_sampling(bound, rows, np.asarray(start), num_draws=draws)
        return log_evidence + math.lgamma(copies + 1), error

    return truth
