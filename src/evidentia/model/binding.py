"""Binding: a model with the shapes of its data, after its checks."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import ModelError, attempt
from evidentia.model import checks, likelihoods, statements
from evidentia.model.arguments import check_arguments
from evidentia.model.bound import BoundModel
from evidentia.model.broadcasting import thin_arrays
from evidentia.model.dependence import parameters_used, traced
from evidentia.model.local import Hidden, Integrated, LocalSites
from evidentia.model.local.groups import WithCopies, check_column, effects_of_groups, of_rows, own_columns
from evidentia.model.local.moments import is_quadratic
from evidentia.model.local.packed import in_packs, unpacked
from evidentia.model.local.packs import PRESENT
from evidentia.model.probe import NUM_POSITIONS, probe, probing_positions
from evidentia.model.program import Densities, Observations, program_of
from evidentia.model.repeats import check_repeats, check_traces
from evidentia.model.symmetry import Symmetry, declared_axes, find_symmetry
from evidentia.system.compilation import in_float64

Kind = Literal["rows", "whole", "groups"]  # what a row of the arrays is


class _Traced(NamedTuple):
    """What further traces of a log-likelihood told; models that compute the same share it."""

    used: frozenset[str]
    runs_in_float64: bool


_TRACED: dict[str, _Traced] = {}
_SYMMETRIES: dict[str, Symmetry] = {}  # by the rows tried, too


def bound(model: Any, batch: Observations, kind: Kind) -> BoundModel:
    """A `Model` bound to the shapes of some rows; of all data as one row; or of packs of groups.

    Raises:
        ModelError: the prior or the log-likelihood cannot be used.
    """
    if (identity := getattr(model.log_likelihood, "identity", None)) is not None:
        return _bound_as(model, batch, identity)
    few, more = checks.some_rows(batch, 3), checks.some_rows(batch, 5)
    densities = (
        _of_groups(model, batch, few, more)
        if kind == "groups"
        else _densities(model, few, more, kind == "whole")
    )
    checks.check_result(densities, few)
    checks.check_result(densities, more)
    batches = checks.probing_batches(checks.some_rows(batch, 2 if kind == "whole" else 64))
    computed, evaluate = attempt("the model", lambda: probe(densities, batches))
    if computed not in _TRACED:
        _TRACED[computed] = _traced(densities, few)
    used, runs_in_float64 = _TRACED[computed]
    densities = densities._replace(runs_in_float64=runs_in_float64)
    if not model.starts:
        positions = probing_positions(densities.size)
        exact = partial(_in_float64, densities, jax.tree.map(lambda leaf: leaf[0], batches))
        checks.check_values(check_repeats(evaluate, positions), exact if used else None, thin_arrays(few))
    # Rows decide too: a symmetry that some rows do not show may be broken by others.
    rows = hashlib.sha256(b"".join(leaf.tobytes() for leaf in jax.tree.leaves(batches))).hexdigest()
    declared = declared_axes(model.exchangeable)
    key = " ".join((computed, rows, *map(str, declared)))
    if (model.starts or not used) and not model.exchangeable:
        _SYMMETRIES[key] = Symmetry()
    if key not in _SYMMETRIES:
        if model.exchangeable:
            checks.check_exchangeable(densities, declared, few)
        _SYMMETRIES[key] = find_symmetry(densities, evaluate, batches, declared)
    symmetry = _SYMMETRIES[key]
    identity = f"{computed} {symmetry}"
    starts = tuple(np.asarray(densities.unplace(params)) for params in model.starts)
    found = BoundModel(
        model.name,
        densities,
        symmetry,
        model.sample_posterior,
        identity,
        model.shown,
        starts=starts,
        is_constant=not used,
    )
    if isinstance(model.prior, Mapping) and all(
        isinstance(value, dist.Distribution) for value in model.prior.values()
    ):
        checks.check_parameters_used(densities, used)
    return found


def _traced(densities: Densities, rows: Observations) -> _Traced:
    check_traces(densities, rows)
    program = traced(densities, rows)  # kept until `_runs_in_float64` has been asked
    return _Traced(parameters_used(densities, program), _runs_in_float64(densities, rows))


def _runs_in_float64(densities: Densities, rows: Observations) -> bool:
    """Whether a model can be traced in 64 bits, with its gradient.

    A solver with a loop may want one precision, in which the model holds an array. And JAX keeps
    one canonical copy of a NumPy array in a closure, while a program in float32 uses it.
    """

    def log_posterior(position, rows):
        params, log_densities = densities.place(position)
        return sum(log_densities.values()) + jnp.sum(densities.pointwise(params, rows))

    with in_float64():
        wide = jax.tree.map(lambda leaf: leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf, rows)
        try:
            jax.jit(jax.value_and_grad(log_posterior)).lower(np.zeros(densities.size), wide)
        except Exception:  # of any kind, as the model's own functions may check types
            return False
    return True


def _in_float64(densities: Densities, rows: Observations) -> np.ndarray:
    """The log-likelihood of rows, (positions, rows), near zero and at draws from the prior."""
    draws = jax.vmap(densities.draw)(jax.random.split(jax.random.key(0), NUM_POSITIONS))
    positions = np.concatenate([probing_positions(densities.size), np.asarray(draws)]).astype(np.float64)
    with in_float64(densities.runs_in_float64):
        at_positions = jax.vmap(densities.log_likelihood, in_axes=(0, None))
        return np.asarray(at_positions(jnp.asarray(positions), rows))


def _bound_as(model: Any, batch: Observations, identity: str) -> BoundModel:
    """Without checks that evaluate the log-likelihood, which takes long and says what it is."""
    densities = _densities(model, batch, batch, is_whole=True)
    return BoundModel(
        model.name,
        densities,
        Symmetry(),
        model.sample_posterior,
        identity,
        model.shown,
        getattr(model.log_likelihood, "evaluations", None),
        starts=tuple(np.asarray(densities.unplace(params)) for params in model.starts),
        is_constant=not densities.size,
    )


def _densities(model: Any, few: Observations, more: Observations, is_whole: bool) -> Densities:
    """The functions to trace, after the checks of the program for two numbers of rows."""
    log_likelihood = model.log_likelihood
    if not callable(model.prior):
        prior, rows = program_of(model.prior), {}
        found = statements.statements_of(prior, rows, sums_out=False)
        if is_whole:
            log_likelihood = likelihoods.OfEachRow(log_likelihood)
        return Densities(prior, statements.latent_sites(found), log_likelihood, rows)
    check_arguments(model.prior, few)
    if is_whole:
        log_likelihood, prior = likelihoods.joint(model.prior), likelihoods.of_one_row(model.prior)
        found = statements.statements_of(prior, few, is_whole=True)
        statements.check_observes(found, few, model.prior)
        densities = Densities(
            prior, statements.latent_sites(found), likelihoods.OfEachRow(log_likelihood), few
        )
        checks.check_summed_out(densities, densities.prior, few)
        return densities
    found = statements.statements_by_row(model.prior, few, more)
    local = LocalSites(model.prior, statements.local_sizes(found))
    sites = statements.latent_sites(found)
    if not local.sizes:
        densities = Densities(model.prior, sites, log_likelihood, few)
    else:
        densities = Densities(
            Hidden(model.prior, frozenset(local.sizes)),
            sites,
            Integrated(local, local.effects, local.size),
            few,
        )
    checks.check_summed_out(densities, densities.prior, few)
    if local.sizes:
        checks.check_local(densities, local, few)
    return densities


def _of_groups(model: Any, packs: Observations, few: Observations, more: Observations) -> Densities:
    """The functions to trace of a program with latents of groups, whose data are in packs."""
    plain = own_columns(unpacked(few))
    check_arguments(model.prior, plain)
    of_plain = statements.statements_of(model.prior, plain)
    statements.check_observed(of_plain, plain)
    statements.check_observes(of_plain, plain, model.prior)
    sizes, least = _numbers_of_groups(model, packs, of_plain)
    for count in sizes:
        try:
            return _of_so_many_groups(model, count, few, more)
        except ModelError:
            if count == sizes[-1] or count == least:
                raise
    raise AssertionError


def _numbers_of_groups(model: Any, packs: Observations, found: Mapping[str, Any]) -> tuple[list[int], int]:
    """How many groups a program can have: as many as there are, or more that have no rows yet."""
    labels = packs[model.groups][packs[PRESENT]]
    least, sites = int(labels.max()) + 1, {name: one for name, one in found.items() if not one.observed}
    sizes = sorted({one.shape[0] for one in sites.values() if one.shape and one.shape[0] >= least})
    if sizes:
        return sizes, least
    shapes = ", ".join(f"{name} has shape {site.shape}" for name, site in sites.items())
    first = int(labels.min())
    advice = (
        f" The first number is {first}: numbers begin at 0, as those of pandas.factorize." if first else ""
    )
    raise ModelError(
        f"groups={model.groups!r} has the groups 0 to {least - 1}, but no latent site has {least} values or more on its "
        f"leading axis: {shapes}.{advice}"
    )


def _of_so_many_groups(model: Any, count: int, few: Observations, more: Observations) -> Densities:
    """As `_of_groups`, of sites with `count` values."""
    few_rows, more_rows = unpacked(few), unpacked(more)
    program = WithCopies(model.prior, model.groups, count)
    found = statements.statements_by_row(program, few_rows, more_rows)
    local = LocalSites(program, statements.local_sizes(found))
    hidden = Hidden(program, frozenset(local.sizes))
    integrated = Integrated(in_packs(of_rows(local)), effects_of_groups(local), local.size, count)
    densities = Densities(
        lambda **packs: hidden(**unpacked(packs)), statements.latent_sites(found), integrated, few
    )
    checks.check_summed_out(densities, hidden, few_rows)
    checks.check_local(densities, local, few_rows)
    check_column(local, densities.place(jnp.asarray(probing_positions(densities.size)[0]))[0], few_rows)
    return densities._replace(pointwise=replace(integrated, is_quadratic=is_quadratic(densities, few)))
