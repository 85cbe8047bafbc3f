"""The posterior of a sub-model and of all that differ from it by one term, from shared sums.

Sweep the correlations of columns and response with the columns K of a model (Beaton 1964):

    B = C_KK⁻¹ C_Ky,    S = C - C_·K C_KK⁻¹ C_K·,    1 - R² = S_yy.

Adding the columns J of a term changes R² by S_yJ S_JJ⁻¹ S_Jy, and leaving them out by -B_J'
((C_KK⁻¹)_JJ)⁻¹ B_J. So one sweep serves all neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from evidentia.regression.g_prior import SAME, Sums
from evidentia.regression.g_prior_models import FactorTable, fits_of
from evidentia.regression.model_space import ModelSpace


class Neighbourhood(NamedTuple):
    """Of a model: its log posterior up to a constant, and what changes it by one term.

    Attributes:
        log_joint: log Bayes factor and log prior probability, in nats.
        log_odds: log posterior of the model with this term changed, less that of the model.
        allowed: whether the changed model is well formed.
    """

    log_joint: float
    log_odds: Float[ndarray, " terms"]
    allowed: Bool[ndarray, " terms"]


class Neighbours:
    """Computes neighbourhoods of the models of a regression under a g prior.

    Args:
        sums: of the data.
        scale: r of the JZS prior; None for the unit-information prior.
        space: the models.
        terms_of_columns: the place of the term of each column.
    """

    def __init__(
        self, sums: Sums, scale: float | None, space: ModelSpace, terms_of_columns: Int[ndarray, " columns"]
    ):
        self._sums, self._space, self._owner = sums, space, terms_of_columns
        whole = fits_of(sums, np.ones((1, len(terms_of_columns)), bool))
        self._factors = FactorTable(sums, scale, float(whole.unexplained[0]))
        columns = [np.flatnonzero(terms_of_columns == term) for term in range(len(space.terms))]
        widths = np.array([len(one) for one in columns])
        self._by_width = [
            (terms, np.array([columns[term] for term in terms]))
            for terms in (np.flatnonzero(widths == width) for width in np.unique(widths[widths > 0]))
        ]

    def columns_of(self, models: Bool[ndarray, "models terms"]) -> Bool[ndarray, "models columns"]:
        """The columns of models."""
        return models[:, self._owner]

    def of(self, model: Bool[ndarray, " terms"]) -> Neighbourhood:
        """The neighbourhood of a model, as whether it has each term."""
        swept = self._swept(self.columns_of(model[None])[0])
        unexplained, ranks = swept if swept is not None else self._one_by_one(model)
        sizes = model.sum() + np.append(np.where(model, -1, 1), 0)
        log_joints = self._factors(unexplained, ranks) + self._space.log_prior[sizes]
        needs = self._space.needs
        allowed = np.where(model, ~needs[model].any(axis=0), ~(needs & ~model).any(axis=1))
        return Neighbourhood(float(log_joints[-1]), log_joints[:-1] - log_joints[-1], allowed)

    def _swept(self, columns: Bool[ndarray, " columns"]) -> tuple[ndarray, ndarray] | None:
        """1 - R² and rank of the models with one term changed, and last of this one.

        None if its columns are collinear.
        """
        places, correlations = np.flatnonzero(columns), self._sums.correlations
        rows = correlations[places]
        try:
            lower = np.linalg.cholesky(rows[:, places])
        except np.linalg.LinAlgError:
            return None
        if len(places) and lower.diagonal().min() ** 2 <= SAME * len(places):
            return None
        root = np.linalg.inv(lower)  # SciPy's solve_triangular waits for threads: 1 ms on a busy machine
        first = root @ rows
        swept = correlations - first.T @ first
        matrix, vector = swept[:-1, :-1], swept[:-1, -1].copy()
        matrix[places[:, None], places] = root.T @ root
        vector[places] = root.T @ first[:, -1]
        unexplained = np.full(len(self._space.terms) + 1, swept[-1, -1])
        ranks = np.full(len(unexplained), len(places))
        for terms, own in self._by_width:
            inside = columns[own[:, 0]]
            change, rank = _changes(matrix, vector, own, np.where(inside, 0.0, SAME * (len(places) + 1)))
            sign = np.where(inside, -1, 1)
            unexplained[terms] -= sign * change
            ranks[terms] += sign * rank
        return unexplained, ranks

    def _one_by_one(self, model: Bool[ndarray, " terms"]) -> tuple[ndarray, ndarray]:
        count = len(model)
        models = np.append(model ^ np.eye(count, dtype=bool), model[None], axis=0)
        fits = fits_of(self._sums, self.columns_of(models))
        return fits.unexplained, fits.ranks


def _changes(
    matrix: Float[ndarray, "columns columns"],
    vector: Float[ndarray, " columns"],
    own: Int[ndarray, "terms width"],
    least: Float[ndarray, " terms"],
) -> tuple[Float[ndarray, " terms"], Int[ndarray, " terms"]]:
    """v_J' M_JJ⁻¹ v_J and the rank of M_JJ for the columns J of each term.

    Eigenvalues of at most `least` count as zero.
    """
    if own.shape[1] == 1:
        values, projected = matrix[own, own], vector[own]
    else:
        values, vectors = np.linalg.eigh(matrix[own[:, :, None], own[:, None, :]])
        projected = np.einsum("tij,ti->tj", vectors, vector[own])
    kept = values > least[:, None]
    return np.where(kept, projected**2 / np.where(kept, values, 1), 0).sum(axis=1), kept.sum(axis=1)
