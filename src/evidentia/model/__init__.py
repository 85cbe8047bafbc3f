"""Models: a prior and a pointwise log-likelihood, checked and bound to the shapes of the data."""

from evidentia.model.bound import BoundModel, Observations
from evidentia.model.model import Model

__all__ = ["BoundModel", "Model", "Observations"]
