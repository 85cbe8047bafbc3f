"""A NumPyro function as the joint density of parameters, latent variables and data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro import handlers

from evidentia.errors import ModelError
from evidentia.model.broadcasting import check_not_repeated
from evidentia.model.program import bijector, log_prob, run_traced, trace_at

Values = dict[str, Any]
Data = Mapping[str, Any] | None


@dataclass(frozen=True)
class NumpyroProgram:
    """The functions of a `LatentModel`; θ and x are dictionaries on the unconstrained scale."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]

    def log_joint(self, theta: Values, x: Values, data: Data = None) -> Float[Array, ""]:
        """log p of the latent variables, with the Jacobians of their bijectors, and the data."""
        return self._log_density(theta, x, data, self._is_random)

    def log_prior(self, theta: Values, x: Values, data: Data) -> Float[Array, ""]:
        """log p of the latent variables alone."""
        return self._log_density(theta, x, data, lambda name, site: name in x)

    def sample_prior(self, key: Array, theta: Values, data: Data) -> Values:
        """A draw of the latent variables given θ."""
        trace, _ = trace_at(handlers.seed(self.function, key), theta, data or {})
        return {
            name: bijector(site).inv(site["value"])
            for name, site in trace.items()
            if self._is_random(name, site) and not site["is_observed"]
        }

    def constrain(self, theta: Values, x: Values, data: Data) -> tuple[Values, Values]:
        """θ and x on the function's own scale."""
        trace, _ = trace_at(self.function, {**theta, **x}, data or {})
        return {name: trace[name]["value"] for name in theta}, {name: trace[name]["value"] for name in x}

    def unconstrain(self, theta: Values, x: Values | None, data: Data) -> tuple[Values, Values | None]:
        """The inverse of `constrain`; of θ alone if x is None."""
        if not isinstance(theta, Mapping) or set(theta) != set(self.parameters):
            raise ModelError(
                f"theta0 must be a dictionary with the parameters {', '.join(self.parameters)}; got {theta!r}."
            )
        values = {**theta, **(x or {})}
        program = handlers.substitute(handlers.seed(self.function, 0), data=values)
        trace = run_traced(program, data or {})
        if unknown := [name for name in values if name not in trace]:
            raise ModelError(f"the function has no site {', '.join(unknown)}; it has {', '.join(trace)}.")
        free = {name: bijector(trace[name]).inv(jnp.asarray(value)) for name, value in values.items()}
        return {name: free[name] for name in theta}, None if x is None else {name: free[name] for name in x}

    def _log_density(self, theta: Values, x: Values, data: Data, counts: Callable[[str, Any], bool]):
        """Sum over the sites that count, plus the log Jacobians of the latent variables."""
        trace, log_dets = trace_at(self.function, {**theta, **x}, data or {})
        for name, site in trace.items():
            if self._is_random(name, site) and site["is_observed"]:
                check_not_repeated(site, data or {})
        jacobians = sum((log_dets[name] for name in x), start=jnp.zeros(()))
        return jacobians + sum(jnp.sum(log_prob(site)) for name, site in trace.items() if counts(name, site))

    def _is_random(self, name: str, site: Mapping[str, Any]) -> bool:
        return site["type"] == "sample" and name not in self.parameters
