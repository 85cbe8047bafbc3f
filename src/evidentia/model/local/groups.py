"""Latent sites of a NumPyro program that have a value for each group of rows.

In the program such a site has one value for each group, and a column of the data looks it up, as
in `alpha[county]`. Here every row has its own copy of its group's value, and the column counts the
rows: then a batch of some groups needs no values of others, and the site is a local one.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Int
from numpyro.primitives import Messenger

from evidentia.errors import ModelError, attempt
from evidentia.model.likelihoods import pointwise
from evidentia.model.local.packed import OfRows, group_of_row, unpacked
from evidentia.model.local.quadrature import Effects
from evidentia.model.local.sites import LocalSites
from evidentia.model.program import Params, Program

LEADS = "evidentia_leads"  # a column that is true in one row of each group
COPIES = "evidentia_copies"  # and, if it is there, one with how often each row counts


class WithCopies:
    """A program called with rows, in each of which latents of groups have a copy.

    Attributes:
        program: as it was written.
        column: of the data, with the number of each row's group.
        count: the number of groups.
    """

    def __init__(self, program: Program, column: str, count: int):
        self.program: Program = program
        self.column: str = column
        self.count: int = count

    def __call__(self, **rows: Any) -> Any:
        """Run the program; `rows` may have `LEADS` and `COPIES`."""
        labels = rows[self.column]
        with _Copying(labels, self.count):
            return self.program(**{**own_columns(rows), self.column: jnp.arange(len(labels))})


def own_columns(rows: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the data."""
    return {name: array for name, array in rows.items() if name not in (LEADS, COPIES)}


class _Copying(Messenger):
    """Gives sites with a value for each group a value for each row."""

    def __init__(self, labels: Int[Any, " rows"], count: int):
        super().__init__()
        self._labels, self._count = labels, count

    def process_message(self, msg: Any) -> None:
        """Change the distribution of a site."""
        if msg["type"] != "sample" or msg["is_observed"]:
            return
        name, distribution = msg["name"], msg["fn"]
        if distribution.shape()[:1] != (self._count,):
            return
        if isinstance(distribution, dist.Independent) and not distribution.batch_shape:
            distribution = distribution.base_dist.to_event(distribution.reinterpreted_batch_ndims - 1)
        if not distribution.batch_shape:
            raise ModelError(
                f"site {name!r} is one draw for all {self._count} groups ({type(distribution).__name__}); only values that are "
                "independent between groups, as in a numpyro.plate, are integrated out."
            )
        if distribution.is_discrete:
            raise ModelError(
                f"site {name!r} is discrete, with a value for each group; only continuous ones are integrated out. Sum it out "
                "of the likelihood of a group, with one row of the data for each group."
            )
        msg["fn"] = _of_rows(distribution, self._labels, self._count)


def _of_rows(distribution: Any, labels: Int[Any, " rows"], count: int) -> Any:
    """The distributions of each row's group."""
    shape = (len(labels), *distribution.batch_shape[1:])
    if isinstance(distribution, dist.Independent):
        base = _of_rows(distribution.base_dist, labels, count)
        return base.to_event(distribution.reinterpreted_batch_ndims)
    if isinstance(distribution, dist.ExpandedDistribution):
        base = distribution.base_dist
        is_same = len(base.batch_shape) < len(shape) or base.batch_shape[0] == 1
        return (base if is_same else _of_rows(base, labels, count)).expand(shape)

    def taken(name: str, event_dim: int) -> Any:
        value = getattr(distribution, name)
        has_groups = np.ndim(value) == len(shape) + event_dim and np.shape(value)[0] == count
        return value[labels] if has_groups else value

    held = {
        name: taken(name, constraint.event_dim)
        for name, constraint in distribution.arg_constraints.items()
        if name in vars(distribution)
    }
    return type(distribution)(**held).expand(shape)


def of_rows(local: LocalSites) -> Callable[[Params, Mapping[str, Any]], OfRows]:
    """The log-likelihood of rows given their groups' variables, for `in_packs`."""

    def conditional(params, rows):
        def log_likelihoods(u):
            values, terms = local.parts(params, rows, u)
            return rows.get(COPIES, 1.0) * values + jnp.where(rows[LEADS], terms, 0.0)

        return log_likelihoods

    return conditional


def effects_of_groups(local: LocalSites) -> Callable[[Params, Mapping[str, Any]], Effects]:
    """The values of the sites in each group of some packs."""

    def effects(params, batch):
        rows, number = unpacked(batch), group_of_row(batch)

        def of_groups(u):
            found = {}
            for name, values in local.effects(params, rows)(u[number]).items():
                is_lead = rows[LEADS].reshape(-1, *[1] * (values.ndim - 1))
                found[name] = jax.ops.segment_sum(jnp.where(is_lead, values, 0.0), number, len(u))
            return found

        return of_groups

    return effects


def check_column(local: LocalSites, params: Params, rows: Mapping[str, Any]) -> None:
    """Raise ModelError unless a program uses the column of groups only to look its latents up."""
    copying = local.program
    assert isinstance(copying, WithCopies)
    # Labels that are not the rows' numbers, whatever those of the data are.
    labels = copying.count - 1 - np.arange(len(rows[copying.column])) % copying.count
    rows = jax.tree.map(jnp.asarray, {**rows, copying.column: labels})
    u = np.random.default_rng(0).normal(size=(copying.count, local.size)).astype(np.float32)[labels]

    @jax.jit
    def both(u):
        values, _ = local.parts(params, rows, u)
        sites = local.trace(params, rows, u)[0]
        full = {
            name: jnp.zeros((copying.count, *sites[name]["value"].shape[1:]))
            .at[labels]
            .set(sites[name]["value"])
            for name in local.sizes
        }
        return values, pointwise(copying.program)({**params, **full}, own_columns(rows))

    ours, theirs = attempt("the model", lambda: both(u))
    if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-3, equal_nan=True):
        raise ModelError(
            f"the program uses {copying.column!r} for more than to look up {', '.join(map(repr, local.sizes))}. Give what else it "
            "looks up as a column of the data, with a value in each row."
        )
