"""evidentia: Bayesian model evidence, online and at scale.

import evidentia as ev

model = ev.models.softmax_regression(num_features=10, num_classes=4)
evidence = ev.estimate(model, {"x": x, "y": y})
evidence.log_evidence, evidence.standard_error

Names are loaded on first use, so the import is fast and a command loads only what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; tests compare this list with the next one
    from evidentia import kernels as kernels
    from evidentia import latent as latent
    from evidentia.bounds import Sandwich, sandwich
    from evidentia.cluster.ray_executor import RayExecutor
    from evidentia.comparison import Comparison, compare
    from evidentia.compilation import use_compilation_cache
    from evidentia.data.sources import read_csv, read_parquet
    from evidentia.effects import group_effects, plot_effects
    from evidentia.errors import (
        CheckpointError,
        ConfigurationError,
        DataError,
        DiagnosticWarning,
        EstimationError,
        EvidenceWarning,
        EvidentiaError,
        ModelError,
    )
    from evidentia.estimation import estimate
    from evidentia.evidence import (
        AIS,
        AMIS,
        SGAIS,
        SMC,
        BridgeSampling,
        HarmonicMean,
        Jarzynski,
        Laplace,
        NestedSampling,
        OnlineNestedSampling,
        PriorSampling,
        Sequential,
        linear_schedule,
        sigmoid_schedule,
    )
    from evidentia.fleet import FleetEvidence, FleetRecord, FleetUpdate, estimate_many
    from evidentia.log_density import bridge_sampling_of
    from evidentia.model import Model
    from evidentia.model import built_in as models
    from evidentia.monitor.average import AverageUpdate, ModelAverage
    from evidentia.monitor.change import Change, ChangeDetector, ChangeReport
    from evidentia.monitor.density_histogram import DensityHistogram
    from evidentia.monitor.e_detector import EDetector
    from evidentia.monitor.prediction import Prediction
    from evidentia.online.online import Online, OnlineUpdate
    from evidentia.posterior import gradients
    from evidentia.regression import Regression, TermSelection, select_terms
    from evidentia.result import Evidence, load
    from evidentia.sensitivity import PriorSensitivity, prior_sensitivity
    from evidentia.streams import ChangeDetectorFleet, FleetStep, OnlineFleet, Stream
    from evidentia.trajectory import Trajectory

    __version__: str

_MODULES = {  # public names that are modules
    "gradients": "posterior.gradients",
    "kernels": "kernels",
    "latent": "latent",
    "models": "model.built_in",
}
_NAMES = {  # where the others are defined
    "bounds": ("Sandwich", "sandwich"),
    "cluster.ray_executor": ("RayExecutor",),
    "comparison": ("Comparison", "compare"),
    "compilation": ("use_compilation_cache",),
    "data.sources": ("read_csv", "read_parquet"),
    "effects": ("group_effects", "plot_effects"),
    "errors": (
        *("CheckpointError", "ConfigurationError", "DataError", "DiagnosticWarning", "EstimationError"),
        *("EvidenceWarning", "EvidentiaError", "ModelError"),
    ),
    "estimation": ("estimate",),
    "evidence": (
        *("AIS", "AMIS", "SGAIS", "SMC", "BridgeSampling", "HarmonicMean", "Jarzynski", "Laplace"),
        *("NestedSampling", "OnlineNestedSampling", "PriorSampling", "Sequential"),
        *("linear_schedule", "sigmoid_schedule"),
    ),
    "fleet": ("FleetEvidence", "FleetRecord", "FleetUpdate", "estimate_many"),
    "log_density": ("bridge_sampling_of",),
    "model": ("Model",),
    "monitor.average": ("AverageUpdate", "ModelAverage"),
    "monitor.change": ("Change", "ChangeDetector", "ChangeReport"),
    "monitor.density_histogram": ("DensityHistogram",),
    "monitor.e_detector": ("EDetector",),
    "monitor.prediction": ("Prediction",),
    "online.online": ("Online", "OnlineUpdate"),
    "regression": ("Regression", "TermSelection", "select_terms"),
    "result": ("Evidence", "load"),
    "sensitivity": ("PriorSensitivity", "prior_sensitivity"),
    "streams": ("ChangeDetectorFleet", "FleetStep", "OnlineFleet", "Stream"),
    "trajectory": ("Trajectory",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_HOMES, *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(f"evidentia.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(import_module(f"evidentia.{_HOMES[name]}"), name)
    elif name == "__version__":
        value = import_module("importlib.metadata").version("evidentia")
    else:
        raise AttributeError(f"module 'evidentia' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
