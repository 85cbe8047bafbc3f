"""Values that broadcasting would count several times are refused; other broadcasts are not."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.errors import ModelError
from evidentia.model.broadcasting import thin_arrays
from evidentia.model.model import Model
from evidentia.model.statements import statements_of

GENERATOR = np.random.default_rng(0)
X, Y, PAIRS = (GENERATOR.normal(size=shape).astype(np.float32) for shape in (20, 20, (20, 2)))


def slope():
    return numpyro.sample("slope", dist.Normal())


def line(x, y):
    mean = slope() * x
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def without_plate(x, y):
    numpyro.sample("y", dist.Normal(slope() * x, 1.0), obs=y)


def event(x, y):
    numpyro.sample("y", dist.Normal(slope() * x, 1.0).to_event(1), obs=y)


def whole_event(x, y):
    numpyro.sample("y", dist.Normal(slope() * x, 1.0).to_event(2), obs=y)


def multivariate(x, y):
    numpyro.sample("y", dist.MultivariateNormal(slope() * x, jnp.eye(2)), obs=y)


def labels(x, y):
    logits = slope() * jnp.stack([x, -x], axis=-1)
    numpyro.sample("y", dist.Categorical(logits=logits), obs=y)


def scaled(x, y):
    with numpyro.handlers.scale(scale=x**2):
        numpyro.sample("y", dist.Normal(slope(), 1.0), obs=y)


def each_mean_for_all(x, y):
    means = numpyro.sample("means", dist.Normal().expand([3]).to_event(1))
    numpyro.sample("y", dist.Normal(means[:, None] + x, 1.0), obs=y)


def soft_constraint(x, y):
    means = numpyro.sample("means", dist.Normal().expand([5]).to_event(1))
    numpyro.sample("smooth", dist.Normal(jnp.diff(means), 0.1), obs=0.0)
    numpyro.sample("y", dist.Normal(means[0] * x, 1.0), obs=y)


def mixture(x, y):
    means = numpyro.sample("means", dist.Normal().expand([3]).to_event(1))
    parts = dist.Normal(means * x[:, None], 1.0)
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(jnp.ones(3) / 3), parts), obs=y)


def repeated_on_purpose(x, y):
    means = numpyro.sample("means", dist.Normal().expand([3]).to_event(1))
    numpyro.sample("y", dist.Normal(means[:, None] + x, 1.0), obs=jnp.broadcast_to(y, (3, len(y))))


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize(
    ("program", "x", "y", "shapes"),
    [
        (line, X[:, None], Y, r"\(20,\), .* \(20, 20\) \(20, 20\).* x has shape \(20, 1\): drop the axis"),
        (line, X, Y[:, None], r"\(20, 1\), .* \(20,\) \(20, 20\).* y has shape \(20, 1\): drop the axis"),
        (without_plate, X[:, None], Y, r"\(20,\), .* \(20, 1\) \(20, 20\).* x has shape \(20, 1\)"),
        (event, X[:, None], Y, r"\(20,\), .* \(20, 1\) \(20, 20\)"),
        (whole_event, X[:, None], Y, r"\(20,\), .* \(20, 1\) \(20, 20\)"),
        (multivariate, PAIRS[:, None], PAIRS, r"\(20, 2\), .* \(20, 1, 2\) \(20, 20, 2\)"),
        (labels, X, np.ones((20, 1), np.int32), r"\(20, 1\), .* \(20,\) \(20, 20\)"),
        (scaled, X[:, None], Y, r"\(20,\), and with its scale \(20, 20\)"),
        (each_mean_for_all, X, Y, r"\(20,\), .* \(3, 20\) \(3, 20\).* Check the shapes in the model"),
    ],
)
def test_values_that_broadcasting_repeats(program, x, y, shapes, is_whole):
    rows = {"x": x, "y": y}
    if is_whole:
        rows = {name: np.stack([array] * 3) for name, array in rows.items()}
        program, own = lambda **many: own(**{name: array[0] for name, array in many.items()}), program
    with pytest.raises(ModelError, match=rf"repeats the values .*'y' \(called with 20 rows\).* {shapes}"):
        statements_of(program, rows, is_whole=is_whole)


@pytest.mark.parametrize(
    ("program", "x", "y"),
    [
        (line, X, Y),
        (line, X[:1], Y),  # one number for all values
        (event, X, Y),
        (multivariate, PAIRS[0], PAIRS),
        (multivariate, PAIRS, PAIRS),
        (labels, X, np.ones(20, np.int32)),
        (scaled, X, Y),
        (soft_constraint, X, Y),
        (mixture, X, Y),
        (repeated_on_purpose, X, Y),
    ],
)
def test_broadcasts_that_repeat_no_value(program, x, y):
    if program is line and len(x) == 1:
        program = without_plate
    assert any(each.observed for each in statements_of(program, {"x": x, "y": y}).values())


def test_no_number_for_a_column_as_a_matrix():
    """It was that of n² values, silently: all data as one observation hid the shape."""
    with pytest.raises(ModelError, match=r"repeats the values .*'y' .* x has shape \(3, 1\)"):
        ev.estimate(Model.from_numpyro(line), {"x": X[:, None], "y": Y})
    with pytest.raises(ModelError, match=r"repeats the values .*'y' .* x has shape \(20, 1\)"):
        ev.estimate(Model.from_numpyro(line, pointwise=False), {"x": X[:, None], "y": Y})


def test_a_factor_of_pairs_of_rows():
    def factor(x, y):
        numpyro.factor("fit", dist.Normal(slope() * x, 1.0).log_prob(y))

    with pytest.raises(ModelError, match=r"factor 'fit' has a number for each pair .* \(3, 3\) for 3 rows"):
        ev.estimate(Model.from_numpyro(factor), {"x": X[:, None], "y": Y})


@pytest.mark.parametrize(
    ("reduced", "message"),
    [
        (lambda terms: terms, r"got \(3, 3\). Check how the shapes broadcast. x has shape \(3, 1\)"),
        (lambda terms: terms.sum(-1), r"changes with the other rows .* broadcast: x has shape \(3, 1\)"),
    ],
)
def test_a_log_likelihood_of_pairs_of_rows(reduced, message):
    def log_likelihood(params, batch):
        return reduced(dist.Normal(params["slope"] * batch["x"], 1.0).log_prob(batch["y"]))

    with pytest.raises(ModelError, match=message):
        Model({"slope": dist.Normal()}, log_likelihood).bind({"x": X[:, None], "y": Y})


def test_a_latent_model_whose_values_broadcasting_repeats():
    def program(x, y):
        center = numpyro.param("center", 0.0)
        level = numpyro.sample("level", dist.Normal(center, 1.0))
        numpyro.sample("y", dist.Normal(level * x, 1.0), obs=y)

    model = ev.latent.LatentModel.from_numpyro(program, ["center"])
    with pytest.raises(ModelError, match=r"repeats the values .*'y'"):
        model.log_joint({"center": jnp.zeros(())}, {"level": jnp.zeros(())}, {"x": X[:, None], "y": Y})


def test_arrays_with_an_axis_of_length_one():
    arrays = {"x": X[:, None], "y": Y, "one": np.ones((1, 1))}
    assert thin_arrays(arrays) == "x has shape (20, 1): drop the axis of length 1, with .squeeze()."
    assert thin_arrays((Y, X[None])).startswith("data[1] has shape (1, 20)")
    assert thin_arrays(X[:, None]).startswith("data has shape (20, 1)")
    assert thin_arrays({"y": Y}) == ""
