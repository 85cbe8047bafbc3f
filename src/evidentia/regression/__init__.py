"""Regressions: a formula and a table in place of a model and arrays."""

from evidentia.regression.regression import Regression as Regression
from evidentia.regression.selection import select_terms as select_terms
from evidentia.regression.term_selection import TermSelection as TermSelection
