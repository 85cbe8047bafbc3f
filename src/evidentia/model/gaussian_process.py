"""Gaussian processes: the log-likelihood of observations whose covariance is a kernel of inputs.

    y ~ N(m(x), K),    K_ij = k(x_i, x_j) + δ_ij (noise_scale² + yerr_i²)

Kernels are those of tinygp. The density takes the Cholesky factor of K, whose cost is n³, or for a
quasiseparable kernel of sorted times a recursion along them, whose cost is n. Both are exact, and
in float64: K is the closer to singular the smoother the kernel and the smaller the noise.

Source: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, Eq. 2.30; Foreman-
Mackey, Agol, Ambikasaran, Angus (2017), Astronomical Journal 154, 220 (celerite); Foreman-Mackey
(2018), Research Notes of the AAS 2, 31 (its derivatives); tinygp's documentation of quasiseparable
kernels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.errors import ModelError, attempt
from evidentia.model.covariance import log_normal_density
from evidentia.model.double_precision import in_double_precision
from evidentia.model.program import Params
from evidentia.system.compilation import in_float64

Data = Mapping[str, Any]
Draws = Mapping[str, np.ndarray]  # parameters, with draws on the leading axis
PER_ROW = 64  # numbers that a quasiseparable solver holds for each row, with derivatives


@dataclass(frozen=True)
class GaussianProcess:
    """The log-likelihood of all observations, `{"x": (n, ...), "y": (n,)}`, with "yerr" or not.

    Attributes:
        kernel: `kernel(params)`, a kernel of tinygp.
        mean: `mean(params, x) -> (n,)`; None for zero.
        has_noise: whether `params["noise_scale"]` is the deviation of additional white noise.
        is_quasiseparable: whether the kernel is quasiseparable; x is then sorted.
    """

    kernel: Callable[[Params], Any]
    mean: Callable[[Params, Any], Any] | None
    has_noise: bool
    is_quasiseparable: bool

    is_costly = True  # methods that evaluate it seldom suit it best

    def __call__(self, params: Params, data: Data) -> Float[Array, ""]:
        """log p(y | x, params) in nats, computed in float64; NaN if K has no Cholesky factor."""
        return in_double_precision(self.log_density, self._size)(params, data)

    def log_density(self, params: Params, data: Data) -> Float[Array, ""]:
        """log p(y | x, params) in nats, in the precision of its arguments."""
        residual = data["y"] - self.mean_at(params, data["x"])
        if not self.is_quasiseparable:
            return log_normal_density(self.covariance(params, data), residual)
        solver = self.solver(params, data)
        whitened = solver.solve_triangular(residual)
        return -0.5 * whitened @ whitened - solver.normalization()

    def mean_at(self, params: Params, x: Array) -> Float[Array, " rows"]:
        """The mean function at some inputs."""
        if self.mean is None:
            return jnp.zeros(len(x), x.dtype)
        mean = attempt("mean", lambda: jnp.asarray(self.mean(params, x)))  # type: ignore[misc]
        if mean.shape != (len(x),):
            raise ModelError(
                f"mean(params, x) must return a value for each of {len(x)} inputs; it returned the shape {mean.shape}."
            )
        return mean

    def noise_at(self, params: Params, data: Data) -> Float[Array, " rows"]:
        """The variance of the noise of each observation."""
        added = params["noise_scale"] ** 2 if self.has_noise else 0.0
        return jnp.zeros(len(data["y"]), data["y"].dtype) + added + data.get("yerr", 0.0) ** 2

    def covariance(self, params: Params, data: Data) -> Float[Array, "rows rows"]:
        """The covariance matrix of all observations."""
        x, kernel = data["x"], self.kernel(params)
        return kernel(x, x) + jnp.diag(self.noise_at(params, data))

    def solver(self, params: Params, data: Data) -> Any:
        """A solver of tinygp with the covariance of all observations."""
        from tinygp.noise import Diagonal
        from tinygp.solvers import DirectSolver, QuasisepSolver

        kernel, noise = self.kernel(params), Diagonal(self.noise_at(params, data))
        if self.is_quasiseparable:
            return QuasisepSolver(kernel, data["x"], noise, assume_sorted=True)
        return DirectSolver(kernel, data["x"], noise)

    def _size(self, data: Data) -> int:
        rows = data["y"].shape[0]
        return PER_ROW * rows if self.is_quasiseparable else rows**2


def draw_given(
    process: GaussianProcess, params: Draws, data: Data, x_new: np.ndarray, seed: int
) -> np.ndarray:
    """Draws of new observations given the data, (draws, new), with the noise of `noise_scale`.

    `params` have draws on the leading axis; each draw is one of the joint distribution at x_new.
    """
    return _drawn(process, params, {**data, "x_new": x_new}, seed, _moments_given)


def draw_replicates(process: GaussianProcess, params: Draws, data: Data, seed: int) -> np.ndarray:
    """Draws of other observations at the inputs of the data, (draws, n), with their noise."""
    return _drawn(process, params, data, seed, _moments)


def _moments(process: GaussianProcess, params: Params, data: Data) -> tuple[Array, Array]:
    return process.mean_at(params, data["x"]), process.covariance(params, data)


def _moments_given(process: GaussianProcess, params: Params, data: Data) -> tuple[Array, Array]:
    """Eq. 2.23 and 2.24 of Rasmussen and Williams."""
    new, kernel, solver = data["x_new"], process.kernel(params), process.solver(params, data)
    residual = data["y"] - process.mean_at(params, data["x"])
    across = solver.solve_triangular(kernel(data["x"], new))
    mean = process.mean_at(params, new) + across.T @ solver.solve_triangular(residual)
    noise = params["noise_scale"] ** 2 if process.has_noise else 0.0
    return mean, kernel(new, new) - across.T @ across + noise * jnp.eye(len(new))


def _drawn(process: GaussianProcess, params: Draws, data: Data, seed: int, moments: Any) -> np.ndarray:
    """Draws with some moments, in float64; a matrix without a Cholesky factor has a root, too."""
    wide = {name: np.asarray(one, np.float64) for name, one in params.items()}
    data = {name: np.asarray(one, np.float64) for name, one in data.items()}

    def one_draw(one: tuple[Params, Array]) -> Array:
        mean, covariance = moments(process, one[0], data)
        values, vectors = jnp.linalg.eigh(covariance)
        normal = jax.random.normal(one[1], mean.shape, mean.dtype)
        return mean + vectors @ (jnp.sqrt(jnp.maximum(values, 0.0)) * normal)

    with in_float64():
        keys = jax.random.split(jax.random.key(seed), len(next(iter(wide.values()))))
        return np.asarray(jax.jit(lambda: jax.lax.map(one_draw, (wide, keys)))())
