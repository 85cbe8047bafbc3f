"""`estimate`: one call from a model and data to the log evidence. A thin shell around a method's init and update."""

import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

from evidentia import weights
from evidentia.errors import ConfigurationError, EstimationError, EvidenceWarning, ModelError
from evidentia.evidence import SGAIS
from evidentia.model import Model
from evidentia.progress import Update, progress_bar
from evidentia.result import Evidence, Trajectory
from evidentia.stream.arrays import as_arrays, chunks, num_rows


def estimate(
    model: Model,
    data: Any,
    *,
    method: SGAIS | None = None,
    seed: int = 0,
    progress: bool | Callable[[Update], None] = False,
) -> Evidence:
    """Estimate the log evidence log p(data) of a model, in nats.

    Args:
        model: a prior and a pointwise log-likelihood.
        data: one array, a tuple, or a mapping of arrays, all with observations on the leading axis (NumPy, JAX, pandas,
            Polars, Arrow). The built-in regressions take `{"x": (n, features), "y": (n,)}`.
        method: the estimator's configuration; `SGAIS()` if not given.
        seed: the same seed gives the same numbers on the same machine.
        progress: True for a bar on standard error, or a function that is called with an `Update` after each chunk.

    Returns:
        The log evidence with its standard error, its trajectory over the data, and the posterior. After Ctrl-C, the
        result for the rows taken in so far, with `completed=False`.

    Raises:
        DataError, ModelError: what cannot be used, and what is needed instead.
        ConfigurationError: a method or seed that is none.
        EstimationError: the log-likelihood is NaN at a particle, or -inf at all; its `evidence` holds the result for
            the rows before.

    Example:
        >>> model = ev.models.linear_regression(num_features=2)  # doctest: +SKIP
        >>> evidence = ev.estimate(model, {"x": x, "y": y})  # doctest: +SKIP
    """
    method = SGAIS() if method is None else method
    if not isinstance(model, Model):
        raise ModelError(
            f"model must be an evidentia.Model; got {type(model).__name__}. See Model.from_numpyro."
        )
    if not isinstance(method, SGAIS):
        raise ConfigurationError(f"method must be a configuration such as SGAIS(); got {method!r}.")
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ConfigurationError(f"seed must be an integer from 0 to 2**32 - 1; got {seed!r}.")
    started = time.perf_counter()
    arrays = as_arrays(data)
    if model.check_data is not None:
        model.check_data(arrays)
    bound = model.bind(arrays)
    state = method.init(bound, jax.random.key(seed))
    updates: list[Update] = []

    def result(completed: bool) -> Evidence:
        return _evidence(bound, method, state, updates, seed=int(seed), completed=completed)

    with _reporter(progress, bound.name) as report:
        try:
            for past, chunk in chunks(arrays, method.chunk_size, method.chunk_growth):
                state, info = method.update(bound, state, past, chunk)
                log_evidence, standard_error = method.summary(state)
                steps = info.num_annealing_steps + (updates[-1].num_annealing_steps if updates else 0)
                seconds = time.perf_counter() - started
                updates.append(
                    Update(
                        state.num_observations, num_rows(arrays), log_evidence, standard_error, steps, seconds
                    )
                )
                report(updates[-1])
        except KeyboardInterrupt:
            if not updates:
                raise
            message = f"stopped after {state.num_observations} of {num_rows(arrays)} observations"
            warnings.warn(f"{message}; the result is for those.", EvidenceWarning, stacklevel=2)
            return result(completed=False)
        except EstimationError as error:
            if updates:
                error.evidence = result(completed=False)
            raise
    return result(completed=True)


def _reporter(
    progress: bool | Callable[[Update], None], name: str
) -> AbstractContextManager[Callable[[Update], None]]:
    if callable(progress):
        return nullcontext(progress)
    return progress_bar(name) if progress else nullcontext(lambda update: None)


def _evidence(bound, method, state, updates: list[Update], *, seed: int, completed: bool) -> Evidence:
    columns = {name: np.array([asdict(update)[name] for update in updates]) for name in asdict(updates[0])}
    trajectory = Trajectory(
        num_observations=columns["num_observations"],
        log_evidence=columns["log_evidence"],
        standard_error=columns["standard_error"],
        num_annealing_steps=np.diff(columns["num_annealing_steps"], prepend=0),
        seconds=columns["seconds"],
    )
    last = updates[-1]
    return Evidence(
        log_evidence=last.log_evidence,
        standard_error=last.standard_error,
        num_observations=last.num_observations,
        trajectory=trajectory,
        posterior={name: np.asarray(values) for name, values in bound.constrain(state.positions).items()},
        log_weights=weights.normalise(state.log_weights),
        method=method,
        model_name=bound.name,
        seed=seed,
        seconds=last.seconds,
        completed=completed,
    )
