"""The report as one self-contained HTML page: no file beside it and nothing from the network."""

import base64
import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined

from evidentia.display import text, words
from evidentia.report.facts import describe
from evidentia.report.pictures import Picture
from evidentia.report.section import Section
from evidentia.results.comparison import Comparison
from evidentia.results.result import Evidence


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
    header = tuple("evidence against it" if name == "against" else name for name in header)
    return environment.get_template("page.html.j2").render(
        title=title,
        notes=notes,
        conclusion=comparison.conclusion,
        trust=_trust(evidences),
        has_errors=any(evidence.standard_error != 0 for evidence in evidences.values()),
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


def _trust(evidences: Mapping[str, Evidence]) -> str:
    """One sentence on whether the numbers can be used: the worst verdict first."""
    doubted = {name: one.verdict for name, one in evidences.items() if one.verdict.word != "trusted"}
    if not doubted:
        return "Verdict: trusted; no sign of trouble was found."
    return " ".join(f"Verdict on {name}: {one.word}; {one.reason}" for name, one in doubted.items())


def _lead(comparison: Comparison) -> dict[str, str]:
    """The number at the top of the page: by how much the best model leads, or the log evidence if
    it stands alone.
    """
    if len(comparison.names) == 1:
        value = text.with_error(comparison.log_evidence[0], comparison.standard_error[0])
        return {"value": value, "unit": "nats", "label": "log evidence"}
    value = text.with_error(-comparison.log_bayes_factor[1], comparison.log_bayes_factor_error[1])
    lead = float(-comparison.log_bayes_factor[1])
    label = f"log Bayes factor of {comparison.names[0]} against {comparison.names[1]} (Bayes factor {words.short(lead)})"
    return {"value": value, "unit": "nats", "label": label}


def _sort_keys(comparison: Comparison) -> list[tuple[str | float, ...]]:
    """What the cells of the table are sorted by: names as text, the rest as numbers."""
    factors = ("log_bayes_factor",) * 3  # in nats, in digits and in words
    columns = [getattr(comparison, name).tolist() for name in ("log_evidence", *factors, "probability")]
    return list(zip(comparison.names, *columns, strict=True))


def _made() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("evidentia", "jax", "numpyro"))
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{now}, {packages}, Python {platform.python_version()}, {machine}"
