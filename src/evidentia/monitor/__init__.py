"""Monitoring of a stream: change detection, run lengths, model averaging and prediction."""

from evidentia.monitor.average import ModelAverage
from evidentia.monitor.average_records import AverageUpdate
from evidentia.monitor.change import ChangeDetector
from evidentia.monitor.change_records import ChangeReport
from evidentia.monitor.conjugate import (
    BetaBernoulli,
    Conjugate,
    ConjugateRegression,
    GammaPoisson,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalMean,
    WithMoments,
)
from evidentia.monitor.density_histogram import DensityHistogram
from evidentia.monitor.e_detector import Change, EDetector
from evidentia.monitor.hazards import BetaHazard
from evidentia.monitor.online_run_lengths import OnlineRunLengths
from evidentia.monitor.pictures import plot_updates
from evidentia.monitor.prediction import Prediction
from evidentia.monitor.run_changes import HazardPosterior, RunChange, RunLength
from evidentia.monitor.run_length_records import OnlineRunLengthUpdate, RunLengthUpdate
from evidentia.monitor.run_lengths import RunLengths

__all__ = [
    "AverageUpdate",
    "BetaBernoulli",
    "BetaHazard",
    "Change",
    "ChangeDetector",
    "ChangeReport",
    "Conjugate",
    "ConjugateRegression",
    "DensityHistogram",
    "EDetector",
    "GammaPoisson",
    "HazardPosterior",
    "ModelAverage",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "NormalMean",
    "OnlineRunLengthUpdate",
    "OnlineRunLengths",
    "Prediction",
    "RunChange",
    "RunLength",
    "RunLengthUpdate",
    "RunLengths",
    "WithMoments",
    "plot_updates",
]
