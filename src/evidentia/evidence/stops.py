"""Where chunks end: at round numbers of rows, so that trajectories can be compared there."""

# A stream may stay below one chunk for long, and the particles of a mixture can miss a mode there.
SMALLEST = 100


def next_round_number(num_rows: int) -> int:
    """The first round number above `num_rows`: 100 (`SMALLEST`), 200, 500, 1000, …"""
    power = 10 ** max(0, len(str(num_rows)) - 1)
    return next(mark for mark in (SMALLEST, 2 * power, 5 * power, 10 * power) if mark > num_rows)


def next_stop(start: int, size: int, total: int, *, round_above: int | None = None) -> int:
    """Number of rows, at most `total`, after a chunk of `size` rows that begins at `start`.

    A chunk that does not reach the end stops at the first round number above `round_above` (1, 2
    or 5 times a power of ten), so that the trajectories of different runs can be compared there.
    """
    stop = min(start + size, total)
    if round_above is not None and stop < total:
        stop = min(stop, next_round_number(round_above))
    return stop
