"""`group_effects` and `plot_effects`: the posterior of what varies by row or group."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evidentia.errors import ConfigurationError, check_path, kind_of
from evidentia.model.model import Model
from evidentia.regression.groups import groups_of_regression
from evidentia.regression.regression import Regression
from evidentia.results.local_effects import Block, Groups, groups_of_model
from evidentia.results.result import Evidence
from evidentia.system.sharing import check_not_forked
from evidentia.system.storage import local_path, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def group_effects(
    model: Regression | Model,
    evidence: Evidence | None = None,
    data: Any = None,
    *,
    factor: str | None = None,
    path: str | PathLike[str] | None = None,
) -> DataFrame | None:
    """Posterior means and deviations of what varies by group, or of latents in each row.

    Effects of groups with few rows are shrunk towards the others. Those that were integrated out
    are found again at 32 posterior draws of the parameters, and averaged over them.

    Args:
        model: a regression with effects that vary by group; or a model of `from_numpyro` or
            `from_pymc` whose latents of rows or groups were integrated out.
        evidence: of this model and these data.
        data: as given to `estimate`; not needed if the model brings them along.
        factor: of a regression; by default that with most levels.
        path: a local Parquet file, written some groups at a time, for more of them than fit the
            memory. Its first column has the groups, joined by ":" if they are of several columns.

    Returns:
        A data frame with one row for each group, or row of the data, and two columns for each
        effect: its mean and, with " (sd)", its deviation, in units of the table. None with a
        `path`.

    Raises:
        ConfigurationError: a model without such effects, a factor that it does not have, or a
            result of another model or of other data; of a regression, also one that was loaded.
        DataError, ModelError: data or a model that cannot be used.

    Example:
        >>> intercepts = ev.Regression("y ~ x + (1 | g)", family="poisson")  # doctest: +SKIP
        >>> evidence = ev.estimate(intercepts, table)  # doctest: +SKIP
        >>> ev.group_effects(intercepts, evidence, table)  # doctest: +SKIP
    """
    check_not_forked()
    if not isinstance(model, Regression | Model):
        raise ConfigurationError(f"model must be a Regression or an evidentia.Model; got {kind_of(model)}.")
    if not isinstance(evidence, Evidence):
        raise ConfigurationError(f"evidence must be a result of estimate; got {kind_of(evidence)}.")
    if path is not None:
        check_path(path, "path")
    if isinstance(model, Regression):
        groups = groups_of_regression(model, evidence, data, factor)
    elif factor is not None:
        raise ConfigurationError(f"factor is for a Regression; a Model has one; got {factor!r}.")
    else:
        groups = groups_of_model(model, evidence, data)
    if path is not None:
        return _write(groups, path)
    from pandas import DataFrame, Index, concat

    ordered = concat([DataFrame(_columns(block), index=block.levels) for block in groups.blocks]).sort_index()
    return ordered.set_axis(Index(list(groups.levels), name=groups.name, tupleize_cols=False))


def _columns(block: Block) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    for name, (mean, deviation) in block.effects.items():
        columns[name], columns[f"{name} (sd)"] = mean, deviation
    return columns


def _named(level: Any) -> Any:
    return ":".join(map(str, cast("tuple[Any, ...]", level))) if isinstance(level, tuple) else level


def _write(groups: Groups, path: str | PathLike[str]) -> None:
    """Write a Parquet file, which appears when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target, writer = local_path("path", path, "Parquet file"), None
    try:
        with replacing(target) as file:
            for block in groups.blocks:
                names = [_named(groups.levels[level]) for level in block.levels]
                table = cast(Any, pa.table({groups.name: pa.array(names), **_columns(block)}))
                writer = writer or pq.ParquetWriter(file, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()
    except OSError as error:
        raise ConfigurationError(
            f"path cannot be written; got {path!r}: {error.strerror or error}."
        ) from error


def plot_effects(effects: DataFrame, name: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot what varies by group: each group's mean with two standard deviations, in order of size.

    Args:
        effects: of `group_effects`.
        name: of the effect; the first if not given.
        ax: axes to draw into; a new pyplot figure if not given.

    Returns:
        The axes.

    Raises:
        ConfigurationError: `effects` are no such table, or a name is not one of the effects.

    Example:
        >>> ev.plot_effects(ev.group_effects(regression, evidence, table))  # doctest: +SKIP
    """
    from evidentia.display.effects_plot import draw_effects

    columns = getattr(effects, "columns", ())
    names = [column for column in columns if f"{column} (sd)" in columns]
    if not names:
        raise ConfigurationError("effects must be of group_effects, with a column (sd) for each effect.")
    if name is not None and name not in names:
        raise ConfigurationError(f"name must be one of {', '.join(names)}; got {name!r}.")
    return draw_effects(effects, names[0] if name is None else name, ax)
