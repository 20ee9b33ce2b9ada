"""One filter file, open: its descriptor, its map and its counters; the only importer of mmap.

- Opening changes nothing: no byte, no size, no time of change.
- Nothing is mapped before the header and the size of the file are proved right.
- A failed flush is final: a second one would report success with nothing written.

This file takes no lock: a caller that writes through the map holds it.
"""

import mmap
import os
import stat
import weakref
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mmbloom._engine import OneKey
from mmbloom._keys.coerce import coerce_one
from mmbloom._machine import mounts
from mmbloom._storage.kinds import BITS, Kind
from mmbloom._storage.opening import identity_of, open_filter_file, open_regular, read_header
from mmbloom.errors import (
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    NetworkFileSystemError,
    ReadOnlyError,
)
from mmbloom.format.header import HEADER_BYTES, MUTABLE_FIELDS, MUTABLE_OFFSET, SEALED, Header

_MADV_POPULATE_READ = 22  # of Linux 5.14; the mmap module has no name for it
_READ_AT_A_TIME = 8 << 20


# How many keys a filter that is not in memory answers from single pages before the kernel may
# read around them: 1,000 keys of a cold file took 0.07 s so and 0.6 s with reading around,
# 2 million 12.7 s and 1.1 s; they meet at about 15,000. A file in memory knows no difference.
_FEW_KEYS = 10_000


class Views(NamedTuple):
    """The mapped file, seen three ways; never handed out of the package."""

    words: npt.NDArray[np.uint64]  # the array
    counters: npt.NDArray[np.uint64]  # MUTABLE_FIELDS, in order
    one: OneKey  # the array, for a key at a time


