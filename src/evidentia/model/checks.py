"""Checks of a model on a few rows, before a method relies on it.

Shapes and types are checked by tracing with two numbers of rows; values, at random positions.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.errors import DependentRowsError, ModelError, attempt
from evidentia.model.broadcasting import thin_arrays
from evidentia.model.dependence import Names
from evidentia.model.enumeration import AtValues, is_latent
from evidentia.model.local import LocalSites
from evidentia.model.local.packs import GROUP_OF_STRIP
from evidentia.model.probe import NUM_NEAR, NUM_POSITIONS, Values, probing_positions
from evidentia.model.program import Densities, Observations, Program, log_prob, trace_of
from evidentia.model.symmetry import Axis, permuted

MOST_PLACES = 8  # of a discrete site, at which the others' values must not matter


def some_rows(batch: Observations, count: int) -> Observations:
    """`count` rows spread evenly over a batch, as NumPy arrays; small batches repeat rows."""

    def take(leaf):
        rows = leaf.shape[0]
        index = np.arange(count) % rows if rows < count else np.linspace(0, rows - 1, count).astype(int)
        return np.asarray(leaf[index])  # indexed on the device, so that only these rows are copied

    return jax.tree.map(take, batch)


def probing_batches(rows: Observations) -> Observations:
    """Batches for `check_values`: the rows, with every second one replaced, and made-up rows.

    Where groups are within packs stays as it is.
    """
    made_up = _made_up(rows)
    if isinstance(rows, Mapping) and GROUP_OF_STRIP in rows:
        made_up[GROUP_OF_STRIP] = rows[GROUP_OF_STRIP]
    every_second = jax.tree.map(_replace_every_second, rows, made_up)
    return jax.tree.map(lambda *leaves: np.stack(leaves), rows, every_second, made_up)


def check_result(densities: Densities, rows: Observations) -> None:
    """Raise ModelError unless `log_likelihood` traces and returns one real number per row."""
    result = _trace(densities, rows)
    count = jax.tree.leaves(rows)[0].shape[0]
    if not isinstance(result, jax.ShapeDtypeStruct):
        raise ModelError(f"log_likelihood must return an array; it returned {_type_name(result)}.")
    if result.shape != (count,):
        raise ModelError(
            f"log_likelihood must return one number per observation: for {count} observations shape ({count},) is "
            f"needed, got {result.shape}. {_shape_hint(result.shape, count, rows)}"
        )
    if not jnp.issubdtype(result.dtype, jnp.floating):
        raise ModelError(f"log_likelihood must return real numbers (float32); got dtype {result.dtype}.")


def check_values(values: Values, exact: Callable[[], np.ndarray] | None, hint: str = "") -> None:
    """Raise ModelError if the values for the `probing_batches` show one of these faults:

    - the prior density of a site is not finite, or depends on the data;
    - the log-likelihood of a row changes with the other rows of its batch;
    - the log-likelihood has one value at all positions, for both real and made-up rows.

    `exact` gives the log-likelihoods of the rows in float64, (positions, rows); it is None for a
    log-likelihood that uses no parameter, which may be constant. `hint` says which shapes of the
    data may be at fault.
    """
    _check_prior(values.prior, values.prior_of_batches)
    log_likelihoods, of_every_second, of_made_up = values.log_likelihoods
    size = np.max(np.abs(log_likelihoods), where=np.isfinite(log_likelihoods), initial=0.0)
    kept, kept_among_others = log_likelihoods[:, ::2], of_every_second[:, ::2]
    if not np.allclose(kept, kept_among_others, rtol=0, atol=1e-3 * size, equal_nan=True):
        raise ModelError(
            "the log-likelihood of an observation changes with the other rows of its batch. It must depend on its own "
            "row alone: standardise the data beforehand, not inside the model; or, if rows depend on each other, let "
            f"the model have all data at once: pointwise=False. {hint and f'Or check how the shapes broadcast: {hint}'}".rstrip()
        )
    if exact is None or not (_is_constant(log_likelihoods) and _is_constant(of_made_up)):
        return
    # A constant of 10⁹ nats leaves float32 no digits for the rest, and estimators use float64.
    if _is_constant(exact()):
        raise ModelError(
            f"the log-likelihood is constant: it has the same values at all {2 * NUM_POSITIONS} places of the parameters "
            f"({', '.join(values.prior[0])}) that were tried. If it underflows, or a large constant leaves no digits for the "
            "rest, compute it as a logarithm, without the constant; if these parameters do not matter, do not use them in it."
        )


def check_summed_out(densities: Densities, program: Program, rows: Observations) -> None:
    """Raise an error if discrete latent sites cannot be summed out, which would be silently wrong.

    Raises:
        DependentRowsError: a row's log-probability depends on the values of a site in other rows.
        ModelError: the prior of a parameter depends on a discrete site.
    """
    position, sizes, latent = jnp.asarray(probing_positions(densities.size)[0]), {}, set()

    @jax.jit
    def traced(indices, rows):
        params, _ = densities.place(position)
        at = AtValues(program, indices)
        sites = trace_of(at, rows, params)
        sizes.update(at.sizes)
        latent.update(name for name, each in sites.items() if is_latent(each))
        return {name: log_prob(each) for name, each in sites.items() if each["type"] == "sample"}

    def values_at(indices):
        return traced(indices, rows)

    jax.eval_shape(values_at, {})
    if not sizes:
        return
    first, last = values_at({}), values_at({name: size - 1 for name, size in sizes.items()})
    if odd := [name for name in sorted(latent) if not np.allclose(first[name], last[name], equal_nan=True)]:
        raise ModelError(
            f"the prior of {odd[0]!r} depends on a discrete latent ({', '.join(sizes)}): only log-likelihoods may, if it is to "
            "be summed out. Write both into the likelihood."
        )
    for place in range(min(MOST_PLACES, max(np.size(first[name]) for name in sizes))):
        # Others differ from the row's own value, and must not matter.
        own = {name: place % size for name, size in sizes.items()}
        mixed = {
            name: np.where(np.arange(max(1, np.size(first[name]))) == place, index, (index + 1) % sizes[name])
            for name, index in own.items()
            if np.ndim(first[name])
        }
        alike, values = values_at(own), values_at(own | mixed)
        for name in set(values) - latent:
            is_row = np.ndim(values[name]) == 1 and np.size(values[name]) > place
            if is_row and not np.allclose(values[name][place], alike[name][place], equal_nan=True):
                raise DependentRowsError(
                    f"{name!r} depends on the discrete latents ({', '.join(sizes)}) of other rows, which cannot be summed out "
                    "row by row. Sum them out of the likelihood, as the forward algorithm does."
                )


def check_local(densities: Densities, local: LocalSites, rows: Observations) -> None:
    """Raise an error if local variables of a row matter beyond it, which would be silently wrong.

    Raises:
        DependentRowsError: the log-likelihood of another row depends on them.
        ModelError: the prior of a parameter depends on them.
    """
    position = jnp.asarray(probing_positions(densities.size)[0])
    draws = np.random.default_rng(0).normal(size=(2, len(jax.tree.leaves(rows)[0]), local.size))
    draws = draws.astype(np.float32)
    draws[1, ::2] = draws[0, ::2]
    rows = jax.tree.map(jnp.asarray, rows)  # NumPyro's constraints look at the type of a value

    @jax.jit
    def values_at(u):
        params = densities.place(position)[0]
        sites = local.trace(params, rows, u)[0]
        priors = {name: jnp.sum(log_prob(sites[name])) for name in densities.sites}
        return local(params, rows)(u), priors

    first, second = attempt("the model", lambda: [jax.tree.map(np.asarray, values_at(u)) for u in draws])
    if odd := [name for name in densities.sites if not np.allclose(first[1][name], second[1][name])]:
        raise ModelError(
            f"the prior of {odd[0]!r} depends on latents with a value in each row, which are integrated out of the "
            "likelihood. Use pointwise=False, which makes them parameters like others."
        )
    if not np.allclose(first[0][::2], second[0][::2], rtol=1e-4, atol=1e-4, equal_nan=True):
        raise DependentRowsError("the latent values of a row change the log-likelihood of other rows.")


def check_parameters_used(densities: Densities, used: Names) -> None:
    """Raise ModelError for a parameter that the log-likelihood does not use, if it uses others."""
    if used and (unused := [name for name in densities.sites if name not in used]):
        raise ModelError(
            f"prior has {', '.join(map(repr, unused))}, which log_likelihood does not use. Remove it from the prior, or "
            "use it."
        )


def _trace(densities: Densities, rows: Observations) -> Any:
    position = jax.ShapeDtypeStruct((densities.size,), jnp.float32)
    try:
        return attempt("log_likelihood", lambda: jax.eval_shape(densities.log_likelihood, position, rows))
    except ModelError as error:
        if hint := _hint(error):
            raise ModelError(f"{str(error).rstrip('.')}. {hint}") from error.__cause__
        if not isinstance(error.__cause__, KeyError):
            raise
        known = ", ".join(densities.sites)
        columns = ", ".join(map(str, rows)) if isinstance(rows, Mapping) else "not a mapping"
        raise ModelError(
            f"log_likelihood uses {error.__cause__}, which is neither a parameter in the prior ({known}) nor in "
            f"data ({columns})."
        ) from error.__cause__


def _hint(error: ModelError) -> str:
    """What to change in a user's function that failed, where its error alone does not say it."""
    called = {
        "log_likelihood": "It is called with two arguments: params, a dict, and the rows as in data.",
        "init": "It is called as init(params).",
        "step": "It is called as step(params, state, row).",
    }
    if isinstance(error.__cause__, TypeError) and "positional argument" in str(error.__cause__):
        return called.get(str(error).partition(" ")[0], "")
    if isinstance(error.__cause__, jax.errors.TracerBoolConversionError):
        return "It is traced once for all values: use jnp.where in place of if, and of and, or."
    return ""


