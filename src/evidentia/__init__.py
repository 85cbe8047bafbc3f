"""evidentia: Bayesian model evidence, online and at scale.

import evidentia as ev

model = ev.models.softmax_regression(num_features=10, num_classes=4)
evidence = ev.estimate(model, {"x": x, "y": y})
evidence.log_evidence, evidence.standard_error
"""

from importlib.metadata import version

from evidentia import gradients, kernels, models
from evidentia.compare import Comparison, compare
from evidentia.compilation import use_compilation_cache
from evidentia.errors import (
    ConfigurationError,
    DataError,
    DiagnosticWarning,
    EstimationError,
    EvidenceWarning,
    EvidentiaError,
    ModelError,
)
from evidentia.estimate import estimate
from evidentia.evidence import SGAIS, NestedSampling, OnlineNestedSampling
from evidentia.model import Model
from evidentia.result import Evidence, Trajectory

__version__ = version("evidentia")

__all__ = [
    "SGAIS",
    "Comparison",
    "ConfigurationError",
    "DataError",
    "DiagnosticWarning",
    "EstimationError",
    "Evidence",
    "EvidenceWarning",
    "EvidentiaError",
    "Model",
    "ModelError",
    "NestedSampling",
    "OnlineNestedSampling",
    "Trajectory",
    "compare",
    "estimate",
    "gradients",
    "kernels",
    "models",
    "use_compilation_cache",
]
