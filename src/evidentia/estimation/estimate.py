"""`estimate`: the log evidence of a model from data, in one call; runs a method."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal, Protocol, runtime_checkable

from jax.sharding import NamedSharding

from evidentia.cluster.engine import Engine
from evidentia.cluster.finding import engine_of
from evidentia.data.sharded import check_sharding, sharding_of
from evidentia.data.source import Source
from evidentia.display.progress import Update, reporter
from evidentia.errors import (
    ConfigurationError,
    DiagnosticWarning,
    EstimationError,
    ModelError,
    check_positive,
    check_seed,
    kind_of,
    warn,
)
from evidentia.estimation.choice import chosen_method, method_for_latents, suited
from evidentia.estimation.going_on import check_no_checkpoint, going_on, in_folders, limited
from evidentia.estimation.runs import check_elsewhere, drive, runs_over
from evidentia.estimation.target import to_target
from evidentia.evidence.likelihood import Likelihood
from evidentia.evidence.method import Method, check_method
from evidentia.model.local import Integrated
from evidentia.model.model import Model
from evidentia.model.outside import OutsideLikelihood
from evidentia.model.outside.run import check_arguments
from evidentia.model.width import Change, with_width
from evidentia.results.predicting import of_model
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths
from evidentia.system.sharing import check_not_forked


@runtime_checkable
class Question(Protocol):
    """What `estimate` takes in place of a model: it makes one of the data, or knows the answer."""

    def answer(self, data: Any, method: Method | None, seed: int, run: Callable[..., Evidence]) -> Evidence:
        """The evidence of the data; `run` estimates that of a model and arrays.

        It uses the method, or another: `run(model, arrays, method=…)`.
        """
        ...


def estimate(
    model: Model | Question,
    data: Any = None,
    *,
    method: Method | Literal["auto"] = "auto",
    seed: int = 0,
    target_standard_error: float | None = None,
    in_order: bool = False,
    sharding: NamedSharding | None = None,
    executor: Executor | None = None,
    max_seconds: float | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: bool | Callable[[Update], None] = False,
) -> Evidence:
    """Estimate the log evidence log p(data) of a model, in nats.

    Args:
        model: a prior and a pointwise log-likelihood; or a `Regression`, whose data are a table.
        data: one array, a tuple, or a mapping of arrays, all with observations on the leading axis
            (NumPy, JAX, pandas, Polars, Arrow). The built-in regressions take `{"x": (n,
            features), "y": (n,)}`. Or a source, such as `read_parquet` returns: it is read once,
            in order, by an `Online`, and may be larger than memory. Or rows on a cluster: a Dask
            data frame, a tuple or mapping of Dask collections, or a Ray dataset. If not given,
            those that the model brings along (`Model.data`).
        method: the configuration of a method. "auto" is `SGAIS()`, which tempers the likelihood
            where rows are few or depend on each other; or `AMIS()` for a likelihood outside JAX,
            which has no gradient. `diagnostics["chosen"]` says why. For a likelihood outside JAX,
            `NestedSampling()`, `SMC()` and `AIS()` use random walks, unless a kernel without
            gradients was chosen. A source takes the methods of `Online`.
        seed: the same seed gives the same numbers on the same machine.
        target_standard_error: in nats. If a run's standard error is larger, another run follows
            with as many more particles as needed, up to `MAX_PARTICLES`; if that is not enough, an
            EvidenceWarning is issued.
        in_order: use the rows in their order, as the trajectory over them then is. By default they
            are used in a random order, which depends on the seed and the number of rows alone: in
            sorted data the posterior moves far whenever new values begin, which costs accuracy. A
            source is always read in order.
        sharding: spreads the rows over the devices of its mesh, for `SGAIS` and `Laplace`. In
            several processes (`jax.distributed`) `data` are the rows of this process, and all
            processes make the same call. A source is read into memory. JAX arrays that are spread
            over devices already need no `sharding`.
        executor: of `concurrent.futures`, or of Dask or Ray: its workers read the partitions of a
            source, once for each look at all rows, for `SGAIS` and `Laplace`.
        max_seconds: since the call. Once they are over, the run ends after the step that it is in,
            and after the compilation of a program, with the result so far and `completed=False`:
            for methods that take rows in chunks that of the rows so far, for `NestedSampling` that
            of the points removed and those alive, for `AMIS`, `Laplace`, `PriorSampling`,
            `HarmonicMean` and `BridgeSampling` that of the draws so far, each with the standard
            error of that much. A path of temperatures (`SMC`, `AIS`, `Jarzynski`) has no result
            before its end: an EstimationError says how far it was.
        checkpoint: a folder that keeps what a run has computed, also if this process is killed:
            the same call again goes on where it was, and comes to the same numbers to the last
            bit. For a likelihood outside JAX (`Model.from_callable`) it keeps its evaluations,
            which serve a run with more particles, too.
        progress: True for a bar on standard error, or a function that is called with an `Update`
            after each chunk, or after each step of a method that uses all rows at once.

    Returns:
        The log evidence with its standard error, its trajectory over the data, and the posterior.
        After Ctrl-C or `max_seconds`, the result so far with `completed=False`; if there is none,
        as for `AIS` before its end, the KeyboardInterrupt propagates, or there is an
        EstimationError.

    Raises:
        DataError, ModelError: data or a model that cannot be used, and what is needed instead.
        ConfigurationError: an invalid method, seed, target or sharding; or this process was forked
            from one that had used JAX.
        EstimationError: the log-likelihood is NaN or +inf at a particle, or -inf at all particles;
            there is not enough memory, or workers of a cluster died; or `max_seconds` were over
            before there was a result. If an error occurs halfway, also in the data of a source,
            its `evidence` is the result for the rows before.
        CheckpointError: the folder of `checkpoint` is that of another call, or another model.

    Example:
        >>> model = ev.models.linear_regression(num_features=2)  # doctest: +SKIP
        >>> evidence = ev.estimate(model, {"x": x, "y": y})  # doctest: +SKIP
    """
    check_not_forked()
    _check_model(model)
    check_seed(seed)
    options: dict[str, Any] = {
        "target_standard_error": target_standard_error,
        "in_order": in_order,
        "progress": progress,
    }
    with limited(max_seconds, checkpoint):
        if isinstance(model, Question):
            if sharding is not None or executor is not None:
                raise ConfigurationError(
                    "sharding and executor need an evidentia.Model with arrays. A Regression takes a Dask data frame or "
                    "a Ray dataset as it is."
                )
            run = in_folders(partial(estimate, method=method, seed=seed, **options), checkpoint)
            return model.answer(data, None if method == "auto" else method, int(seed), run)
        chosen, reason = chosen_method(model) if method == "auto" else (method, "")
        _check(chosen, model, seed, target_standard_error)
        elsewhere = {"sharding": sharding, "executor": executor}
        return _estimated(
            model, data, chosen, reason, int(seed), checkpoint=checkpoint, **elsewhere, **options
        )


def _estimated(
    model: Model,
    data: Any,
    chosen: Any,
    reason: str,
    seed: int,
    *,
    checkpoint: str | PathLike[str] | None,
    progress: bool | Callable[[Update], None],
    **options: Any,
) -> Evidence:
    """The evidence by the chosen method, or one that suits the model once it is bound."""
    target, in_order = options["target_standard_error"], options["in_order"]
    sharding, executor = options["sharding"], options["executor"]
    check_arguments(model.log_likelihood, model.name, data, executor, sharding)
    chosen = suited(chosen, model)
    started = time.perf_counter()
    if data is None:
        model = model.with_own_data()
    rows = model.data if data is None else data
    elsewhere = _elsewhere(rows, sharding, executor)
    if elsewhere is not None:
        check_elsewhere(chosen, in_order)
        check_no_checkpoint(checkpoint)
    runs = runs_over(model, rows, seed, in_order, elsewhere, started)
    if reason and isinstance(runs.log_likelihood, Integrated):
        assert runs.num_rows is not None  # latents of a source's rows are refused
        chosen, reason = method_for_latents(runs.num_rows)
    if runs.is_constant:
        chosen = Likelihood(num_particles=chosen.num_particles)
        reason = "the likelihood itself, as it uses no parameters: the evidence is exact"
    call = {"model": model.name, "method": chosen, "seed": seed, "data": dict(runs.fingerprints)}
    call |= {"in_order": in_order, "target_standard_error": target}
    with (
        reporter(progress, model.name) as report,
        _explained(runs.note),
        going_on(model.log_likelihood, checkpoint, call) as recorded,
    ):
        evidence, messages = to_target(
            lambda method: drive(runs.start(method), report, recorded), chosen, target
        )
    if reason:
        evidence = replace(evidence, diagnostics={**evidence.diagnostics, "chosen": reason})
    warn(messages)
    warn(evidence.signs.values(), DiagnosticWarning)
    # Evaluations of a likelihood serve any run of it; the steps of a run serve that alone.
    kept = checkpoint if isinstance(model.log_likelihood, OutsideLikelihood) else None
    again = partial(estimate, data=data, method=chosen, seed=seed, checkpoint=kept, **options)
    evidence = replace(evidence, _predictor=of_model(model))
    if elsewhere is None and not isinstance(rows, Source):
        evidence = _with_data(evidence, model, rows)
    return _with_new_runs(evidence, lambda factor, names: again(with_width(model, factor, names)))


def _elsewhere(
    data: Any, sharding: NamedSharding | None, executor: Executor | None
) -> NamedSharding | Engine | None:
    """Where the rows are, or are to be, unless in the memory of this process."""
    engine = engine_of(data, executor)
    if engine is None:
        return sharding_of(data) if sharding is None else check_sharding(sharding)
    if sharding is not None:
        raise ConfigurationError(
            "sharding is for rows in memory; rows on a cluster stay in their partitions."
        )
    return engine


def _with_data(evidence: Evidence, model: Model, data: Any) -> Evidence:
    """The result with the means to compute its log-likelihood anew."""
    known = evidence.weighted.model
    assert known is not None
    known = replace(known, model=model, data=data)
    return replace(evidence, weighted=replace(evidence.weighted, model=known))


def _with_new_runs(evidence: Evidence, run: Callable[[float, tuple[str, ...]], Evidence]) -> Evidence:
    """The result with the means to run its model anew with wider priors."""

    def change(factor: float, parameters: tuple[str, ...]) -> Change:
        other = run(factor, parameters)
        error = math.hypot(other.standard_error, evidence.standard_error)
        return Change(other.log_evidence - evidence.log_evidence, error, is_new_run=True)

    if evidence.widths is None:  # results show something else than the parameters
        return evidence
    assert isinstance(evidence.widths, ModelWidths)
    return replace(evidence, widths=replace(evidence.widths, new_run=change))


@contextmanager
def _explained(note: Callable[[], str]) -> Generator[None, None, None]:
    """Add to an error what explains it, such as how rows are numbered."""
    try:
        yield
    except EstimationError as error:
        if text := note():
            error.add_note(text)
        raise


def _check_model(model: Any) -> None:
    if isinstance(model, type) or not isinstance(model, Model | Question):
        hint = (
            f"A formula is ev.Regression({model!r})" if isinstance(model, str) else "See Model.from_numpyro"
        )
        raise ModelError(f"model must be an evidentia.Model or a Regression; got {kind_of(model)}. {hint}.")


def _check(method: Any, model: Any, seed: Any, target: float | None) -> None:
    check_method("method", method, f"{type(chosen_method(model)[0]).__name__}()")
    check_seed(seed)
    if target is not None:
        check_positive("target_standard_error", target)
