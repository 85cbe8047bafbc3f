"""Whether float32 holds the digits of data: one check for every way in.

Numbers are computed with in float32, which holds 7 digits: at 10⁹ its steps are 64, and integers
become floating-point numbers in a likelihood. A column that varies by few steps has lost what it
says; so has one whose rows do, apart from some far ones, such as times with a zero among them.
"""

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from evidentia.errors import DataError, warn

LOOKED_AT, KEPT = 10_000, 1_000  # rows whose extremes, and whose values are compared, at most
MOST_VALUES = 1_000_000  # of all columns together, of which there may be thousands
FEW_STEPS, ENOUGH_STEPS = 8, 800  # of float32 in a column's range
# Half of a normal's values lie in a fifth of their range, half of a uniform's in a half.
PER_HALF = 4
WHOLE = 2**53  # up to which float64 holds every whole number
MOST_EXPONENT = 300  # of a decimal number that is compared; a fraction of more would take much memory
NUM_FOR_HALF = 8  # values, at least, for a statement about half of them
LEAST_STEP = 2.0**-10  # in half of the values: finer steps matter only to coefficients of thousands
NOISE = 1e-12  # relative, in half of the values: rounding of the computation that gave them


class Digits:
    """Checks the columns of data that come in batches, against all that came before.

    One batch may be too short to show that its column varies.

    Args:
        num_kept: the number of rows that are remembered; beside them, the extremes are.
    """

    def __init__(self, num_kept: int = KEPT):
        self._num_kept = num_kept
        self._seen: dict[Any, np.ndarray] = {}
        self._warned: set[Any] = set()

    def check(self, key: Any, rows: np.ndarray, argument: str) -> None:
        """Check the rows of an array, at its full precision and without missing values.

        Args:
            key: identifies the array among the batches.
            rows: numbers, of any type that can be exact: integers of 64 bits, `Decimal`.
            argument: the name of the array in errors.

        Raises:
            DataError: a column varies by few steps of float32 (an EvidenceWarning, once, if by
                some hundreds).
        """
        if not rows.size:
            return
        some = _some(rows, KEPT)
        seen = self._seen.get(key)
        if seen is not None and seen.shape[1:] == some.shape[1:]:
            some = np.concatenate([seen, some])
        if (lost := _lost(some)) is not None:
            column = f"{argument}, column {lost.column}," if rows.ndim > 1 else argument
            found = _message(column, lost.largest, lost.width, lost.step, "float32", lost.is_half)
            if lost.is_error:
                raise DataError(found)
            if key not in self._warned:
                self._warned.add(key)
                warn([found])
        self._seen[key] = _some(some, self._num_kept)


class Lost(NamedTuple):
    """A column that loses digits in float32.

    Attributes:
        column: its number.
        largest: its largest value, without sign.
        width: by how much its values vary, or half of them do.
        step: the spacing of float32 at these.
        is_half: whether it is half of the values.
        is_error: whether nearly all digits are lost.
    """

    column: int
    largest: float
    width: float
    step: float
    is_half: bool
    is_error: bool


def check_digits(rows: np.ndarray, argument: str) -> None:
    """Check an array on its own; see `Digits`.

    Example:
        >>> check_digits(np.array([10**12 + 1, 10**12 + 2]), "data['y']")
        Traceback (most recent call last):
        ...
        evidentia.errors.DataError: data['y'] has values up to 1e+12 that vary by only 1; ...
    """
    Digits(0).check(None, rows, argument)


def exact_rows(values: Any, array: np.ndarray) -> np.ndarray:
    """The rows of an array without missing values, as they were before float64 rounded them.

    Args:
        values: what the array was made from, such as decimals.
        array: numbers; NaN is a missing value.
    """
    if array.dtype.kind != "f" or not array.size:
        return array
    kept = ~np.isnan(array).any(axis=tuple(range(1, array.ndim)))
    if array.dtype == np.float64 and kept.any() and np.nanmax(np.abs(array)) >= WHOLE:
        given = np.asarray(values)
        if given.shape == array.shape and given.dtype == object:
            array = given
    return array if kept.all() else array[kept]


def check_texts(texts: Iterable[str], argument: str) -> None:
    """Check numbers as they are written; see `check_float64`."""
    values = []
    for text in texts:
        with suppress(ArithmeticError):  # no decimal number
            values.append(Decimal(text))
    check_float64(values, argument)


