"""Polynomials of all orders on one data set: their sufficient statistics and exact evidence.

A candidate of order k is

    x_j ~ N(0, e^{-θ₁}), j ≤ k,        y | x ~ N(Σ x_j tʲ, e^{θ₀} I).

A QR decomposition reduces the rows: |y - Vx|² = |Qᵀy - Rx|² + a part that no candidate explains.
The log joint is the same function; it costs the same with 500 rows as with 11, and avoids small
differences of large sums.
"""

import numpy as np

CANDIDATES = np.arange(1, 11)
RANGE = 2.5  # of the inputs
NUM_POWERS = CANDIDATES[-1] + 1
ACTIVE = (np.arange(NUM_POWERS) <= CANDIDATES[:, None]).astype(float)  # (candidates, powers)


def simulate(order, num_rows, repeats, seed, error_sd):
    """Inputs and y of all repeats, each (repeats, rows)."""
    generator = np.random.default_rng([seed, order, num_rows])
    t = generator.uniform(-RANGE, RANGE, (repeats, num_rows))
    x = generator.standard_normal((repeats, order + 1, 1))
    errors = error_sd * generator.standard_normal((repeats, num_rows))
    return t, (t[..., None] ** np.arange(order + 1) @ x)[..., 0] + errors


def summarise(t, y):
    """Statistics of the rows for all candidates: R, Qᵀy, the remaining squares, active powers.

    Shapes are (repeats, candidates, …). Candidates are nested, so R of a smaller one is a corner
    of the largest one's R; the rest of it is zero.
    """
    q, r = np.linalg.qr(t[..., None] ** np.arange(NUM_POWERS))
    rotated = (np.swapaxes(q, 1, 2) @ y[..., None])[..., 0]
    kept = rotated[:, None] * ACTIVE
    active = np.broadcast_to(ACTIVE, kept.shape)
    left = np.sum(y**2, 1)[:, None] - np.sum(kept**2, -1)
    shared = {"rows": np.full(left.shape, float(t.shape[1])), "active": active}
    return {"factor": r[:, None] * ACTIVE[:, None], "rotated": kept, "left": left} | shared


def spectrum(data):
    """Singular values of each candidate's R, and Qᵀy along the singular vectors, (…, powers)."""
    left, values, _ = np.linalg.svd(data["factor"])
    return values, (np.swapaxes(left, -1, -2) @ data["rotated"][..., None])[..., 0]


def exact_log_evidence(theta, data):
    """log Z(θ) of all candidates; θ is (…, 2).

    Along the singular vectors, Qᵀy has the variances e^{θ₀} + e^{-θ₁} d².
    """
    values, along = spectrum(data)
    variance = np.exp(theta[..., 0])
    spread = variance[..., None] + np.exp(-theta[..., 1])[..., None] * values**2
    log_det = np.log(spread).sum(-1) + (data["rows"] - NUM_POWERS) * np.log(variance)
    squares = data["left"] / variance + np.sum(along**2 / spread, -1)
    return -0.5 * (log_det + squares + data["rows"] * np.log(2 * np.pi))


def maximum_log_evidence(data):
    """max_θ log Z(θ) of all candidates.

    Given the ratio of the variances, the maximum over the error variance has a closed form.
    """
    values, along = spectrum(data)

    def profile(log_ratio):  # (…, points)
        spread = 1 + np.exp(log_ratio)[..., None] * values[..., None, :] ** 2
        squares = data["left"][..., None] + np.sum(along[..., None, :] ** 2 / spread, -1)
        rows = data["rows"][..., None]
        return -0.5 * (rows * (1 + np.log(2 * np.pi * squares / rows)) + np.log(spread).sum(-1))

    centre = np.zeros(values.shape[:-1])
    for width in 20.0 * 0.1 ** np.arange(8):  # refine about the best point
        points = centre[..., None] + np.linspace(-width, width, 81)
        found = profile(points)
        centre = np.take_along_axis(points, found.argmax(-1)[..., None], -1)[..., 0]
    return found.max(-1)


def bic(data):
    """BIC of least squares for all candidates: k + 1 coefficients and the variance."""
    rows, parameters = data["rows"], data["active"].sum(-1) + 1
    return rows * np.log(data["left"] / rows) + parameters * np.log(rows)


def posterior(theta, data, count, generator):
    """Exact draws of x given θ, (repeats, candidates, count, powers)."""
    factor, variance = data["factor"], np.exp(theta[0])
    transposed = np.swapaxes(factor, -1, -2)
    precision = transposed @ factor / variance + np.exp(theta[1]) * np.eye(NUM_POWERS)
    mean = np.linalg.solve(precision, transposed @ data["rotated"][..., None] / variance)
    root = np.swapaxes(np.linalg.cholesky(precision), -1, -2)
    noise = generator.standard_normal((*data["rows"].shape, NUM_POWERS, count))
    return np.swapaxes(mean + np.linalg.solve(root, noise), -1, -2)
