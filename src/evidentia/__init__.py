"""evidentia: Bayesian model evidence, online and at scale.

import evidentia as ev

model = ev.models.softmax_regression(num_features=10, num_classes=4)
evidence = ev.estimate(model, {"x": x, "y": y})
evidence.log_evidence, evidence.standard_error
"""

from importlib.metadata import version

from evidentia import gradients, kernels, latent, models
from evidentia.average import AverageUpdate, ModelAverage
from evidentia.change import Change, ChangeDetector, ChangeReport
from evidentia.compare import Comparison, compare
from evidentia.compilation import use_compilation_cache
from evidentia.density_histogram import DensityHistogram
from evidentia.e_detector import EDetector
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
from evidentia.estimate import estimate
from evidentia.evidence import (
    AIS,
    SGAIS,
    SMC,
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
from evidentia.model import Model
from evidentia.online import Online, OnlineUpdate
from evidentia.prediction import Prediction
from evidentia.result import Evidence, Trajectory
from evidentia.sandwich import Sandwich, sandwich
from evidentia.stream.sources import read_csv, read_parquet

__version__ = version("evidentia")

__all__ = [
    "AIS",
    "SGAIS",
    "SMC",
    "AverageUpdate",
    "Change",
    "ChangeDetector",
    "ChangeReport",
    "CheckpointError",
    "Comparison",
    "ConfigurationError",
    "DataError",
    "DensityHistogram",
    "DiagnosticWarning",
    "EDetector",
    "EstimationError",
    "Evidence",
    "EvidenceWarning",
    "EvidentiaError",
    "HarmonicMean",
    "Jarzynski",
    "Laplace",
    "Model",
    "ModelAverage",
    "ModelError",
    "NestedSampling",
    "Online",
    "OnlineNestedSampling",
    "OnlineUpdate",
    "Prediction",
    "PriorSampling",
    "Sandwich",
    "Sequential",
    "Trajectory",
    "compare",
    "estimate",
    "gradients",
    "kernels",
    "latent",
    "linear_schedule",
    "models",
    "read_csv",
    "read_parquet",
    "sandwich",
    "sigmoid_schedule",
    "use_compilation_cache",
]
