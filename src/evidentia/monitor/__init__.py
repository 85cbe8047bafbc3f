"""Monitoring of a stream: change detection, model averaging and prediction."""

from evidentia.monitor.average import AverageUpdate, ModelAverage
from evidentia.monitor.change import Change, ChangeDetector, ChangeReport
from evidentia.monitor.density_histogram import DensityHistogram
from evidentia.monitor.e_detector import EDetector
from evidentia.monitor.prediction import Prediction

__all__ = [
    "AverageUpdate",
    "Change",
    "ChangeDetector",
    "ChangeReport",
    "DensityHistogram",
    "EDetector",
    "ModelAverage",
    "Prediction",
]
