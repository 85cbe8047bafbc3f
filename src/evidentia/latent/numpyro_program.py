"""A NumPyro function as the joint density of parameters, latent variables and data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro import handlers
from numpyro.distributions import biject_to, constraints

from evidentia.errors import ModelError

Values = dict[str, Any]


@dataclass(frozen=True)
class NumpyroProgram:
    """The functions that `LatentModel` asks for. θ and x are dictionaries by name, on the unconstrained scale."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]

    def log_joint(self, theta: Values, x: Values, data: Mapping[str, Any] | None = None) -> Float[Array, ""]:
        """log p of the latent variables, with the Jacobians of their bijectors, and of the data."""
        trace, log_det = self._placed(theta, x, data)
        return log_det + sum(_log_prob(site) for name, site in trace.items() if self._counts(name, site))

    def log_prior(self, theta: Values, x: Values, data: Mapping[str, Any] | None = None) -> Float[Array, ""]:
        """log p of the latent variables alone."""
        trace, log_det = self._placed(theta, x, data)
        return log_det + sum(_log_prob(trace[name]) for name in x)

    def sample_prior(self, key: Array, theta: Values, data: Mapping[str, Any] | None) -> Values:
        """A draw of the latent variables given θ."""

        def place(site):
            return self._bijector(site)(theta[site["name"]]) if site["name"] in theta else None

        program = handlers.substitute(handlers.seed(self.function, key), substitute_fn=place)
        trace = handlers.trace(program).get_trace(**(data or {}))
        return {
            name: self._bijector(site).inv(site["value"])
            for name, site in trace.items()
            if self._is_latent(name, site)
        }

    def constrain(self, theta: Values, x: Values, data: Mapping[str, Any] | None) -> tuple[Values, Values]:
        """The values that the function knows."""
        trace, _ = self._placed(theta, x, data)
        return {name: trace[name]["value"] for name in theta}, {name: trace[name]["value"] for name in x}

    def unconstrain(
        self, theta: Values, x: Values | None, data: Mapping[str, Any] | None
    ) -> tuple[Values, Values | None]:
        """The inverse of `constrain`; of θ alone where there is no x."""
        if not isinstance(theta, Mapping) or set(theta) != set(self.parameters):
            raise ModelError(
                f"theta0 must be a dictionary with the parameters {', '.join(self.parameters)}; got {theta!r}."
            )
        values = {**theta, **(x or {})}
        program = handlers.substitute(handlers.seed(self.function, 0), data=values)
        trace = handlers.trace(program).get_trace(**(data or {}))
        if unknown := [name for name in values if name not in trace]:
            raise ModelError(f"the function has no site {', '.join(unknown)}; it has {', '.join(trace)}.")
        free = {name: self._bijector(trace[name]).inv(jnp.asarray(value)) for name, value in values.items()}
        return {name: free[name] for name in theta}, None if x is None else {name: free[name] for name in x}

    def _placed(self, theta: Values, x: Values, data: Mapping[str, Any] | None):
        """The trace at a place, and the log Jacobian determinant of the latent variables' bijectors there."""
        free = {**theta, **x}

        def place(site):
            return self._bijector(site)(free[site["name"]]) if site["name"] in free else None

        trace = handlers.trace(handlers.substitute(self.function, substitute_fn=place)).get_trace(
            **(data or {})
        )
        log_det = jnp.zeros(())
        for name in x:
            bijector = self._bijector(trace[name])
            log_det += jnp.sum(bijector.log_abs_det_jacobian(x[name], trace[name]["value"]))
        return trace, log_det

    def _is_latent(self, name: str, site: Mapping[str, Any]) -> bool:
        return site["type"] == "sample" and not site["is_observed"] and name not in self.parameters

    def _counts(self, name: str, site: Mapping[str, Any]) -> bool:
        return site["type"] == "sample" and name not in self.parameters

    def _bijector(self, site: Mapping[str, Any]):
        support = (
            site["fn"].support
            if site["type"] == "sample"
            else site["kwargs"].get("constraint", constraints.real)
        )
        try:
            return biject_to(support)
        except NotImplementedError as error:
            raise ModelError(
                f"the latent site {site['name']!r} must be continuous; its support is {support}. Sum it out of the model."
            ) from error


def _log_prob(site: Mapping[str, Any]) -> Float[Array, ""]:
    values = site["fn"].log_prob(site["value"])
    return jnp.sum(values if site["scale"] is None else site["scale"] * values)
