"""A folder with the result of a standard test or of a selection: its numbers and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evidentia.bf.factors.compared_models import Anova
from evidentia.bf.meta_result import MetaAnalysis
from evidentia.bf.outcomes import Design
from evidentia.errors import ConfigurationError
from evidentia.regression.term_selection import TermSelection
from evidentia.report.pictures import png
from evidentia.system import storage

PICTURES = (
    *("effect.png", "robustness.png", "sequential.png", "models.png", "effects.png", "design.png"),
    "terms.png",
)


def write_test(folder: Path, result: Any) -> None:
    """Write `results.json`, and the pictures that the result has."""
    text = json.dumps(result.to_dict(), indent=2, ensure_ascii=False)
    storage.replace(folder / "results.json", f"{text}\n".encode())
    for name, draw in _drawings(result).items():
        figure = Figure(figsize=(6.5, 4.2), layout="constrained")
        try:
            draw(figure.subplots())
        except ConfigurationError:  # such as the sequence of summary statistics
            continue
        storage.replace(folder / name, png(figure))


def _drawings(result: Any) -> dict[str, Callable[[Any], Any]]:
    main = {Design: "design.png", Anova: "models.png", MetaAnalysis: "models.png", TermSelection: "terms.png"}
    drawings: dict[str, Callable[[Any], Any]] = {main.get(type(result), "effect.png"): result.plot}
    if hasattr(result, "effects"):
        drawings["effects.png"] = lambda ax: result.effects().plot(ax)
    if hasattr(result, "robustness"):
        drawings["robustness.png"] = lambda ax: result.robustness().plot(ax)
        drawings["sequential.png"] = lambda ax: result.sequential().plot(ax)
    return drawings
