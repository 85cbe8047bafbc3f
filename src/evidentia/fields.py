"""Checks of the fields of configurations, which models and methods share: each error says what was given and needed."""

from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError


def check_count(field: str, value: Any, least: int) -> None:
    """Raise ConfigurationError unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigurationError(f"{field} must be an integer of at least {least}; got {value!r}.")


def check_seed(value: Any) -> None:
    """Raise ConfigurationError unless `value` is an integer of 32 bits."""
    if not isinstance(value, int | np.integer) or not 0 <= value < 2**32:
        raise ConfigurationError(f"seed must be an integer from 0 to 2**32 - 1; got {value!r}.")


def check_target_ess(value: float) -> None:
    """Raise ConfigurationError unless `value` lies between 0 and 1."""
    if not 0 < value < 1:
        raise ConfigurationError(f"target_ess is a fraction of the particles between 0 and 1; got {value}.")


def check_kernel(field: str, kernel: Any, kinds: tuple[type, ...]) -> None:
    """Raise ConfigurationError unless `kernel` is a configuration of one of the `kinds`."""
    if not isinstance(kernel, kinds):
        names = ", ".join(f"kernels.{kind.__name__}()" for kind in kinds)
        raise ConfigurationError(f"{field} must be one of {names}; got {kernel!r}.")
