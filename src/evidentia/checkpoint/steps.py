"""What a run has computed, in a folder, from which the same call goes on after a kill.

The same call, with the same seed, calls the same compiled programs with the same arrays. So their
results are all that a checkpoint needs, whatever the method and the model: a run that is started
again reads them, and computes what is new. The rest of a run, on the host, is made again. Results
that are quickly computed, or large for the time that they took, are not kept.

Each is found by a digest of the program and its arrays. Entries are appended, with their length
and a checksum; what a kill left of the last one is dropped, and computed again.
"""

import hashlib
import io
import re
import struct
import time
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from evidentia.errors import CheckpointError
from evidentia.system import checked_json
from evidentia.system.compilation import Call, calls_through
from evidentia.system.locking import FolderLock
from evidentia.system.storage import replace

VALUES, ABOUT = "steps.bin", "steps.json"
HEAD = struct.Struct("<Q16s16s")  # of an entry: bytes of its arrays, digest of the call, checksum
LARGE = 65_536  # bytes of an array whose digest is remembered, as that of data
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the text of a function; another in each process


class Steps:
    """Context manager for the results of the programs of a run, in a folder locked for it.

    Args:
        folder: created if missing.
        call: what must be equal in a call that goes on: names and values, compared as text.
        least_seconds: that a program takes whose results are kept.
        most_bytes: of kept results, for each second that they took.

    Raises:
        CheckpointError: the folder cannot be written to, is in use, holds damaged results, or
            those of another call, which the message names.
    """

    def __init__(
        self, folder: Path, call: Mapping[str, Any], least_seconds: float = 2e-3, most_bytes: float = 2e7
    ):
        self._folder, self._path = folder, folder / VALUES
        self._call = {name: ADDRESS.sub("", repr(value)) for name, value in {**call, **_machine()}.items()}
        self._least_seconds, self._most_bytes = least_seconds, most_bytes
        self._lock = FolderLock(folder, "checkpoint", name="steps.lock")
        self._file: Any = None
        self._places: dict[bytes, tuple[int, int]] = {}  # where the arrays of a call are, and their bytes
        self._checked: set[str] = set()  # programs whose kept results were computed again
        self._static: dict[str, list[Any]] = {}  # different arguments of the same text
        self._digests: dict[int, tuple[Any, bytes]] = {}  # of large arrays that still exist

    def __enter__(self) -> "Steps":
        try:
            self._lock.__enter__()
        except OSError as error:
            raise self._failed(error) from error
        try:
            self._check_call()
            self._file = self._path.open("r+b" if self._path.exists() else "x+b")
            self._end = self._scan()
            self._file.truncate(self._end)
        except BaseException as error:
            if self._file is not None:
                self._file.close()
            self._lock.__exit__(None, None, None)
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.__exit__(None, None, None)

    def recorded(self) -> AbstractContextManager[None]:
        """Within it, programs are computed only if their results are not kept."""
        return calls_through(self._result)

    def _result(self, call: Call) -> Any:
        leaves = jax.tree.leaves(call.arrays)
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return call.compute()
        digest = self._digest(call, leaves)
        place = self._places.get(digest)
        if place is not None and call.name in self._checked:
            return jax.tree.unflatten(call.structure(), map(jnp.asarray, self._read(*place)))
        started = time.perf_counter()
        found = jax.block_until_ready(call.compute())
        seconds = time.perf_counter() - started
        arrays = jax.tree.leaves(found)
        if place is not None:
            self._check_same(call.name, arrays, self._read(*place))
        elif self._is_worth(arrays, seconds):
            self._append(digest, [np.asarray(one) for one in arrays])
        return found

    def _is_worth(self, arrays: list[Any], seconds: float) -> bool:
        """Whether to keep results. Keys and weakly typed numbers would come back as others."""
        if any(one.weak_type or jnp.issubdtype(one.dtype, jax.dtypes.prng_key) for one in arrays):
            return False
        size = sum(one.nbytes for one in arrays)
        return seconds > self._least_seconds and size < self._most_bytes * seconds

    def _digest(self, call: Call, leaves: list[Any]) -> bytes:
        """Of the program, what it was made for, and the arrays that it is given."""
        static = [(name, self._text(value)) for name, value in call.static.items()]
        whole = _hash(repr((call.name, static, jax.tree.structure(call.arrays))).encode())
        for leaf in leaves:
            whole.update(self._digest_of(leaf))
        return whole.digest()

    def _text(self, value: Any) -> str:
        """A text for a static argument; equal ones have the same, and others another."""
        text = ADDRESS.sub("", repr(value))
        known = self._static.setdefault(text, [])
        if value not in known:
            known.append(value)
        return f"{text} {known.index(value)}"

    def _digest_of(self, leaf: Any) -> bytes:
        known, digest = self._digests.get(id(leaf), (None, b""))
        if known is not None and known() is leaf:
            return digest
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        about = f"{array.dtype} {array.shape}".encode()
        digest = _hash(about, np.ascontiguousarray(array).data if array.size else b"").digest()
        if array.nbytes > LARGE and isinstance(leaf, jax.Array):
            self._digests[id(leaf)] = weakref.ref(leaf), digest
        return digest

    def _read(self, start: int, size: int) -> list[np.ndarray]:
        self._file.seek(start)
        data, arrays = io.BytesIO(self._file.read(size)), []
        while data.tell() < size:
            arrays.append(np.lib.format.read_array(data, allow_pickle=False))
        return arrays

    def _append(self, digest: bytes, arrays: list[np.ndarray]) -> None:
        data = io.BytesIO()
        for array in arrays:
            np.lib.format.write_array(data, array, allow_pickle=False)
        content = data.getvalue()
        checksum = _hash(digest, content).digest()
        try:
            self._file.seek(self._end)
            self._file.write(HEAD.pack(len(content), digest, checksum) + content)
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error
        self._places[digest] = self._end + HEAD.size, len(content)
        self._end += HEAD.size + len(content)

    def _scan(self) -> int:
        """Find the entries, and where the last whole one ends.

        Raises CheckpointError for one that is whole but damaged.
        """
        size, end = self._path.stat().st_size, 0
        while end + HEAD.size <= size:
            self._file.seek(end)
            length, digest, checksum = HEAD.unpack(self._file.read(HEAD.size))
            stop = end + HEAD.size + length
            if stop > size:
                break
            if _hash(digest, self._file.read(length)).digest() != checksum:
                raise CheckpointError(
                    f"checkpoint {self._folder}: {VALUES} is damaged at byte {end:,}. Remove the files steps.* to begin anew, or "
                    "name another folder."
                )
            self._places[digest] = end + HEAD.size, length
            end = stop
        return end

    def _check_call(self) -> None:
        path = self._folder / ABOUT
        if self._path.is_symlink():
            raise CheckpointError(
                f"{self._path} is a link, which evidentia did not make. Name another folder."
            )
        if not path.exists() and not self._path.exists():
            replace(path, checked_json.encode(self._call))
        try:
            known = checked_json.decode(path.read_bytes())
        except (FileNotFoundError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {self._folder}: {ABOUT} is missing or damaged. Name another folder."
            ) from error
        for name, value in self._call.items():
            if known.get(name) != value:
                raise CheckpointError(
                    f"checkpoint {self._folder} is that of another call: {name} was {known.get(name)}; got {value}. Make the same "
                    "call, or name another folder."
                )

    def _check_same(self, name: str, found: list[Any], kept: list[np.ndarray]) -> None:
        """Raise CheckpointError unless the first kept result of a program comes out again."""
        if [np.asarray(one).tobytes() for one in found] != [one.tobytes() for one in kept]:
            raise CheckpointError(
                f"checkpoint {self._folder} is that of another model: {name} has other values now than when it was kept. Give "
                "the same model, or name another folder."
            )
        self._checked.add(name)

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"checkpoint {self._folder}: {error.strerror or error}.")


def _machine() -> dict[str, str]:
    """What the last bits of results depend on besides the call."""
    device = jax.devices()[0]
    return {
        "evidentia": version("evidentia"),
        "jax": jax.__version__,
        "device": f"{device.platform} {device.device_kind}",
    }


def _hash(*parts: Any) -> Any:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found