def check_float64(values: Iterable[Decimal | float], argument: str) -> None:
    """Check exact numbers that become float64, which rounds those beyond 2⁵³.

    Args:
        values: some of them, with the least and the largest.
        argument: their name in errors.

    Raises:
        DataError: they vary by few steps of float64.

    Example:
        >>> check_float64([10**17 + 1, 10**17 + 2], "column 'id'")
        Traceback (most recent call last):
        ...
        evidentia.errors.DataError: column 'id' has values up to 1e+17 that vary by only 1; ...
    """
    known = [value for value in values if _is_moderate(value)]
    if not known:
        return
    low, high = map(Fraction, (min(known), max(known)))
    largest = max(abs(float(low)), abs(float(high)))
    width, step = float(high - low), float(np.spacing(largest))
    if largest >= WHOLE and 0 < width < FEW_STEPS * step:
        raise DataError(_message(argument, largest, width, step, "float64"))


def _is_moderate(value: Decimal | float) -> bool:
    """Whether it is a number that can be compared as a fraction without much memory."""
    with suppress(OverflowError):  # of a whole number
        is_tiny = isinstance(value, Decimal) and value.is_finite() and value.adjusted() < -MOST_EXPONENT
        return not is_tiny and abs(float(value)) < 10.0**MOST_EXPONENT
    return False


def _message(column: str, largest: float, width: float, step: float, name: str, is_half: bool = False) -> str:
    return (
        f"{column} has values up to {largest:.3g}{', of which half' if is_half else ' that'} vary by only {width:.3g}; {name} has "
        f"steps of {step:.3g} there. Subtract a constant first, such as the mean."
    )


def _some(rows: np.ndarray, count: int) -> np.ndarray:
    """Some rows, and the least and the largest value of each column, in the type of the data."""
    columns = rows.reshape(len(rows), -1)
    most = max(100, MOST_VALUES // columns.shape[1])
    looked_at = _exact(columns[:: -(-len(columns) // min(LOOKED_AT, most))])
    extremes = looked_at.min(axis=0), looked_at.max(axis=0)
    kept = looked_at[:: -(-len(looked_at) // min(count, most))] if count else looked_at[:0]
    return np.concatenate([kept, extremes])


def _exact(columns: np.ndarray) -> np.ndarray:
    """Numbers whose differences are exact, or as exact as the data."""
    if columns.dtype == object:
        return np.vectorize(_fraction, otypes=[object])(columns)
    is_short = columns.dtype.kind == "b" or columns.dtype == np.float16
    return columns.astype(np.float64) if is_short else columns


def _fraction(value: Any) -> Fraction:
    is_exact = isinstance(value, Rational) or (
        isinstance(value, Decimal) and abs(value.adjusted()) < MOST_EXPONENT
    )
    return Fraction(value if is_exact else float(value))


def _lost(some: np.ndarray) -> Lost | None:
    """The column that loses most digits, if one does."""
    ordered = np.sort(some, axis=0)
    lost = _lost_in(ordered[:1], ordered[-1:], is_half=False)
    if len(ordered) < NUM_FOR_HALF or (lost is not None and lost.is_error):
        return lost
    half = (len(ordered) + 1) // 2
    in_half = _lost_in(ordered[:-half], ordered[half:], is_half=True)
    return in_half if in_half is not None and (lost is None or in_half.is_error) else lost


def _lost_in(low: np.ndarray, high: np.ndarray, is_half: bool) -> Lost | None:
    """As `_lost`, for the shortest of some intervals in each column."""
    widths = _differences(high, low)
    shortest = np.argmin(widths, axis=0)
    width, low, high = (np.take_along_axis(one, shortest[None], axis=0)[0] for one in (widths, low, high))
    ends = np.abs([low.astype(np.float64), high.astype(np.float64)]).max(axis=0)
    step = np.spacing(np.minimum(ends, np.finfo(np.float32).max / 2).astype(np.float32)).astype(np.float64)
    varies = width > 0
    if is_half:
        varies &= (step >= LEAST_STEP) & ((low.dtype.kind != "f") | (width > NOISE * ends))
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.where(varies, width / step, np.inf) * (PER_HALF if is_half else 1)
    worst = int(np.argmin(steps))
    if not steps[worst] < ENOUGH_STEPS:
        return None
    return Lost(worst, ends[worst], width[worst], step[worst], is_half, bool(steps[worst] < FEW_STEPS))


def _differences(high: np.ndarray, low: np.ndarray) -> Float[np.ndarray, "..."]:
    if high.dtype.kind in "iu":  # modulo 2⁶⁴, as high >= low
        return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    with np.errstate(over="ignore"):
        try:
            return (high - low).astype(np.float64)
        except OverflowError:  # of fractions; float64 is exact enough
            return high.astype(np.float64) - low.astype(np.float64)
