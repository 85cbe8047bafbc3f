"""One model after the other: estimates with progress, and what is left of them when something stops the run."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import jax
import typer

from evidentia.cli import output
from evidentia.compilation import use_compilation_cache
from evidentia.demo import Candidate
from evidentia.errors import ConfigurationError, EvidentiaError
from evidentia.estimate import estimate
from evidentia.evidence.estimator import Estimator
from evidentia.result import Evidence

CompilationCache = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        envvar="EVIDENTIA_COMPILATION_CACHE",
        help="Where compiled programs are kept, or off. Default: the user's cache folder.",
    ),
]


def estimate_each(
    candidates: Sequence[Candidate], *, method: Estimator, seed: int, quiet: bool, plain: bool = False
) -> tuple[dict[str, Evidence], BaseException | None]:
    """Estimate the evidence of each candidate.

    Args:
        candidates: models with their data and names.
        method: the estimator's configuration.
        seed: the seed of every estimate.
        quiet: show no progress.
        plain: where stderr is no terminal, show progress as plain lines.

    Returns:
        The evidences by name, and None or what stopped the run: Ctrl-C or an EvidentiaError. The evidence of the model
        at work then is for the rows before that, with `completed=False`, or missing if there were none.
    """
    evidences: dict[str, Evidence] = {}
    for candidate in candidates:
        try:
            with (
                output.warnings_as_notes(),
                output.progress(candidate.name, quiet=quiet, plain=plain) as show,
            ):
                evidence = estimate(candidate.model, candidate.data, method=method, seed=seed, progress=show)
        except EvidentiaError as error:
            if error.evidence is not None:
                evidences[candidate.name] = error.evidence
            return evidences, error
        except KeyboardInterrupt as stop:
            return evidences, stop
        evidences[candidate.name] = evidence
        if not evidence.completed:
            return evidences, KeyboardInterrupt()
    return evidences, None


def check_seed(seed: int) -> None:
    """Raise ConfigurationError for a seed that is none, before anything else is done."""
    if not 0 <= seed < 2**32:
        raise ConfigurationError(f"--seed must be an integer from 0 to 4294967295; got {seed}.")


def keep_compiled_programs(folder: str | None) -> None:
    """Use the compilation cache in the folder that `--compilation-cache` names, or do not.

    Without it a command is slower and nothing else, so a folder that cannot be used, or a program there that
    cannot be read, is no reason for a message.
    """
    if folder == "off":
        return
    if not folder and (jax.config.values["jax_compilation_cache_dir"] or jax.__version_info__ < (0, 10, 2)):
        # A cache that the user has set for JAX stays. JAX 0.9 to 0.10.1 fills stderr with false alarms when it
        # loads programs on processors with AVX-512 (openxla/xla#44565).
        return
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
    with suppress(ConfigurationError):
        use_compilation_cache(folder or None)
