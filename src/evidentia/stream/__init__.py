"""Sources of observations, and how they are cut into chunks."""

from evidentia.stream.arrays import as_arrays

__all__ = ["as_arrays"]
