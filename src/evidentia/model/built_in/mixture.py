"""A mixture of Gaussians with diagonal covariances."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import check_count
from evidentia.model.built_in.checks import check_arrays, check_size
from evidentia.model.model import Model
from evidentia.system.sharing import check_not_forked


def gaussian_mixture(num_components: int, num_features: int) -> Model:
    """A Gaussian mixture with diagonal covariances, K components in D dimensions.

        weights ~ Dirichlet(1, …, 1),   variances_kd ~ InverseGamma(1, 1),
        means_kd ~ N(0, 4 variances_kd),
        p(y_i) = Σ_k weights_k Π_d N(y_id; means_kd, variances_kd)

    Data are `{"y": (n, num_features)}`. The components have no fixed order: the posterior has K!
    copies of each mode, and the evidence counts them all.

    The likelihood is one matrix product of [y², y, 1] with per-component coefficients. Its float32
    error is about 10⁻⁷ (y/σ)² nats, so data should be standardised: components narrower than a
    thousandth of their distance from zero are lost.

    Args:
        num_components: K, at least one.
        num_features: D, the number of columns of y.

    Raises:
        ConfigurationError: an argument is out of range, or needs more memory than there is.

    Example:
        >>> model = gaussian_mixture(num_components=5, num_features=2)
        >>> data, params = model.simulate(num_observations=100, seed=0)
        >>> {name: value.shape for name, value in params.items()}
        {'weights': (5,), 'variances': (5, 2), 'means': (5, 2)}

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109 (a model of its experiments).
    """
    check_not_forked()  # the prior takes JAX
    check_count("num_components", num_components, 1)
    check_count("num_features", num_features, 1)
    given = f"num_components={num_components:,} with num_features={num_features:,}"
    check_size(given, (2 * int(num_features) + 1) * int(num_components))
    return _model(int(num_components), int(num_features))


@cache
def _model(num_components, num_features):
    shape = (num_components, num_features)
    return Model(
        prior={
            "weights": dist.Dirichlet(jnp.ones(num_components)),
            "variances": dist.InverseGamma(1.0, 1.0).expand(shape).to_event(2),
            "means": lambda params: dist.Normal(0.0, 2.0 * jnp.sqrt(params["variances"])).to_event(2),
        },
        log_likelihood=_log_likelihood,
        name="Gaussian mixture",
        exchangeable=("weights", "variances", "means"),
        check_data=partial(check_arrays, shapes={"y": (num_features,)}),
        simulate=partial(_simulate, shape=shape),
        predict=_predict,
    )


def _log_likelihood(params, batch):
    """log Σ_k exp(y²·a_k + y·b_k + c_k): a = -1/2v, b = m/v, c = log w - ½ Σ_d (m²/v + log 2πv)"""
    y, weights, means, variances = batch["y"], params["weights"], params["means"], params["variances"]
    constant = jnp.log(weights) - 0.5 * jnp.sum(
        means**2 / variances + jnp.log(2 * jnp.pi * variances), axis=1
    )
    coefficients = jnp.concatenate([-0.5 / variances, means / variances, constant[:, None]], axis=1)
    features = jnp.concatenate([y**2, y, jnp.ones((y.shape[0], 1), y.dtype)], axis=1)
    # With rows on the last axis, the sum over components runs along contiguous rows.
    return jax.nn.logsumexp(coefficients @ features.T, axis=0)


def _simulate(num_observations, seed, *, shape):
    generator = np.random.default_rng(seed)
    variances = 1 / generator.standard_gamma(1.0, shape)
    params = {
        "weights": generator.dirichlet(np.ones(shape[0])).astype(np.float32),
        "variances": variances.astype(np.float32),
        "means": (2 * np.sqrt(variances) * generator.standard_normal(shape)).astype(np.float32),
    }
    component = np.searchsorted(
        np.cumsum(params["weights"])[:-1], generator.random(num_observations), "right"
    )
    noise = generator.standard_normal((num_observations, shape[1]), np.float32)
    y = params["means"][component] + np.sqrt(params["variances"])[component] * noise
    return {"y": y.astype(np.float32)}, params


def _predict(params, data, seed):
    """As many rows as `data["y"]` has, whose values are not used."""
    generator, count = np.random.default_rng(seed), len(data["y"])
    below = np.cumsum(params["weights"], axis=1)[:, None, :-1]
    draws = np.arange(len(below))[:, None]
    component = (generator.random((len(below), count, 1)) > below).sum(2)
    deviation = np.sqrt(params["variances"][draws, component])
    return {"y": generator.normal(params["means"][draws, component], deviation)}
