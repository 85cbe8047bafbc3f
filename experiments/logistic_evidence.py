"""Evidence of a logistic regression whose weights share a prior mean θ, for all θ at once.

The weights w ~ N(θ1, 5 I) in d dimensions are latent, and the likelihood ℓ(w) of all rows does not
depend on θ:

    Z(θ) = ∫ ℓ(w) N(w; θ1, 5 I) dw = E_q[ℓ(w) N(w; θ1, 5 I) / q(w)],

so one set of draws from q serves every θ. q is Student's t about the joint mode of w and θ, with
the curvature of w there, in float64 on the host. The slope of log Z is the posterior mean of g = Σ
(w_j - θ) / 5, zero at the maximiser, whose standard error is that of this mean over the curvature,
d/5 - var g.
"""

import jax
import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from evidentia import weights
from evidentia.latent import LatentModel
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, log_student_t

PRIOR_VARIANCE = 5.0
BLOCK = 5000  # draws per block of margins in memory


def log_joint(theta, w, data):
    """Log joint density; `data` holds features (rows, d) and signs of the labels, -1 or 1."""
    features, signs = data
    log_prior = jax.scipy.stats.norm.logpdf(w, theta, PRIOR_VARIANCE**0.5).sum()
    return log_prior + jax.nn.log_sigmoid(signs * (features @ w)).sum()


def sample_prior(key, theta, data):
    return theta + PRIOR_VARIANCE**0.5 * jax.random.normal(key, data[0].shape[1:])


MODEL = LatentModel(log_joint, sample_prior=sample_prior, name="logistic regression with a mean")


def longest_safe_step(features: np.ndarray) -> float:
    """0.99 / L, with L a bound of the curvature in w, at most 1/4 per row's likelihood."""
    largest = np.linalg.eigvalsh(features.T @ features)[-1]
    return float(0.99 / (largest / 4 + 1 / PRIOR_VARIANCE))


class ExactEvidence:
    """log Z(θ), its maximiser, and the posterior of the weights given any θ, for labels 0 or 1.

    Attributes:
        draws: of the weights, (draws, features).
        theta: the maximiser of log Z.
        standard_error: of `theta`, from the finite number of draws.
        slope_variance: posterior variance of g there, that of one particle's gradient of θ.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray, num_draws: int, seed: int):
        self._signed = (2 * labels - 1)[:, None] * features
        gaussian = self._about_the_mode()
        self.draws = draw_student_t(np.random.default_rng(seed), gaussian, num_draws)
        blocks = np.array_split(self.draws, -(-num_draws // BLOCK))
        log_likelihood = np.concatenate([-np.logaddexp(0, -w @ self._signed.T).sum(1) for w in blocks])
        self._without_prior = log_likelihood - log_student_t(gaussian, self.draws)
        found = minimize_scalar(lambda theta: -self.log_evidence(theta), bounds=(-10, 10), method="bounded")
        self.theta = float(found.x)
        slopes, shares = (self.draws - self.theta).sum(axis=1) / PRIOR_VARIANCE, self.shares(self.theta)
        self.slope_variance = float(shares @ (slopes - shares @ slopes) ** 2)
        curvature = self.draws.shape[1] / PRIOR_VARIANCE - self.slope_variance
        self.standard_error = float(np.sqrt(np.sum((shares * slopes) ** 2)) / curvature)

    def log_weights(self, theta: float) -> np.ndarray:
        """Log importance weights of the draws; the mean weight estimates Z(θ)."""
        squares = np.sum((self.draws - theta) ** 2, axis=1) / PRIOR_VARIANCE
        constant = self.draws.shape[1] * np.log(2 * np.pi * PRIOR_VARIANCE)
        return self._without_prior - 0.5 * (squares + constant)

    def log_evidence(self, theta: float) -> float:
        """log Z(θ) in nats."""
        return weights.log_mean(self.log_weights(theta))

    def shares(self, theta: float) -> np.ndarray:
        """Normalised weights of the draws in the posterior given θ."""
        return np.exp(weights.normalise(self.log_weights(theta)))

    def _about_the_mode(self) -> LocalGaussian:
        """The joint mode of weights and θ, and the curvature of the weights there."""
        size = self._signed.shape[1]

        def depth(position):
            w, theta = position[:-1], position[-1]
            margins, apart = self._signed @ w, w - theta
            value = np.logaddexp(0, -margins).sum() + 0.5 * apart @ apart / PRIOR_VARIANCE
            by_w = apart / PRIOR_VARIANCE - expit(-margins) @ self._signed
            return value, np.append(by_w, -apart.sum() / PRIOR_VARIANCE)

        mode = minimize(depth, np.zeros(size + 1), jac=True, method="BFGS").x[:-1]
        doubt = expit(self._signed @ mode) * expit(-self._signed @ mode)
        precision = (self._signed.T * doubt) @ self._signed + np.eye(size) / PRIOR_VARIANCE
        return LocalGaussian(mode, precision, 0.0)
