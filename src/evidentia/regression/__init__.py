"""Regressions: a formula and a table in place of a model and arrays."""

from evidentia.regression.regression import Regression as Regression
from evidentia.regression.selection import TermSelection as TermSelection
from evidentia.regression.selection import select_terms as select_terms
