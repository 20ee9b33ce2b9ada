"""Where slices are stored: files in a folder, or objects at any URL that fsspec supports.

Only this module imports fsspec.

A file appears complete or not at all. In a folder it is written under a temporary name, forced to
the disk and renamed. An object store shows an object only when it is complete, so it is written
directly. At other URLs it is written under a temporary name and moved.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

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
from mmbloom._system import disk
from mmbloom._system.typing import Path

try:
    import fsspec
except ImportError:  # only URLs need it
    fsspec = None

# A path, a URL, the content itself, or a binary file.
Source = Path | bytes | bytearray | memoryview | IO[bytes]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::|://)")
_LOST_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
_LOCAL = ("file://", "local://")

# Where an object appears only when it is complete, and moving it would copy it.
_OBJECT_STORES = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "cos", "memory"}
)


def place_of(path: Path, options: Mapping[str, Any] | None = None) -> Place:
    """Return the folder at a path, or the prefix at a URL opened with options for fsspec."""
    text = _plain(path)
    if not text:
        raise ValueError("path is empty, expected a folder or a URL")
    if isinstance(path, os.PathLike) and _LOST_SLASH.match(text):
        raise ValueError(f"{text}: this URL lost a slash in a pathlib.Path; pass it as a str")
    return Prefix(text, options) if _URL.match(text) else Folder(absolute(text))


@contextmanager
def reading(source: Source | At) -> Iterator[Opened]:
    """Open a source: a path, a URL, bytes that are the content, or a file that is already open."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield Opened(io.BytesIO(source), "<bytes>", memoryview(source).nbytes)
    elif isinstance(source, (str, os.PathLike, At)):
        place, name = _within(source)
        with place.open(name) as opened:
            yield opened
    else:
        yield Opened(source, str(getattr(source, "name", "<file>")), None)


def head_of(source: Path | bytes | At, size: int) -> tuple[bytes, int, str]:
    """Read the first bytes of a file; return them, the file's size, and its name in messages."""
    if isinstance(source, bytes):
        return source[:size], len(source), "<bytes>"
    place, name = _within(source)
    return *place.head(name, size), place.name_of(name)


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file at a path or a URL; it appears complete or not at all."""
    place, name = _within(path)
    place.put(name, raw)


def _plain(path: Path) -> str:
    """Return a path or a URL as str, and the URL of a local file as its path."""
    text = os.fsdecode(path)
    for scheme in _LOCAL:
        text = text.removeprefix(scheme)
    return text


def _within(path: Path | At) -> At:
    if isinstance(path, At):
        return path
    text = _plain(path)
    if _URL.match(text):
        name = text[text.rindex("/") + 1 :]
        return At(place_of(text.removesuffix(name)), name)
    above, name = os.path.split(absolute(text))
    return At(Folder(above), name)


class Opened(NamedTuple):
    """An open file.

    Attributes
    ----------
    file : binary file
        The file, at its beginning.
    name : str
        Its name in messages.
    size : int or None
        Its size in bytes, if known before reading.
    """

    file: IO[bytes]
    name: str
    size: int | None


class Folder:
    """A folder of this system, which other hosts may share.

    File names may contain one slash, for a file in a subfolder.

    Attributes
    ----------
    path : str
        The path of the folder, for messages.
    threads : int
        How many threads read the beginnings of many files.
    """

    threads = 1

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        """Create the folder if it does not exist."""
        os.makedirs(self.path, 0o700, exist_ok=True)

    def name_of(self, name: str) -> str:
        """Return the full name of a file, for messages."""
        return os.path.join(self.path, name)

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:
        """Open a file for reading."""
        path = self.name_of(name)
        fd = open_regular(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            yield Opened(file, path, os.fstat(fd).st_size)

    def head(self, name: str, size: int) -> tuple[bytes, int]:
        """Read up to `size` bytes from the beginning of a file; return them and the file's size."""
        with self.open(name) as opened:
            return opened.file.read(size), os.fstat(opened.file.fileno()).st_size

    def put(self, name: str, raw: bytes) -> None:
        """Write a file, complete or not at all; replace an existing one."""
        path = self.name_of(name)
        folder = os.path.dirname(path)
        if "/" in name and not os.path.isdir(folder):
            os.makedirs(folder, 0o700, exist_ok=True)
            sync_folder(self.path)
        temporary = os.path.join(folder, f".mmbloom-{os.urandom(16).hex()}.tmp")
        try:
            with gone_on_error(temporary):
                close_quietly(draft_file(temporary, raw, OWNER_ONLY))
                # If two tasks write the same slice at once the last one stays: both are right.
                os.replace(temporary, path)
            sync_folder(folder)
        except OSError as error:  # name the file that people know, not the temporary one
            raise OSError(error.errno, error.strerror, path) from error

    def create(self, name: str, raw: bytes) -> None:
        """Write a file, complete or not at all; raise `FileExistsError` if it exists."""
        path = self.name_of(name)
        # A network file system is fine: hosts see the link or not, and nothing is mapped.
        target = Target(path, OWNER_ONLY, allow_network=True)
        with new_file(target, len(raw), mapped=False) as made:
            write_at(made.fd, raw, 0)
            disk.sync(made.fd)

    def names(self, within: str = "") -> list[str]:
        """Return the names in the folder or a subfolder; none if it does not exist."""
        try:
            return sorted(os.listdir(self.name_of(within)))
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        """Remove a file, or a subfolder with its files, if it exists."""
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
    """The equivalent of a folder at a URL, through fsspec; it has the methods of `Folder`."""

    threads = 8  # each waits tens of milliseconds for the store to answer

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        if fsspec is None:
            raise ImportError(
                f"{url}: reading or writing a URL needs fsspec: pip install 'mmbloom[cluster]'"
            )
        self.path = url if url.endswith("://") else url.rstrip("/")
        self._system, self._root = fsspec.core.url_to_fs(self.path, **(options or {}))
        protocols = self._system.protocol
        protocols = (protocols,) if isinstance(protocols, str) else protocols
        self._of_objects = not _OBJECT_STORES.isdisjoint(protocols)

    def prepare(self) -> None:  # noqa: D102  as in Folder, and so below
        if not self._of_objects:
            self._system.makedirs(self._root, exist_ok=True)

    def name_of(self, name: str) -> str:  # noqa: D102
        return f"{self.path.removesuffix('/')}/{name}"

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root

    @contextmanager
    def open(self, name: str) -> Iterator[Opened]:  # noqa: D102
        # A listing that this process has cached may be older than what others wrote.
        self._system.invalidate_cache()
        with self._system.open(self._at(name), "rb") as file:
            yield Opened(file, self.name_of(name), getattr(file, "size", None))

    def head(self, name: str, size: int) -> tuple[bytes, int]:  # noqa: D102
        self._system.invalidate_cache()
        whole = int(self._system.info(self._at(name))["size"])
        # An open file would read ahead, by megabytes on most stores.
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


Place = Folder | Prefix


class At(NamedTuple):
    """A file at a place."""

    place: Place
    name: str
