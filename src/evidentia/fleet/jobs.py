"""What an executor runs: a batch of small data sets of one shape, or one data set by `estimate`.

A job is a function of data that can be pickled, so it runs in any process.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np

from evidentia.data.arrays import with_rows
from evidentia.errors import quietly
from evidentia.estimation.estimate import Question, estimate
from evidentia.evidence.method import Method
from evidentia.fleet.batched import NUM_DRAWS, Weighted, batched
from evidentia.fleet.record import FleetEvidence, from_evidence, summarised
from evidentia.model.model import Model

BATCH = 64  # data sets of a compiled program; a smaller batch is filled up
MAX_ROWS = 2000  # above, `estimate` is efficient
MAX_PARAMETERS = 30  # of a model that is estimated in batches

_compiling = threading.Lock()
_compiled: set[tuple[Any, ...]] = set()

Models = Mapping[str, Model | Question]


class Dataset(NamedTuple):
    """A data set of a fleet: its position, its name, and its data, arrays if for batches."""

    position: int
    name: str | int
    data: Any


class Alone(NamedTuple):
    """A task that `estimate` has to take; `reason` is empty if that was the user's choice."""

    reason: str = ""


Outcome = FleetEvidence | Exception | Alone


def run_batch(models: Models, datasets: list[Dataset], seed: int) -> list[dict[str, Outcome]]:
    """The outcome of every model for each of several data sets of one shape."""
    count = max(_num_rows(each.data) for each in datasets)
    padded = _round_up(count)
    arrays = [jax.tree.map(lambda leaf: with_rows(leaf, padded), each.data) for each in datasets]
    filled = [min(which, len(arrays) - 1) for which in range(BATCH)]
    rows = jax.tree.map(lambda *leaves: np.stack([leaves[which] for which in filled]), *arrays)
    sizes = np.array([_num_rows(datasets[which].data) for which in filled])
    mask = np.arange(padded) < sizes[:, None]
    found: list[dict[str, Outcome]] = [{} for _ in datasets]
    for name, model in models.items():
        assert isinstance(model, Model)
        try:
            outcomes = _run_model(name, model, datasets, rows, mask, seed)
        except Exception:  # for each data set, `estimate` says what is wrong with it
            outcomes = [Alone("the batch failed")] * len(datasets)
        for one, outcome in zip(found, outcomes, strict=True):
            one[name] = outcome
    return found


def run_alone(
    models: Models, dataset: Dataset, reasons: Mapping[str, str], method: Method | None, seed: int
) -> dict[str, Outcome]:
    """The outcome of some models for one data set, by `estimate`."""
    found: dict[str, Outcome] = {}
    for name, reason in reasons.items():
        started = time.perf_counter()
        own_seed = seed_of(seed, dataset.name, name)
        try:
            with quietly():
                evidence = estimate(models[name], dataset.data, method=method or "auto", seed=own_seed)
            if not evidence.completed:
                raise KeyboardInterrupt
            found[name] = from_evidence(evidence, time.perf_counter() - started, reason)
        except Exception as error:
            found[name] = kept(error)
    return found


def kept(error: Exception) -> Exception:
    """The error without what it refers to, which would fill the memory or not be pickled."""
    error.evidence = None  # type: ignore[attr-defined]
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def seed_of(seed: int, *names: str | int) -> int:
    """The seed of a task: the same wherever and in whatever order tasks run.

    Example:
        >>> seed_of(0, "a", "linear") == seed_of(0, "a", "linear") != seed_of(1, "a", "linear")
        True
    """
    digest = hashlib.blake2b(repr((seed, *names)).encode(), digest_size=4)
    return int.from_bytes(digest.digest(), "big")


def shape_of(arrays: Any) -> tuple[Any, ...]:
    """What data sets of one batch share: structure, row shapes, dtypes, padded number of rows."""
    leaves, structure = jax.tree.flatten(arrays)
    return (
        structure,
        _round_up(_num_rows(arrays)),
        tuple((leaf.shape[1:], str(leaf.dtype)) for leaf in leaves),
    )


def is_small(arrays: Any) -> bool:
    """Whether a data set has few enough rows for a batch."""
    return _num_rows(arrays) <= MAX_ROWS


def _run_model(name, model: Model, datasets, rows, mask, seed) -> list[Outcome]:
    started = time.perf_counter()
    bound = model.bind(datasets[0].data)
    if bound.symmetry:
        return [Alone("the model has symmetries")] * len(datasets)
    if bound.num_parameters > MAX_PARAMETERS:
        return [Alone("the model has many parameters")] * len(datasets)
    refused = [_refusal(model, each) for each in datasets]
    seeds = [seed_of(seed, each.name, name) for each in datasets]
    filled = [seeds[min(which, len(seeds) - 1)] for which in range(len(mask))]
    with _compiling_once((bound, shape_of(datasets[0].data))):
        found = batched(bound, rows, mask, filled, seed_of(seed, name))[: len(datasets)]
    positions = np.concatenate([_positions(bound, each) for each in found])
    flat = bound.constrain(with_rows(positions, len(mask) * NUM_DRAWS))
    params = {key: np.asarray(value)[: len(positions)] for key, value in flat.items()}
    params = {key: value.reshape(len(found), -1, *value.shape[1:]) for key, value in params.items()}
    seconds = (time.perf_counter() - started) / len(datasets)
    outcomes: list[Outcome] = []
    for which, (dataset, error, weighted) in enumerate(zip(datasets, refused, found, strict=True)):
        if error is not None or isinstance(weighted, str):
            outcomes.append(error or Alone(str(weighted)))
            continue
        own = {key: value[which] for key, value in params.items()}
        outcomes.append(
            FleetEvidence(
                model.name,
                float(weighted.estimate.log_evidence),
                float(weighted.estimate.standard_error),
                _num_rows(dataset.data),
                seeds[which],
                seconds,
                *summarised(own, weighted.log_weights, seeds[which]),
                diagnostics={"way": "batched", **weighted.diagnostics},
            )
        )
    return outcomes


@contextmanager
def _compiling_once(program: tuple[Any, ...]) -> Iterator[None]:
    """One thread at a time until a program has run: two would compile it twice."""
    with _compiling if program not in _compiled else nullcontext():
        yield
    _compiled.add(program)


def _refusal(model: Model, dataset: Dataset) -> Exception | None:
    """The error of the model's own check of the data, if it has one."""
    try:
        with quietly():
            if model.check_data is not None:
                model.check_data(dataset.data)
    except Exception as error:
        return kept(error)
    return None


def _positions(bound, found: Weighted | str) -> np.ndarray:
    """Draws of a data set; any, if it has none, so that all batches have one shape."""
    return (
        np.zeros((NUM_DRAWS, bound.num_parameters), np.float32) if isinstance(found, str) else found.positions
    )


def _num_rows(arrays: Any) -> int:
    return len(jax.tree.leaves(arrays)[0])


def _round_up(rows: int) -> int:
    """Round up to one of eight sizes between two powers of two, at least 8."""
    step = max(8, (1 << (rows - 1).bit_length()) // 16)
    return -(-rows // step) * step
