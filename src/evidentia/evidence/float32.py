"""Signs that float32 has lost a part of the prior or of the posterior at the edge of a support."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.model.bound import MOST_IN_FLOAT32, BoundModel
from evidentia.model.program import Site
from evidentia.posterior.rows import Window
from evidentia.posterior.symmetry import Positions
from evidentia.system.compilation import jitted

MATTERS = 0.01  # of the evidence, or of the particles


def signs_of_edge(model: BoundModel, rows: Window, log_evidence: float, seed: int) -> dict[str, str]:
    """A sign if the prior's mass beyond float32 may contribute to the evidence.

    It adds at most its share times the likelihood at the edge, if the likelihood falls beyond.
    """
    positions = model.sample_prior(jax.random.key(seed), 1024)
    is_at_edge = model.is_at_edge(positions)
    if not is_at_edge.any():
        return {}
    there = np.asarray(positions)[np.resize(np.flatnonzero(is_at_edge), 64)]  # where it hardly varies
    deviations, offset = rows.log_likelihoods(model, jnp.asarray(there))
    deviations = np.where(np.isnan(deviations), np.inf, deviations)  # unknown: it may be anything
    share = float(np.mean(is_at_edge))
    if np.log(share) + weights.log_mean(deviations) + offset < log_evidence + np.log(MATTERS):
        return {}
    return {
        "prior beyond float32": (
            f"{100 * share:.0f}% of the draws from the prior become zero or infinite in float32, and the likelihood there is not "
            "negligible: what this part adds to the evidence is unknown. Use a prior whose mass lies between 1e-38 and 1e38."
        )
    }


def signs_of_rounding(
    model: BoundModel,
    positions: Positions,
    log_weights: Float[np.ndarray, " particles"],
) -> dict[str, str]:
    """A sign if float32 rounds parameters of the posterior to the edge of a support.

    Near the upper end of an interval, and in a simplex where little is left for the last parts,
    neighbouring numbers are far apart on the unconstrained scale, and the posterior beyond the
    last of them is lost.
    """
    share = np.exp(weights.normalise(log_weights))
    if not np.isfinite(share).all():
        return {}
    # Of so many, a share of `MATTERS` is five.
    chosen = np.random.default_rng(0).choice(len(share), 512, p=share / share.sum())
    few = jnp.asarray(np.asarray(positions)[chosen])
    params = model.constrain(few)
    # The prior of recentred effects is that of their positions, which are not rounded.
    sites = [
        site
        for name, site in model.densities.sites.items()
        if name not in model.densities.recentred and not _is_real_or_positive(params[name], site, few)
    ]
    if not sites:
        return {}
    there_and_back = np.asarray(_unconstrained(model, params), np.float64)
    # By more than 0.1, as the constrained parameter was rounded.
    is_kept = np.abs(there_and_back - np.asarray(few)) < 0.1
    is_lost = ~np.all([is_kept[:, site.start : site.stop].all(axis=1) for site in sites], axis=0)
    if not np.mean(is_lost) > MATTERS:
        return {}
    return {
        "edge of float32": (
            f"{100 * np.mean(is_lost):.0f}% of the posterior found lies where float32 rounds a parameter to the edge of its support: the posterior "
            "beyond is lost, and the log evidence is too low. Use a prior with less mass at the edge, or the logarithm of the "
            "distance from it as parameter."
        )
    }


def signs_of_precision(model: BoundModel, log_evidence: float) -> dict[str, str]:
    """A sign if a model that cannot be computed in float64 has a large log-likelihood."""
    if model.densities.runs_in_float64 or not abs(log_evidence) > MOST_IN_FLOAT32:
        return {}
    return {
        "float32 only": (
            f"the model cannot be computed in float64, and float32 has steps of {abs(log_evidence) * 2.0**-23:.2g} nats at its log-likelihood. Pass "
            "NumPy arrays that its functions hold as data, and let arrays made inside take the precision of the parameters."
        )
    }


def _is_real_or_positive(values: Array, site: Site, positions: Array | np.ndarray) -> bool:
    """Whether parameters are their positions, or the exponentials of these."""
    if site.shape != site.unconstrained_shape:
        return False
    own = np.asarray(positions)[:, site.start : site.stop]
    flat = np.asarray(values).reshape(own.shape)
    with np.errstate(over="ignore"):
        return np.array_equal(flat, own) or np.allclose(flat, np.exp(own), rtol=1e-4, atol=0)


@jitted(static_argnames="model")
def _unconstrained(model, params):
    return jax.vmap(model.unconstrain)(params)
