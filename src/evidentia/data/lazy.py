"""Tables that are computed only when asked for."""

from typing import Any

from evidentia.errors import DataError


def collected(data: Any, name: str) -> Any:
    """The rows of a lazy table of Polars; anything else as it is.

    Raises:
        DataError: Polars cannot compute them.
    """
    if not (type(data).__module__.startswith("polars") and hasattr(data, "collect")):
        return data
    try:
        return data.collect()
    except Exception as error:  # of any kind: a file that is gone, a column that does not exist
        said = next(iter(str(error).splitlines()), "")
        raise DataError(
            f"{name} is a lazy table that cannot be collected: {type(error).__name__}: {said}"
        ) from error
