"""Exceptions, warnings, and the checks of arguments that raise them.

Every message names the argument, what was given and what is needed. This module imports nothing
else from evidentia.
"""

import difflib
import inspect
import math
import os
import reprlib
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

_PACKAGE = str(Path(__file__).parent)
Unsaid = list[tuple[str, type[Warning]]]  # messages and categories
_unsaid: ContextVar[Unsaid | None] = ContextVar("unsaid", default=None)


class EvidentiaError(Exception):
    """Base class of all deliberate errors; the command line turns each into one message.

    Attributes:
        evidence: the `Evidence` of the rows processed before the error, if `estimate` failed
            halfway; otherwise None.
    """

    evidence: Any = None


class DataError(EvidentiaError, ValueError):
    """The data cannot be used: missing columns, NaN, different lengths, labels out of range."""


class UnfinishedError(DataError):
    """The result is valid for some of the rows only.

    A stream ended without the sign that its program had finished, or particles could not be
    redrawn for all rows of a cluster.
    """


class HalfLineError(DataError):
    """The last line of a file has no line end, and is no row: it may be half written."""


class ModelError(EvidentiaError, ValueError):
    """The model is not a prior with a pointwise log-likelihood over continuous parameters."""


class ConfigurationError(EvidentiaError, ValueError):
    """An invalid field of a method, or an invalid argument that is neither data nor model."""


class UnknownNameError(ConfigurationError, KeyError):
    """A name that a result does not have; also a KeyError, as it is of a mapping."""

    __str__ = Exception.__str__  # that of KeyError has quotes


