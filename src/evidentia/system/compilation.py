"""Compilation of large programs, how many are kept, and a cache on disk for later processes.

JAX keeps every program that it has compiled until its function is gone. One model needs about ten
programs, which hold 34 MiB and 570 memory maps; Linux gives a process 65,530 maps, and ends it
with a segmentation fault when they are used up, after 110 models. The programs of a model, or of
another static argument, therefore belong to a function of their own here, and the functions that
were used longest ago are dropped: `programs` keeps some, fewer if the maps get scarce.
"""

import functools
import gc
import inspect
import logging
import os
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax

from evidentia.errors import ConfigurationError
from evidentia.system.storage import local_path

MOST_MAPS = 0.5  # of those that Linux allows
WITHOUT_FALSE_ALARMS = (0, 10, 2)  # the first JAX that loads programs quietly; openxla/xla#44565
XLA_LEVEL, JAX_DEFAULT = "TF_CPP_MIN_LOG_LEVEL", "1"  # which `import jax` sets


class Call(NamedTuple):
    """A call of a program by the host: its arguments by name, and how it is called."""

    name: str
    static: dict[str, Any]
    arrays: dict[str, Any]
    program: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def compute(self) -> Any:
        """The result of the program."""
        return self.program(*self.args, **self.kwargs)

    def structure(self) -> Any:
        """The structure of the result, which takes no compilation."""
        shapes: Any = self.program.eval_shape(*self.args, **self.kwargs)
        return cast(Any, jax.tree.structure(shapes))


_calls_go_through: ContextVar[Callable[[Call], Any] | None] = ContextVar("calls", default=None)


@contextmanager
def calls_through(function: Callable[[Call], Any]) -> Generator[None, None, None]:
    """Within it, this function calls programs with static arguments, and returns the result.

    That holds for programs called while another is traced, too.
    """
    token = _calls_go_through.set(function)
    try:
        yield
    finally:
        _calls_go_through.reset(token)


def compiled(*, static_argnames: str | tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Any]:
    """`jax.jit` as a decorator for large programs called by the host, not by other programs.

    LLVM's level 2 compiles them in a quarter less time than level 3, JAX's default, and they run
    as fast: a Metropolised move of a NumPyro regression takes 1.08 instead of 1.40 s to compile
    and 29 ms to run with either (0.75 s and 118 ms at level 0).
    """
    options = {"xla_backend_optimization_level": 2}
    return jitted(static_argnames=static_argnames, compiler_options=options)


def _share_of_maps() -> float:
    """The memory maps of this process, as a share of those that Linux allows; elsewhere zero."""
    try:
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
        return Path("/proc/self/maps").read_bytes().count(b"\n") / allowed
    except (OSError, ValueError):
        return 0.0


class Programs:
    """Jitted functions by what they are for, of which those used longest ago are dropped.

    Attributes:
        most: functions that are kept; 512 are those of some 45 models, with 29,000 maps and
            1.5 GiB.

    Args:
        maps_every: new functions between two looks at the maps, of which one takes 20 ms.
        share_of_maps: the memory maps of this process, as a share of those that it may have.
    """

    def __init__(
        self, most: int = 512, maps_every: int = 16, share_of_maps: Callable[[], float] = _share_of_maps
    ) -> None:
        self.most: int = most
        self._maps_every, self._share_of_maps = maps_every, share_of_maps
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.RLock()
        self._num_made = 0

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The function of a key, made if it is not there."""
        with self._lock:
            if key not in self._kept:
                self._make_room()
                self._kept[key] = make()
            self._kept.move_to_end(key)
            return self._kept[key]

    def _make_room(self) -> None:
        self._num_made += 1
        if len(self._kept) >= self.most:
            self._drop(1)
        if self._num_made % self._maps_every == 0 and self._share_of_maps() > MOST_MAPS:
            self._drop(len(self._kept) // 4)
            gc.collect()  # a program may be in a cycle with its function

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


programs = Programs()  # of this process


def jitted(
    *, static_argnames: str | tuple[str, ...] = (), kept_in: Programs = programs, **options: Any
) -> Callable[..., Any]:
    """`jax.jit` as a decorator; programs for static arguments used longest ago are dropped."""
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    if not names:
        return partial(jax.jit, **options)

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        places = {name: list(signature.parameters).index(name) for name in names}

        def program_for(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            static = [kwargs[name] if name in kwargs else args[place] for name, place in places.items()]
            make = partial(_separate, function, static_argnames=names, **options)
            return kept_in.get((function, *static), make)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            program, through = program_for(args, kwargs), _calls_go_through.get()
            if through is None:
                return program(*args, **kwargs)
            given = signature.bind(*args, **kwargs).arguments
            static = {name: given.pop(name) for name in names if name in given}
            return through(Call(function.__qualname__, static, dict(given), program, args, kwargs))

        called.lower = lambda *args, **kwargs: program_for(args, kwargs).lower(*args, **kwargs)  # type: ignore[attr-defined]
        return called

    return decorated


def _separate(function: Callable[..., Any], **options: Any) -> Any:
    """A jitted copy of a function: JAX keeps the programs of a function as long as it exists."""

    @functools.wraps(function)
    def copy(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return jax.jit(copy, **options)


def in_float64(is_possible: bool = True) -> AbstractContextManager[Any]:
    """JAX computes in 64 bits inside, if that is possible, whatever the user's setting."""
    return jax.enable_x64(True) if is_possible else nullcontext()


