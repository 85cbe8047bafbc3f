"""A model: a prior and a pointwise log-likelihood, on the unconstrained vector that estimators move.

A `Model` is what a user writes; `Model.bind` checks it against the shapes of the data and gives the `BoundModel` that
estimators see: pure functions of a position u, with θ = T(u) the parameters a user knows,

    log_prior(u) = log p(θ) + log |det ∂T/∂u|,      log_likelihood(u, batch)_i = log p(y_i | θ).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from evidentia import model_checks, numpyro_model
from evidentia.errors import ModelError
from evidentia.numpyro_model import Params, Prior, Program, Site

Batch = Any  # a pytree of arrays with observations on the leading axis
LogLikelihood = Callable[[Params, Batch], Float[Array, " batch"]]
SamplePosterior = Callable[[Any, int, int], Mapping[str, Any]]

NUM_DRAWS = 1024  # of the prior, that are drawn at least


@dataclass(frozen=True, eq=False, repr=False)
class BoundModel:
    """A model together with the shapes of its data: densities on an unconstrained vector, in nats.

    Made by `Model.bind`. It compares by identity, so that it can be a static argument of a compiled function.

    Attributes:
        name: the model's name.
        num_parameters: the length of the unconstrained vector.
        parameter_shapes: the constrained shape of each parameter, by name.
        pointwise: the log-likelihood of each row as a function of the constrained parameters.
        sample_posterior: the model's, or None: exact draws of the constrained parameters given data.
    """

    name: str
    num_parameters: int
    parameter_shapes: dict[str, tuple[int, ...]]
    pointwise: LogLikelihood
    exchangeable: tuple[str, ...]
    sample_posterior: SamplePosterior | None
    _sites: dict[str, Site]
    _program: Program  # samples the prior
    _rows: Mapping[str, Any]  # a few rows to call the program with, which may use their shapes

    def sample_prior(self, key: Array, num_particles: int) -> Float[Array, "particles parameters"]:
        """Draws from the prior, unconstrained.

        They are the first of a power of two: one compiled program, of a second, serves all the usual numbers.
        """
        drawn = max(NUM_DRAWS, 2 ** (num_particles - 1).bit_length())
        return self.draw_prior(key, drawn)[:num_particles]

    @partial(jax.jit, static_argnames=("self", "count"))
    def draw_prior(self, key: Array, count: int) -> Float[Array, "draws parameters"]:
        """As `sample_prior`, exactly `count`: for use inside a compiled program."""
        draw = partial(numpyro_model.draw, self._program, self._sites, self._rows)
        return jax.vmap(draw)(jax.random.split(key, count))

    def log_prior(self, position: Float[Array, " parameters"]) -> Float[Array, ""]:
        """Log prior density of the unconstrained vector, in nats: it integrates to one over it."""
        return sum(self.place(position)[1].values(), start=jnp.zeros((), position.dtype))

    def log_priors(self, positions: Float[Array, "particles parameters"]) -> Float[np.ndarray, " particles"]:
        """`log_prior` at every particle, on the host in float64."""
        return np.asarray(self._log_priors(positions), np.float64)

    @partial(jax.jit, static_argnames="self")
    def _log_priors(self, positions):
        return jax.vmap(self.log_prior)(positions)

    def log_likelihood(self, position: Float[Array, " parameters"], batch: Batch) -> Float[Array, " batch"]:
        """Log-likelihood of each row of a batch, in nats."""
        return self.pointwise(self.place(position)[0], batch)

    @partial(jax.jit, static_argnames="self")
    def constrain(self, positions: Float[Array, "particles parameters"]) -> Params:
        """The parameters that a user knows, by name, each with particles on its leading axis."""
        return jax.vmap(lambda position: self.place(position)[0])(positions)

    @partial(jax.jit, static_argnames="self")
    def unconstrain(self, params: Params) -> Float[Array, " parameters"]:
        """The unconstrained vector of one set of parameters, as `constrain` gives them without the leading axis."""
        return numpyro_model.unplace(self._program, self._sites, self._rows, params)

    def log_prior_of(self, params: Params) -> Float[Array, ""]:
        """Log prior density of one set of constrained parameters, with respect to them: without a Jacobian."""
        return numpyro_model.log_density(self._program, self._sites, self._rows, params)

    def __repr__(self) -> str:
        return f"BoundModel({self.name!r}, num_parameters={self.num_parameters})"

    def place(
        self, position: Float[Array, " parameters"], rows: Mapping[str, Any] | None = None
    ) -> tuple[Params, dict[str, Float[Array, ""]]]:
        """The constrained parameters at a position and the log prior density of each, of which `log_prior` is the sum.

        The prior may use the shapes of the data but not the numbers; `rows` in place of those kept shows that it does not.
        """
        return numpyro_model.place(self._program, self._sites, self._rows if rows is None else rows, position)

    @property
    def prior_sees_rows(self) -> bool:
        """Whether the prior is a function of rows: a NumPyro function's is."""
        return bool(self._rows)


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A prior and a pointwise log-likelihood.

    Attributes:
        prior: NumPyro distributions by name. In place of a distribution there may be a function of the parameters before
            it (a dict) that returns one. For a model made by `from_numpyro` it is the NumPyro function.
        log_likelihood: `(params, batch) -> (batch,)`, one number per observation in nats, in `jax.numpy`. `params` maps
            the names in `prior` to constrained values; `batch` holds some rows of the data, in the data's structure.
        name: shown in results.
        exchangeable: names of parameters whose leading axis counts components that may be put into any order without
            changing the model, such as a mixture's weights, means and variances.
        check_data: raises DataError for data (as NumPy arrays) that the model cannot use, such as labels out of range.
        simulate: `data, params = simulate(num_observations, seed)`, with parameters drawn from the prior.
        exact_log_evidence: the exact log evidence of data in nats, where it is known.
        sample_posterior: `params = sample_posterior(data, num_draws, seed)`, exact independent draws from the posterior
            given data (as NumPy arrays), where that can be done: constrained values by name, each with draws on its leading
            axis. Estimators that need draws from the posterior take these in place of a Markov chain.

    Raises:
        ModelError: the prior is not made of NumPyro distributions, or the log-likelihood is not a function.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpyro.distributions as dist
        >>> def log_likelihood(params, batch):
        ...     return dist.Normal(params["mean"], params["scale"]).log_prob(batch["y"])
        >>> Model({"mean": dist.Normal(0, 1), "scale": dist.HalfNormal(1)}, log_likelihood, name="normal")
        Model('normal')
    """

    prior: Prior | Program
    log_likelihood: LogLikelihood
    name: str = "model"
    exchangeable: tuple[str, ...] = ()
    check_data: Callable[[Any], None] | None = None
    simulate: Callable[[int, int], tuple[Any, dict[str, np.ndarray]]] | None = None
    exact_log_evidence: Callable[[Any], float] | None = None
    sample_posterior: SamplePosterior | None = None
    _bound: dict[Any, BoundModel] = field(default_factory=dict, init=False)

    def __post_init__(self):
        if not callable(self.log_likelihood):
            raise ModelError(
                f"log_likelihood must be a function (params, batch) -> (batch,); got {self.log_likelihood!r}."
            )
        if not self._is_numpyro:
            numpyro_model.check_prior(self.prior)

    @classmethod
    def from_numpyro(
        cls, function: Callable[..., Any], *, name: str | None = None, exchangeable: tuple[str, ...] = ()
    ) -> "Model":
        """A model from a NumPyro function, called as `function(**batch)`.

        Its latent sites are the parameters, its observed sites the likelihood. Latent sites must be continuous, with
        shapes that do not follow the number of rows; the log-probability of an observed site must be one number per row.

        Raises:
            ModelError: here, if it is not a function; at the first use, for a site of another kind, with its name.

        Example:
            >>> import numpyro, numpyro.distributions as dist
            >>> def coin(y):
            ...     bias = numpyro.sample("bias", dist.Beta(1, 1))
            ...     numpyro.sample("y", dist.Bernoulli(bias), obs=y)
            >>> Model.from_numpyro(coin)
            Model('coin')
        """
        if not callable(function):
            raise ModelError(f"function must be one with numpyro.sample statements; got {function!r}.")
        default = getattr(function, "__name__", type(function).__name__)
        return cls(
            function, numpyro_model.pointwise(function), name=name or default, exchangeable=exchangeable
        )

    def bind(self, batch: Batch) -> BoundModel:
        """This model for data of these shapes; `batch` is the data or a few rows of it.

        The same model and shapes (apart from the number of rows) give the same object.

        Raises:
            ModelError: what is wrong with the prior or the log-likelihood, and what is needed instead.
        """
        leaves, structure = jax.tree.flatten(batch)
        key = structure, tuple((leaf.shape[1:], str(leaf.dtype)) for leaf in leaves)
        if key not in self._bound:
            self._bound[key] = self._bind(batch)
        return self._bound[key]

    def __repr__(self) -> str:
        return f"Model({self.name!r})"

    @property
    def _is_numpyro(self) -> bool:
        return callable(self.prior) and not isinstance(
            self.prior, dist.Distribution
        )  # which can be called too

    @property
    def _is_hierarchical(self) -> bool:
        return isinstance(self.prior, Mapping) and not all(
            isinstance(value, dist.Distribution) for value in self.prior.values()
        )

    def _bind(self, batch: Batch) -> BoundModel:
        few, more = model_checks.some_rows(batch, 3), model_checks.some_rows(batch, 5)
        if callable(self.prior):
            numpyro_model.check_arguments(self.prior, batch)
            numpyro_model.check_function(self.prior, few, more)
            program, rows = self.prior, few
        else:
            program, rows = numpyro_model.program_of(self.prior), {}
        sites = numpyro_model.latent_sites(program, rows)
        bound = BoundModel(
            name=self.name,
            num_parameters=max(site.stop for site in sites.values()),
            parameter_shapes={name: site.shape for name, site in sites.items()},
            _sites=sites,
            _program=program,
            _rows=rows,
            pointwise=self.log_likelihood,
            exchangeable=tuple(self.exchangeable),
            sample_posterior=self.sample_posterior,
        )
        model_checks.check_result(bound, few)
        model_checks.check_result(bound, more)
        model_checks.check_values(bound, model_checks.some_rows(batch, 64))
        if self.exchangeable:
            model_checks.check_exchangeable(bound, few)
        if not self._is_numpyro and not self._is_hierarchical:
            model_checks.check_parameters_used(bound, few)
        return bound
