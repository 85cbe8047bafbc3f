"""Normal effects of several factors, eliminated from the normal equations, in float64 on the host.

Let A = Z Λ be the columns of all effects u ~ N(0, 1), with Λ in units of the residuals' scale:
those of the factor with most levels, a, and those of all others, b. The rows' covariance in these
units is V = I + A Aᵀ, and for columns W of the rows

    log |V| = log |I + AᵀA| = log |D| + log |S|,
    Wᵀ V⁻¹ W = WᵀW - vᵀv - tᵀt,    v = L_D⁻¹ aᵀW,    t = L_S⁻¹ (bᵀW - Cᵀv),    C = L_D⁻¹ aᵀb,

where D = I + aᵀa has a small block for each level, C is sparse, and S = I + bᵀb - CᵀC, Schur's
complement, is as large as there are other effects. Only S is dense. The products of the columns
with each other are computed once.

Source: Bates, Mächler, Bolker, Walker (2015), Journal of Statistical Software 67(1), section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, get_blas_funcs, solve_triangular

from evidentia.errors import EstimationError
from evidentia.regression.grouped import Grouped

DENSE_FROM = 1 / 12  # of a row of C that is not zero, as sparse products take that much longer
AT_ONCE = 1024  # rows of C in one dense product

Matrix = Float[ndarray, "others others"]


class Products(NamedTuple):
    """The products of columns, which do not depend on the deviations.

    Attributes:
        own: of the columns of the factor with most levels, for each level.
        across: of these, by level and column, with those of other factors.
        among: of those of other factors.
        own_rows, other_rows: of either with the columns W of the rows.
        gram: WᵀW.
        shapes: levels and columns of each other factor.
    """

    own: Float[ndarray, "levels effects effects"]
    across: sparse.csr_array
    among: sparse.csr_array
    own_rows: Float[ndarray, "all columns"]
    other_rows: Float[ndarray, "others columns"]
    gram: Float[ndarray, "columns columns"]
    shapes: tuple[tuple[int, int], ...]

    @property
    def seconds(self) -> float:
        """About how long one elimination takes on a core."""
        others, filled = len(self.other_rows), _filled(self.across)
        return 1e-3 + 2e-11 * others**3 + 5e-9 * float(np.minimum(filled, others * DENSE_FROM) @ filled)


class Eliminated(NamedTuple):
    """The factorised matrix I + AᵀA, and what is left of the columns W.

    Attributes:
        log_det: of it, and so of the rows' covariance.
        gram: Wᵀ V⁻¹ W.
        own: L_D, for each level.
        across: C.
        rest: L_S, in the lower triangle.
        own_rows, rest_rows: v and t.
    """

    log_det: float
    gram: Float[ndarray, "columns columns"]
    own: Float[ndarray, "levels effects effects"]
    across: sparse.csr_array
    rest: Matrix
    own_rows: Float[ndarray, "all columns"]
    rest_rows: Float[ndarray, "others columns"]


def products_of(inner: Grouped, outer: Sequence[Grouped], columns: Iterable[ndarray]) -> Products:
    """The products, from blocks of rows of W in order."""
    own = _indicators(inner)
    others = sparse.csr_array(sparse.hstack([_indicators(one) for one in outer]))
    first, own_rows, other_rows, gram = 0, 0.0, 0.0, 0.0
    for block in columns:
        rows = slice(first, first + len(block))
        own_rows = own_rows + own[rows].T @ block
        other_rows = other_rows + others[rows].T @ block
        gram = gram + block.T @ block
        first += len(block)
    size, levels = inner.size, len(inner.levels)
    squares = np.stack([np.bincount(inner.codes, one, levels) for one in _pairs(inner)], axis=1)
    return Products(
        squares.reshape(levels, size, size),
        sparse.csr_array(own.T @ others),
        sparse.csr_array(others.T @ others),
        np.asarray(own_rows),
        np.asarray(other_rows),
        np.asarray(gram),
        tuple((len(one.levels), one.size) for one in outer),
    )


def eliminated(products: Products, factors: Sequence[Float[ndarray, "effects effects"]]) -> Eliminated:
    """The factorised matrix at Λ of each factor, that with most levels first.

    Raises EstimationError for a matrix that is singular to rounding.
    """
    half, *others = factors
    size = products.own.shape[1]
    own = np.linalg.cholesky(np.eye(size) + half.T @ products.own @ half)
    inverse = _blocks(np.linalg.solve(own, np.broadcast_to(half.T, own.shape)))
    scale = _repeated(others, products.shapes)
    across = sparse.csr_array(inverse @ products.across @ scale)
    own_rows = inverse @ products.own_rows
    rest = np.asfortranarray((scale.T @ products.among @ scale).toarray())
    rest[np.diag_indices_from(rest)] += 1
    _subtract_squares(rest, across)
    try:
        rest = cholesky(rest, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        raise EstimationError(f"the effects cannot be told apart to rounding: {error}.") from None
    rest_rows = scale.T @ products.other_rows - across.T @ own_rows
    rest_rows = solve_triangular(rest, rest_rows, lower=True, check_finite=False)
    log_det = 2 * np.log(np.diagonal(own, axis1=1, axis2=2)).sum() + 2 * np.log(np.diag(rest)).sum()
    gram = products.gram - own_rows.T @ own_rows - rest_rows.T @ rest_rows
    return Eliminated(float(log_det), gram, own, across, rest, own_rows, rest_rows)


def _indicators(grouped: Grouped) -> sparse.csr_array:
    """The columns Z of a factor's effects, (rows, levels times effects)."""
    rows, size = grouped.columns.shape
    places = grouped.codes[:, None] * size + np.arange(size)
    ends = np.arange(rows + 1) * size
    return sparse.csr_array((grouped.columns.ravel(), places.ravel(), ends), shape=(rows, grouped.count))


def _filled(matrix: sparse.csr_array) -> Float[ndarray, " rows"]:
    """How many numbers of each row are not zero."""
    return np.diff(matrix.indptr).astype(float)


def _pairs(grouped: Grouped) -> Iterable[Float[ndarray, " rows"]]:
    """The products of each two of a factor's columns."""
    return (left * right for left in grouped.columns.T for right in grouped.columns.T)


def _blocks(blocks: Float[ndarray, "levels effects effects"]) -> sparse.bsr_array:
    """The matrix with these blocks along its diagonal."""
    levels, size, _ = blocks.shape
    places = np.arange(levels + 1)
    return sparse.bsr_array((blocks, places[:-1], places), shape=(levels * size, levels * size))


def _repeated(factors: Sequence[ndarray], shapes: Sequence[tuple[int, int]]) -> sparse.csr_array:
    """The matrix with Λ of each other factor for each of its levels along its diagonal."""
    blocks = (
        _blocks(np.broadcast_to(one, (shape[0], *one.shape)))
        for one, shape in zip(factors, shapes, strict=True)
    )
    return sparse.csr_array(sparse.block_diag(list(blocks)))


def _subtract_squares(target: Matrix, across: sparse.csr_array) -> None:
    """Subtract CᵀC in the lower triangle, by sparse products of rows with few numbers."""
    syrk: Any = get_blas_funcs("syrk", (target,))
    is_dense = _filled(across) > DENSE_FROM * len(target)
    few, many = across[~is_dense], across[is_dense]
    target -= (few.T @ few).toarray()
    for start in range(0, np.count_nonzero(is_dense), AT_ONCE):
        block = np.asfortranarray(many[start : start + AT_ONCE].toarray().T)
        syrk(-1.0, block, beta=1.0, c=target, lower=1, overwrite_c=1)
