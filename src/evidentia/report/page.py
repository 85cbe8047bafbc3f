"""The report as one self-contained HTML page: no file beside it and nothing from the network."""

import base64
import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined

from evidentia.comparison import Comparison
from evidentia.display import text
from evidentia.report.facts import describe
from evidentia.report.pictures import Picture
from evidentia.report.section import Section
from evidentia.result import Evidence


def render_page(
    evidences: Mapping[str, Evidence],
    comparison: Comparison,
    together: Picture | None,
    single: Mapping[str, Sequence[Picture]],
    sections: Sequence[Section] = (),
    *,
    title: str,
    notes: Sequence[str],
) -> str:
    """The page's text, with a heading, notes of a sentence each, and pictures made before."""
    environment = Environment(
        loader=PackageLoader("evidentia.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode("ascii")
    header, rows = comparison.cells()
    return environment.get_template("page.html.j2").render(
        title=title,
        notes=notes,
        conclusion=comparison.conclusion,
        num_observations=f"{comparison.num_observations:,}",
        lead=_lead(comparison),
        header=header,
        rows=[list(zip(*pair, strict=True)) for pair in zip(rows, _sort_keys(comparison), strict=True)],
        together=together,
        sections=sections,
        models=[(name, describe(evidences[name]), single[name]) for name in comparison.names],
        stopped=[name for name in comparison.names if not evidences[name].completed],
        made=_made(),
    )


def _lead(comparison: Comparison) -> dict[str, str]:
    """The number at the top of the page: by how much the best model leads, or the log evidence if
    it stands alone.
    """
    if len(comparison.names) == 1:
        value = text.with_error(comparison.log_evidence[0], comparison.standard_error[0])
        return {"value": value, "unit": "nats", "label": "log evidence"}
    value = text.with_error(-comparison.log_bayes_factor[1], comparison.log_bayes_factor_error[1])
    label = f"log Bayes factor of {comparison.names[0]} against {comparison.names[1]}"
    return {"value": value, "unit": "nats", "label": label}


def _sort_keys(comparison: Comparison) -> list[tuple[str | float, ...]]:
    """What the cells of the table are sorted by: names as text, the rest as numbers."""
    names = "log_evidence", "log_bayes_factor", "probability", "seconds"
    columns = [getattr(comparison, name).tolist() for name in names]
    _, rows = comparison.cells()
    rest = [row[1 + len(names) :] for row in rows]  # verdicts, if they are shown
    return [(*keys, *more) for *keys, more in zip(comparison.names, *columns, rest, strict=True)]


def _made() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("evidentia", "jax", "numpyro"))
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{now}, {packages}, Python {platform.python_version()}, {machine}"
