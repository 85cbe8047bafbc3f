"""The pictures of a report, drawn without pyplot, as PNG with the words that stand in for them."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from evidentia.comparison import Comparison, plot_comparison
from evidentia.display.plots import posterior_height
from evidentia.result import Evidence

MOST_SCALARS = 40  # of a posterior in one picture


@dataclass(frozen=True)
class Picture:
    """A PNG image: the file's name without its ending, what it shows in words, and a caption."""

    name: str
    alt: str
    caption: str
    png: bytes


def comparison_picture(evidences: Mapping[str, Evidence], comparison: Comparison) -> Picture:
    """How several models drew apart as the data came in."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    prior = dict(zip(comparison.names, comparison.prior_probability, strict=True))
    plot_comparison(evidences, prior, axes=figure.subplots(2, 1, sharex=True))
    return Picture(
        "comparison",
        f"Two curves for each of {len(evidences)} models against the number of observations: log Bayes factor against "
        f"the best model, and model probability. {comparison.conclusion}",
        "How the models drew apart. Above, the log Bayes factor of each against the best; below, the probability of each. "
        "Bands are two standard errors.",
        _png(figure),
    )


def evidence_picture(name: str, evidence: Evidence) -> Picture:
    """The log evidence per observation as the data came in."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    evidence.plot(figure.subplots())
    per_row = evidence.log_evidence / evidence.num_observations
    return Picture(
        f"evidence_{file_name(name)}",
        f"Log evidence per observation of {name} against the number of observations, ending at {per_row:.4f} nats.",
        "Log evidence per observation: how well each new observation was predicted from those before it, on average. "
        "It levels off once the parameters are known. The band is two standard errors.",
        _png(figure),
    )


def posterior_picture(name: str, evidence: Evidence) -> Picture:
    """Intervals of the parameters."""
    scalars = sum(values[0].size for values in evidence.posterior.values())
    figure = Figure(figsize=(8, posterior_height(min(scalars, MOST_SCALARS))), layout="constrained")
    evidence.plot_posterior(limit=MOST_SCALARS, ax=figure.subplots())
    return Picture(
        f"posterior_{file_name(name)}",
        f"Posterior median, 50% and 90% interval of {min(scalars, MOST_SCALARS)} of {scalars} parameters of {name}.",
        f"The posterior after {evidence.num_observations:,} observations.",
        _png(figure),
    )


def all_pictures(
    evidences: Mapping[str, Evidence], comparison: Comparison
) -> tuple[Picture | None, dict[str, list[Picture]]]:
    """The comparison's picture, if there is one to make, and the pictures of each model in the
    comparison's order.
    """
    together = comparison_picture(evidences, comparison) if len(evidences) > 1 else None
    single = {
        name: [evidence_picture(name, evidences[name]), posterior_picture(name, evidences[name])]
        for name in comparison.names
    }
    return together, single


def file_name(name: str) -> str:
    """A model's name as part of a file's name.

    Example:
        >>> file_name("all 10 features")
        'all_10_features'
    """
    return re.sub(r"[^\w.-]+", "_", name).strip("_") or "model"


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    return buffer.getvalue()
