"""Where chunks end: at round numbers of rows, so that trajectories can be compared there."""


def next_round_number(num_rows: int, smallest: int = 100) -> int:
    """The first round number above `num_rows`: 100 (or `smallest`), 200, 500, 1000, …

    Trajectories can be compared there.
    """
    power = 10 ** max(0, len(str(num_rows)) - 1)
    return next(
        mark
        for mark in (smallest, power, 2 * power, 5 * power, 10 * power)
        if mark > num_rows and mark >= smallest
    )


def next_stop(start: int, size: int, total: int, *, round_above: int | None = None) -> int:
    """Number of rows, at most `total`, after a chunk of `size` rows that begins at `start`.

    A chunk that does not reach the end stops at the first round number above `round_above` (1, 2
    or 5 times a power of ten), so that the trajectories of different runs can be compared there.
    """
    stop = min(start + size, total)
    if round_above is not None and stop < total:
        stop = min(stop, next_round_number(round_above))
    return stop
