"""Where slices lie: files of a folder, or by fsspec whatever has a URL; its only importer.

What is written appears whole or not at all. In a folder it is a temporary file, forced to the disk
and renamed. An object store shows an object when all of it is there, so it is put at its place.
Elsewhere it is put beside its place and moved.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple, Protocol

from mmbloom._storage.atomic import (
    OWNER_ONLY,
    close_quietly,
    draft_file,
    gone_on_error,
    replace_file,
    sync_folder,
)
from mmbloom._storage.opening import absolute, open_regular
from mmbloom._typing import Path

try:
    import fsspec
except ImportError:  # which only URLs need
    fsspec = None

# A path, a URL, the content itself, or a binary file.
Source = Path | bytes | bytearray | memoryview | IO[bytes]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::|://)")
_LOCAL = ("file://", "local://")

# Where an object is there when all of it is, and moving one is copying it.
_OBJECT_STORES = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "cos", "memory"}
)


class Opened(NamedTuple):
    """What is to be read.

    Attributes
    ----------
    file : binary file
        From its beginning.
    name : str
        For messages.
    size : int or None
        In bytes, where that is known before reading.
    """

    file: IO[bytes]
    name: str
    size: int | None


class Place(Protocol):
    """A folder, or what stands for one under a URL; names may have one slash, for one in it."""

    @property
    def path(self) -> str:
        """Where it is, for messages."""

    def name_of(self, name: str) -> str:
        """Name what is in it, for messages."""

    def open(self, name: str) -> Any:
        """Open for reading: a context manager that gives an `Opened`."""

    def put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file, whole or not at all; it replaces what is there."""

    def create(self, name: str, raw: bytes) -> None:
        """Write a file, whole or not at all; `FileExistsError` if one is there."""

    def names(self, within: str = "") -> list[str]:
        """List the names of files, or of folders in it; none where nothing is."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it, if it is there."""


def place_of(path: Path) -> Place:
    """Take a path for a folder, and a URL for a prefix."""
    text = os.fsdecode(path)
    for scheme in _LOCAL:
        text = text.removeprefix(scheme)
    return Prefix(text) if _URL.match(text) else Folder(absolute(text))


@contextmanager
def reading(source: Source) -> Iterator[Opened]:
    """Open what a caller names: a path, a URL, the content itself, or a file that is open."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield Opened(io.BytesIO(source), "<bytes>", memoryview(source).nbytes)
    elif isinstance(source, (str, os.PathLike)):
        place, name = _within(source)
        with place.open(name) as opened:
            yield opened
    else:
        yield Opened(source, str(getattr(source, "name", "<file>")), None)


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file at a path or a URL, whole or not at all."""
    place, name = _within(path)
    place.put(name, pieces)


def _within(path: Path) -> tuple[Place, str]:
    above, _, name = os.fsdecode(path).rpartition("/")
    return place_of(above + "/" if above in ("", "/") and "/" in os.fsdecode(path) else above), name


class Folder:
    """A folder of this system, which other hosts may share."""

    def __init__(self, path: str) -> None:
        self.path = path

    def name_of(self, name: str) -> str:  # noqa: D102  as in the protocol, and so below
        return os.path.join(self.path, name)

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:  # noqa: D102
        path = self.name_of(name)
        fd = open_regular(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            yield Opened(file, path, os.fstat(fd).st_size)

    def put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:  # noqa: D102
        path = self.name_of(name)
        folder = os.path.dirname(path)
        if "/" in name:
            os.makedirs(folder, 0o700, exist_ok=True)
        with _named(path):
            replace_file(path, _temporary(folder), b"".join(pieces), OWNER_ONLY)
            sync_folder(folder)

    def create(self, name: str, raw: bytes) -> None:  # noqa: D102
        path = self.name_of(name)
        temporary = _temporary(self.path)
        with _named(path):
            with gone_on_error(temporary):
                close_quietly(draft_file(temporary, raw, OWNER_ONLY))
                os.link(temporary, path)  # which fails if something is there
            os.unlink(temporary)
            sync_folder(self.path)

    def names(self, within: str = "") -> list[str]:  # noqa: D102
        try:
            return sorted(os.listdir(self.name_of(within)))
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:  # noqa: D102
        path = self.name_of(name)
        with suppress(FileNotFoundError):
            if not os.path.isdir(path) or os.path.islink(path):
                os.unlink(path)
                return
            for each in os.listdir(path):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(path, each))
            os.rmdir(path)


def _temporary(folder: str) -> str:
    return os.path.join(folder, f".mmbloom-{os.urandom(16).hex()}.tmp")


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Let errors name the file that people know, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


class Prefix:
    """What stands for a folder under a URL, by fsspec."""

    def __init__(self, url: str) -> None:
        if fsspec is None:
            raise ImportError(
                f"{url}: reading and writing URLs needs fsspec: pip install 'mmbloom[cluster]'"
            )
        self.path = url.rstrip("/")
        self._system, self._root = fsspec.core.url_to_fs(self.path)
        protocols = self._system.protocol
        protocols = (protocols,) if isinstance(protocols, str) else protocols
        self._of_objects = not _OBJECT_STORES.isdisjoint(protocols)

    def name_of(self, name: str) -> str:  # noqa: D102  as in the protocol, and so below
        return f"{self.path}/{name}"

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:  # noqa: D102
        # Listings that this process has kept may be older than what others wrote.
        self._system.invalidate_cache()
        with self._system.open(self._at(name), "rb") as file:
            yield Opened(file, self.name_of(name), getattr(file, "size", None))

    def put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:  # noqa: D102
        raw = b"".join(pieces)
        if self._of_objects:
            self._system.pipe_file(self._at(name), raw)
            return
        self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
        temporary = f"{self._at(name)}.{os.urandom(8).hex()}.tmp"
        self._system.pipe_file(temporary, raw)
        self._system.mv(temporary, self._at(name))

    def create(self, name: str, raw: bytes) -> None:  # noqa: D102
        if not self._of_objects:
            self._system.makedirs(self._root, exist_ok=True)
        self._system.pipe_file(self._at(name), raw, mode="create")

    def names(self, within: str = "") -> list[str]:  # noqa: D102
        self._system.invalidate_cache()
        try:
            found = self._system.ls(self._at(within), detail=False)
        except FileNotFoundError:
            return []
        return sorted(each.rstrip("/").rpartition("/")[2] for each in found)

    def remove(self, name: str) -> None:  # noqa: D102
        with suppress(FileNotFoundError):
            self._system.rm(self._at(name), recursive=True)
