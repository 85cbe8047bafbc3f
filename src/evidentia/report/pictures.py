"""The pictures of a report, as PNG with alternative text, drawn without pyplot."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from evidentia.display.coefficients_plot import WIDTH, draw_coefficients, height_of
from evidentia.display.plots import posterior_height
from evidentia.report.file_names import file_names
from evidentia.report.own_files import SOFTWARE
from evidentia.results.comparison import Comparison
from evidentia.results.comparison_plot import plot_comparison
from evidentia.results.pictures import formula_summaries
from evidentia.results.result import Evidence

MOST_SCALARS = 40  # parameters in one picture of a posterior


@dataclass(frozen=True)
class Picture:
    """A PNG image: file name without extension, alternative text, and caption."""

    name: str
    alt: str
    caption: str
    png: bytes


def comparison_picture(evidences: Mapping[str, Evidence], comparison: Comparison) -> Picture:
    """Log Bayes factors and model probabilities against the number of observations."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    prior = dict(zip(comparison.names, comparison.prior_probability, strict=True))
    plot_comparison(evidences, prior, axes=figure.subplots(2, 1, sharex=True))
    return Picture(
        "comparison",
        f"Two curves for each of {len(evidences)} models against the number of observations: log Bayes factor against "
        f"the best model, and model probability. {comparison.conclusion}",
        "Top: log Bayes factor of each model against the best. Bottom: probability of each model. "
        "Bands are two standard errors.",
        png(figure),
    )


def evidence_picture(name: str, stem: str, evidence: Evidence) -> Picture:
    """Log evidence per observation against the number of rows; `stem` is for the file's name."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    evidence.plot(figure.subplots())
    per_row = evidence.log_evidence / evidence.num_observations
    return Picture(
        f"evidence_{stem}",
        f"Log evidence per observation of {name} against the number of observations, ending at {per_row:.4f} nats.",
        "Log evidence per observation: how well each new observation was predicted from the earlier ones, on average. "
        "It levels off once the parameters are known. The band is two standard errors.",
        png(figure),
    )


def posterior_picture(name: str, stem: str, evidence: Evidence) -> Picture:
    """Posterior intervals of the parameters; `stem` is for the file's name."""
    scalars = sum(values[0].size for values in evidence.weighted.values())
    caption = f"The posterior after {evidence.num_observations:,} observations."
    if evidence._coefficients is None:
        shown, share = min(scalars, MOST_SCALARS), "90%"
        figure = Figure(figsize=(8, posterior_height(shown)), layout="constrained")
        evidence.plot_posterior(limit=MOST_SCALARS, ax=figure.subplots())
    else:
        summaries = formula_summaries(evidence)[:MOST_SCALARS]
        shown, share = len(summaries), "95%"
        figure = Figure(figsize=(WIDTH, height_of(shown)))
        draw_coefficients(summaries, figure)
        caption += " Each parameter has a scale of its own; dashed is 0, where it is near."
    return Picture(
        f"posterior_{stem}",
        f"Posterior median, 50% and {share} interval of {shown} of {scalars} parameters of {name}.",
        caption,
        png(figure),
    )


def all_pictures(
    evidences: Mapping[str, Evidence], comparison: Comparison
) -> tuple[Picture | None, dict[str, list[Picture]]]:
    """The picture of a comparison and those of each model in its order.

    There is none of a path for exact results, and none of a posterior without parameters, or of
    exact formulas.
    """
    has_path = {name: len(evidence.trajectory.num_observations) > 1 for name, evidence in evidences.items()}
    together = (
        comparison_picture(evidences, comparison) if len(evidences) > 1 and any(has_path.values()) else None
    )
    has_posterior = {  # exact coefficients of a formula have a picture of their own
        name: bool(one.weighted) and (one._coefficients is None or one.standard_error > 0)
        for name, one in evidences.items()
    }
    stems = file_names(evidences)
    single = {
        name: [
            *([evidence_picture(name, stems[name], evidences[name])] if has_path[name] else []),
            *([posterior_picture(name, stems[name], evidences[name])] if has_posterior[name] else []),
        ]
        for name in comparison.names
    }
    return together, single


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names in scripts that the font lacks
        figure.savefig(buffer, format="png", dpi=130, facecolor="white", metadata=SOFTWARE)
    return buffer.getvalue()
