"""Conjugate models of one segment, whose posterior is a vector of numbers."""

from evidentia.monitor.conjugate.counts import BetaBernoulli, GammaPoisson
from evidentia.monitor.conjugate.normal import NormalInverseGamma, NormalMean
from evidentia.monitor.conjugate.protocol import Conjugate, WithMoments
from evidentia.monitor.conjugate.vectors import ConjugateRegression, NormalInverseWishart

__all__ = [
    "BetaBernoulli",
    "Conjugate",
    "ConjugateRegression",
    "GammaPoisson",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "NormalMean",
    "WithMoments",
]
