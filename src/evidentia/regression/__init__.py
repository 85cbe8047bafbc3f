"""Regressions: a formula and a table in place of a model and arrays."""

from evidentia.regression.regression import Regression as Regression