class MappedFilter:
    """A validated, mapped filter file.

    Parameters
    ----------
    path : str
        Absolute path of the file.
    writable : bool
        Whether to map it for writing; a sealed file is mapped for reading all the same.
    allow_network : bool
        Whether to write on a network file system, where two hosts see different pages.
    kind : Kind
        What it must be.

    Attributes
    ----------
    header : Header
        The immutable block.
    identity : (int, int)
        Device and inode of the mapped file.
    read_only_reason : str
        Why the map cannot be written, "" if it can.

    Raises
    ------
    FormatError
        If the file is no valid filter of this kind.
    NetworkFileSystemError, OSError
        If it cannot be opened so.
    """

    def __init__(
        self,
        path: str,
        *,
        writable: bool,
        allow_network: bool,
        kind: Kind = BITS,
    ) -> None:
        self.path = path
        self._failure = ""
        self._fd = open_filter_file(path, os.O_RDONLY)
        try:
            self.header, self._size = read_header(self._fd, path, (kind,))
            self.identity = identity_of(os.fstat(self._fd))
            self.read_only_reason = _read_only_reason(self.header, writable)
            if not self.read_only_reason:
                self._reopen_for_writing(allow_network)
            access = mmap.ACCESS_READ if self.read_only_reason else mmap.ACCESS_WRITE
            # Never np.memmap: in r+ mode it extends a short file, and pickles by copying.
            self._map = _map(self._fd, self._size, access, path)
        except BaseException:
            os.close(self._fd)
            raise
        # A filter that is dropped unclosed must not keep its descriptor for ever.
        self._close_fd = weakref.finalize(self, os.close, self._fd)
        words = np.frombuffer(self._map, "<u8", self.header.array_bytes // 8, HEADER_BYTES)
        counters = np.frombuffer(self._map, "<u8", len(MUTABLE_FIELDS), MUTABLE_OFFSET)
        one = kind.one_key(words, counters, self.header.params, coerce_one)
        self._few_left = _FEW_KEYS
        self._advise(mmap.MADV_RANDOM)
        self._views: Views | None = Views(words, counters, one)

    def _reopen_for_writing(self, allow_network: bool) -> None:
        file_system = mounts.file_system_type(self.path)
        if file_system in mounts.NETWORK and not allow_network:
            raise NetworkFileSystemError(self.path, file_system)
        read_only, self._fd = self._fd, open_regular(self.path, os.O_RDWR)
        os.close(read_only)
        if identity_of(os.fstat(self._fd)) != self.identity:
            raise FileChangedError(self.path, "replaced by another file")

    @property
    def views(self) -> Views:
        """The map, as arrays, with no look at the file: for a caller that has just looked."""
        views = self._views
        if views is None:
            raise ClosedFilterError(self.path)
        return views

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._views is None

    def counter(self, name: str) -> int:
        """Read one of `MUTABLE_FIELDS`."""
        return int(self.views.counters[MUTABLE_FIELDS.index(name)])

    def set_counter(self, name: str, value: int) -> None:
        """Write one of `MUTABLE_FIELDS`, modulo 2**64: a damaged counter stays harmless."""
        # numpy stores all eight bytes at once; struct.pack_into zeroes them first, which a
        # reader, or a kill, can see.
        self.views.counters[MUTABLE_FIELDS.index(name)] = value % 2**64

    def count(self, **more: int) -> int:
        """Add to some of `MUTABLE_FIELDS`, in the order given; how many positions are set now."""
        # A memoryview, for nothing is called between reading and writing one: what a signal
        # handler counts, which comes where something is called, is not overwritten.
        counters = self.views.counters.data
        for name, by in more.items():
            place = MUTABLE_FIELDS.index(name)
            counters[place] = (counters[place] + by) % 2**64
        set_now: int = counters[MUTABLE_FIELDS.index("positions_set")]
        return set_now

    @property
    def positions_set(self) -> int:
        """How many positions are set; a damaged counter is cut to what is possible."""
        return min(self.counter("positions_set"), self.header.params.num_bits)

    @property
    def approx_count(self) -> int:
        """Estimated number of distinct keys; O(1)."""
        return round(self.header.params.estimated_count(self.positions_set))

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect at the present fill; O(1)."""
        return self.header.params.expected_error_rate(self.positions_set)

    def check_open(self) -> None:
        """Raise `ClosedFilterError` after `close`."""
        if self._views is None:
            raise ClosedFilterError(self.path)

    def check_writable(self) -> None:
        """Make sure that this object may write.

        Raises
        ------
        ClosedFilterError, ReadOnlyError, DurabilityError
            After `close`; in mode "r"; after a failed `flush`.
        """
        self.check_open()
        if self.read_only_reason:
            raise ReadOnlyError(self.path, self.read_only_reason)
        if self._failure:
            raise DurabilityError(self.path, self._failure)

    def check_unchanged(self) -> None:
        """Make sure that touching the map is safe: a truncated file is SIGBUS.

        Raises
        ------
        ClosedFilterError
            After `close`.
        FileChangedError
            If the file at the path is not the mapped one, or its size is not right.
        """
        if self._views is None:
            raise ClosedFilterError(self.path)
        try:
            there = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise FileChangedError(self.path, "removed or renamed") from None
        if (there.st_dev, there.st_ino) != self.identity:
            # As `grow` does: the keys are in the folder.
            what = "a folder" if stat.S_ISDIR(there.st_mode) else "another file"
            raise FileChangedError(self.path, f"replaced by {what}")
        if there.st_size != self._size:
            found = f"resized from {self._size} to {there.st_size} bytes"
            raise FileChangedError(self.path, found)

    def ready(self, keys: int) -> Views:
        """Give the map, for so many keys to be tested; raises as `check_unchanged`."""
        self.check_unchanged()
        return self.expect(keys)

    def expect(self, keys: int) -> Views:
        """Give the map, for so many keys, to a caller that has just looked at the file."""
        if self._few_left > 0:
            self._few_left -= keys
            if self._few_left <= 0:  # many keys are worth reading around
                self._advise(mmap.MADV_NORMAL)
        return self.views

    def ready_to_write(self, keys: int) -> Views:
        """Give the map, for so many keys to be changed, to the holder of the write lock.

        Raises as `check_writable` and `check_unchanged`.
        """
        self.check_writable()
        return self.ready(keys)

    def _advise(self, advice: int) -> None:
        with suppress(OSError, ValueError, AttributeError):  # advice only; or closed meanwhile
            self._map.madvise(advice)

    def preload(self) -> None:
        """Read the whole file into memory, and map it; changes nothing."""
        self.ready(_FEW_KEYS)
        try:
            # Only for reading: to populate for writing would make every page one to write back.
            self._map.madvise(_MADV_POPULATE_READ)
        except (AttributeError, OSError):  # Linux before 5.14, and other systems
            for start in range(0, self._size, _READ_AT_A_TIME):
                os.pread(self._fd, _READ_AT_A_TIME, start)

    def flush(self) -> None:
        """Force every change to the disk.

        Raises
        ------
        DurabilityError
            If the system reports an error; from then on `check_writable` raises it, for
            a second flush would report success with nothing written.
        """
        try:
            self._map.flush()
            os.fsync(self._fd)
        except OSError as error:
            self._failure = error.strerror or str(error)
            raise DurabilityError(self.path, self._failure) from error

    def close(self) -> None:
        """Unmap and close; further use raises `ClosedFilterError`. Closing twice is fine."""
        if self._views is None:
            return
        self._views = None
        mapped = self._map
        del self._map
        with suppress(BufferError):  # a thread still reads: the map goes with its last view
            mapped.close()
        self._close_fd()


def _map(fd: int, size: int, access: int, path: str) -> mmap.mmap:
    try:
        return mmap.mmap(fd, size, access=access)
    except ValueError:  # shorter than a moment ago
        raise FileChangedError(path, "truncated") from None
    except OSError as error:
        raise OSError(error.errno, f"cannot map {size} bytes: {error.strerror}", path) from error


def _read_only_reason(header: Header, writable: bool) -> str:
    if not writable:
        return "it was opened with mode='r'"
    if header.sealed:
        return "it is sealed: make a copy to add to"
    if header.read_only_compatible & ~SEALED:
        return "it was made by a newer mmbloom: use that one to add"
    return ""
