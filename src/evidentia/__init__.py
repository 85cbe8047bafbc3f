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
    from evidentia import bf as bf
    from evidentia import brokers as brokers
    from evidentia import kernels as kernels
    from evidentia import latent as latent
    from evidentia.data.sources import read_csv as read_csv
    from evidentia.data.sources import read_parquet as read_parquet
    from evidentia.errors import CheckpointError as CheckpointError
    from evidentia.errors import ConfigurationError as ConfigurationError
    from evidentia.errors import DataError as DataError
    from evidentia.errors import DiagnosticWarning as DiagnosticWarning
    from evidentia.errors import EstimationError as EstimationError
    from evidentia.errors import EvidenceWarning as EvidenceWarning
    from evidentia.errors import EvidentiaError as EvidentiaError
    from evidentia.errors import ModelError as ModelError
    from evidentia.estimation.bounds import sandwich as sandwich
    from evidentia.estimation.effects import group_effects as group_effects
    from evidentia.estimation.effects import plot_effects as plot_effects
    from evidentia.estimation.estimate import estimate as estimate
    from evidentia.estimation.log_density import bridge_sampling_of as bridge_sampling_of
    from evidentia.evidence import AIS as AIS
    from evidentia.evidence import AMIS as AMIS
    from evidentia.evidence import SGAIS as SGAIS
    from evidentia.evidence import SMC as SMC
    from evidentia.evidence import BridgeSampling as BridgeSampling
    from evidentia.evidence import HarmonicMean as HarmonicMean
    from evidentia.evidence import Jarzynski as Jarzynski
    from evidentia.evidence import Laplace as Laplace
    from evidentia.evidence import NestedSampling as NestedSampling
    from evidentia.evidence import OnlineNestedSampling as OnlineNestedSampling
    from evidentia.evidence import PriorSampling as PriorSampling
    from evidentia.evidence import Sequential as Sequential
    from evidentia.fleet import FleetEvidence as FleetEvidence
    from evidentia.fleet import estimate_many as estimate_many
    from evidentia.model import Model as Model
    from evidentia.model import built_in as models  # pyright: ignore[reportUnusedImport]
    from evidentia.monitor.average import ModelAverage as ModelAverage
    from evidentia.monitor.change import ChangeDetector as ChangeDetector
    from evidentia.online.online import Online as Online
    from evidentia.posterior import gradients as gradients
    from evidentia.regression import Regression as Regression
    from evidentia.regression import select_terms as select_terms
    from evidentia.results.comparing import compare as compare
    from evidentia.results.comparison import Comparison as Comparison
    from evidentia.results.comparison_plot import plot_comparison as plot_comparison
    from evidentia.results.loading import load as load
    from evidentia.results.result import Evidence as Evidence
    from evidentia.results.sensitivity import prior_sensitivity as prior_sensitivity
    from evidentia.streams import ChangeDetectorFleet as ChangeDetectorFleet
    from evidentia.streams import OnlineFleet as OnlineFleet
    from evidentia.system.compilation import use_compilation_cache as use_compilation_cache
    from evidentia.trajectory import Trajectory as Trajectory

    __version__: str

_MODULES = {  # public names that are modules
    "bf": "bf",
    "brokers": "brokers",
    "gradients": "posterior.gradients",
    "kernels": "kernels",
    "latent": "latent",
    "models": "model.built_in",
}
_NAMES = {  # where the others are defined
    "estimation.bounds": ("sandwich",),
    "results.comparing": ("compare",),
    "results.comparison": ("Comparison",),
    "results.comparison_plot": ("plot_comparison",),
    "system.compilation": ("use_compilation_cache",),
    "data.sources": ("read_csv", "read_parquet"),
    "estimation.effects": ("group_effects", "plot_effects"),
    "errors": (
        *("CheckpointError", "ConfigurationError", "DataError", "DiagnosticWarning", "EstimationError"),
        *("EvidenceWarning", "EvidentiaError", "ModelError"),
    ),
    "estimation.estimate": ("estimate",),
    "evidence": (
        *("AIS", "AMIS", "SGAIS", "SMC", "BridgeSampling", "HarmonicMean", "Jarzynski", "Laplace"),
        *("NestedSampling", "OnlineNestedSampling", "PriorSampling", "Sequential"),
    ),
    "fleet": ("FleetEvidence", "estimate_many"),
    "estimation.log_density": ("bridge_sampling_of",),
    "model": ("Model",),
    "monitor.average": ("ModelAverage",),
    "monitor.change": ("ChangeDetector",),
    "online.online": ("Online",),
    "regression": ("Regression", "select_terms"),
    "results.loading": ("load",),
    "results.result": ("Evidence",),
    "results.sensitivity": ("prior_sensitivity",),
    "streams": ("ChangeDetectorFleet", "OnlineFleet"),
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
