"""The models that `--model` names: built-in ones, and users' own from Python files."""

import importlib.util
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidentia.cli.table import Table
from evidentia.errors import ConfigurationError, DataError, ModelError, near
from evidentia.model import built_in as models
from evidentia.model.model import Model
from evidentia.system.storage import place

BUILT_IN = ("linear", "softmax", "mixture")
OPTIONS = {"linear": ("noise_scale",), "softmax": ("num_classes",), "mixture": ("num_components",)}


def check_names(names: Sequence[str], target: str | None, options: Mapping[str, Any]) -> None:
    """Check model names, the target and model options before any file is read.

    Args:
        names: values of `--model`.
        target: value of `--target`.
        options: values of the models' options by name; None if not given.

    Raises:
        ConfigurationError: an unknown model, a missing or extra target, or an option of another
            model.
    """
    for name in names:
        _check_name(name, target)
    for option, value in options.items():
        if value is not None and not any(option in OPTIONS.get(name, ()) for name in names):
            owner = next(owner for owner, its_own in OPTIONS.items() if option in its_own)
            flag = option.replace("_", "-")
            raise ConfigurationError(
                f"--{flag} belongs to --model {owner}, not to --model {' or '.join(names)}. Leave it out."
            )


def _check_name(name: str, target: str | None) -> None:
    if name not in BUILT_IN and ":" not in name:
        hint = (
            " A model of your own is path/to/file.py:name."
            if not name.endswith(".py")
            else f" Write {name}:name."
        )
        raise ConfigurationError(f"--model must be one of {', '.join(BUILT_IN)}; got {name!r}.{hint}")
    if name in ("linear", "softmax") and target is None:
        raise ConfigurationError(f"--model {name} needs --target, the name of the column that it predicts.")
    if name == "mixture" and target is not None:
        raise ConfigurationError(
            "--model mixture has no target: it describes all columns, or those of --features. Leave --target out."
        )


def model_for(name: str, table: Table, options: Mapping[str, Any]) -> tuple[Model, Any]:
    """Return the named model for a table, and the table's data in the model's form.

    Raises:
        DataError: labels that are not classes.
        ModelError: a file without the model.
    """
    if name != "softmax" or not isinstance(table.data, dict):
        return named_model(name, len(table.features), options), table.data
    labels, num_classes = _labels(table.data["y"], table.target), options["num_classes"]
    if num_classes is None:
        num_classes = _count_classes(labels, table.target)
    model = named_model(name, len(table.features), {**options, "num_classes": num_classes})
    _check_range(labels, table.target, num_classes)
    return model, table.data | {"y": labels}


def named_model(name: str, num_features: int, options: Mapping[str, Any]) -> Model:
    """Return the named model. Raises ModelError for a file without the model."""
    given = {key: options[key] for key in OPTIONS.get(name, ()) if options[key] is not None}
    if name == "linear":
        return models.linear_regression(num_features, **given)
    if name == "softmax":
        return models.softmax_regression(num_features, **given)
    if name == "mixture":
        return models.gaussian_mixture(given.get("num_components", 2), num_features)
    return load_model(name)


def load_model(name: str, argument: str | None = None) -> Model:
    """Load an `evidentia.Model` or a NumPyro function from `path/to/file.py:name`.

    Args:
        name: of the file and in it.
        argument: what named it, for messages; by default --model.

    Raises:
        ModelError: a missing file or name, an error in the file, or an object that is not a model.
    """
    given = f"--model {name}" if argument is None else f"{argument}: {name}"
    file, _, attribute = name.rpartition(":")
    path = place(file)
    if not path.is_file() or path.suffix != ".py":
        raise ModelError(f"{given}: there is no Python file {path}. Write path/to/file.py:name.")
    public = {key: value for key, value in _executed(path).items() if not key.startswith("_")}
    if attribute not in public:
        raise ModelError(f"{given}: {path} defines no {attribute!r}. {near(attribute, list(public))}")
    value = public[attribute]
    if isinstance(value, Model):
        return value
    if not callable(value) or isinstance(value, type):
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
        raise ModelError(f"{given} must be an evidentia.Model or a NumPyro function; {attribute} is {kind}.")
    return Model.from_numpyro(value, name=attribute)


def _executed(path: Path) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # the suffix is .py
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
        ]
        where = f"line {lines[-1]} of {path}" if lines else str(path)
        raise ModelError(f"{where} cannot be run: {type(error).__name__}: {error}") from error
    return vars(module)


def _labels(values: np.ndarray, target: str | None) -> np.ndarray:
    """Convert the target to integers. Raises DataError for fractions and numbers beyond int32."""
    is_class = (values == np.floor(values)) & (np.abs(values) < 2**31)
    if values.dtype.kind == "f" and not is_class.all():
        raise DataError(
            f"the target {target!r} must hold the classes as whole numbers 0, 1, 2, ...; it holds "
            f"{values[~is_class][0]:g}. For a real target use --model linear."
        )
    return values.astype(np.int64)


def _check_range(labels: np.ndarray, target: str | None, num_classes: int) -> None:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise DataError(
            f"the target {target!r} must hold classes from 0 to {num_classes - 1} (--num-classes {num_classes}); it "
            f"holds numbers from {labels.min()} to {labels.max()}. Renumber the classes, or change --num-classes."
        )


def _count_classes(labels: np.ndarray, target: str | None) -> int:
    values = np.unique(labels)
    if np.array_equal(values, np.arange(len(values))) and len(values) > 1:
        return len(values)
    shown = ", ".join(str(int(value)) for value in values[:8]) + (", ..." if len(values) > 8 else "")
    raise DataError(
        f"the target {target!r} must hold at least two classes numbered 0, 1, 2, ... without gaps; it holds "
        f"{shown}. Renumber the classes, or give --num-classes if some of them do not occur."
    )
