"""A filter file is opened: a regular file, whose header is checked before its use.

Opening changes nothing: no byte, no size, no time of change. Nothing is mapped here, and only the
header is read.

The two kinds of filter file are here as well: what their positions are, and which class opens
them. So are the counters of a mapped header. Each is stored in one step, so that a reader finds
the number before or after a change, also if the writer is killed. This file takes no lock: a
caller that changes a counter holds the write lock.
"""

import errno
import os
import stat
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from mmbloom._engine import count_nonzero, count_set
from mmbloom._system.descriptors import open_file
from mmbloom._system.typing import Array, Path, Words
from mmbloom.errors import FileChangedError, FormatError, OtherKindError
from mmbloom.format.header import (
    HEADER_BYTES,
    KIND_BITS,
    KIND_COUNTERS,
    MUTABLE_FIELDS,
    SEALED,
    Header,
    decode,
)


class Kind(NamedTuple):
    """A kind of filter file, as readers and writers need it.

    Attributes
    ----------
    number : int
        In the header.
    noun : str
        What its positions are.
    opened_by : str
        The class that opens it.
    otherwise : str
        What to do if the other kind is wanted.
    count_set : callable
        Counts the positions of a part of the array that are not 0.
    """

    number: int
    noun: str
    opened_by: str
    otherwise: str
    count_set: Callable[[Words], int]

    def __str__(self) -> str:
        return f"{self.number} ({self.noun}, a {self.opened_by})"


BITS = Kind(
    KIND_BITS,
    "bits",
    "BloomFilter",
    "to remove keys, create a CountingBloomFilter (mmbloom create --counting) and add the keys",
    count_set,
)

COUNTERS = Kind(
    KIND_COUNTERS,
    "counters",
    "CountingBloomFilter",
    "its to_bloom(path) writes a plain filter with the same keys",
    count_nonzero,
)

ALL_KINDS = (BITS, COUNTERS)
_BY_NUMBER = {kind.number: kind for kind in ALL_KINDS}


def kind_of(header: Header) -> Kind:
    """Return the kind that a header names."""
    return _BY_NUMBER[header.kind]


def possible_count(header: Header, keys_added: int, positions_set: int) -> int:
    """Return a number of keys added, or an estimate if the positions set do not allow it.

    Each new key sets 1 to k positions that were clear.
    """
    fewest, most = -(-positions_set // header.params.num_hashes), positions_set
    if fewest <= keys_added <= most:
        return keys_added
    return min(max(fewest, round(header.params.estimated_count(positions_set))), most)


def require_kind(header: Header, path: str, expected: tuple[Kind, ...]) -> None:
    """Raise `OtherKindError`, with the class that opens the file, if its kind is another one."""
    if (found := kind_of(header)) not in expected:
        wanted = " or ".join(map(str, expected))
        opening = f"open it with {found.opened_by}.open, or mmbloom.open"
        expected_kind = f"{wanted}; {opening}; {found.otherwise}"
        raise OtherKindError(path, found.noun, str(found), expected_kind)


class Counters:
    """The `MUTABLE_FIELDS` of one header, each modulo 2**64: a damaged one stays harmless.

    Parameters
    ----------
    words : ndarray of uint64
        The fields, in order.
    """

    __slots__ = ("words",)

    def __init__(self, words: Array[np.uint64]) -> None:
        self.words = words

    def __getitem__(self, name: str) -> int:
        """Return a counter."""
        return self.words.item(MUTABLE_FIELDS.index(name))

    def __setitem__(self, name: str, value: int) -> None:
        """Write a counter."""
        # numpy stores all eight bytes at once; struct.pack_into zeroes them first, which a reader
        # can see, and a kill can leave.
        self.words[MUTABLE_FIELDS.index(name)] = value % 2**64


AsFile = TypeVar("AsFile")
AsFolder = TypeVar("AsFolder")


def absolute(path: Path) -> str:
    """Return an absolute path, which a change of the working folder does not affect."""
    return os.path.abspath(os.fsdecode(path))


def is_folder(path: str) -> bool:
    """Return whether a path is a folder; OSError if nothing is there, or it cannot be checked.

    `os.path.isdir` would return False then.
    """
    return stat.S_ISDIR(os.stat(path).st_mode)


def as_file_or_folder(
    path: str, of_file: Callable[[str], AsFile], of_folder: Callable[[str], AsFolder]
) -> AsFile | AsFolder:
    """Return what the function for files, or the one for folders, returns for a path.

    Another process may grow a file at any moment, which makes the path a folder. So if the function
    for files fails and a folder is there by then, the one for folders is called.
    """
    if not os.path.isdir(path):
        try:
            return of_file(path)
        except (FormatError, FileChangedError):
            if not os.path.isdir(path):
                raise
    return of_folder(path)


def open_regular(path: str, mode: int, *, of_folders: str = "") -> int:
    """Open an existing regular file, and nothing else; return its descriptor.

    Parameters
    ----------
    path : str
        The file.
    mode : int
        `os.O_RDONLY` or `os.O_RDWR`.
    of_folders : str, optional
        What to do about a folder, for its error.

    Raises
    ------
    FormatError
        If it is a folder, a device, a FIFO or a socket, none of which is opened.
    OSError
        As the system says.
    """
    # Checked before it is opened: opening a device can have effects, a FIFO can hang.
    _require_regular(os.stat(path), path, of_folders)
    try:
        fd = open_file(path, mode | os.O_NONBLOCK)
    except IsADirectoryError:  # it was not a folder at the check
        _require_regular(os.stat(path), path, of_folders)
        raise
    except OSError as error:
        if error.errno == errno.EACCES and mode == os.O_RDWR:
            raise PermissionError(
                error.errno, "no permission to write; open it with mode='r' to read it", path
            ) from None
        raise
    try:
        _require_regular(os.fstat(fd), path, of_folders)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_regular(status: os.stat_result, path: str, of_folders: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise FormatError(path, "file", "a folder", f"a regular file{of_folders}")
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(path, "file", "not a regular file", "a regular file")


def open_filter_file(path: str, mode: int) -> int:
    """Open the file of a filter; the error about a folder names the call that opens one."""
    return open_regular(path, mode, of_folders="; mmbloom.open opens a folder")


def read_header(fd: int, path: str, kinds: tuple[Kind, ...] = (BITS,)) -> tuple[Header, int]:
    """Read and check the header of a filter; return it and the size of the file.

    Raises
    ------
    FormatError
        If the file is no valid filter of one of these kinds.
    """
    size = os.fstat(fd).st_size
    header = decode(os.pread(fd, HEADER_BYTES, 0), size, path)
    require_kind(header, path, kinds)
    return header, size


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """Return device and inode, which identify a file whatever its name."""
    return status.st_dev, status.st_ino


def read_only_reason(header: Header, *, writable: bool) -> str:
    """Return why a filter cannot be written to, "" if it can."""
    if not writable:
        return "it was opened with mode='r'"
    if header.sealed:
        return "it is sealed; make a copy to add keys"
    if header.read_only_compatible & ~SEALED:
        return "it was made by a newer mmbloom; use that version to add keys"
    return ""