def _check_prior(prior: Any, of_other_rows: Any) -> None:
    params, log_densities = prior
    for name, log_density in log_densities.items():
        if not all(np.isfinite(values[:, :NUM_NEAR]).all() for values in (log_density, params[name])):
            raise ModelError(
                f"the prior of {name!r} gives NaN or infinite values inside its support. Check the parameters of its "
                "distribution, such as the sign of a scale; a scale below 1e-19, whose density overflows, needs other units."
            )
        for mine, other in ((log_density, of_other_rows[1][name]), (params[name], of_other_rows[0][name])):
            if not np.allclose(mine, other, rtol=1e-4, atol=1e-4, equal_nan=True):
                raise ModelError(
                    f"the prior of {name!r} depends on the data. A prior must be fixed before the data are seen: use "
                    "constants computed outside the model."
                )


def check_exchangeable(densities: Densities, axes: tuple[Axis, ...], rows: Observations) -> None:
    """Raise ModelError unless two components of the `exchangeable` parameters can be swapped."""
    shapes, names = {name: site.shape for name, site in densities.sites.items()}, dict(axes)
    if unknown := [name for name in names if name not in shapes]:
        raise ModelError(
            f"exchangeable names {unknown[0]!r}, which is not a parameter; the model has {', '.join(shapes)}."
        )
    counts = [shapes[name][axis] if 0 <= axis < len(shapes[name]) else 0 for name, axis in axes]
    if len(set(counts)) > 1 or min(counts) < 1:
        listed = ", ".join(f"{name} has shape {shapes[name]}" for name in names)
        raise ModelError(
            f"exchangeable parameters must have the components on the axes named with them, or else on their leading axis; {listed}."
        )
    if counts[0] < 2:
        return  # one component: nothing to swap
    swap = np.array([1, 0, *range(2, counts[0])])
    options = {"xla_backend_optimization_level": 0}  # run four times
    evaluate = jax.jit(partial(_evaluate_swapped, densities, axes), compiler_options=options)
    for position in np.random.default_rng(1).standard_normal((4, densities.size)).astype(np.float32):
        before, after = evaluate(position, swap, rows)
        for what, value, other in zip(("prior", "log_likelihood"), before, after, strict=True):
            if not np.allclose(value, other, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise ModelError(
                    f"exchangeable=({', '.join(map(repr, names))}): swapping two components changes the {what} from "
                    f"{float(value):.6g} to {float(other):.6g}. Name all parameters of the components, and no others."
                )


def _evaluate_swapped(densities, axes, position, swap, rows):
    """Log prior density and log-likelihood before and after a swap of components."""
    params = densities.place(position)[0]
    swapped = {**params, **{name: permuted(params[name], name, axes, swap) for name, _ in axes}}
    prior, likelihood = densities.log_prior_of, densities.pointwise
    return [(prior(each), jnp.sum(likelihood(each, rows))) for each in (params, swapped)]


def _made_up(rows: Observations) -> Observations:
    """Rows informative in almost any model: uniform in (0, 1), or integers as in the data."""
    generator = np.random.default_rng(0)

    def fill(leaf):
        if leaf.dtype.kind == "f":
            return generator.uniform(0.05, 0.95, leaf.shape).astype(leaf.dtype)
        low, high = min(0, leaf.min(initial=0)), max(1, leaf.max(initial=1))
        return generator.integers(low, high + 1, leaf.shape).astype(leaf.dtype)

    return jax.tree.map(fill, rows)


def _replace_every_second(rows: np.ndarray, other: np.ndarray) -> np.ndarray:
    mixed = rows.copy()
    mixed[1::2] = other[1::2]
    return mixed


def _is_constant(log_likelihoods: np.ndarray) -> bool:
    return bool(np.isfinite(log_likelihoods).all() and (np.ptp(log_likelihoods, axis=0) == 0).all())


def _shape_hint(shape: tuple[int, ...], count: int, rows: Observations) -> str:
    if shape == ():
        return "Do not sum over the observations; or, if rows depend on each other, use pointwise=False."
    if shape[0] == count and count not in shape[1:]:
        return "Sum over the other axes."
    return f"Check how the shapes broadcast. {thin_arrays(rows)}".strip()


def _type_name(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
