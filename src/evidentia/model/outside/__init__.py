"""Likelihoods outside JAX: functions of NumPy arrays, evaluated at points and remembered."""

from evidentia.model.outside.evaluations import Evaluations
from evidentia.model.outside.likelihood import OutsideLikelihood, outside_likelihood

__all__ = ["Evaluations", "OutsideLikelihood", "outside_likelihood"]
