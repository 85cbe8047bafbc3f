"""What a step gains in log evidence, and its variance from the weights of families."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from evidentia.evidence.weighted_langevin import StepTaken


class Gain(NamedTuple):
    """The gain in log evidence of a step; NaN without weights.

    Attributes:
        log_evidence: log Z_{k+1} / Z_k in nats.
        ess: effective sample size as a fraction of the particles, before resampling.
        variance: of log Z_{k+1} / Z_0, in nats², for the path of θ as it is.
    """

    log_evidence: Float[Array, ""]
    ess: Float[Array, ""]
    variance: Float[Array, ""]


def unknown() -> Gain:
    """The gain of a step without weights."""
    return Gain(*[jnp.asarray(jnp.nan)] * 3)


def gain(
    taken: StepTaken, log_weights: Float[Array, " particles"], families: Int[Array, " particles"]
) -> Gain:
    """The gain of a step, after which the particles have normalised weights and initial ancestors.

    With W_a the weight of the descendants of the initial particle a, one of N, the variance of the
    estimated ratio of evidences over its square is Σ (W_a - 1/N)². Langevin steps are short, so
    descendants of one particle remain similar for long, and are counted as one.

    Source: Chan and Lai (2013), Annals of Statistics 41, Eq. 2.15; Lee and Whiteley (2018),
        Biometrika 105, section 3.
    """
    count = len(families)
    shares = jax.ops.segment_sum(jnp.exp(log_weights), families, count)
    return Gain(*taken, jnp.sum((shares - 1 / count) ** 2))
