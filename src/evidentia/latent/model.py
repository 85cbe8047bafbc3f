"""Latent-variable models: a joint log density of parameters, latent variables and data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Float

from evidentia.errors import ModelError
from evidentia.latent.numpyro_program import NumpyroProgram


def _as_it_is(theta: Any, x: Any, data: Any) -> tuple[Any, Any]:
    """Return θ and x unchanged: every real value is possible on their scales."""
    return theta, x


@dataclass(frozen=True, eq=False)
class LatentModel:
    """A model with parameters θ to optimise and latent variables x to integrate out.

    The methods of `ev.latent` maximise its evidence, Z(θ) = ∫ exp(log_joint(θ, x)) dx.

    Attributes:
        log_joint: `(theta, x, data=None) -> ()`, log p_θ(x, data) in nats, in `jax.numpy`; θ and x
            are any pytrees of unconstrained arrays. Called without data if `fit` has none.
        log_prior: `(theta, x, data) -> ()`, the terms of `log_joint` that do not depend on the
            observations; required for mini-batches, and called with each of them as `data`.
        sample_prior: `(key, theta, data) -> x`, a draw of the latent variables given θ. With it,
            `fit` needs no initial particles.
        constrain: `(theta, x, data) -> (theta, x)`, from the unconstrained scale to the user's;
            set by `from_numpyro`.
        unconstrain: the inverse of `constrain`; its x may be None.
        name: shown in progress and messages.

    Raises:
        ModelError: a field that must be a function is not one.

    Example:
        >>> import jax.numpy as jnp
        >>> def log_joint(theta, x, data=None):
        ...     return -0.5 * (jnp.sum((data - x) ** 2) + jnp.sum((x - theta) ** 2))
        >>> LatentModel(log_joint, name="two levels")
        LatentModel('two levels')

    Source: Kuntz, Lim, Johansen (2023), Proceedings of Machine Learning Research 206, section 1
        (the problem).
    """

    log_joint: Callable[..., Float[Array, ""]]
    log_prior: Callable[[Any, Any, Any], Float[Array, ""]] | None = None
    sample_prior: Callable[[Array, Any, Any], Any] | None = None
    constrain: Callable[[Any, Any, Any], tuple[Any, Any]] = _as_it_is
    unconstrain: Callable[[Any, Any, Any], tuple[Any, Any]] = _as_it_is
    name: str = "latent-variable model"

    def __post_init__(self) -> None:
        for name in ("log_joint", "log_prior", "sample_prior", "constrain", "unconstrain"):
            value = getattr(self, name)
            if not callable(value) and not (value is None and name in ("log_prior", "sample_prior")):
                raise ModelError(f"{name} must be a function; got {value!r}.")

    @classmethod
    def from_numpyro(
        cls, function: Callable[..., Any], parameters: Sequence[str], *, name: str | None = None
    ) -> "LatentModel":
        """Make a model from a NumPyro function, called as `function(**data)`.

        θ and x are dictionaries by name, on the function's own scale; `fit` moves them on the
        unconstrained scale.

        Args:
            function: has the parameters as `numpyro.param` or `numpyro.sample` statements (whose
                priors are ignored), the latent variables as sample statements without `obs`, and
                the data as sample statements with `obs`.
            parameters: names of the parameters.
            name: the function's name if not given.

        Raises:
            ModelError: immediately, if `function` is not a function or there are no names; at the
                first use, for a missing parameter or a discrete latent site.

        Example:
            >>> import numpyro, numpyro.distributions as dist
            >>> def groups(y):
            ...     scale = numpyro.param("scale", 1.0, constraint=dist.constraints.positive)
            ...     effect = numpyro.sample(
            ...         "effect", dist.Normal(0, scale).expand([3]).to_event(1)
            ...     )
            ...     numpyro.sample("y", dist.Normal(effect, 1.0).to_event(1), obs=y)
            >>> LatentModel.from_numpyro(groups, ["scale"])
            LatentModel('groups')
        """
        if not callable(function):
            raise ModelError(f"function must be a function with numpyro.sample statements; got {function!r}.")
        names = tuple(parameters)
        if isinstance(parameters, str) or not names or not all(isinstance(name, str) for name in names):
            raise ModelError(f"parameters must be one or more names of sites; got {parameters!r}.")
        program = NumpyroProgram(function, names)
        label: str = name or getattr(function, "__name__", "model")
        return cls(
            program.log_joint,
            program.log_prior,
            program.sample_prior,
            program.constrain,
            program.unconstrain,
            name=label,
        )

    def __repr__(self) -> str:
        return f"LatentModel({self.name!r})"
