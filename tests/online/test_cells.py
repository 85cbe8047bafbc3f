"""Cells: the moments of nodes, and what residuals tell of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidentia.online import cells as trees
from evidentia.online.cells import Quadratics, empty, entered, most_nodes, nodes

CENTRES = np.linspace(-2, 2, 8)


def wavy(points):
    """A function of points with all derivatives, at eight places."""
    return np.cos(points.sum(axis=1)[:, None] - CENTRES) + 0.3 * points[:, :1] ** 2 * CENTRES


def built(points, batches, most=2000, values=wavy):
    """Cells that rows have entered batch by batch, the cell of each row, and the summed error."""
    cells, found, error = empty(points.shape[1]), [], 0.0
    for batch in np.split(points, batches):
        if len(batch):
            cells, cell, more = entered(cells, batch, values, most)
            found.append(cell)
            error = error + more
    return cells, np.concatenate(found), error


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 300), st.integers(0, 10**6), st.sampled_from(["normal", "ties", "line"])
)
def test_nodes_have_the_number_mean_and_covariance_of_all_rows(columns, rows, seed, kind):
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((rows, columns)) * 10 + 3
    if kind == "ties":
        points = np.round(points / 5)
    if kind == "line":
        points = points[:, :1] * np.arange(1, columns + 1)
    cells, _, _ = built(points, np.sort(generator.integers(0, rows + 1, 4)), most=200)
    found, copies, _ = nodes(cells.moments)
    assert np.all(copies > 0) and len(copies) <= most_nodes(cells.moments.count, columns)
    assert copies.sum() == pytest.approx(rows)
    np.testing.assert_allclose(copies @ found, points.sum(axis=0), rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose((copies * found.T) @ found, points.T @ points, rtol=1e-9, atol=1e-7)


def test_two_rows_of_a_cell_are_its_nodes():
    points = np.array([[1.0, 2.0], [3.0, -1.0]])
    cells, _, _ = entered(empty(2), points, lambda points: points[:, :1], 100)
    found, copies, _ = nodes(cells.moments)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], points, atol=1e-12)
    np.testing.assert_allclose(copies, 1.0)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_residuals_of_rows_add_up_to_the_error_of_the_nodes(columns):
    """So does what `entered` returns, batch by batch, also if too few nodes are allowed."""
    points = np.random.default_rng(columns).standard_normal((3000, columns))
    cells, cell, error = built(points, [500, 510, 2000], most=60)
    found, copies, _ = nodes(cells.moments)
    exact = copies @ wavy(found) - wavy(points).sum(axis=0)
    assert np.abs(exact).max() > 0.01
    np.testing.assert_allclose(error, exact, atol=1e-8)
    ids, local = np.unique(cell, return_inverse=True)
    residuals = wavy(points) - Quadratics(cells.moments.at(ids), wavy)(points, local)
    np.testing.assert_allclose(-residuals.sum(axis=0), exact, atol=1e-8)


@pytest.mark.parametrize(("order", "largest"), [("random", 0.3), ("sorted", 10.0)])
def test_nodes_stand_for_rows_in_any_order(order, largest):
    """Sorted rows enter cells that are cut as they come; one cell is wrong by 100s of nats."""
    points = np.random.default_rng(1).standard_normal((5000, 2))
    if order == "sorted":
        points = points[np.argsort(points[:, 0])]
    error = built(points, range(500, 5000, 250), 3000)[2]
    assert np.abs(error).max() < largest
    assert np.abs(built(points, [500], 4)[2]).max() > 100


def test_a_function_of_second_degree_needs_one_cell():
    points = np.random.default_rng(0).standard_normal((1000, 2))

    def quadratic(points):
        return (points @ [1.0, 2.0])[:, None] ** 2 + points[:, :1]

    cells, _, error = built(points, [300], values=quadratic)
    assert len(cells.child) == 1 and np.abs(error).max() < 1e-8


def test_rows_that_cannot_be_told_apart_end_the_search():
    points = np.ones((100, 2))
    cells, _, _ = built(points, [50], values=lambda points: np.full((len(points), 1), np.nan))
    assert len(cells.child) == 1 and trees.nodes(cells.moments).copies.sum() == 100
