"""What can be wrong with bridge sampling: chains that differ, halves that differ, other draws.

The fits give a second opinion for nothing: the mean weight of their draws (importance sampling)
converges to Z whatever the posterior draws are, the bridge only if they are draws of this
posterior.
"""

import math

import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.evidence.bridge.halves import Half, combined, importance_sampling
from evidentia.evidence.bridge.iteration import effective_draws
from evidentia.evidence.draws.chains import MAX_RHAT
from evidentia.evidence.method import Diagnosis
from evidentia.evidence.population.warning_signs import MAX_DIFFERENCE

SMALLEST = 0.01  # nats, below which no difference is a sign: likelihoods are rounded


def diagnose(halves: list[Half], folded: Float[np.ndarray, "chains draws parameters"]) -> Diagnosis:
    """Diagnostics and signs of a run, with its draws folded (`Target.folded`)."""
    import arviz  # slow to import

    coordinates = [folded[..., index] for index in range(folded.shape[-1])]
    rhat = max(float(arviz.rhat(_at_least_two(each))) for each in coordinates)
    ess = min(effective_draws(each) for each in coordinates)
    log_evidence, variance = combined(halves)
    other, other_variance, shape = importance_sampling(halves)
    measured = {
        "ess": ess,
        "rhat": rhat,
        "num_iterations": max(half.bridged.num_iterations for half in halves),
        "half_difference": float(np.ptp([half.bridged.log_evidence for half in halves])),
        "importance_log_evidence": other,
        "importance_standard_error": math.sqrt(other_variance),
        "pareto_shape": shape,
    }
    signs = {}
    if not rhat <= MAX_RHAT:
        signs["chains differ"] = (
            f"the chains of posterior draws differ, or their halves (r-hat {rhat:.2f}): they are not draws of one distribution, "
            "and the log evidence may be wrong by more than its standard error. Use longer chains; for several modes, SGAIS() "
            "or SMC()."
        )
    if not ess >= weights.FEW_EFFECTIVE:  # short chains seem to be worth more than they are
        signs["few effective draws"] = (
            f"the {folded[..., 0].size:,} posterior draws are worth {ess:.0f} independent ones: the standard error "
            "is too small, and the log evidence may be too low. Use longer chains."
        )
    reported = math.sqrt(sum(half.bridged.variance for half in halves))
    if measured["half_difference"] > MAX_DIFFERENCE * reported + SMALLEST:
        signs["halves differ"] = (
            f"the two halves of the posterior draws give log evidences {measured['half_difference']:.2g} nats apart, with a "
            f"standard error of {reported:.2g}: the chains have not settled. Use longer chains, or leave out their start."
        )
    if _is_contradicted(log_evidence - other, math.sqrt(variance + other_variance), shape):
        signs["draws contradicted"] = (
            f"importance sampling from the densities fitted to the draws gives {other:.2f} ± {math.sqrt(other_variance):.2g} "
            f"nats, the bridge {log_evidence:.2f} ± {math.sqrt(variance):.2g}: the draws may be of another posterior, with other "
            "data or another prior, or miss a part of this one. Check what they were drawn from, or use SGAIS()."
        )
    return Diagnosis(measured, signs)


def _is_contradicted(difference: float, error: float, shape: float) -> bool:
    """Whether importance sampling gives more, or less where its weights let it know.

    A mean of weights hardly exceeds Z by much, but with heavy weights it is often too low.
    """
    if not math.isfinite(difference):
        return True
    known = shape <= weights.MAX_PARETO_SHAPE or difference < 0
    return known and abs(difference) > MAX_DIFFERENCE * error + SMALLEST


def _at_least_two(chains: Float[np.ndarray, "chains draws"]) -> Float[np.ndarray, "two_or_more half_or_all"]:
    """The chains, or the halves of a single one, which ArviZ does not compare."""
    if len(chains) > 1:
        return chains
    half = chains.shape[1] // 2
    return chains[:, : 2 * half].reshape(2, half)
