"""The configuration of a service: TOML, checked by a schema before anything starts."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evidentia.errors import ConfigurationError
from evidentia.service.problems import problem

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
        payload: the form of the messages.
        options: of the broker's client.
        key: the column by whose values rows are divided into streams of their own.
        time: the column with the time of a row, in seconds since 1970 or ISO 8601, for the lag.
        batch_size: rows of one key that update the monitors together.
        dead_letters: file for messages with rows that cannot be used, with the reasons.
        monitors: by name.
    """

    source: Text
    payload: Literal["json", "arrow", "avro"] = "json"
    options: dict[str, Any] = {}
    key: Text | None = None
    time: Text | None = None
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    dead_letters: Text | None = None
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
        evidentia.errors.ConfigurationError: the configuration: streams must have at least ...
    """
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        problems = [problem(one, content, _keys_at) for one in error.errors(include_url=False)]
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


def _keys_at(location: Sequence[Any], content: Mapping[str, Any]) -> list[str]:
    """The keys of the table in which the last part of a location stands."""
    tables: dict[str, type[Table]] = {"server": Server, "streams": Stream, "webhooks": Webhook}
    if len(location) > 4:
        kinds = {"models": Models, "changes": Changes, "run_lengths": RunLengthSettings}
        monitor: Any = content["streams"][location[1]]["monitors"][location[3]]
        return list(kinds[monitor["kind"]].model_fields)
    table = tables[location[0]] if len(location) > 1 else Settings
    return list(table.model_fields)
