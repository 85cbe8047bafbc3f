"""Groups of rows, in packs of one shape (`packs.py`), as units of the likelihood."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from evidentia.model.local.mode import LogDensity
from evidentia.model.local.packs import GROUP_OF_STRIP, PRESENT, SIGNS
from evidentia.model.program import Params

OfRows = Callable[[Float[Array, "rows size"]], Float[Array, " rows"]]


def unpacked(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of some packs, with copies of others where none are."""
    return {
        name: leaf.reshape(-1, *leaf.shape[3:])
        for name, leaf in batch.items()
        if name not in (PRESENT, GROUP_OF_STRIP, SIGNS)
    }


def group_of_row(batch: Mapping[str, Any]) -> Int[Array, " rows"]:
    """The number of each row's group among those of all packs, in order."""
    return jnp.broadcast_to(_group_of_strip(batch)[:, :, None], batch[PRESENT].shape).ravel()


def _group_of_strip(batch: Mapping[str, Any]) -> Int[Array, "packs strips"]:
    """The number of each strip's group among those of all packs."""
    packs, groups = batch[SIGNS].shape
    return jnp.arange(packs)[:, None] * groups + batch[GROUP_OF_STRIP]


def in_packs(
    conditional: Callable[[Params, Mapping[str, Any]], OfRows],
) -> Callable[[Params, Mapping[str, Any]], LogDensity]:
    """The log-likelihood of groups given their local variables, from that of rows.

    Args:
        conditional: `(params, rows) -> f`, where f(u) is the log-likelihood of each row; u has the
            local variables of each row's group.
    """

    def of_packs(params, batch):
        present = batch[PRESENT]
        packs, strips, width = present.shape
        of_rows = conditional(params, unpacked(batch))
        number = _group_of_strip(batch)

        def of_groups(u):
            by_strip = u[number] if strips > 1 else u[:, None]
            by_row = jnp.broadcast_to(by_strip[:, :, None], (packs, strips, width, u.shape[1]))
            values = of_rows(by_row.reshape(-1, u.shape[1])).reshape(present.shape)
            sums = jnp.sum(jnp.where(present, values, 0.0), axis=2)
            if strips == 1:
                return sums[:, 0]
            return jax.ops.segment_sum(sums.ravel(), number.ravel(), len(u))

        return of_groups

    return of_packs