def unknown_name(what: str, name: Any, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that does not exist, with the nearest one, or those that do."""
    return UnknownNameError(f"there is no {what} {name!r}. {near(str(name), list(known))}")


class EstimationError(EvidentiaError, RuntimeError):
    """The estimator cannot continue, for example because every log-likelihood is -inf or NaN.

    Attributes:
        fit: the `LatentFit` of the steps before the error, if a method for latent variables failed
            halfway; otherwise None.
    """

    fit: Any = None


class DependentRowsError(ModelError):
    """A NumPyro model does not have one log-probability per row: all data are one observation."""


class CheckpointError(EvidentiaError, RuntimeError):
    """A checkpoint or saved result cannot be written or read, such as a damaged one."""


class EvidenceWarning(UserWarning):
    """The result is valid, but the user should know something about it."""


class DiagnosticWarning(EvidenceWarning):
    """A diagnostic suggests a wrong log evidence or standard error; the message has advice."""


def warn(messages: Iterable[str], category: type[Warning] = EvidenceWarning) -> None:
    """Issue warnings that point to the calling line outside evidentia; none inside `quietly`."""
    if (unsaid := _unsaid.get()) is not None:
        unsaid.extend((message, category) for message in messages)
        return
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    for message in messages:
        warnings.warn(message, category, stacklevel=level)


@contextmanager
def quietly() -> Generator[Unsaid, None, None]:
    """Within it, `warn` issues nothing in this thread; what it would is in the list.

    Python's own filters are global: changed by two threads at once, they would stay changed.
    """
    unsaid: Unsaid = []
    token = _unsaid.set(unsaid)
    try:
        yield unsaid
    finally:
        _unsaid.reset(token)


def kind_of(value: Any) -> str:
    """What was given, for messages: its type; of a class, that an instance is needed."""
    if inspect.isclass(value):
        return f"the class {value.__name__} itself, not one made as {value.__name__}(…)"
    return type(value).__name__


def attempt(what: str, function: Callable[[], Any]) -> Any:
    """Call a user's function; turn its exceptions into a ModelError that says what failed."""
    try:
        return function()
    except EvidentiaError:
        raise
    except Exception as error:
        message = next(iter(str(error).strip().splitlines()), "")
        raise ModelError(f"{what} failed with {type(error).__name__}: {message}") from error


def check_path(name: Any, what: str = "a file or folder") -> None:
    """Raise ConfigurationError unless `name` is a path with characters that names can have."""
    if not isinstance(name, str | os.PathLike):
        raise ConfigurationError(f"{what} must be given by its path; got {name!r}.")
    path = cast("str | os.PathLike[str]", name)
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ConfigurationError(
            f"{what} cannot be named {str(path)!r}: it has a character that no name may have."
        )


def check_count(field: str, value: Any, least: int) -> None:
    """Raise ConfigurationError unless `value` is an integer of 64 bits, of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**63:
        raise ConfigurationError(f"{field} must be an integer of at least {least}; got {value!r}.")


def as_number(value: Any) -> float:
    """A real number as a float, and NaN for anything else, which fails every comparison.

    Booleans are not numbers here. An integer that no float can hold becomes an infinity.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def is_one_of(value: Any, words: Collection[str]) -> bool:
    """Whether a value, of whatever type, is one of some words."""
    return isinstance(value, str) and value in words


def check_flag(field: str, value: Any, note: str = "") -> None:
    """Raise ConfigurationError unless `value` is a bool of Python or NumPy; a note may follow."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise ConfigurationError(f"{field} must be True or False; got {reprlib.repr(value)}.{note}")


def names_in(field: str, value: Any) -> list[str]:
    """One name or several as a list. Raises ConfigurationError for anything else."""
    names: list[Any] = [value]
    if not isinstance(value, str):
        try:
            names = list(value)
        except TypeError:  # not iterable
            raise ConfigurationError(f"{field} must be a list of names; got {value!r}.") from None
    if not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"{field} must be a list of names; got {reprlib.repr(value)}.")
    return names


def check_positive(field: str, value: Any) -> None:
    """Raise ConfigurationError unless `value` is a positive, finite number."""
    if not 0 < as_number(value) < math.inf:
        finite = " and finite" if as_number(value) > 0 else ""
        raise ConfigurationError(f"{field} must be positive{finite}; got {value!r}.")


def check_not_negative(field: str, value: Any) -> None:
    """Raise ConfigurationError unless `value` is zero or a positive, finite number."""
    if not -math.inf < as_number(value) < math.inf:
        raise ConfigurationError(f"{field} must be a finite number; got {value!r}.")
    if value < 0:
        raise ConfigurationError(f"{field} must not be negative; got {value!r}.")


def check_hashable(field: str, value: Any) -> None:
    """Raise ConfigurationError unless compiled programs can be shared by the value."""
    try:
        hash(value)
    except TypeError:
        raise ConfigurationError(
            f"{field} must be hashable, such as a frozen data class; got {value!r}."
        ) from None


def near(name: str, known: Sequence[str]) -> str:
    """Suggest the known names closest to an unknown one, or list the first known names."""
    if close := difflib.get_close_matches(name, known, n=3):
        return "Did you mean " + " or ".join(repr(each) for each in close) + "?"
    shown = ", ".join(known[:12])
    return f"Available: {shown}{', ...' if len(known) > 12 else ''}."


def memory() -> float:
    """The memory of the machine in bytes; infinite where it is not known."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def check_memory(given: str, what: str, num_bytes: int) -> None:
    """Raise ConfigurationError if `what` alone would exceed the memory of the machine.

    `given` is the argument with its value, as in "num_classes=1,000,000,000".
    """
    available = memory()
    if num_bytes > available:
        raise ConfigurationError(
            f"{given} would need {num_bytes / 2**30:,.0f} GiB for {what} alone; this machine has "
            f"{available / 2**30:,.0f} GiB. Use fewer."
        )


def check_seed(value: Any, field: str = "seed") -> None:
    """Raise ConfigurationError unless `value` is an unsigned integer of 32 bits."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < 2**32:
        raise ConfigurationError(f"{field} must be an integer from 0 to 2**32 - 1; got {value!r}.")


def check_target_ess(value: Any) -> None:
    """Raise ConfigurationError unless `value` lies between 0 and 1."""
    if not 0 < as_number(value) < 1:
        raise ConfigurationError(f"target_ess is a fraction of the particles between 0 and 1; got {value!r}.")
