"""Errors for unusable log-likelihoods, which name the rows and say what to do."""

import numpy as np
from jaxtyping import Float

from evidentia.errors import EstimationError
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Positions, Window

LogLikelihoods = Float[np.ndarray, " particles"]


def check_defined(log_likelihoods: LogLikelihoods, span: str, places: str = "particles") -> None:
    """Raise EstimationError if a log-likelihood of the rows is NaN, which also represents +inf."""
    if bad := int(np.sum(np.isnan(log_likelihoods))):
        raise EstimationError(
            f"the log-likelihood of {span} is NaN or +inf at {bad} of {len(log_likelihoods)} {places}; it must be finite, "
            "or -inf where the parameters rule the data out. Check the likelihood for overflow, log(0) - log(0), or "
            "parameters outside their support."
        )


def defined_log_likelihoods(
    model: BoundModel, positions: Positions, rows: Window, places: str
) -> LogLikelihoods:
    """Log-likelihoods of `rows` in nats, with the check of `check_defined`."""
    deviations, offset = rows.log_likelihoods(model, positions)
    check_defined(deviations, rows.span, places)
    return deviations + offset


def check_possible(log_likelihoods: LogLikelihoods, span: str, places: str = "particles") -> None:
    """Raise EstimationError if the log-likelihood of the rows is -inf at all `places`."""
    if np.all(log_likelihoods == -np.inf):
        raise EstimationError(
            f"the log-likelihood of {span} is -inf at all {len(log_likelihoods)} {places}: the data are impossible under "
            "every parameter value drawn. Widen the prior, use more particles, or check the data against the model."
        )
