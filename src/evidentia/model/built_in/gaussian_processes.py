"""Gaussian processes: regressions on inputs and times without a form of the function."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpyro.distributions as dist

from evidentia.errors import ConfigurationError, DataError, ModelError, attempt, check_count, check_flag
from evidentia.model.built_in.kernels_by_name import KERNELS, OF_TIMES, prior_of
from evidentia.model.built_in.sequences import drawn_from
from evidentia.model.gaussian_process import GaussianProcess, draw_given, draw_replicates
from evidentia.model.model import Model
from evidentia.system.sharing import check_not_forked

MOST_DENSE = 3_000  # rows of a covariance matrix: 0.2 s for each factor on one core, of thousands
MOST_TIMES = 1_000_000  # rows of a quasiseparable kernel: 1 s for each likelihood
WIDTH = 10.0  # of the inputs that are simulated


def gaussian_process(
    kernel: str | Callable[[Mapping[str, Any]], Any] = "matern32",
    *,
    prior: Mapping[str, Any] | None = None,
    mean: str | Callable[[Mapping[str, Any], Any], Any] | None = None,
    noise: bool = True,
    num_features: int | None = None,
) -> Model:
    """A Gaussian process of one output, with all parameters of its kernel integrated out.

        y ~ N(m(x), K),    K_ij = k(x_i, x_j) + δ_ij (noise_scale² + yerr_i²)

    Data are `{"x": (n,), "y": (n,)}`, or x of shape `(n, num_features)`; with known errors of the
    observations, also `"yerr": (n,)`, their standard deviations.

    Kernels by name are "squared_exponential", "matern12", "matern32", "matern52" with the
    parameters amplitude and scale; for x of shape (n,) also "quasi_periodic" (amplitude, scale,
    period, smoothness) and "oscillator" (amplitude, period, quality). Their priors expect y of
    deviation about one that varies over distances of about one:

        amplitude, noise_scale ~ HalfNormal(1),    scale, period ~ LogNormal(0, 1),
        smoothness ~ LogNormal(0, 0.5),            quality ~ LogNormal(1, 1)

    Others are a function that returns a kernel of tinygp, `kernel(params)`, with a `prior`.

    Along x of shape (n,), Matérn kernels, "oscillator" and sums and products of kernels of
    `tinygp.kernels.quasisep` take time that is linear in the rows, up to 1,000,000 of them; x must
    then be sorted. The others take at most 3,000 rows. Both are exact and computed in float64.

    `evidence.predict({"x": x, "y": y, "x_new": new})` draws new observations at x_new given the
    data; without x_new it draws other observations at x.

    Args:
        kernel: its name, or a function of the parameters.
        prior: NumPyro distributions by name, as for `Model`: of the parameters of functions, or in
            place of the above.
        mean: None for zero; "constant" for a parameter mean ~ N(0, 1); or a function
            `mean(params, x) -> (n,)`.
        noise: whether there is white noise of unknown deviation, noise_scale. Without it,
            observations have the errors yerr, or none.
        num_features: the number of columns of x, each with a scale of its own; None for x of shape
            (n,).

    Raises:
        ConfigurationError: tinygp is not installed, or an argument cannot be used.
        ModelError: the kernel fails at a draw from the prior, or is none of tinygp.

    Example:
        >>> model = gaussian_process("matern52")
        >>> data, params = model.simulate(num_observations=50, seed=0)
        >>> data["x"].shape, list(params)
        ((50,), ['amplitude', 'scale', 'noise_scale'])

    Source: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, chapters 2, 5.
    """
    check_not_forked()  # the prior takes JAX
    _check_arguments(kernel, mean, noise, num_features)
    whole: dict[str, Any] = prior_of(kernel, num_features) if isinstance(kernel, str) else {}
    whole |= {"mean": dist.Normal(0.0, 1.0)} if mean == "constant" else {}
    whole |= {"noise_scale": dist.HalfNormal(1.0)} if noise else {}
    whole |= dict(prior or {})
    if not whole:
        raise ConfigurationError("prior must have the parameters of the kernel; got none.")
    of_params = KERNELS[kernel] if isinstance(kernel, str) else kernel
    function = _constant if isinstance(mean, str) else mean
    name = f"Gaussian process, {kernel if isinstance(kernel, str) else getattr(kernel, '__name__', 'kernel')}"
    process = GaussianProcess(of_params, function, bool(noise), False)
    model = Model(whole, process, name=name.replace("_", " "), pointwise=False)
    process = replace(process, is_quasiseparable=_is_quasiseparable(of_params, whole, num_features))
    return replace(
        model,
        log_likelihood=process,
        check_data=partial(_check_data, process, num_features),
        simulate=partial(_simulate, process, whole, num_features),
        predict=partial(_predict, process, num_features),
    )


def _constant(params, x):
    return params["mean"] + 0.0 * (x if x.ndim == 1 else x[:, 0])


def _check_arguments(kernel, mean, noise, num_features) -> None:
    if find_spec("tinygp") is None:
        raise ConfigurationError("gaussian_process needs tinygp: pip install 'evidentia[gp]'.")
    if isinstance(kernel, str) and kernel not in KERNELS:
        raise ConfigurationError(
            f"kernel must be one of {', '.join(map(repr, KERNELS))}, or a function of the parameters that returns a kernel of "
            f"tinygp; got {kernel!r}."
        )
    if not isinstance(kernel, str) and (not callable(kernel) or isinstance(kernel, type)):
        raise ConfigurationError(
            f"kernel must be a name, or a function of the parameters that returns a kernel of tinygp; got {kernel!r}."
        )
    if not (mean is None or mean == "constant" or (callable(mean) and not isinstance(mean, type))):
        raise ConfigurationError(
            f"mean must be None, 'constant' or a function (params, x) -> (n,); got {mean!r}."
        )
    known = " Known errors of the observations are data, 'yerr'; the prior of an unknown one is prior={'noise_scale': ...}."
    check_flag("noise", noise, known)
    if num_features is not None:
        check_count("num_features", num_features, 1)
        if kernel in OF_TIMES:
            raise ConfigurationError(
                f"kernel={kernel!r} takes x of shape (n,); got num_features={num_features}."
            )


def _is_quasiseparable(kernel: Callable[..., Any], prior: Any, num_features: int | None) -> bool:
    """Whether the kernel at a draw from the prior is quasiseparable; it must be one of tinygp."""
    from tinygp.kernels import Kernel
    from tinygp.kernels.quasisep import Quasisep

    found = attempt("kernel", lambda: kernel(drawn_from(prior, seed=0)))
    if not isinstance(found, Kernel):
        raise ModelError(f"kernel must return a kernel of tinygp; it returned {found!r}.")
    if isinstance(found, Quasisep) and num_features is not None:
        raise ModelError(
            f"the kernel {type(found).__name__} of tinygp.kernels.quasisep takes x of shape (n,); got num_features={num_features}."
        )
    return isinstance(found, Quasisep)


def _check_data(process: GaussianProcess, num_features: int | None, data: Any) -> None:
    names = "'x', 'y'" if process.has_noise else "'x', 'y', 'yerr'"
    if not isinstance(data, Mapping) or not {"x", "y"} <= set(data) <= {"x", "y", "yerr"}:
        given = ", ".join(map(repr, data)) if isinstance(data, Mapping) else type(data).__name__
        raise DataError(f"a Gaussian process needs data with {names}, and takes 'yerr'; got {given}.")
    x, y = data["x"], data["y"]
    if y.ndim != 1:
        raise DataError(f"data['y'] must have shape (n,); got {y.shape}.")
    _check_inputs("data['x']", x, num_features, len(y))
    if "yerr" in data and (data["yerr"].shape != y.shape or (data["yerr"] < 0).any()):
        raise DataError(
            f"data['yerr'] must have a standard deviation, zero or more, for each of {len(y)} observations; got shape "
            f"{data['yerr'].shape}, from {data['yerr'].min():g}."
        )
    _check_number(process, len(y))
    if process.is_quasiseparable and len(y) > 1 and (np.diff(x) < 0).any():
        row = int((np.diff(x) < 0).argmax()) + 1
        raise DataError(
            f"data['x'] must not decrease from row to row, as the kernel is quasiseparable; row {row} has {x[row]:g}, after "
            f"{x[row - 1]:g}. Sort the rows by x."
        )
    if not process.has_noise:
        _check_repeated(x, data.get("yerr"))


def _check_inputs(name: str, x: np.ndarray, num_features: int | None, rows: int | None) -> None:
    needed = "(n,)" if num_features is None else f"(n, {num_features})"
    if x.ndim == 0 or x.shape[1:] != (() if num_features is None else (num_features,)):
        raise DataError(f"{name} must have shape {needed}, as num_features={num_features}; got {x.shape}.")
    if rows is not None and len(x) != rows:
        raise DataError(f"{name} and data['y'] must have as many rows; got {len(x)} and {rows}.")


def _check_number(process: GaussianProcess, rows: int) -> None:
    most = MOST_TIMES if process.is_quasiseparable else MOST_DENSE
    if rows > most:
        advice = (
            "Average neighbouring rows."
            if process.is_quasiseparable
            else "Along one dimension, 'matern12', 'matern32', 'matern52', 'oscillator' and kernels of tinygp.kernels.quasisep take "
            f"{MOST_TIMES:,}; for others, leave out or average rows."
        )
        raise DataError(
            f"a Gaussian process with this kernel takes at most {most:,} rows; got {rows:,}. {advice}"
        )


def _check_repeated(x: np.ndarray, yerr: np.ndarray | None) -> None:
    """Equal inputs without noise have equal values, and a singular covariance matrix."""
    exact = x if yerr is None else x[yerr == 0]
    values, counts = np.unique(exact, axis=0, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"data['x'] must not repeat where observations have no noise, as noise=False; {values[counts > 1][0]} occurs "
            f"{counts.max()} times. Use noise=True, give 'yerr', or keep one row of each."
        )


def _simulate(process, prior, num_features, num_observations, seed):
    params, generator = drawn_from(prior, seed), np.random.default_rng(seed)
    x = generator.uniform(0.0, WIDTH, (num_observations, num_features or 1))
    data = {"x": np.sort(x[:, 0]) if num_features is None else x, "y": np.zeros(num_observations)}
    draws = {name: value[None] for name, value in params.items()}
    data["y"] = draw_replicates(process, draws, data, seed)[0]
    return {name: values.astype(np.float32) for name, values in data.items()}, params


def _predict(process, num_features, params, data, seed):
    if "x_new" not in data:
        _check_inputs("data['x']", np.asarray(data["x"]), num_features, None)
        here = {"y": np.zeros(len(data["x"])), **data}
        _check_number(replace(process, is_quasiseparable=False), len(data["x"]))
        return {"y": draw_replicates(process, params, here, seed)}
    known = {name: np.asarray(data[name]) for name in data if name != "x_new"}
    _check_data(process, num_features, known)
    new = np.asarray(data["x_new"])
    _check_inputs("data['x_new']", new, num_features, None)
    _check_number(replace(process, is_quasiseparable=False), len(new))
    return {"y": draw_given(process, params, known, new, seed)}
