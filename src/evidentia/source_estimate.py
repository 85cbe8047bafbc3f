"""The log evidence of a source that is read once, row after row: `estimate` for data larger than memory."""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace

from evidentia.errors import DataError, EvidenceWarning, EvidentiaError
from evidentia.evidence.estimator import Estimator
from evidentia.model import Model
from evidentia.online import Online
from evidentia.progress import Update
from evidentia.result import Evidence
from evidentia.stream.batches import recut
from evidentia.stream.read_ahead import read_ahead
from evidentia.stream.sources import Source

BATCH_SIZE = 65_536  # rows taken in between two looks at the progress
STOPPED = "stopped after {}{} observations; the result is for those."


def estimate_source(
    model: Model,
    source: Source,
    method: Estimator,
    seed: int,
    report: Callable[[Update], None],
    started: float,
) -> Evidence:
    """The evidence of all rows of a source; after Ctrl-C, or in an error's `evidence`, that of the rows before."""
    online = Online(model, method, seed=seed)  # type: ignore[arg-type]
    num_steps = num_dropped = 0

    def result(*, completed: bool) -> Evidence:
        found = online.evidence()
        diagnostics = {**found.diagnostics, "num_dropped": num_dropped}
        return replace(
            found, seconds=time.perf_counter() - started, completed=completed, diagnostics=diagnostics
        )

    try:
        for batch in read_ahead(recut(source.batches(), BATCH_SIZE)):
            num_dropped += batch.num_dropped
            if not batch.num_rows:
                continue
            update = online.update(batch.arrays)
            num_steps += update.num_annealing_steps
            report(
                Update(
                    update.num_observations,
                    source.num_rows,
                    update.log_evidence,
                    update.standard_error,
                    num_steps,
                    time.perf_counter() - started,
                )
            )
        if online.num_observations < 2:
            raise DataError(
                f"data must have at least two observations; the source has {online.num_observations}."
            )
        if online.method.refresh:
            online.redraw()
    except KeyboardInterrupt:
        if not online.num_observations:
            raise
        message = STOPPED.format(
            online.num_observations, "" if source.num_rows is None else f" of {source.num_rows}"
        )
        warnings.warn(message, EvidenceWarning, stacklevel=3)
        return result(completed=False)
    except EvidentiaError as error:
        if online.num_observations:
            error.evidence = result(completed=False)
        raise
    return result(completed=True)
