"""Log-likelihoods that no method can go on with: errors that name the rows and say what to do."""

import numpy as np
from jaxtyping import Float

from evidentia.errors import EstimationError

LogLikelihoods = Float[np.ndarray, " particles"]


def check_defined(log_likelihoods: LogLikelihoods, rows: str, places: str = "particles") -> None:
    """Raise EstimationError if the log-likelihood of `rows` is NaN (which stands for +inf too) at
    one of the `places`.
    """
    if bad := int(np.sum(np.isnan(log_likelihoods))):
        raise EstimationError(
            f"the log-likelihood of {rows} is NaN or +inf at {bad} of {len(log_likelihoods)} {places}; it must be finite, "
            "or -inf where the parameters rule the data out. Check the likelihood for overflow, log(0) - log(0), or "
            "parameters outside their support."
        )


def check_possible(log_likelihoods: LogLikelihoods, rows: str, places: str = "particles") -> None:
    """Raise EstimationError if the log-likelihood of `rows` is -inf at all of the `places`."""
    if np.all(log_likelihoods == -np.inf):
        raise EstimationError(
            f"the log-likelihood of {rows} is -inf at all {len(log_likelihoods)} {places}: under every parameter value "
            "drawn the data are impossible. Widen the prior, use more particles, or check the data against the model."
        )
