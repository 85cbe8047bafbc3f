"""A run of `evidentia stream`, from its arguments to its results."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import typer

from evidentia.brokers.place import START
from evidentia.brokers.source import BrokerSource
from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.checkpoint.journal import Journal
from evidentia.cli import output
from evidentia.cli.columns import arrays_of, features_of, listed, types_of
from evidentia.cli.results import Results, held
from evidentia.cli.stream.files import AnySource, KnownFile, check_files, file_names, known_files, place_in
from evidentia.cli.stream.live import is_live, open_stream
from evidentia.cli.stream.loop import Checkpoints, Stop, check_settings, consume, stop_on_signals
from evidentia.cli.stream.picture import stream_section
from evidentia.cli.stream.plan import Plan
from evidentia.cli.stream.session import RECORDS as SESSION_RECORDS
from evidentia.cli.stream.session import Session
from evidentia.cli.stream.view import describe, viewing
from evidentia.data.arrivals import arriving, stoppable
from evidentia.data.fingerprint import as_text
from evidentia.data.sources import open_source
from evidentia.errors import DataError, EvidentiaError
from evidentia.results.configurations import jsonable

# The classes that a run's checkpoint may contain.
RECORDS = SESSION_RECORDS | {"KnownFile": KnownFile}
NO_ROWS = {"num_observations": 0, "log_evidence": None, "completed": False}  # printed by --json


def run(plan: Plan) -> None:
    """Process the source, resuming from a checkpoint if there is one; show and write the results.

    Raises:
        EvidentiaError: any failure; earlier results are saved, written and shown.
        typer.Exit: after Ctrl-C.
    """
    checkpoint = None if plan.checkpoint is None else CheckpointFolder(plan.checkpoint)
    with (
        output.warnings_as_notes(),
        stop_on_signals() as stop,
        checkpoint or nullcontext() as folder,
        held(plan.out),
    ):
        content = read(folder.path, RECORDS)[0] if folder is not None and folder.has_checkpoint else None
        source = _opened(plan, stop)
        if source is None:
            output.show_note("Stopped before any rows arrived. An existing checkpoint is unchanged.")
            if plan.as_json:
                output.print_json(NO_ROWS, None)
        else:
            _stream(plan, source, stop, folder, content)
    if stop.signal == signal.SIGINT:
        raise typer.Exit(130)


def _stream(
    plan: Plan, source: AnySource, stop: Stop, folder: CheckpointFolder | None, content: Any | None
) -> None:
    features = features_of(source, plan.target)
    settings = plan.settings(features)
    if folder is not None and content is not None:
        check_settings(content, settings, folder)
        check_files(content["files"], source, folder.path)
    if isinstance(source, BrokerSource):
        source.resume(START if content is None else place_in(content["files"]))
    files = [] if folder is None else known_files(source)  # before any rows are read
    session = plan.session(len(features), content)
    resumed_from = session.num_observations if content is not None else None
    if resumed_from is not None and folder is not None:
        output.show_note(f"Resuming from {resumed_from:,} rows in the checkpoint in {folder.path}.")
    ends = {} if content is None else content["journals"]
    journal = None if plan.out is None else Journal(plan.out / "updates.jsonl", ends)
    checkpoints = Checkpoints(folder, plan.checkpoint_every, session, journal, ends, settings, source, files)
    with viewing(plan.quiet) as view:
        is_endless = plan.follow or is_live(plan.sources)
        completed, problem = consume(
            session, source, plan.batch_size, stop, checkpoints, view, is_endless=is_endless
        )
    if stop() and problem is None:
        _say_how_to_go_on(session, folder)
    if session.num_observations:
        names = file_names(source)
        data = {
            "file": _named(plan, source),
            "files": names,
            "target": plan.target,
            "features": features,
            "observations": as_text(session.observations),
        }
        results = _results(plan, session, data, completed, resumed_from)
        problem = results.deliver(plan.out, plan.as_json, problem, indent=None)
    elif completed:
        left_out = f"; {session.num_dropped:,} with missing values were dropped" * bool(session.num_dropped)
        problem = problem or DataError(f"{_named(plan, source)} has no rows to process{left_out}.")
    elif plan.as_json and problem is None:
        output.print_json(NO_ROWS, None)
    if problem is not None:
        raise problem


def _opened(plan: Plan, stop: Stop) -> AnySource | None:
    """Open the source; None if stopped while waiting for the first bytes of standard input."""

    def opened() -> Iterator[AnySource]:
        if is_live(plan.sources):
            yield open_stream(plan, stop.ends_reading)
            return
        stdin = stoppable(sys.stdin.fileno(), stop.ends_reading) if plan.sources == ["-"] else None
        yield open_source(
            plan.sources,
            lambda names: arrays_of(", ".join(plan.sources), names, plan.target, plan.features),
            missing=plan.missing,
            form=plan.form,
            types=lambda names: types_of(names, plan.target, list(plan.models.values())),
            follow=plan.follow,
            stop=stop.ends_reading if plan.follow else None,
            stdin=stdin,
        )

    try:
        for source in arriving(opened()):
            if source is not None or stop():
                return source
    except EvidentiaError:
        if not stop():  # else the stop caused the error
            raise
    return None


def _named(plan: Plan, source: AnySource) -> str:
    """The sources as they were given; of a broker, without credentials."""
    return source.name if isinstance(source, BrokerSource) else ", ".join(plan.sources)


def _say_how_to_go_on(session: Session, folder: CheckpointFolder | None) -> None:
    how = "the same command resumes from there" if folder else "with --checkpoint, the next run could resume"
    output.show_note(f"Stopped after {session.num_observations:,} rows; {how}.")


def _results(
    plan: Plan, session: Session, data: Mapping[str, Any], completed: bool, resumed_from: int | None
) -> Results:
    evidences = {
        name: replace(evidence, completed=completed) for name, evidence in session.evidences().items()
    }
    title = f"{', '.join(evidence.model_name for evidence in evidences.values())}: {data['file']}"
    more = _summary(session, completed, resumed_from)
    section = None if plan.out is None else stream_section(plan.out / "updates.jsonl")
    sections = [] if section is None else [section]
    return Results(title, evidences, _notes(session, data), data, more, sections)


def _summary(session: Session, completed: bool, resumed_from: int | None) -> dict[str, Any]:
    """Numbers for other programs: plain for one model, by name for several."""
    log_evidence = {name: online.log_evidence for name, online in session.onlines.items()}
    errors = {name: online.standard_error for name, online in session.onlines.items()}
    one = next(iter(log_evidence)) if len(log_evidence) == 1 else None
    return jsonable(
        {
            "num_observations": session.num_observations,
            "log_evidence": log_evidence if one is None else log_evidence[one],
            "standard_error": errors if one is None else errors[one],
            "probabilities": session.probabilities,
            "alarms": [alarm.to_dict() for alarm in session.alarms],
            "num_dropped": session.num_dropped,
            "num_read": session.position,
            "seconds": session.seconds,
            "resumed_from": resumed_from,
            "completed": completed,
        }
    )


def _notes(session: Session, data: Mapping[str, Any]) -> list[str]:
    target = f", target {data['target']}" if data["target"] is not None else ""
    features = listed(data["features"])
    notes = [f"{data['file']}: {session.num_observations:,} rows in order{target}, features: {features}."]
    if session.num_dropped:
        notes.append(f"{session.num_dropped:,} rows with missing values were dropped.")
    notes += [f"Alarm: {describe(alarm)}." for alarm in session.alarms]
    return notes
