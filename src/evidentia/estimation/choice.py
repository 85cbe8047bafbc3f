"""The method of a call: if it names none, which and why; for a likelihood outside JAX, how."""

from typing import Any

from evidentia.errors import ModelError
from evidentia.evidence.amis import AMIS
from evidentia.evidence.method import GradientFree, Method
from evidentia.evidence.sgais import SGAIS
from evidentia.model.outside import OutsideLikelihood

MOST_WORK = 200_000  # rows times particles, where each takes an integral
LEAST_PARTICLES = 128  # 512 take seven times as long at 2,000 rows


def chosen_method(model: Any) -> tuple[Any, str]:
    """The method for a model before it is bound to data, and why it was chosen."""
    log_likelihood = getattr(model, "log_likelihood", None)
    if isinstance(log_likelihood, OutsideLikelihood):
        return AMIS(), "AMIS, as the log-likelihood is not written in JAX and has no gradient"
    if getattr(log_likelihood, "is_costly", False):
        return AMIS(), "AMIS, as each evaluation of the log-likelihood takes long, and AMIS needs few"
    return SGAIS(), "SGAIS, as the log-likelihood has gradients; the path tempers few or dependent rows"


def suited(method: Method, model: Any) -> Method:
    """The method as it is used for a model: without gradients if its likelihood has none.

    Raises:
        ModelError: the likelihood has no gradient, and the method needs one.
        ConfigurationError: the same, of a kernel.
    """
    if not isinstance(likelihood := model.log_likelihood, OutsideLikelihood):
        return method
    if not isinstance(method, GradientFree):
        raise ModelError(likelihood.without_gradient)
    return method.without_gradients()


def method_for_latents(num_rows: int) -> tuple[SGAIS, str]:
    """The method for latents of rows or groups, which are integrated out."""
    most = SGAIS().num_particles
    count = min(most, max(LEAST_PARTICLES, MOST_WORK // num_rows))
    reason = "as the latents of each row or group take an integral per particle"
    return SGAIS(num_particles=count), f"SGAIS with {count} particles, {reason}"
