"""Linear regression with known noise, for which the evidence is known exactly."""

from functools import cache, partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import ConfigurationError, DataError, as_number, check_count
from evidentia.model.built_in.checks import check_arrays, check_size
from evidentia.model.model import Model

ROWS_AT_ONCE = 1 << 18  # rows converted to float64 at a time


def linear_regression(num_features: int, noise_scale: float = 1.0) -> Model:
    """Bayesian linear regression with known noise σ.

        weights_j ~ N(0, 1),    intercept ~ N(0, 1),    y_i ~ N(x_iᵀ weights + intercept, σ²)

    Data are `{"x": (n, num_features), "y": (n,)}`. The model has `exact_log_evidence(data)` and
    exact posterior draws, `sample_posterior(data, num_draws, seed)`.

    Args:
        num_features: the number of columns of x.
        noise_scale: the standard deviation σ of y about its mean.

    Raises:
        ConfigurationError: an argument is out of range, or needs more memory than there is.

    Example:
        >>> model = linear_regression(num_features=2)
        >>> data, params = model.simulate(num_observations=100, seed=0)
        >>> data["x"].shape, params["weights"].shape
        ((100, 2), (2,))

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109 (a model of its experiments).
    """
    check_count("num_features", num_features, 1)
    if not 0 < as_number(noise_scale) < float("inf"):
        raise ConfigurationError(f"noise_scale must be a positive number; got {noise_scale!r}.")
    check_size(f"num_features={num_features:,}", int(num_features) + 1)
    return _model(int(num_features), float(noise_scale))


@cache
def _model(num_features, noise_scale):
    return Model(
        prior={
            "weights": dist.Normal(0, 1).expand([num_features]).to_event(1),
            "intercept": dist.Normal(0, 1),
        },
        log_likelihood=partial(_log_likelihood, noise_scale=noise_scale),
        name="linear regression",
        check_data=partial(_check_data, num_features=num_features, noise_scale=noise_scale),
        simulate=partial(_simulate, num_features=num_features, noise_scale=noise_scale),
        exact_log_evidence=partial(_exact_log_evidence, noise_scale=noise_scale),
        sample_posterior=partial(_sample_posterior, noise_scale=noise_scale),
        predict=partial(_predict, noise_scale=noise_scale),
    )


def _log_likelihood(params, batch, *, noise_scale):
    residuals = batch["y"] - (batch["x"] @ params["weights"] + params["intercept"])
    return -0.5 * (residuals / noise_scale) ** 2 - jnp.log(noise_scale) - 0.5 * jnp.log(2 * jnp.pi)


def _check_data(data, *, num_features, noise_scale):
    check_arrays(data, {"x": (num_features,), "y": ()})
    x, y = np.asarray(data["x"]), np.asarray(data["y"])
    squares = np.einsum("ij,ij->", x, x, dtype=np.float64), np.einsum("i,i->", y, y, dtype=np.float64)
    # ½ Σ (y - xᵀw)² / σ² at weights four standard deviations from zero
    if not (16 * squares[0] + squares[1]) / 2 <= float(np.finfo(np.float32).max) * noise_scale**2:
        largest = [f"{np.abs(values).max():.3g}" for values in (x, y)]
        raise DataError(
            f"data['x'] has values up to {largest[0]} and data['y'] up to {largest[1]}, with noise_scale={noise_scale:g}: the "
            f"log-likelihood of {len(y):,} rows at draws from the prior exceeds 3e38, the range of float32. Standardise the "
            "features (--standardise), or rescale the columns."
        )


def _simulate(num_observations, seed, *, num_features, noise_scale):
    generator = np.random.default_rng(seed)
    params = {
        "weights": generator.standard_normal(num_features, np.float32),
        "intercept": generator.standard_normal(dtype=np.float32),
    }
    x = generator.standard_normal((num_observations, num_features), np.float32)
    noise = noise_scale * generator.standard_normal(num_observations, np.float32)
    y = (x @ params["weights"] + params["intercept"] + noise).astype(np.float32)
    return {"x": x, "y": y}, params


def _predict(params, data, seed, *, noise_scale):
    mean = params["weights"] @ np.asarray(data["x"]).T + params["intercept"][:, None]
    return {"y": np.random.default_rng(seed).normal(mean, noise_scale)}


def _exact_log_evidence(data, *, noise_scale):
    """Log density of y ~ N(0, σ² I + X Xᵀ), where X has a column of ones.

    With the d × d precision A = I + XᵀX/σ² and m = A⁻¹ Xᵀy/σ², it is
    -½ [n log 2πσ² + log |A| + (|y|² - yᵀX m)/σ²].
    """
    precision, projection, square = _sufficient(data, noise_scale)
    fitted = projection @ np.linalg.solve(precision, projection)
    log_determinant = np.linalg.slogdet(precision)[1]
    constant = data["x"].shape[0] * np.log(2 * np.pi * noise_scale**2)
    return float(-0.5 * (constant + log_determinant + square - fitted))


def _sample_posterior(data, num_draws, seed, *, noise_scale):
    """Draws from N(m, A⁻¹), in the notation of `_exact_log_evidence`."""
    precision, projection, _ = _sufficient(data, noise_scale)
    normal = np.random.default_rng(seed).standard_normal((num_draws, len(projection)))
    # A = R Rᵀ, so R⁻ᵀ z has covariance A⁻¹.
    steps = np.linalg.solve(np.linalg.cholesky(precision).T, normal.T).T
    draws = np.linalg.solve(precision, projection) + steps
    return {"weights": draws[:, :-1], "intercept": draws[:, -1]}


def _sufficient(data, noise_scale):
    """A = I + XᵀX/σ², Xᵀy/σ² and |y|²/σ², with all sums in float64."""
    rows, size = data["x"].shape[0], data["x"].shape[1] + 1
    gram = np.zeros((size + 1, size + 1))  # of [x, 1, y]
    for start in range(0, rows, ROWS_AT_ONCE):
        x, y = (np.asarray(data[name][start : start + ROWS_AT_ONCE], np.float64) for name in ("x", "y"))
        block = np.column_stack([x, np.ones(len(x)), y])
        gram += block.T @ block
    gram /= noise_scale**2
    return np.eye(size) + gram[:size, :size], gram[:size, size], gram[size, size]
