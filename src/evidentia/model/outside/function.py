"""A user's log-likelihood of NumPy arrays, with what its arguments are made of."""

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from evidentia.errors import EstimationError, ModelError

Points = Float[np.ndarray, "points coordinates"]
Layout = tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes of parameters, in their order


@dataclass(frozen=True)
class Function:
    """A log-likelihood of points, which workers of an executor call, too.

    A point is a place in the unit cube if there is a `prior_transform`, and otherwise the
    constrained parameters, one after the other.

    Attributes:
        log_likelihood: of one vector of parameters, or of a mapping by name if there is no
            `prior_transform`; if `vectorized`, of many, with points on the leading axis.
        prior_transform: parameters from a place in the unit cube.
        layout: names and shapes of the parameters without a `prior_transform`.
        vectorized: whether both functions take many points at once.
    """

    log_likelihood: Callable[[Any], Any]
    prior_transform: Callable[[Any], Any] | None
    layout: Layout
    vectorized: bool

    def values(self, points: Points) -> Float[np.ndarray, " points"]:
        """The log-likelihood at every point, in nats.

        Raises:
            EstimationError: it raises an exception, or is NaN or +inf, at a point that is named.
            ModelError: it does not return one number for each point.
        """
        if self.vectorized:
            return self._checked(points, self._call(self.arguments(points)), len(points))
        found = [self._checked(point[None], self._call(self.arguments(point)), None) for point in points]
        return np.concatenate(found)

    def arguments(self, points: Float[np.ndarray, "*points coordinates"]) -> Any:
        """The parameters at points, on whose leading axes are those of `points`."""
        if self.prior_transform is not None:
            return self._transformed(points)
        found, start = {}, 0
        for name, shape in self.layout:
            stop = start + math.prod(shape)
            found[name] = points[..., start:stop].reshape(points.shape[:-1] + shape).copy()
            start = stop
        return found

    def _transformed(self, points: Float[np.ndarray, "*points coordinates"]) -> Any:
        assert self.prior_transform is not None
        try:
            found = self.prior_transform(points.copy())
        except Exception as error:
            given = f"It takes {points.shape[-1]} numbers, as many as names or num_parameters say."
            raise _failure("prior_transform", points, error, given) from error
        if np.shape(found) != points.shape:
            raise ModelError(
                f"prior_transform must return an array of shape {points.shape}, one number for each parameter; got shape "
                f"{np.shape(found)}. names or num_parameters say that there are {points.shape[-1]}."
            )
        return found

    def _call(self, arguments: Any) -> Any:
        try:
            return self.log_likelihood(arguments)
        except Exception as error:
            raise _failure("log_likelihood", arguments, error) from error

    def _checked(self, points: Points, given: Any, count: int | None) -> Float[np.ndarray, " points"]:
        if given is None:
            raise ModelError(
                f"log_likelihood must return {_wanted(count)}; it returned None, so a return may be missing."
            )
        try:
            values = np.asarray(given).astype(np.float64)
        except (TypeError, ValueError):
            at = shown(self.arguments(points[0]))
            raise ModelError(
                f"log_likelihood must return {_wanted(count)}; got {reprlib.repr(given)} at {at}."
            ) from None
        if values.size != len(points) or (count is not None and values.shape != (count,)) or values.ndim > 1:
            hint = (
                " A sum over the data may be missing, or vectorized=True if it takes many points at once."
                if count is None
                else ""
            )
            raise ModelError(
                f"log_likelihood must return {_wanted(count)}; got {reprlib.repr(given)} with shape {values.shape}.{hint}"
            )
        values = values.reshape(-1)
        if (bad := np.isnan(values) | (values == np.inf)).any():
            index = int(np.argmax(bad))
            raise EstimationError(
                f"log_likelihood is {values[index]} at {shown(self.arguments(points[index]))}. It must be a number, or -inf where "
                "the data are impossible."
            )
        return values


def _wanted(count: int | None) -> str:
    return "one number" if count is None else f"an array of shape ({count},), one number for each point"


def shown(arguments: Any) -> str:
    """Parameters in a message, on one line."""
    if isinstance(arguments, dict):
        return ", ".join(f"{name}={shown(value)}" for name, value in arguments.items())
    return np.array2string(np.asarray(arguments), separator=", ", threshold=10, max_line_width=10**6)


def _failure(name: str, arguments: Any, error: Exception, given: str = "") -> EstimationError:
    text = f"{name} raised {type(error).__name__} at {shown(arguments)}: {error}"
    return EstimationError(f"{text}. {given}" if given else text)
