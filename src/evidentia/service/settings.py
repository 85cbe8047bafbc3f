"""The configuration of a service: TOML, checked by a schema before anything starts."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evidentia.data.files import near
from evidentia.errors import ConfigurationError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
Columns = Text | Annotated[list[Text], Field(min_length=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Table(BaseModel):
    """A table of the configuration: no unknown keys, and no conversion of strings to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Server(Table):
    """`[server]`: where the page, the API and the metrics are served.

    Attributes:
        host: address to bind to; by default only this machine reaches it.
        port: of TCP; 0 for any free one.
        token_env: environment variable with the token for requests that change something. Without
            it there are no such requests.
    """

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8377
    token_env: Text | None = None


class Webhook(Table):
    """`[webhooks.NAME]`: where alarms are sent, as CloudEvents.

    Attributes:
        url: http or https, without credentials.
        url_env: environment variable with the URL, for one that is a secret itself.
        token_env: environment variable with a bearer token.
        timeout: seconds for a request.
    """

    url: Annotated[str, Field(pattern=r"^https?://[^@\s]+$")] | None = None
    url_env: Text | None = None
    token_env: Text | None = None
    timeout: Annotated[float, Field(gt=0)] = 10.0


class Models(Table):
    """A monitor of kind "models": the log evidence of one or more models, and their weights.

    Attributes:
        columns: the columns of each array of the models' data, or those of the only array.
        models: by name: "linear", "softmax", "mixture", "path/to/file.py:name", or a table with
            this as its `type` and the options of that model.
        forgetting: α of `ModelAverage`.
    """

    kind: Literal["models"]
    columns: Columns | dict[str, Columns]
    models: Annotated[dict[Name, Text | dict[str, Any]], Field(min_length=1)]
    forgetting: Annotated[float, Field(gt=0, le=1)] = 1.0


class Changes(Table):
    """A monitor of kind "changes": a `ChangeDetector`; the fields are its arguments.

    Attributes:
        columns, model: as in `Models`.
    """

    kind: Literal["changes"]
    columns: Columns | dict[str, Columns]
    model: Text | dict[str, Any]
    false_alarm_rate: Rate = 1e-3
    on_change: Literal["restart", "forget"] | None = None
    max_candidates: Annotated[int, Field(ge=1)] = 8
    restart_every: Annotated[int, Field(ge=1)] = 1
    tempering: Annotated[float, Field(gt=0, le=1)] = 1.0


class RunLengthSettings(Table):
    """A monitor of kind "run_lengths": `RunLengths`; the fields are its arguments.

    Attributes:
        columns: of the rows: one for numbers, a list for vectors.
        model: a table: `type` is the class of `evidentia.monitor`, the rest its fields.
        hazard: a probability, or a table with the fields of `BetaHazard`.
    """

    kind: Literal["run_lengths"]
    columns: Columns
    model: dict[str, Any]
    hazard: Rate | dict[str, float | int] = 1 / 250
    max_runs: Annotated[int, Field(ge=2)] = 100
    threshold: Rate = 0.9


Monitor = Annotated[Models | Changes | RunLengthSettings, Field(discriminator="kind")]


class Stream(Table):
    """`[streams.NAME]`: a source of rows, and what is computed of them.

    Attributes:
        source: the URL of a broker's stream, or the path of a growing file of JSON lines.
        format: of the messages.
        options: of the broker's client; a table `{ env = "NAME" }` stands for a secret in the
            environment.
        key: the column by whose values rows are divided into streams of their own.
        time: the column with the time of a row, in seconds since 1970 or ISO 8601, for the lag.
        batch_size: rows of one key that update the monitors together.
        rejected: file for the rows that cannot be used, with the reasons.
        monitors: by name.
    """

    source: Text
    format: Literal["json", "arrow", "avro"] = "json"
    options: dict[str, Any] = {}
    key: Text | None = None
    time: Text | None = None
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    rejected: Text | None = None
    monitors: Annotated[dict[Name, Monitor], Field(min_length=1)]


class Settings(Table):
    """The whole configuration.

    Attributes:
        checkpoint: folder for the states of the streams; without one nothing survives the process.
        checkpoint_every: seconds between checkpoints.
        seed: of all models.
        server, streams, webhooks: tables.
    """

    checkpoint: Text | None = None
    checkpoint_every: Annotated[float, Field(ge=0)] = 10.0
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    server: Server = Server()
    streams: Annotated[dict[Name, Stream], Field(min_length=1)]
    webhooks: dict[Name, Webhook] = {}


