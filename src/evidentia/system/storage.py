"""Places of files: local paths, and URLs of object stores and web servers, behind a few verbs.

A URL becomes a `UPath`, which has the methods of `pathlib.Path` over the file systems of fsspec.
Credentials come from the standard chain of each store (environment, configuration files, roles of
a machine); a URL that holds some is refused, so none can get into messages, checkpoints or
results. What a store fails to read is tried again a few times.
"""

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from evidentia.errors import ConfigurationError, DataError, check_path

ATTEMPTS = 4  # to read or write, before a fault counts as permanent
PAUSE = 0.5  # seconds before the second attempt; each further one waits twice as long
PERMANENT = FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError
SECRETS = "sig", "token", "key", "secret", "credential", "password", "auth"  # in the names of a query
EXTRAS = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}
EXTRAS |= {"http": "http", "https": "http"}
# Attempts multiply: s3fs makes five of its own, so the library below it makes one each.
OPTIONS: dict[str, dict[str, Any]] = {"s3": {"config_kwargs": {"retries": {"max_attempts": 0}}}}

T = TypeVar("T")


class StoreError(OSError):
    """What a store said, after all attempts."""


def is_url(name: Any) -> bool:
    """Whether a name is a URL, such as s3://bucket/rows.parquet."""
    return isinstance(name, str) and "://" in name


def is_remote(path: Path) -> bool:
    """Whether a path is one of `place` for a URL."""
    return not isinstance(path, Path)


def folder_of(argument: str, name: Any) -> Path:
    """The folder that an argument names: a path or a URL.

    Raises ConfigurationError, which names the argument.
    """
    return _named(name, f"{argument} must be the name of a folder")


def local_path(argument: str, name: Any, what: str = "folder") -> Path:
    """The path on this machine that an argument names.

    Raises ConfigurationError, which names the argument and `what` it must be.
    """
    needed = f"{argument} must be the path of a {what} on this machine"
    if is_url(name):
        raise ConfigurationError(f"{needed}; got {name!r}.")
    return _named(name, needed)


def _named(name: Any, needed: str) -> Path:
    try:
        text = os.fspath(name)
        is_name = isinstance(text, str) and bool(text) and "\0" not in text
    except TypeError:
        is_name = False
    if not is_name:
        raise ConfigurationError(f"{needed}; got {name!r}.")
    try:
        return place(name)
    except DataError as error:
        raise ConfigurationError(f"{needed}; got {name!r}: {error}") from error


def place(name: str | os.PathLike[str]) -> Path:
    """The path of a file or folder, ~ replaced; for a URL, a `UPath` with the methods of one.

    Raises:
        ConfigurationError: a URL with credentials, or of an unknown store, or one whose package is
            not installed; or what no file can be named.
        DataError: ~user for an unknown user.
    """
    check_path(name)
    if hasattr(name, "fs"):  # a UPath
        return name  # type: ignore[return-value]
    if not is_url(name):
        return _in_home(name)
    url = str(name)
    kind = urlsplit(url).scheme
    _check_without_secrets(url, kind)
    install = f"pip install 'evidentia[{EXTRAS.get(kind, 'storage')}]'"
    try:
        found = import_module("upath").UPath(url, use_listings_cache=False, **OPTIONS.get(kind, {}))
        found.fs  # noqa: B018 (imports the package of the store)
    except ImportError as error:
        raise ConfigurationError(f"{kind}:// needs a package that is not installed: {install}.") from error
    except ValueError as error:
        raise ConfigurationError(f"{kind}:// is no store that fsspec knows; got {url!r}.") from error
    return found


def _in_home(name: str | os.PathLike[str]) -> Path:
    path = Path(name)
    try:
        return path.expanduser()
    except RuntimeError:
        user = path.parts[0]
        raise DataError(f"{name}: there is no user {user[1:]!r} whose home folder {user} could be.") from None


def _check_without_secrets(url: str, kind: str) -> None:
    parts = urlsplit(url)
    names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username or parts.password or any(secret in name for name in names for secret in SECRETS):
        raise ConfigurationError(
            f"a URL of {kind}:// holds credentials, which would be kept in results and logs. Leave them out: they come from the "
            "environment, the store's configuration files, or the role of this machine."
        )


def opened(path: Path) -> IO[bytes]:
    """The file for reading; faults of a store are tried again, where the reading stood."""
    return io.BufferedReader(_Retrying(path)) if is_remote(path) else path.open("rb")


def for_arrow(path: Path) -> Any:
    """What PyArrow opens best: the path of a local file, or a file of a store."""
    return opened(path) if is_remote(path) else path


def content(path: Path) -> bytes:
    """All bytes of a file."""
    return attempted(path.read_bytes) if is_remote(path) else path.read_bytes()


def exists(path: Path) -> bool:
    """Whether there is a file or folder of that name."""
    return attempted(path.exists) if is_remote(path) else path.exists()


def is_folder(path: Path) -> bool:
    """Whether it is a folder, or a common beginning of names in a store."""
    if not is_remote(path):
        return path.is_dir()
    return not str(path).startswith("http") and attempted(path.is_dir)


def replace(path: Path, data: bytes) -> None:
    """Write a file so that it always has its old or its new content, also if power fails.

    An object of a store appears only once it is complete.
    """
    if is_remote(path):
        remote: Any = path
        attempted(lambda: remote.fs.pipe_file(remote.path, data))
        return
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the name of a local one once it is whole and on disk.

    After an exception the old one stays, and the new one is removed. Until then its name is one
    that no file has: another writer's file, and what a link points to, are not touched.
    """
    new = path.with_name(f".{token_hex(8)}.new")
    try:
        with new.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Sync the names of a folder's files to disk, where the system can."""
    if os.name == "posix" and not is_remote(folder):  # elsewhere folders cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def attempted(function: Callable[[], T]) -> T:
    """The result of a function of a store, tried a few times.

    Raises:
        StoreError: every attempt failed; also for errors that are none of the system's.
        OSError: the file does not exist, or must not be read or written.
    """
    for attempt in range(ATTEMPTS):
        try:
            return function()
        except PERMANENT:
            raise
        except Exception as error:  # of any kind: each store has its own
            if attempt == ATTEMPTS - 1:
                said = str(error).strip().splitlines() or [""]
                raise StoreError(f"{type(error).__name__}: {said[0]} ({ATTEMPTS} attempts)") from error
            time.sleep(PAUSE * 2**attempt)
    raise AssertionError("unreachable")


class _Retrying(io.RawIOBase):
    """A file of a store that is opened again, where it stood, if reading fails."""

    def __init__(self, path: Path):
        self._path, self._position = path, 0
        self._file: Any = None
        attempted(self._open)

    def _open(self) -> Any:
        if self._file is None:
            self._file = self._path.open("rb")
        return self._file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._file_size() if start is None else start)
        return self._position

    def readinto(self, buffer: Any) -> int:
        def read() -> bytes:
            try:
                file = self._open()
                file.seek(self._position)
                return file.read(len(buffer))
            except BaseException:
                self._file = None  # its state is unknown
                raise

        data = attempted(read)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _file_size(self) -> int:
        return attempted(lambda: self._open().seek(0, os.SEEK_END))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()
