"""Densities on an unconstrained vector match NumPyro, and unusable models raise clear errors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib import control_flow

from evidentia.errors import ModelError
from evidentia.model import built_in as models
from evidentia.model.model import Model

DATA = {"y": np.linspace(-1, 1, 7, dtype=np.float32)}


def normal(params, batch):
    return dist.Normal(params["mean"], 1.0).log_prob(batch["y"])


def ignoring_nothing(params, batch):
    """A log-likelihood that uses every parameter of any shape."""
    return -((batch["y"] - sum(jnp.sum(value**2) for value in params.values())) ** 2)


def bind_prior(**prior):
    return Model(prior, ignoring_nothing).bind(DATA)


# --- The prior on the unconstrained vector -------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior",
    [
        dist.HalfNormal(2.0),
        dist.Beta(2.0, 3.0),
        dist.Uniform(-1.0, 4.0),
        dist.InverseGamma(1.0, 1.0),
        dist.LogNormal(1.0, 0.5),
        dist.TruncatedNormal(0.0, 1.0, low=0.5),
        dist.Normal(-1.0, 3.0),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_log_prior_integrates_to_one(prior):
    bound = bind_prior(parameter=prior)
    grid = np.linspace(-40, 40, 20_001, dtype=np.float32)[:, None]
    density = np.exp(np.asarray(jax.jit(jax.vmap(bound.log_prior))(grid), np.float64))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1.0, abs=1e-4)  # float32 log densities


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior",
    [
        {"weights": dist.Dirichlet(jnp.array([2.0, 1.0, 3.0]))},
        {"top": dist.Uniform(0.5, 2.0), "below": lambda params: dist.Uniform(0.0, params["top"])},
        {"scale": dist.Uniform(0.3, 2.0), "mean": lambda params: dist.Normal(1.0, params["scale"])},
    ],
    ids=["simplex", "support depends on a parameter", "scale depends on a parameter"],
)
def test_log_prior_integrates_to_one_in_two_dimensions(prior):
    bound = bind_prior(**prior)
    assert bound.num_parameters == 2
    line = np.linspace(-25, 25, 1201, dtype=np.float32)
    positions = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    density = np.exp(np.asarray(jax.jit(jax.vmap(bound.log_prior))(positions), np.float64))
    assert density.sum() * (line[1] - line[0]) ** 2 == pytest.approx(1.0, abs=1e-3)


@pytest.mark.reference
def test_constrained_draws_have_the_moments_of_the_prior():
    priors = {
        "simplex": dist.Dirichlet(jnp.array([1.0, 2.0, 4.0])),
        "interval": dist.Uniform(-1.0, 3.0),
        "positive": dist.LogNormal(0.0, 0.5).expand([2]).to_event(1),
        "real": dist.Normal(-2.0, 0.5),
    }
    bound = bind_prior(**priors)
    draws = bound.constrain(bound.sample_prior(jax.random.key(0), 4000))
    for name, prior in priors.items():
        mean, deviation = np.asarray(prior.mean), np.sqrt(np.asarray(prior.variance))
        assert np.all(abs(np.mean(draws[name], 0) - mean) < 4 * deviation / np.sqrt(4000)), name


def test_parameters_keep_their_names_and_shapes():
    prior = {
        "matrix": dist.Normal().expand([2, 3]),
        "simplex": dist.Dirichlet(jnp.ones(4)),
        "number": dist.Normal(),
    }
    bound = bind_prior(**prior)
    assert bound.parameter_shapes == {"matrix": (2, 3), "simplex": (4,), "number": ()}
    assert bound.num_parameters == 6 + 3 + 1
    constrained = jax.eval_shape(bound.constrain, jnp.zeros((5, 10)))
    assert {name: value.shape for name, value in constrained.items()} == {
        "matrix": (5, 2, 3),
        "simplex": (5, 4),
        "number": (5,),
    }


@pytest.mark.slow
def test_draws_that_round_to_the_edge_of_the_support_stay_finite():
    bound = bind_prior(rate=dist.Gamma(0.01, 1.0))
    positions = bound.sample_prior(jax.random.key(0), 1000)
    assert np.isfinite(positions).all()
    assert np.any(
        positions[:, 0] == -87.0
    )  # float32 has no smaller exponential: P(Gamma(0.01) < 1e-38) = 0.4


def test_other_keys_give_other_draws():
    bound = bind_prior(mean=dist.Normal())
    first, again, other = (bound.sample_prior(jax.random.key(seed), 10) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    assert len(np.unique(first)) == 10


@pytest.mark.parametrize("num_particles", [1, 10, 1024, 1025])
def test_any_number_of_draws_is_the_first_of_more(num_particles):
    bound = bind_prior(mean=dist.Normal())
    draws = bound.sample_prior(jax.random.key(0), num_particles)
    assert draws.shape == (num_particles, 1)
    np.testing.assert_array_equal(draws, bound.draw_prior(jax.random.key(0), 2048)[:num_particles])


# --- Binding -------------------------------------------------------------------------------------


def test_the_same_shapes_give_the_same_bound_model():
    model = Model({"mean": dist.Normal()}, normal)
    bound = model.bind(DATA)
    assert model.bind({"y": DATA["y"][:2]}) is bound
    assert model.bind({"y": jnp.asarray(DATA["y"])}) is bound
    assert model.bind({"y": DATA["y"].astype(np.int32)}) is not bound
    assert Model({"mean": dist.Normal()}, normal).bind(DATA) is not bound


@pytest.mark.parametrize(
    ("data", "read"), [(DATA["y"], lambda batch: batch), ((DATA["y"], DATA["y"]), lambda batch: batch[1])]
)
def test_data_may_be_an_array_or_a_tuple(data, read):
    model = Model(
        {"mean": dist.Normal()}, lambda params, batch: dist.Normal(params["mean"]).log_prob(read(batch))
    )
    log_likelihood = model.bind(data).log_likelihood(jnp.array([0.5]), data)
    np.testing.assert_allclose(log_likelihood, dist.Normal(0.5).log_prob(DATA["y"]), rtol=1e-6)


def test_a_likelihood_may_be_impossible_at_some_parameters():
    model = Model(
        {"top": dist.HalfNormal()}, lambda params, batch: dist.Uniform(0, params["top"]).log_prob(batch)
    )
    assert model.bind(np.array([0.1, 5.0], np.float32)).num_parameters == 1


def test_rows_in_which_the_parameters_do_not_show_are_not_mistaken_for_a_constant_likelihood():
    model = Model(
        {"slope": dist.Normal()},
        lambda params, batch: dist.Normal(params["slope"] * batch["x"]).log_prob(batch["y"]),
    )
    for dtype in (np.float32, np.int32):
        model.bind({"x": np.zeros(10, dtype), "y": np.zeros(10, np.float32)})


def test_names_appear_in_representations():
    model = Model({"mean": dist.Normal()}, normal, name="bell")
    assert repr(model) == "Model('bell')"
    assert repr(model.bind(DATA)) == "BoundModel('bell', num_parameters=1)"


# --- Errors of models with a mapping as prior ----------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (dist.Normal(), "prior must map parameter names to NumPyro distributions"),
        ([dist.Normal()], "prior must map parameter names to NumPyro distributions"),
        ({1: dist.Normal()}, "names in prior must be strings; got 1"),
        ({"w": 3.0}, r"prior\['w'\] must be a NumPyro distribution .* got 3.0"),
        ({"w": dist.Normal}, r"prior\['w'\] must be a NumPyro distribution .* got <class"),
    ],
)
def test_a_prior_that_is_none(prior, message):
    with pytest.raises(ModelError, match=message):
        Model(prior, normal)


def test_a_log_likelihood_that_is_not_a_function():
    with pytest.raises(ModelError, match="log_likelihood must be a function"):
        Model({"mean": dist.Normal()}, 3.0)  # pyright: ignore


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"k": dist.Poisson(3.0)}, r"site 'k' is a discrete latent \(Poisson\)"),
        ({"z": dist.Bernoulli(0.5).expand([3]).to_event(1)}, r"site 'z' is a discrete latent \(Bernoulli"),
        (
            {"w": dist.ImproperUniform(dist.constraints.real, (), ())},
            "site 'w' has the prior ImproperUniform",
        ),
        ({"w": dist.Delta(1.0)}, "site 'w' has the prior Delta, which is not a probability density"),
        (
            {"u": dist.ProjectedNormal(jnp.ones(2))},
            "site 'u' must be continuous; its support is .* cannot map",
        ),
        ({"w": lambda params: 1.0}, r"prior\['w'\] must return a NumPyro distribution; got float"),
        (
            {"a": dist.Normal(), "w": lambda params: dist.Normal(params["b"])},
            r"prior\['w'\] .*preceding parameters: a\)",
        ),
        (
            {"s": dist.HalfNormal(), "w": lambda params: dist.Normal(0, -params["s"])},
            "the prior of 'w' gives NaN or infinite values",
        ),
        ({"charge": dist.Normal(1.6e-19, 1e-20)}, "a scale below 1e-19, .* needs other units"),
    ],
)
def test_a_prior_that_cannot_be_used(prior, message):
    with pytest.raises(ModelError, match=message):
        bind_prior(**prior)


def underflowing(params, batch):
    """A spike that float64 does not show either, beside a floor."""
    return jnp.log(jnp.exp(-1e9 * (params["mean"] - 3.0) ** 2) * normal(params, batch) + 1e-30)


@pytest.mark.parametrize(
    ("log_likelihood", "message"),
    [
        (lambda p, b: normal(p, b).sum(), r"shape \(3,\) is needed, got \(\). Do not sum"),
        (lambda p, b: normal(p, b)[:, None], r"shape \(3,\) is needed, got \(3, 1\). Sum over"),
        (lambda p, b: normal(p, b)[:, None] + normal(p, b), r"got \(3, 3\). Check how"),
        (lambda p, b: normal(p, b)[:2], r"shape \(3,\) is needed, got \(2,\)"),
        (lambda p, b: None, "must return an array; it returned None"),
        (lambda p, b: {"y": normal(p, b)}, "must return an array; it returned a dict"),
        (lambda p, b: (normal(p, b) > 0).astype(int), "must return real numbers .* got dtype int32"),
        (underflowing, r"the log-likelihood is constant: .*\(mean\).* If it underflows"),
        (lambda p, b: 1e20 + normal(p, b), "or a large constant leaves no digits"),
        (
            lambda p, b: -((b["y"] - b["y"].mean() - p["mean"]) ** 2),
            "changes with the other rows of its batch",
        ),
        (lambda p, b: normal(p, {"y": np.asarray(b["y"])}), "log_likelihood failed with TracerArray"),
        (lambda p, b: 1 / 0, "log_likelihood failed with ZeroDivisionError: division by zero"),
        (
            lambda mean, y, x: y,
            r"missing 1 required positional argument.*It is called with two arguments: params, a dict",
        ),
    ],
)
def test_a_log_likelihood_that_cannot_be_used(log_likelihood, message):
    with pytest.raises(ModelError, match=message):
        Model({"mean": dist.Normal()}, log_likelihood).bind(DATA)


def test_a_callback_that_returns_other_numbers_at_each_call():
    generator = np.random.default_rng(0)

    def noise(mean):
        return generator.normal(size=np.shape(mean)).astype(np.float32)

    def log_likelihood(p, b):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        mean = jax.lax.stop_gradient(p["mean"])
        shift = jax.pure_callback(noise, shape, mean, vmap_method="broadcast_all")
        return normal({"mean": p["mean"] + shift}, b)

    with pytest.raises(ModelError, match="more than one value at the same parameters and rows: .* and then"):
        Model({"mean": dist.Normal()}, log_likelihood).bind(DATA)


@pytest.mark.parametrize("size", [(), (3,)])
def test_random_numbers_drawn_at_each_trace(size):
    generator = np.random.default_rng(0)

    def log_likelihood(p, b):
        return normal({"mean": p["mean"] + jnp.asarray(generator.normal(size=size)).sum()}, b)

    with pytest.raises(ModelError, match="draw random numbers outside of it, or from a generator with a"):
        Model({"mean": dist.Normal()}, log_likelihood).bind(DATA)


def test_random_numbers_from_a_fixed_seed_are_constants():
    def log_likelihood(p, b):
        shift = np.random.default_rng(0).normal(size=2).sum()
        return normal({"mean": p["mean"] + shift}, b)

    assert Model({"mean": dist.Normal()}, log_likelihood).bind(DATA).num_parameters == 1


def test_an_exception_in_the_log_likelihood_is_kept_as_the_cause():
    with pytest.raises(ModelError) as caught:
        Model({"mean": dist.Normal()}, lambda params, batch: 1 / 0).bind(DATA)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_name_that_neither_prior_nor_data_know():
    with pytest.raises(ModelError, match=r"uses 'mean', .* the prior \(location\) nor in data \(y\)"):
        Model({"location": dist.Normal()}, normal).bind(DATA)
    with pytest.raises(ModelError, match=r"uses 'y', .* nor in data \(x\)"):
        Model({"mean": dist.Normal()}, normal).bind({"x": DATA["y"]})


def test_a_parameter_that_the_log_likelihood_does_not_use():
    with pytest.raises(ModelError, match="prior has 'slope', which log_likelihood does not use"):
        Model({"slope": dist.Normal(), "mean": dist.Normal()}, normal).bind(DATA)


def test_a_parameter_that_only_another_prior_uses_is_used():
    prior = {"scale": dist.HalfNormal(), "mean": lambda params: dist.Normal(0, params["scale"])}
    assert Model(prior, normal).bind(DATA).num_parameters == 2


# --- Models from NumPyro -------------------------------------------------------------------------

ROWS = {
    "x": np.random.default_rng(0).standard_normal((40, 2), np.float32),
    "y": np.random.default_rng(1).standard_normal(40, np.float32),
}


def hierarchical(x, y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("features", x.shape[1]):
        weights = numpyro.sample("weights", dist.Normal(0.0, scale))
    mean = numpyro.deterministic("mean", x @ weights)
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.StudentT(4.0, mean, 1.0), obs=y)


@pytest.mark.slow
def test_the_numpyro_and_the_explicit_form_of_a_model_agree():
    explicit = Model(
        prior={
            "scale": dist.HalfNormal(1.0),
            "weights": lambda params: dist.Normal(0.0, params["scale"]).expand([2]).to_event(1),
        },
        log_likelihood=lambda params, batch: dist.StudentT(4.0, batch["x"] @ params["weights"]).log_prob(
            batch["y"]
        ),
    ).bind(ROWS)
    bound = Model.from_numpyro(hierarchical).bind(ROWS)
    assert bound.name == "hierarchical"
    assert bound.parameter_shapes == explicit.parameter_shapes == {"scale": (), "weights": (2,)}
    positions = bound.sample_prior(jax.random.key(0), 8)
    np.testing.assert_array_equal(positions, explicit.sample_prior(jax.random.key(0), 8))
    jax.tree.map(np.testing.assert_array_equal, bound.constrain(positions), explicit.constrain(positions))
    np.testing.assert_allclose(
        jax.vmap(bound.log_prior)(positions), jax.vmap(explicit.log_prior)(positions), rtol=1e-5
    )
    np.testing.assert_allclose(
        jax.vmap(bound.log_likelihood, (0, None))(positions, ROWS),
        jax.vmap(explicit.log_likelihood, (0, None))(positions, ROWS),
        rtol=1e-5,
    )


@pytest.mark.slow
def test_densities_are_those_of_numpyro():
    bound = Model.from_numpyro(hierarchical).bind(ROWS)
    position = bound.sample_prior(jax.random.key(3), 1)[0]
    unconstrained = {"scale": position[0], "weights": position[1:]}
    potential = numpyro.infer.util.potential_energy(hierarchical, (), ROWS, unconstrained)
    ours = bound.log_prior(position) + bound.log_likelihood(position, ROWS).sum()
    assert float(ours) == pytest.approx(-float(potential), rel=1e-5)


def test_several_observed_sites_masks_scales_and_factors_add_up():
    def model(x, y):
        mean = numpyro.sample("mean", dist.Normal())
        numpyro.sample("y", dist.Normal(mean).mask(y > 0), obs=y)
        with numpyro.handlers.scale(scale=2.0):
            numpyro.sample("x", dist.Normal(mean).expand([2]).to_event(1), obs=x)
        numpyro.factor("penalty", -jnp.abs(y - mean))

    log_likelihood = Model.from_numpyro(model).bind(ROWS).log_likelihood(jnp.array([0.3]), ROWS)
    expected = (
        np.where(ROWS["y"] > 0, dist.Normal(0.3).log_prob(ROWS["y"]), 0.0)
        + 2 * dist.Normal(0.3).log_prob(ROWS["x"]).sum(1)
        - np.abs(ROWS["y"] - 0.3)
    )
    np.testing.assert_allclose(log_likelihood, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_reparametrised_model_has_the_same_likelihood_at_the_same_weights():
    config = {"weights": numpyro.infer.reparam.LocScaleReparam(0.0)}
    bound = Model.from_numpyro(numpyro.handlers.reparam(hierarchical, config=config), name="decentred").bind(
        ROWS
    )
    assert set(bound.parameter_shapes) == {"scale", "weights_decentered"}
    log_scale, raw = 0.5, jnp.array([1.0, -2.0])
    centred = Model.from_numpyro(hierarchical).bind(ROWS)
    np.testing.assert_allclose(
        bound.log_likelihood(jnp.array([log_scale, *raw]), ROWS),
        centred.log_likelihood(jnp.array([log_scale, *(jnp.exp(log_scale) * raw)]), ROWS),
        rtol=1e-5,
    )


def test_a_numpyro_model_compiles_for_each_batch_size_without_binding_again():
    bound = Model.from_numpyro(hierarchical).bind(ROWS)
    log_likelihood = jax.jit(bound.log_likelihood)
    position = jnp.zeros(3)
    whole = log_likelihood(position, ROWS)
    part = log_likelihood(position, {name: rows[:7] for name, rows in ROWS.items()})
    np.testing.assert_allclose(whole[:7], part, rtol=1e-6)


# --- Errors of models from NumPyro ---------------------------------------------------------------


def discrete_latent(x, y):
    z = numpyro.sample("z", dist.Poisson(0.5))
    numpyro.sample("y", dist.Normal(z), obs=y)


def latents_on_another_axis(x, y):
    effects = numpyro.sample("effect", dist.Normal().expand([2, x.shape[0]]).to_event(2))
    numpyro.sample("y", dist.Normal(effects[0] + effects[1]), obs=y)


def not_to_event(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    numpyro.sample("x", dist.Normal(mean), obs=x)


def joint(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    covariance = jnp.eye(y.shape[0]) + 0.1
    numpyro.sample("y", dist.MultivariateNormal(mean * jnp.ones(y.shape), covariance), obs=y)


def crossed(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    numpyro.sample("y", dist.Normal(mean + y[:, None]), obs=y)


def rows_last(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    numpyro.sample("x", dist.Normal(mean), obs=x.T)


def nothing_observed(x, y):
    numpyro.sample("mean", dist.Normal())


def scalar_factor(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    numpyro.sample("y", dist.Normal(mean), obs=y)
    numpyro.factor("penalty", -(mean**2))


def subsampled(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    with numpyro.plate("rows", x.shape[0], subsample_size=2) as index:
        numpyro.sample("y", dist.Normal(mean), obs=y[index])


def optimised(x, y):
    mean = numpyro.param("mean", 0.0)
    numpyro.sample("y", dist.Normal(mean), obs=y)


def sites_by_row(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    for i in range(y.shape[0]):
        numpyro.sample(f"y{i}", dist.Normal(mean).expand([y.shape[0]]), obs=y)


def fixed_size(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    with numpyro.plate("rows", 40):
        numpyro.sample("y", dist.Normal(mean), obs=y)


def prior_from_data(x, y):
    mean = numpyro.sample("mean", dist.Normal(y.mean(), 1.0))
    numpyro.sample("y", dist.Normal(mean), obs=y)


def prior_from_number_of_rows(x, y):
    mean = numpyro.sample("mean", dist.Normal(0.0, y.shape[0]))
    numpyro.sample("y", dist.Normal(mean), obs=y)


def standardises_inside(x, y):
    slope = numpyro.sample("slope", dist.Normal())
    numpyro.sample("y", dist.Normal(slope * (x[:, 0] - x[:, 0].mean())), obs=y)


def scan(x, y):
    start = numpyro.sample("start", dist.Normal())

    def step(level, y):
        numpyro.sample("y", dist.Normal(level), obs=y)
        return level, None

    control_flow.scan(step, start, y)


def random_inside(x, y):
    mean = numpyro.sample("mean", dist.Normal())
    noise = jax.random.normal(numpyro.prng_key())
    numpyro.sample("y", dist.Normal(mean + noise), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (discrete_latent, r"site 'z' is a discrete latent \(Poisson\) whose values cannot be listed"),
        (
            latents_on_another_axis,
            r"site 'effect' is latent and its shape depends on .* \(2, 3\) for 3, \(2, 5\) for 5.*holds x, y",
        ),
        (not_to_event, r"observed site 'x' .*\(3,\) is needed, got \(3, 2\). Add .to_event\(1\)"),
        (joint, r"observed site 'y' .*\(3,\) is needed, got \(\). Rows belong on the leading axis"),
        (crossed, r"repeats the values of the observed site 'y' .* \(3, 1\) \(3, 3\)"),
        (rows_last, r"observed site 'x' .*\(3,\) is needed, got \(2, 3\)"),
        (nothing_observed, r"no observed site: .*data holds x, y"),
        (scalar_factor, r"numpyro.factor 'penalty' .* got \(\)"),
        (subsampled, "plate 'rows' takes 2 of 3 rows"),
        (optimised, "the model uses numpyro's param .*'mean'"),
        (sites_by_row, "these do: y3, y4"),
        (fixed_size, "the model failed with"),
        (prior_from_data, "the prior of 'mean' depends on the data"),
        (prior_from_number_of_rows, "the prior of 'mean' depends on the data"),
        (standardises_inside, "changes with the other rows"),
        (scan, "the model uses numpyro's control_flow"),
        (random_inside, "the model uses numpyro's prng_key"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_numpyro_model_that_cannot_be_used(function, message):
    with pytest.raises(ModelError, match=message):
        Model.from_numpyro(function).bind(ROWS)


def test_a_missing_column_makes_an_observed_site_latent():
    def model(x, y=None):
        weights = numpyro.sample("weights", dist.Normal().expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ weights), obs=y)

    with pytest.raises(
        ModelError, match=r"no observed site: data holds x, and without y, None by default, all"
    ):
        Model.from_numpyro(model).bind({"x": ROWS["x"]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (ROWS["x"], "data must be a mapping from the names of its arguments to arrays; got ndarray"),
        ({"x": ROWS["x"]}, r"takes the arguments \(x, y\), but data holds x: .y. is missing\."),
        ({**ROWS, "z": ROWS["y"]}, r"takes the arguments \(x, y\), but data holds x, y, z: leave out .z.\."),
        (
            {"x": ROWS["x"], "yy": ROWS["y"], "shade": ROWS["y"]},
            r"data holds shade, x, yy: leave out .shade.; .yy. may mean .y.\.",
        ),
    ],
)
def test_data_that_do_not_fit_the_arguments(data, message):
    with pytest.raises(ModelError, match=message):
        Model.from_numpyro(hierarchical).bind(data)


def test_from_numpyro_needs_a_function():
    with pytest.raises(ModelError, match=r"must be a function with numpyro.sample statements; got 3"):
        Model.from_numpyro(3)  # pyright: ignore


def test_unconstrain_is_the_inverse_of_constrain():
    model = models.gaussian_mixture(3, 2)
    data, params = model.simulate(100, 0)
    bound = model.bind(data)
    position = bound.unconstrain(jax.tree.map(jnp.asarray, params))
    back = bound.constrain(position[None])
    for name, value in params.items():
        np.testing.assert_allclose(back[name][0], value, rtol=1e-4, atol=1e-6)


def test_the_prior_of_constrained_parameters_has_no_jacobian():
    model = Model(prior={"rate": dist.Gamma(2.0, 1.0)}, log_likelihood=lambda params, y: -params["rate"] * y)
    bound = model.bind(np.ones(10, np.float32))
    position = bound.unconstrain({"rate": jnp.float32(3.0)})
    expected = dist.Gamma(2.0, 1.0).log_prob(3.0)
    np.testing.assert_allclose(bound.densities.log_prior_of({"rate": jnp.float32(3.0)}), expected, rtol=1e-6)
    np.testing.assert_allclose(bound.log_priors(position[None])[0], expected + np.log(3.0), rtol=1e-6)


@pytest.mark.slow
def test_a_cholesky_factor_of_twenty_dimensions_passes_the_checks():
    """At unconstrained positions of order one its Jacobian underflows; its prior draws do not."""
    bind_prior(factor=dist.LKJCholesky(20, 2.0))


def test_a_likelihood_that_is_flat_near_zero_passes_the_checks():
    Model(
        {"m": dist.Normal(0, 1)}, lambda params, batch: -jnp.maximum(params["m"], 1.0) + 0 * batch["y"]
    ).bind(DATA)
