"""Kernels of Gaussian processes by name: their parameters, priors, and the kernels of tinygp.

With r = |x - x'| / scale, or for several features r² = Σ_j (x_j - x'_j)² / scale_j²:

    squared_exponential    amplitude² exp(-r²/2)
    matern12               amplitude² exp(-r)
    matern32               amplitude² (1 + √3 r) exp(-√3 r)
    matern52               amplitude² (1 + √5 r + 5r²/3) exp(-√5 r)
    quasi_periodic         amplitude² exp(-r²/2 - sin²(π (x - x') / period) / (2 smoothness²))
    oscillator             a damped oscillator that noise drives, of a period and quality

Source: Rasmussen and Williams (2006), chapter 4; Haywood et al. (2014), Monthly Notices of the
Royal Astronomical Society 443, 2517 (quasi-periodic); Foreman-Mackey et al. (2017), Eq. 23.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from evidentia.model.program import Params


def _matern(name: str, params: Params) -> Any:
    """A Matérn kernel: quasiseparable for times, which have one scale; else stationary."""
    from tinygp.kernels import quasisep, stationary
    from tinygp.kernels.distance import L2Distance

    if jnp.ndim(params["scale"]) == 0:
        return getattr(quasisep, name)(scale=params["scale"], sigma=params["amplitude"])
    return _scaled(params, getattr(stationary, name)(distance=L2Distance()))


def _scaled(params: Params, kernel: Any) -> Any:
    """amplitude² k(x / scale), with a scale for each feature or one."""
    from tinygp import transforms

    return params["amplitude"] ** 2 * transforms.Linear(1.0 / params["scale"], kernel)


def _squared_exponential(params: Params) -> Any:
    from tinygp.kernels import ExpSquared

    return _scaled(params, ExpSquared())


def _quasi_periodic(params: Params) -> Any:
    from tinygp.kernels import ExpSineSquared

    periodic = ExpSineSquared(scale=params["period"], gamma=0.5 / params["smoothness"] ** 2)
    return _squared_exponential(params) * periodic


def _oscillator(params: Params) -> Any:
    from tinygp.kernels.quasisep import SHO

    return SHO(omega=2 * jnp.pi / params["period"], quality=params["quality"], sigma=params["amplitude"])


KERNELS: dict[str, Callable[[Params], Any]] = {
    "squared_exponential": _squared_exponential,
    "matern12": partial(_matern, "Exp"),
    "matern32": partial(_matern, "Matern32"),
    "matern52": partial(_matern, "Matern52"),
    "quasi_periodic": _quasi_periodic,
    "oscillator": _oscillator,
}
OF_TIMES = "quasi_periodic", "oscillator"  # kernels of one dimension


def prior_of(name: str, num_features: int | None) -> dict[str, Any]:
    """The prior of a kernel's parameters."""
    length = dist.LogNormal(0.0, 1.0)
    scale = length if num_features is None else length.expand([num_features]).to_event(1)
    more: dict[str, dict[str, Any]] = {
        "quasi_periodic": {"scale": scale, "period": length, "smoothness": dist.LogNormal(0.0, 0.5)},
        "oscillator": {"period": length, "quality": dist.LogNormal(1.0, 1.0)},
    }
    return {"amplitude": dist.HalfNormal(1.0), **more.get(name, {"scale": scale})}
