"""A model bound to the shapes of its data: log densities of one unconstrained vector."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.model.blocks import BLOCK, in_blocks
from evidentia.model.outside import Evaluations
from evidentia.model.program import LARGEST_LOG, Densities, Observations, Params, Position
from evidentia.model.symmetry import Symmetry
from evidentia.system.compilation import compiled, in_float64, jitted

SamplePosterior = Callable[[Any, int, int], Mapping[str, Any]]
Shown = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

LEAST_DRAWS = 1024  # smallest number of prior draws that is generated
MOST_IN_FLOAT32 = 2.0**17  # nats; above it, neighbouring numbers in float32 are over 0.01 apart


@dataclass(frozen=True, eq=False, repr=False)
class BoundModel:
    """A model with the shapes of its data: log densities of an unconstrained vector, in nats.

    With θ = T(u) the constrained parameters at the position u,

        log_prior(u) = log p(θ) + log |det ∂T/∂u|,
        log_likelihood(u, batch)_i = log p(y_i | θ).

    `Model.bind` makes it. It is a static argument of compiled functions. Two bound models are
    equal if they compute the same (`identity`), so a model rebuilt from the same parts compiles
    nothing.

    Attributes:
        name: the model's name.
        densities: the functions that are traced.
        symmetry: changes of the parameters that leave the model as it is.
        sample_posterior: exact draws of the constrained parameters given data, or None.
        identity: a hash of what the model computes (`probe`).
        shown: as in `Model`.
        evaluations: of a log-likelihood outside JAX; None for others.
        starts: where searches for modes begin; likely draws from the prior if there are none.
        is_constant: whether the log-likelihood uses no parameter; the posterior is then the prior.
    """

    name: str
    densities: Densities
    symmetry: Symmetry
    sample_posterior: SamplePosterior | None
    identity: str
    shown: Shown | None = None
    evaluations: Evaluations | None = None
    starts: tuple[np.ndarray, ...] = ()
    is_constant: bool = False

    @cached_property
    def num_parameters(self) -> int:
        """The length of the unconstrained vector."""
        return self.densities.size

    @cached_property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """The constrained shape of each parameter, by name."""
        return {name: site.shape for name, site in self.densities.sites.items()}

    def in_float64(self) -> AbstractContextManager[Any]:
        """JAX computes in 64 bits inside, if the model can."""
        return in_float64(self.densities.runs_in_float64)

    def sample_prior(self, key: Array, num_particles: int) -> Float[Array, "particles parameters"]:
        """Draws from the prior, unconstrained.

        They are the first of a power of two (at least `LEAST_DRAWS`), so that one compiled
        program, which takes a second to compile, serves all usual numbers.
        """
        drawn = max(LEAST_DRAWS, 2 ** (num_particles - 1).bit_length())
        draws = self._sample_prior(key, drawn)
        return draws if drawn == num_particles else jnp.asarray(np.asarray(draws)[:num_particles])

    def is_at_edge(self, draws: Float[Array, "draws parameters"] | np.ndarray) -> np.ndarray:
        """Which of the draws from the prior float32 has rounded to the edge of a support.

        Several have the same extreme value, beyond which parameters no longer change.
        """
        on_host = np.asarray(draws)
        found = (np.abs(on_host) == LARGEST_LOG).any(axis=1)
        for extreme, outward in ((np.min, -1.0), (np.max, 1.0)):
            is_extreme = on_host == extreme(on_host, axis=0)
            for column in np.flatnonzero(is_extreme.sum(axis=0) > 1):
                here = on_host[is_extreme[:, column].argmax()]
                beyond = here + outward * (np.arange(len(here)) == column)
                params = self.constrain(jnp.asarray(np.stack([here, beyond]), jnp.float32))
                if all(np.array_equal(*np.asarray(values)) for values in params.values()):
                    found |= is_extreme[:, column]
        return found

    def draw_prior(self, key: Array, count: int) -> Float[Array, "draws parameters"]:
        """As `sample_prior`, with exactly `count` draws, for use inside a compiled program."""
        return jax.vmap(self.densities.draw)(jax.random.split(key, count))

    _sample_prior = compiled(static_argnames=("self", "count"))(draw_prior)

    # Traced once per shape: NumPyro's Python code takes most of the time to trace a gradient.
    @jitted(static_argnames="self")
    def place(self, position: Position) -> tuple[Params, dict[str, Float[Array, ""]]]:
        """Constrained parameters at a position, and the terms of `log_prior` by parameter name."""
        return self.densities.place(position)

    def log_prior(self, position: Position) -> Float[Array, ""]:
        """Normalized log prior density of the unconstrained vector, in nats."""
        return sum(self.place(position)[1].values(), start=jnp.zeros((), position.dtype))

    def log_priors(self, positions: Float[Array, "particles parameters"]) -> Float[np.ndarray, " particles"]:
        """`log_prior` at every particle, on the host in float64.

        Thousands of deviations from the prior it is so large that float32 would lose its digits.
        """
        found = in_blocks(self._log_priors, positions, least=BLOCK).astype(np.float64)
        if np.abs(found, where=np.isfinite(found), out=np.zeros_like(found)).max() > MOST_IN_FLOAT32:
            with self.in_float64():
                return in_blocks(self._log_priors, np.asarray(positions, np.float64), least=BLOCK)
        return found

    @jitted(static_argnames="self")
    def _log_priors(self, positions: Float[Array, "particles parameters"]) -> Float[Array, " particles"]:
        return jax.vmap(self.log_prior)(positions)

    @jitted(static_argnames="self")
    def log_likelihood(self, position: Position, batch: Observations) -> Float[Array, " batch"]:
        """Log-likelihood of each row of a batch, in nats."""
        return self.densities.pointwise(self.place(position)[0], batch)

    @jitted(static_argnames="self")
    def constrain(self, positions: Float[Array, "particles parameters"]) -> Params:
        """Constrained parameters by name, each with particles on its leading axis."""

        def params(position: Position) -> Params:
            return self.place(position)[0]

        return jax.vmap(params)(positions)

    @jitted(static_argnames="self")
    def unconstrain(self, params: Params) -> Position:
        """The unconstrained vector of one set of constrained parameters (no particle axis)."""
        return self.densities.unplace(params)

    def __repr__(self) -> str:
        return f"BoundModel({self.name!r}, num_parameters={self.num_parameters})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundModel) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)
