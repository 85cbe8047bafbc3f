"""The monitors that settings describe, with their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evidentia import monitor
from evidentia.errors import ConfigurationError, EvidentiaError, near
from evidentia.model import built_in
from evidentia.model.model import Model
from evidentia.monitor.conjugate import Conjugate
from evidentia.monitor.hazards import BetaHazard
from evidentia.monitor.run_lengths import RunLengths
from evidentia.service import settings as schema
from evidentia.service.monitor_kinds import ChangesMonitor, ModelsMonitor, RunLengthsMonitor
from evidentia.service.monitors import Monitor

Loader = Callable[[str, str], Model]  # of "path/to/file.py:name", and the key for messages
FAMILIES = (
    *("BetaBernoulli", "ConjugateRegression", "GammaPoisson", "NormalInverseGamma"),
    *("NormalInverseWishart", "NormalMean"),
)
BUILT_IN: dict[str, Callable[..., Model]] = {
    "linear": built_in.linear_regression,
    "softmax": built_in.softmax_regression,
    "mixture": built_in.gaussian_mixture,
}


def columns_of(settings: schema.Models | schema.Changes | schema.RunLengthSettings) -> list[str]:
    """The columns that a monitor uses, each once."""

    def names(columns: Any) -> list[str]:
        if isinstance(columns, Mapping):
            return [name for each in columns.values() for name in names(each)]
        return [columns] if isinstance(columns, str) else list(columns)

    return list(dict.fromkeys(names(settings.columns)))


def integers_of(settings: schema.Models | schema.Changes | schema.RunLengthSettings) -> list[str]:
    """The columns of a monitor that hold classes, which models take as integers."""
    if isinstance(settings, schema.RunLengthSettings) or not isinstance(settings.columns, dict):
        return []
    given = settings.models.values() if isinstance(settings, schema.Models) else [settings.model]
    labels = settings.columns.get("y")
    is_softmax = any(_type_of(model) == "softmax" for model in given)
    return [labels] if is_softmax and isinstance(labels, str) else []


def monitor_of(
    settings: schema.Models | schema.Changes | schema.RunLengthSettings, seed: int, key: str, load: Loader
) -> Monitor:
    """The monitor that settings describe.

    Args:
        settings: of the monitor.
        seed: of its models.
        key: of the settings, for messages.
        load: loads a model of the user's.

    Raises:
        ConfigurationError, ModelError: a model that cannot be made, named by its key.
    """
    if isinstance(settings, schema.RunLengthSettings):
        model = _family(settings.model, f"{key}.model")
        hazard = settings.hazard
        if isinstance(hazard, dict):
            hazard = _made(BetaHazard, hazard, f"{key}.hazard")
        template = RunLengths(
            model, hazard, max_runs=settings.max_runs, threshold=settings.threshold, history=0
        )
        return RunLengthsMonitor(type(model).__name__, template, settings.columns)
    columns = settings.columns
    if isinstance(settings, schema.Models):
        models = {
            name: _model(given, columns, f"{key}.models.{name}", load)
            for name, given in settings.models.items()
        }
        return ModelsMonitor(models, columns, settings.forgetting, seed)
    model = _model(settings.model, columns, f"{key}.model", load)
    return ChangesMonitor(_type_of(settings.model).rpartition(":")[2], model, settings, seed)


def _type_of(given: str | Mapping[str, Any]) -> str:
    return given if isinstance(given, str) else str(given.get("type", ""))


def _model(given: str | Mapping[str, Any], columns: Any, key: str, load: Loader) -> Model:
    name = _type_of(given)
    options = {} if isinstance(given, str) else {one: given[one] for one in given if one != "type"}
    if ":" in name:
        if options:
            raise ConfigurationError(
                f"{key}: a model of your own has no options; got {', '.join(options)}. Leave them out."
            )
        return load(name, key)
    if name not in BUILT_IN:
        raise ConfigurationError(
            f"{key} must be one of {', '.join(BUILT_IN)}, or path/to/file.py:name; got {name!r}."
        )
    if name == "mixture":
        if not isinstance(columns, list):
            raise ConfigurationError(f"{key}: mixture needs columns as a list of names; got {columns!r}.")
        return _made(
            built_in.gaussian_mixture, {"num_components": 2, "num_features": len(columns)} | options, key
        )
    features = columns.get("x") if isinstance(columns, Mapping) else None
    if not isinstance(features, list) or set(columns) != {"x", "y"}:
        raise ConfigurationError(
            f"{key}: {name} needs columns as a table of x, a list of names, and y, a name; got {columns!r}."
        )
    return _made(BUILT_IN[name], {"num_features": len(features)} | options, key)


def _family(given: Mapping[str, Any], key: str) -> Conjugate:
    name = str(given.get("type", ""))
    if name not in FAMILIES:
        hint = near(name, FAMILIES)
        raise ConfigurationError(f"{key}.type must be one of {', '.join(FAMILIES)}; got {name!r}. {hint}")
    return _made(getattr(monitor, name), {one: given[one] for one in given if one != "type"}, key)


def _made(make: Callable[..., Any], fields: Mapping[str, Any], key: str) -> Any:
    """The object that a function makes of the fields in a table; errors name the table's key."""
    try:
        return make(**fields)
    except TypeError as error:  # an unknown field, or one of a wrong type
        reason = str(error).partition("() ")[2] or str(error)
        raise ConfigurationError(f"{key}: {make.__name__} {reason}.") from error
    except EvidentiaError as error:
        raise ConfigurationError(f"{key}: {error}") from error
