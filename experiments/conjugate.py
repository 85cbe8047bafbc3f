"""Models with exact evidence and the interface of `ev.Online`, to test detection and averaging.

`update` absorbs rows, and `restarted` returns a fresh model. They are cheap enough for thousands
of streams.
"""

import math

import numpy as np

from evidentia.results.weighted import evenly_weighted


class Update:
    """The result of `update`, with the fields of `ev.Online`'s."""

    def __init__(self, online, batch_size, log_predictive):
        self.num_observations = online.num_observations
        self.batch_size = batch_size
        self.log_predictive = log_predictive
        self.log_predictive_standard_error = 0.0
        self.log_evidence = online.log_evidence
        self.standard_error = online.standard_error
        self.num_annealing_steps = 1
        self.seconds = 0.0


class Conjugate:
    """Base class; models define `_absorb(batch)`, which returns log p(batch | earlier rows)."""

    def __init__(self, **settings):
        self.settings = settings
        self.num_observations = 0
        self.log_evidence = 0.0
        self.standard_error = 0.0

    def update(self, batch):
        size = len(batch[0]) if isinstance(batch, tuple) else len(batch)
        log_predictive = self._absorb(batch)
        self.num_observations += size
        self.log_evidence += log_predictive
        return Update(self, size, log_predictive)

    def restarted(self, seed=0):
        return type(self)(**self.settings)

    @property
    def weighted(self):
        return evenly_weighted(self.posterior, 256)


class Gaussian(Conjugate):
    """y ~ N(m, v), m | v ~ N(mean, v / rows), v ~ InverseGamma(shape, scale)."""

    def __init__(self, mean=0.0, rows=0.1, shape=1.0, scale=1.0):
        super().__init__(mean=mean, rows=rows, shape=shape, scale=scale)
        self._values = mean, rows, shape, scale

    def _after(self, count, mean, scatter):
        """Posterior parameters and log p, given count, mean and centred sum of squares."""
        prior_mean, rows, shape, scale = self._values
        total = rows + count
        new = (
            prior_mean + count * (mean - prior_mean) / total,
            total,
            shape + 0.5 * count,
            scale + 0.5 * (scatter + rows * count * (mean - prior_mean) ** 2 / total),
        )
        log_p = math.lgamma(new[2]) - math.lgamma(shape) + shape * math.log(scale) - new[2] * math.log(new[3])
        return new, log_p + 0.5 * math.log(rows / total) - 0.5 * count * math.log(2 * math.pi)

    def _absorb(self, batch):
        count = len(batch)
        mean = math.fsum(batch) / count
        self._values, log_p = self._after(count, mean, math.fsum((y - mean) ** 2 for y in batch))
        return log_p

    def log_predictive(self, batch):
        return np.array([self._after(1, float(y), 0.0)[1] for y in batch])

    @property
    def posterior(self):
        mean, rows, shape, scale = self._values
        generator = np.random.default_rng(self.num_observations)
        variance = scale / generator.standard_gamma(shape, 256)
        return {"mean": generator.normal(mean, np.sqrt(variance / rows)), "variance": variance}


class Bernoulli(Conjugate):
    """y in {0, 1} with probability p ~ Beta(ones, zeros)."""

    def __init__(self, ones=1.0, zeros=1.0):
        super().__init__(ones=ones, zeros=zeros)
        self._ones, self._zeros = ones, zeros

    def _absorb(self, batch):
        count, ones = len(batch), float(np.sum(batch))
        before = _log_beta(self._ones, self._zeros)
        self._ones, self._zeros = self._ones + ones, self._zeros + count - ones
        return _log_beta(self._ones, self._zeros) - before

    def log_predictive(self, batch):
        share = self._ones / (self._ones + self._zeros)
        return np.log(np.where(np.asarray(batch) == 1, share, 1 - share))


class LinearRegression(Conjugate):
    """y ~ N(x[:, columns] w, noise²) with w ~ N(0, I); batches are (x, y)."""

    def __init__(self, columns, noise=1.0):
        super().__init__(columns=columns, noise=noise)
        self._columns, self._noise = list(columns), noise
        self._precision, self._projection = np.eye(len(self._columns)), np.zeros(len(self._columns))

    def _absorb(self, batch):
        x, y = self._scaled(batch)
        before = self._log_normaliser()
        self._precision = self._precision + x.T @ x
        self._projection = self._projection + x.T @ y
        constant = -0.5 * y @ y - len(y) * (0.5 * math.log(2 * math.pi) + math.log(self._noise))
        return float(self._log_normaliser() - before + constant)

    def _scaled(self, batch):
        x, y = batch
        return x[:, self._columns] / self._noise, y / self._noise

    def _log_normaliser(self):
        mean = np.linalg.solve(self._precision, self._projection)
        return 0.5 * (self._projection @ mean - np.linalg.slogdet(self._precision)[1])

    def log_predictive(self, batch):
        x, y = self._scaled(batch)
        mean = x @ np.linalg.solve(self._precision, self._projection)
        variance = 1 + np.einsum("ni,ni->n", x, np.linalg.solve(self._precision, x.T).T)
        log_p = -0.5 * (y - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
        return log_p - math.log(self._noise)

    @property
    def posterior(self):
        generator = np.random.default_rng(self.num_observations)
        factor = np.linalg.cholesky(np.linalg.inv(self._precision))
        mean = np.linalg.solve(self._precision, self._projection)
        return {"w": mean + generator.normal(size=(256, len(mean))) @ factor.T}


class Autoregression(Conjugate):
    """y ~ N(a + b y₋₁, v) given the previous row y₋₁.

    The prior is (a, b) | v ~ N((0, slope), v / rows I), v ~ InverseGamma(shape, scale). Batches
    are (n, 2): the previous row, and the row.
    """

    def __init__(self, slope=0.5, rows=0.1, shape=1.0, scale=0.1):
        super().__init__(slope=slope, rows=rows, shape=shape, scale=scale)
        self._precision = rows * np.eye(2)
        self._projection = rows * np.array([0.0, slope])
        self._squares, self._shape, self._scale = rows * slope**2, shape, scale

    def _absorb(self, batch):
        x, y = np.stack([np.ones(len(batch)), batch[:, 0]], 1), batch[:, 1]
        before = self._log_normaliser()
        self._precision = self._precision + x.T @ x
        self._projection = self._projection + x.T @ y
        self._squares += y @ y
        self._shape += 0.5 * len(y)
        return float(self._log_normaliser() - before - 0.5 * len(y) * math.log(2 * math.pi))

    def _log_normaliser(self):
        (a, b), (_, d) = self._precision
        first, second = self._projection
        determinant = a * d - b * b
        explained = (d * first**2 - 2 * b * first * second + a * second**2) / determinant
        scale = self._scale + 0.5 * max(self._squares - explained, 0.0)
        return math.lgamma(self._shape) - self._shape * math.log(scale) - 0.5 * math.log(determinant)


def _log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