def use_compilation_cache(folder: str | Path | None = None) -> Path:
    """Keep compiled programs in a folder, and load them from there in later processes.

    Compilation takes about half the time of a first estimate on a few thousand rows. This sets
    JAX's persistent compilation cache for everything that this process compiles from now on,
    whether JAX was used before or not. Importing evidentia does not set it; the command line does.
    JAX distinguishes programs of different releases, devices and processors, so the folder can be
    kept across upgrades. It can be deleted at any time; nothing else removes old programs. Anyone
    who can write to it can run code as you.

    JAX 0.8 and 0.9 print false alarms about the machine's features, hundreds of lines, when they
    load programs on some CPUs. With these releases this call therefore switches off XLA's messages
    on stderr, unless the environment variable `TF_CPP_MIN_LOG_LEVEL` or JAX's `jax_logging_level`
    asks for some; errors are exceptions all the same.

    Args:
        folder: created if missing. Default: `$XDG_CACHE_HOME/evidentia` or
            `~/.cache/evidentia`, on macOS `~/Library/Caches/evidentia`.

    Returns:
        The folder, as an absolute path.

    Raises:
        ConfigurationError: the folder cannot be created or written to; JAX's configuration is then
            unchanged.

    Example:
        >>> import evidentia as ev
        >>> folder = ev.use_compilation_cache()  # doctest: +SKIP
    """
    wanted = _user_cache() if folder is None else local_path("folder", folder)
    try:
        path = wanted.expanduser().absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: ~ for a user without a home
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"folder must be writable; got {wanted} ({reason}).") from error
    from jax.experimental.compilation_cache import compilation_cache  # slow to import

    jax.config.update("jax_compilation_cache_dir", str(path))
    # Keep all: an estimate compiles some 40 programs of a few kB, most in under 0.1 s, in seconds.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # otherwise JAX keeps using a folder that it has opened
    if jax.__version_info__ < WITHOUT_FALSE_ALARMS:
        _quieten_xla()
    return path


def _quieten_xla() -> None:
    """Switch off XLA's own messages, unless the user has chosen a level.

    JAX is loaded already, so the environment variable comes too late; JAX's setting reaches XLA,
    too. Python's loggers get their levels back.
    """
    chosen = os.environ.get(XLA_LEVEL, JAX_DEFAULT) != JAX_DEFAULT
    if chosen or jax.config.values["jax_logging_level"] != "NOTSET":
        return
    loggers = [logging.getLogger(name) for name in ("jax", "jaxlib")]
    levels = [logger.level for logger in loggers]
    jax.config.update("jax_logging_level", "CRITICAL")
    jax.config.update("jax_logging_level", "NOTSET")  # of the loggers; XLA keeps its level
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def _user_cache() -> Path:
    """The platform's folder for caches; by the XDG standard, a relative path is ignored."""
    if sys.platform == "darwin":
        return Path("~/Library/Caches/evidentia")
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (caches if caches.is_absolute() else Path("~/.cache")) / "evidentia"
