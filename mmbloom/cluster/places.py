"""Where slices lie: files of a folder, or by fsspec whatever has a URL; its only importer.

What is written appears whole or not at all. In a folder it is a temporary file, forced to the disk
and renamed. An object store shows an object when all of it is there, so it is put at its place.
Elsewhere it is put beside its place and moved.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple, Protocol

from mmbloom._storage.atomic import (
    OWNER_ONLY,
    Target,
    close_quietly,
    draft_file,
    gone_on_error,
    new_file,
    sync_folder,
    write_at,
)
from mmbloom._storage.opening import absolute, open_regular
from mmbloom._system.typing import Path

try:
    import fsspec
except ImportError:  # which only URLs need
    fsspec = None

# A path, a URL, the content itself, or a binary file.
Source = Path | bytes | bytearray | memoryview | IO[bytes]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::|://)")
_LOST_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
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

    @property
    def helpers(self) -> int:
        """How many threads are worth it for reading the beginnings of many files."""

    def prepare(self) -> None:
        """Make the folder itself, if it is not there."""

    def name_of(self, name: str) -> str:
        """Name what is in it, for messages."""

    def open(self, name: str) -> Any:
        """Open for reading: a context manager that gives an `Opened`."""

    def head(self, name: str, size: int) -> tuple[bytes, int]:
        """Read so many bytes from the beginning of a file, or all; and say how large it is."""

    def put(self, name: str, raw: bytes) -> None:
        """Write a file, whole or not at all; it replaces what is there."""

    def create(self, name: str, raw: bytes) -> None:
        """Write a file, whole or not at all; `FileExistsError` if one is there."""

    def names(self, within: str = "") -> list[str]:
        """List the names of files, or of folders in it; none where nothing is."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it, if it is there."""


class At(NamedTuple):
    """A file at a place."""

    place: Place
    name: str


def place_of(path: Path, options: Mapping[str, Any] | None = None) -> Place:
    """Take a path for a folder, and a URL for a prefix, opened with options of fsspec."""
    text = os.fsdecode(path)
    if not text:
        raise ValueError("the path is empty, expected a folder or a URL")
    if isinstance(path, os.PathLike) and _LOST_SLASH.match(text):
        raise ValueError(f"{text}: is a URL that lost a slash, as pathlib does; pass it as str")
    for scheme in _LOCAL:
        text = text.removeprefix(scheme)
    return Prefix(text, options) if _URL.match(text) else Folder(absolute(text))


@contextmanager
def reading(source: Source | At) -> Iterator[Opened]:
    """Open what a caller names: a path, a URL, the content itself, or a file that is open."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield Opened(io.BytesIO(source), "<bytes>", memoryview(source).nbytes)
    elif isinstance(source, (str, os.PathLike, At)):
        place, name = _within(source)
        with place.open(name) as opened:
            yield opened
    else:
        yield Opened(source, str(getattr(source, "name", "<file>")), None)


def head_of(source: Path | bytes | At, size: int) -> tuple[bytes, int, str]:
    """Read the beginning of a file, and no more of it; with its size and its name for messages."""
    if isinstance(source, bytes):
        return source[:size], len(source), "<bytes>"
    place, name = _within(source)
    return *place.head(name, size), place.name_of(name)


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file at a path or a URL, whole or not at all."""
    place, name = _within(path)
    place.put(name, raw)


def _within(path: Path | At) -> At:
    if isinstance(path, At):
        return path
    text = os.fsdecode(path)
    if _URL.match(text) and not text.startswith(_LOCAL):
        name = text[text.rindex("/") + 1 :]
        return At(place_of(text.removesuffix(name)), name)
    for scheme in _LOCAL:
        text = text.removeprefix(scheme)
    above, name = os.path.split(absolute(text))
    return At(Folder(above), name)


class Folder:
    """A folder of this system, which other hosts may share."""

    helpers = 0

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:  # noqa: D102  as in the protocol, and so below
        os.makedirs(self.path, 0o700, exist_ok=True)

    def name_of(self, name: str) -> str:  # noqa: D102
        return os.path.join(self.path, name)

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:  # noqa: D102
        path = self.name_of(name)
        fd = open_regular(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            yield Opened(file, path, os.fstat(fd).st_size)

    def head(self, name: str, size: int) -> tuple[bytes, int]:  # noqa: D102
        with self.open(name) as opened:
            return opened.file.read(size), os.fstat(opened.file.fileno()).st_size

    def put(self, name: str, raw: bytes) -> None:  # noqa: D102
        path = self.name_of(name)
        folder = os.path.dirname(path)
        if "/" in name and not os.path.isdir(folder):
            os.makedirs(folder, 0o700, exist_ok=True)
            sync_folder(self.path)
        temporary = os.path.join(folder, f".mmbloom-{os.urandom(16).hex()}.tmp")
        try:
            with gone_on_error(temporary):
                close_quietly(draft_file(temporary, raw, OWNER_ONLY))
                # Of two that write the same at once, the last is there: either is right.
                os.replace(temporary, path)
            sync_folder(folder)
        except OSError as error:  # of the file that people know, not of the temporary one
            raise OSError(error.errno, error.strerror, path) from error

    def create(self, name: str, raw: bytes) -> None:  # noqa: D102
        path = self.name_of(name)
        # Hosts that share the folder see the link at once or not; nothing is mapped.
        target = Target(path, OWNER_ONLY, allow_network=True)
        with new_file(target, len(raw), mapped=False) as made:
            write_at(made.fd, raw, 0)
            os.fsync(made.fd)

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


class Prefix:
    """What stands for a folder under a URL, by fsspec."""

    helpers = 8  # each waits for a store that answers in tens of milliseconds

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        if fsspec is None:
            raise ImportError(
                f"{url}: reading and writing URLs needs fsspec: pip install 'mmbloom[cluster]'"
            )
        self.path = url if url.endswith("://") else url.rstrip("/")
        self._system, self._root = fsspec.core.url_to_fs(self.path, **(options or {}))
        protocols = self._system.protocol
        protocols = (protocols,) if isinstance(protocols, str) else protocols
        self._of_objects = not _OBJECT_STORES.isdisjoint(protocols)

    def prepare(self) -> None:  # noqa: D102  as in the protocol, and so below
        if not self._of_objects:
            self._system.makedirs(self._root, exist_ok=True)

    def name_of(self, name: str) -> str:  # noqa: D102
        return f"{self.path.removesuffix('/')}/{name}"

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:  # noqa: D102
        # Listings that this process has kept may be older than what others wrote.
        self._system.invalidate_cache()
        with self._system.open(self._at(name), "rb") as file:
            yield Opened(file, self.name_of(name), getattr(file, "size", None))

    def head(self, name: str, size: int) -> tuple[bytes, int]:  # noqa: D102
        self._system.invalidate_cache()
        whole = int(self._system.info(self._at(name))["size"])
        # An open file would read ahead, on most stores by megabytes.
        raw = self._system.cat_file(self._at(name), start=0, end=min(size, whole))
        return bytes(raw), whole

    def put(self, name: str, raw: bytes) -> None:  # noqa: D102
        if self._of_objects:
            self._system.pipe_file(self._at(name), raw)
            return
        self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
        temporary = f"{self._at(name)}.{os.urandom(8).hex()}.tmp"
        self._system.pipe_file(temporary, raw)
        self._system.mv(temporary, self._at(name))

    def create(self, name: str, raw: bytes) -> None:  # noqa: D102
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
