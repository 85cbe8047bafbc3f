"""Symmetries of a model are found: components that can be permuted, and signs that can change."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev

Y = np.linspace(-1, 2, 30, dtype=np.float32)
FLAT = {name: dist.Normal(0.0, 1.0) for name in ("a", "b")}


def symmetry_of(prior, mean, **data):
    data = data or {"y": Y}
    model = ev.Model(prior, lambda params, batch: dist.Normal(mean(params, batch), 1.0).log_prob(batch["y"]))
    return model.bind(data).symmetry


def vector(size, scale=1.0):
    return dist.Normal(jnp.zeros(size), scale).to_event(1)


def test_two_factors_change_sign_together():
    assert symmetry_of(FLAT, lambda params, batch: params["a"] * params["b"]).flips == ((0, 1),)


def test_a_square_has_either_sign_and_its_coordinates_are_flipped_alone():
    """The third coordinate has no influence: its posterior is the prior, with one mode."""
    found = symmetry_of({"m": vector(3)}, lambda params, batch: params["m"][0] ** 2 + params["m"][1] ** 2 / 3)
    assert found.flips == ((0,), (1,)) and found.components == ()


def test_units_of_a_network_are_permuted_and_flipped():
    prior = {"inputs": dist.Normal(jnp.zeros((2, 3)), 1.0).to_event(2), "outputs": vector(3)}
    found = symmetry_of(
        prior,
        lambda params, batch: jnp.tanh(batch["x"] @ params["inputs"]) @ params["outputs"],
        x=np.random.default_rng(0).standard_normal((30, 2)).astype(np.float32),
        y=Y,
    )
    assert found.components == (("inputs", 1), ("outputs", 0)) and found.flips == ()
    assert found.unit_flips == (((0, 3, 6), (1, 4, 7), (2, 5, 8)),)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_components_of_a_mixture_are_found(count):
    def mixture(y):
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(count)))
        means = numpyro.sample("means", vector(count, 3.0))
        parts = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, 1.0))
        numpyro.sample("y", parts, obs=y)

    found = ev.Model.from_numpyro(mixture).bind({"y": Y}).symmetry
    assert found.components == (("weights", 0), ("means", 0)) and found.flips == found.unit_flips == ()


@pytest.mark.slow
@pytest.mark.parametrize("asymmetry", ["prior", "likelihood", "one row"])
def test_what_is_almost_a_symmetry_is_none(asymmetry):
    """The difference, of about 10⁻⁵, is too small for float32."""
    prior = FLAT | {"a": dist.Normal(1e-6 * (asymmetry == "prior"), 1.0)}

    def mean(params, batch):
        shift = 1e-6 * params["a"]
        if asymmetry == "one row":
            shift = shift * (batch["y"] > 1.99)
        return params["a"] * params["b"] + (asymmetry != "prior") * shift

    assert not symmetry_of(prior, mean)


def test_a_regression_has_none():
    found = symmetry_of(
        {"weights": vector(20), "intercept": dist.Normal(0.0, 1.0)},
        lambda params, batch: batch["x"] @ params["weights"] + params["intercept"],
        x=np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32),
        y=Y,
    )
    assert not found


def test_declared_components_have_their_flips():
    """y ~ N(Σ outputs tanh(inputs x), 1), with the components declared."""
    model = ev.Model(
        {"inputs": vector(2), "outputs": vector(2)},
        lambda params, batch: dist.Normal(
            jnp.tanh(batch["y"][:, None] * params["inputs"]) @ params["outputs"], 1.0
        ).log_prob(batch["y"]),
        exchangeable=("inputs", "outputs"),
    )
    found = model.bind({"y": Y}).symmetry
    assert found.components == (("inputs", 0), ("outputs", 0))
    assert found.unit_flips == (((0, 2), (1, 3)),)


@pytest.mark.slow
def test_the_evidence_counts_both_signs():
    """θ² has the mean of the data: by quadrature over both signs."""
    model = ev.Model(
        {"theta": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["theta"] ** 2, 1.0).log_prob(batch["y"]),
    )
    y = 1.5 + Y
    theta = np.linspace(-8, 8, 200_001)
    log_joint = -0.5 * np.sum((y[:, None].astype(float) - theta**2) ** 2, 0) - 0.5 * theta**2
    constant = 0.5 * (len(y) + 1) * np.log(2 * np.pi)
    exact = jax.scipy.special.logsumexp(log_joint) + np.log(theta[1] - theta[0]) - constant
    evidence = ev.estimate(model, {"y": y})
    assert abs(evidence.log_evidence - exact) < 4 * evidence.standard_error + 1e-3
    assert evidence.standard_error < 0.05


def test_effects_without_a_row_among_those_tried_have_no_symmetry():
    """118 groups, of which 64 rows show about half: the sign of the others is not free."""
    generator = np.random.default_rng(0)
    group = np.sort(generator.integers(118, size=403)).astype(np.int32)
    prior = {"mean": dist.Normal(0.0, 1.0), "scale": dist.HalfNormal(1.0), "effects": vector(118)}
    found = symmetry_of(
        prior,
        lambda params, batch: params["mean"] + params["scale"] * params["effects"][batch["group"]],
        y=generator.standard_normal(403).astype(np.float32),
        group=group,
    )
    assert not found


def test_equal_models_have_the_symmetries_that_their_rows_show():
    def symmetry_with(group):
        return symmetry_of(
            {"effects": vector(3)},
            lambda params, batch: params["effects"][batch["group"]] ** 2,
            y=Y,
            group=group.astype(np.int32),
        )

    two, three = np.arange(30) % 2, np.arange(30) % 3
    seen = [symmetry_with(group) for group in (two, three, two)]
    assert [len(symmetry.flips) for symmetry in seen] == [2, 3, 2]