def read_settings(path: Path) -> Settings:
    """The checked configuration in a TOML file; relative paths in it are those of its folder.

    Raises ConfigurationError, which names each wrong key, what was given and what is needed.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}.") from error
    return checked(content, str(path))


def checked(content: Mapping[str, Any], where: str = "the configuration") -> Settings:
    """Check a configuration that was read.

    Raises ConfigurationError, as `read_settings`.

    Example:
        >>> checked({"streams": {}})  # doctest: +SKIP
        Traceback (most recent call last):
        ...
        evidentia.errors.ConfigurationError: the configuration: streams must have at least 1 item; ...
    """
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        problems = [_problem(one, content) for one in error.errors(include_url=False)]
        unique = list(dict.fromkeys(problems))
        more = f" And {len(unique) - 5} more." if len(unique) > 5 else ""
        raise ConfigurationError(f"{where}: {' '.join(unique[:5])}{more}") from None
    for name, webhook in settings.webhooks.items():
        if (webhook.url is None) == (webhook.url_env is None):
            given = "neither" if webhook.url is None else "both"
            raise ConfigurationError(f"{where}: webhooks.{name} needs either url or url_env; got {given}.")
    return settings


def secret(name: str, key: str) -> str:
    """The value of an environment variable that a key of the configuration names.

    Raises ConfigurationError if it is not set; the value is in no message.
    """
    value = os.environ.get(name, "")
    if not value.strip():
        raise ConfigurationError(f"{key} names the environment variable {name}, which is not set. Set it.")
    return value.strip()


def resolved_options(options: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Options with the secrets that they name.

    Example:
        >>> os.environ["EXAMPLE"] = "secret"
        >>> resolved_options({"group": "a", "password": {"env": "EXAMPLE"}}, "streams.a.options")
        {'group': 'a', 'password': 'secret'}
    """
    return {
        name: secret(value["env"], f"{key}.{name}")
        if isinstance(value, Mapping) and list(value) == ["env"]
        else value
        for name, value in options.items()
    }


SHAPES = {  # of keys that take more than one type
    "columns": "the name of a column, a list of names, or (not for run_lengths) a table of these",
    "hazard": "a number between 0 and 1, or a table with the numbers alpha and beta",
    "model": "the name of a model, or a table with type and the model's options",
}
WORDS = (
    ("Input should", "must"),
    ("String should", "must"),
    ("List should", "must"),
    ("Dictionary should", "must"),
    ("a valid integer", "an integer"),
    ("a valid ", "a "),
    ("a dictionary or object to extract fields from", "a table"),
    ("a dictionary", "a table"),
)


def _problem(error: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """One sentence: the key, what is needed, what was given."""
    location = [part for part in error["loc"] if part != "[key]"]
    if len(location) > 4 and location[2] == "monitors":
        del location[4]  # the kind, by which the schema is chosen
    place = _place(location, content)
    key, kind, context = ".".join(place), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = _known_keys(location, content)
        return f"{key} is not a key of this table. {near(place[-1], known)}"
    if kind == "missing":
        return f"{key} is missing."
    if kind.startswith("union_tag"):
        expected = str(context.get("expected_tags", "'models', 'changes', 'run_lengths'"))
        kind_key = f"{key}.kind"
        given = f"got {context['tag']!r}" if "tag" in context else "it is missing"
        return f"{kind_key} must be one of {expected}; {given}."
    shape = "model" if place[-2:-1] == ["models"] and len(place) > 2 else place[-1]
    if shape in SHAPES and len(location) > len(place):
        needed = f"must be {SHAPES[shape]}"
    elif kind == "string_pattern_mismatch" and place[-1] != "url":
        needed = "must begin with a letter or digit, and hold only these and _ . -"
    elif kind == "string_pattern_mismatch":
        return f"{key} must be an http or https URL without credentials; see url_env and token_env."
    else:
        said = error["msg"].split(" after validation")[0]
        for before, after in WORDS:
            said = said.replace(before, after)
        needed = said
    given = "" if "options" in place else f"; got {_shown(error['input'])}"
    return f"{key} {needed}{given}."


def _place(location: Sequence[Any], content: Any) -> list[str]:
    """The keys of a location that are in the file, without the branches of a union."""
    found: list[str] = []
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(content, Mapping) and (part in content or (is_last and isinstance(part, str))):
            if is_last and part not in content and found and found[-1] in SHAPES:
                break
            found.append(str(part))
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            found.append(str(part))
            content = content[part]
    return found


def _known_keys(location: Sequence[Any], content: Mapping[str, Any]) -> list[str]:
    tables: dict[int, type[Table]] = {1: Settings, 2: Server}
    if location[0] == "streams":
        tables = {3: Stream}
        if len(location) > 4:
            kinds = {"models": Models, "changes": Changes, "run_lengths": RunLengthSettings}
            monitor: Any = content["streams"][location[1]]["monitors"][location[3]]
            return list(kinds[monitor["kind"]].model_fields)
    if location[0] == "webhooks":
        tables = {3: Webhook}
    return list(tables.get(len(location), Settings).model_fields)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
