"""Estimation of one model after the other, with progress; keeps results of interrupted runs."""

import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal

import jax
from rich.console import Console

from evidentia.cli import output
from evidentia.display.progress import Listener, plain_lines, progress_bar
from evidentia.errors import ConfigurationError, EvidentiaError
from evidentia.estimation.estimate import Question, estimate
from evidentia.evidence.method import Method
from evidentia.model.model import Model
from evidentia.results.result import Evidence
from evidentia.system.compilation import use_compilation_cache


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model and its data.

    Attributes:
        name: description for the table of results.
        model: a model, or a regression by formula.
        data: what the model takes.
    """

    name: str
    model: Model | Question
    data: Any


def estimate_each(
    candidates: Sequence[Candidate],
    *,
    method: Method | Literal["auto"],
    seed: int,
    quiet: bool,
    plain: bool = False,
    in_order: bool = False,
    max_seconds: float | None = None,
) -> tuple[dict[str, Evidence], BaseException | None]:
    """Estimate the evidence of each candidate.

    Args:
        candidates: models with their data and names.
        method: the estimator's configuration; "auto" for the default, or an exact result.
        seed: the seed of every estimate.
        quiet: show no progress.
        in_order: use rows in the order of the tables.
        max_seconds: of each estimate.
        plain: show progress as plain lines where stderr is not a terminal.

    Returns:
        The evidences by name, and the exception that stopped the run (Ctrl-C or an
        EvidentiaError), or None. A stopped model's evidence covers the rows so far, with
        `completed=False`; it is missing if there were none.
    """
    evidences: dict[str, Evidence] = {}
    for candidate in candidates:
        started = time.monotonic()
        try:
            with output.warnings_as_notes(), _progress(candidate.name, quiet, plain) as show:
                evidence = estimate(
                    candidate.model,
                    candidate.data,
                    method=method,
                    seed=seed,
                    in_order=in_order,
                    max_seconds=max_seconds,
                    progress=show,
                )
        except EvidentiaError as error:
            if error.evidence is not None:
                evidences[candidate.name] = error.evidence
            return evidences, error
        except KeyboardInterrupt as stop:
            return evidences, stop
        evidences[candidate.name] = evidence
        is_out_of_time = max_seconds is not None and time.monotonic() - started > max_seconds
        if not evidence.completed and not is_out_of_time:
            return evidences, KeyboardInterrupt()
    return evidences, None


def _progress(name: str, quiet: bool, plain: bool) -> AbstractContextManager[Listener]:
    """Progress bar on a terminal; elsewhere plain lines if `plain`, else nothing."""
    if quiet:
        return nullcontext(lambda update: None)
    if plain and not Console(stderr=True).is_terminal:
        return plain_lines(name)
    return progress_bar(name)


def keep_compiled_programs(folder: str | None) -> None:
    """Use the compilation cache of `--compilation-cache`, unless that is "off".

    The cache only saves time, so an unusable folder or an unreadable program in it gives no
    message.
    """
    if folder == "off" or (not folder and jax.config.values["jax_compilation_cache_dir"]):
        return  # keep a cache that the user has set for JAX
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
    with suppress(ConfigurationError):
        use_compilation_cache(folder or None)
