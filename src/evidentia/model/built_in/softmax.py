"""Softmax regression: linear classification into several classes."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import DataError, check_count
from evidentia.model.built_in.checks import check_arrays, check_size
from evidentia.model.model import Model


def softmax_regression(num_features: int, num_classes: int) -> Model:
    """Bayesian softmax (multinomial logistic) regression.

        weights_jk ~ N(0, 1),    intercept_k ~ N(0, 1),
        p(y_i = k) ∝ exp(x_iᵀ weights_k + intercept_k)

    Data are `{"x": (n, num_features), "y": (n,)}`, with labels y from 0 to `num_classes - 1`.

    Args:
        num_features: the number of columns of x.
        num_classes: the number of labels, at least two.

    Raises:
        ConfigurationError: an argument is out of range, or needs more memory than there is.

    Example:
        >>> model = softmax_regression(num_features=10, num_classes=4)
        >>> data, params = model.simulate(num_observations=100, seed=0)
        >>> params["weights"].shape, params["intercept"].shape
        ((10, 4), (4,))

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109 (a model of its experiments).
    """
    check_count("num_features", num_features, 1)
    check_count("num_classes", num_classes, 2)
    given = f"num_classes={num_classes:,} with num_features={num_features:,}"
    check_size(given, (int(num_features) + 1) * int(num_classes), int(num_classes))
    return _model(int(num_features), int(num_classes))


@cache
def _model(num_features, num_classes):
    return Model(
        prior={
            "weights": dist.Normal(0, 1).expand([num_features, num_classes]).to_event(2),
            "intercept": dist.Normal(0, 1).expand([num_classes]).to_event(1),
        },
        log_likelihood=_log_likelihood,
        name="softmax regression",
        check_data=partial(_check_data, num_features=num_features, num_classes=num_classes),
        simulate=partial(_simulate, num_features=num_features, num_classes=num_classes),
        predict=_predict,
    )


def _log_likelihood(params, batch):
    # With rows on the last axis, the sums over classes run along contiguous rows: three times
    # faster on a CPU.
    logits: jax.Array = params["weights"].T @ batch["x"].T + params["intercept"][:, None]
    # A masked sum instead of indexing: a gather per row and particle would cost more than the
    # matrix product.
    is_label = jnp.arange(logits.shape[0])[:, None] == batch["y"]
    return jnp.sum(jnp.where(is_label, logits, 0.0), axis=0) - jax.nn.logsumexp(logits, axis=0)


def _check_data(data, *, num_features, num_classes):
    check_arrays(data, {"x": (num_features,), "y": ()})
    labels = np.asarray(data["y"])
    wrong = (labels < 0) | (labels >= num_classes) | (labels != np.floor(labels))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"data['y'] must hold whole-number labels from 0 to {num_classes - 1} (num_classes={num_classes}); "
            f"{int(wrong.sum())} of {len(labels)} rows do not, the first is row {row} with {labels[row]}."
        )


def _simulate(num_observations, seed, *, num_features, num_classes):
    generator = np.random.default_rng(seed)
    params = {
        "weights": generator.standard_normal((num_features, num_classes), np.float32),
        "intercept": generator.standard_normal(num_classes, np.float32),
    }
    x = generator.standard_normal((num_observations, num_features), np.float32)
    # The argmax of logits plus Gumbel noise has the softmax distribution.
    noise = generator.gumbel(size=(num_observations, num_classes)).astype(np.float32)
    y = np.argmax(x @ params["weights"] + params["intercept"] + noise, axis=1).astype(np.int32)
    return {"x": x, "y": y}, params


def _predict(params, data, seed):
    x = np.asarray(data["x"])
    logits = np.einsum("ij,djk->dik", x, params["weights"]) + params["intercept"][:, None]
    noise = np.random.default_rng(seed).gumbel(size=logits.shape)
    return {"y": np.argmax(logits + noise, axis=2)}
