"""One filter file, open: its descriptor, where its array is, and its counters.

- Opening changes nothing: no byte, no size, no time of change.
- Nothing is mapped before the header and the size of the file are proved right.
- A failed flush is final: a second one would report success with nothing written.
- The array may move, between the file and shared memory (``resident``): each call that has looked
  at the file follows it.

This file takes no lock: a caller that writes through the map holds it.
"""

import os
import stat

import numpy as np

from mmbloom._machine import mounts, pages
from mmbloom._machine.descriptors import OpenFile
from mmbloom._storage.kinds import BITS, Kind
from mmbloom._storage.opening import (
    identity_of,
    open_filter_file,
    open_regular,
    read_header,
    read_only_reason,
)
from mmbloom._storage.place import Place, Views
from mmbloom._storage.resident.moving import MovingArray
from mmbloom._storage.resident.working_copy import NO_COPY, is_wanted
from mmbloom._typing import Resident
from mmbloom.errors import (
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    NetworkFileSystemError,
    ReadOnlyError,
)
from mmbloom.format.header import (
    HEADER_BYTES,
    KEY_RULE_OFFSET,
    MUTABLE_FIELDS,
    encode_key_rule,
    read_key_rule,
)

_READ_AT_A_TIME = 8 << 20


# How many keys a filter that is not in memory answers from single pages before the kernel may
# read around them: 1,000 keys of a cold file took 0.07 s so and 0.6 s with reading around,
# 2 million 12.7 s and 1.1 s; they meet at about 15,000. A file in memory knows no difference.
_FEW_KEYS = 10_000


# A file that is there already is changed itself until so many keys were: to read gigabytes into
# shared memory takes seconds, which a few keys are not worth.
_FEW_CHANGES = 50_000


class MappedFilter(MovingArray):
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
    resident : bool or "auto"
        Whether to keep the array in shared memory once keys are added: "auto" where the file is
        too large for its pages to be dirty. A copy that others have made is used in any case.

    Attributes
    ----------
    header : Header
        The immutable block.
    identity : (int, int)
        Device and inode of the mapped file.
    file : (bytes, int, int, int)
        The path, and what is there as long as nothing has changed: these two, and the size.
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
        resident: Resident = False,
    ) -> None:
        super().__init__(path, kind)
        self._file = OpenFile(open_filter_file(path, os.O_RDONLY))
        try:
            self.header, self._size = read_header(self._fd, path, (kind,))
            self.identity = identity_of(os.fstat(self._fd))
            self.file = (os.fsencode(path), *self.identity, self._size)
            self.read_only_reason = read_only_reason(self.header, writable=writable)
            if not self.read_only_reason:
                self._reopen_for_writing(allow_network)
            self._few_left = _FEW_KEYS
            self._find_array()
        except BaseException:
            self._file.close()
            raise
        possible = kind is BITS and not self.read_only_reason
        if possible and is_wanted(resident, self.header.array_bytes, path):
            few = self.counter("keys_added") + _FEW_CHANGES
            self._move_at = few if resident == "auto" else 0
            self._wanted = True

    def _reopen_for_writing(self, allow_network: bool) -> None:
        file_system = mounts.file_system_type(self.path)
        if file_system in mounts.NETWORK and not allow_network:
            raise NetworkFileSystemError(self.path, file_system)
        read_only, self._file = self._file, OpenFile(open_regular(self.path, os.O_RDWR))
        read_only.close()
        if identity_of(os.fstat(self._fd)) != self.identity:
            raise FileChangedError(self.path, "replaced by another file")

    @property
    def views(self) -> Views:
        """The map, as arrays, with no look at the file: for a caller that has just looked."""
        place = self._place
        if place is None:
            raise ClosedFilterError(self.path)
        return place.views

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
        # Nothing is called between reading a counter and writing it: what a signal handler
        # counts, which comes where something is called, is not overwritten.
        counters = self.views.counters
        if counters.dtype.isnative:
            words = counters.data
            for name, by in more.items():
                place = MUTABLE_FIELDS.index(name)
                words[place] = (words[place] + by) % 2**64
        else:  # no memoryview reads the bytes of a number in an order that is not the machine's
            for name, by in more.items():
                place, addend = MUTABLE_FIELDS.index(name), np.uint64(by % 2**64)
                counters[place : place + 1] += addend
        return self.counter("positions_set")

    def begin(self, keys: int) -> Views:
        """Give the map for a batch of a number of keys, and count that it has begun.

        Call it in a section whose look, `ready_to_write`, is over.
        """
        views = self.expect(keys)
        self.count(batches_begun=1)
        return views

    @property
    def key_rule(self) -> str | None:
        """How lines became its keys; None if that is not noted. It looks at the file first."""
        self.check_unchanged()
        return read_key_rule(self._there.head[:HEADER_BYTES])

    def note_key_rule(self, rule: str) -> None:
        """Write how lines become its keys, for the holder of the write lock."""
        self.ready_to_write(0)
        self._there.head[KEY_RULE_OFFSET:HEADER_BYTES] = encode_key_rule(rule)

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
        if self.closed:
            raise ClosedFilterError(self.path)

    @property
    def is_writable(self) -> bool:
        """Whether `check_writable` would raise nothing."""
        return not (self.closed or self.read_only_reason or self._failure)

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
        self.check_open()
        try:
            there = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise self._changed("removed or renamed") from None
        if (there.st_dev, there.st_ino) != self.identity:
            # As `grow` does: the keys are in the folder.
            what = "a folder" if stat.S_ISDIR(there.st_mode) else "another file"
            raise self._changed(f"replaced by {what}")
        if there.st_size != self._size:
            raise self._changed(f"resized from {self._size} to {there.st_size} bytes")

    def _changed(self, what: str) -> FileChangedError:
        self.news[0] += 1  # who goes by an earlier look is told as well
        return FileChangedError(self.path, what)

    def ready(self, keys: int) -> Views:
        """Give the map, for so many keys to be tested; raises as `check_unchanged`."""
        self.check_unchanged()
        return self.expect(keys)

    def expect(self, keys: int) -> Views:
        """Give the map, for so many keys, to a caller that has just looked at the file."""
        place = self._place
        if place is None:
            raise ClosedFilterError(self.path)
        if place.word_now[0] != place.word or place.named is not NO_COPY:
            before, place = place, self._follow()  # which is slower
            if place is not before and self._few_left <= 0:
                pages.expect_neighbours(place.array)
        self._touched(place, keys)
        return place.views

    def _touched(self, place: Place, keys: int) -> None:
        if self._few_left > 0:
            self._few_left -= keys
            if self._few_left <= 0:  # many keys are worth reading around
                pages.expect_neighbours(place.array)

    def trusted(self, keys: int) -> Place | None:
        """Give the map, if nothing has changed, for keys that are not to look for a moment.

        None if each key is to look for itself: the file has changed, or the array may have to be
        found anew. Nothing is raised but what a signal handler raises.

        Parameters
        ----------
        keys : int
            How many were asked for and added so since the last time.
        """
        place = self._place
        if place is None:
            return None
        try:
            there = os.stat(self.path)
        except OSError:
            return None
        if (*identity_of(there), there.st_size) != self.file[1:] or not place.is_named():
            return None
        if not place.is_plain:
            if place.copy is None:
                return None  # the header is to name no copy that is lost before a key is added
            if place.share is not None and not place.share.held:
                return None
        self._touched(place, keys)
        return place

    def ready_to_write(self, keys: int) -> Views:
        """Give the map, for so many keys to be changed, to the holder of the write lock.

        First the array is moved to shared memory, or a part of it is written to the file, if it
        is time to.

        Raises as `check_writable`, `check_unchanged` and `flush`.
        """
        self.check_writable()
        views, place = self.ready(keys), self._place
        if place is not None and (self._wanted or place.named is not NO_COPY):
            return self._attended(place)
        return views

    def preload(self) -> None:
        """Read the whole file into memory, and map it; changes nothing."""
        self.ready(_FEW_KEYS)
        if not self.resident and not pages.populate(self._there.array, self._size, writable=False):
            for start in range(0, self._size, _READ_AT_A_TIME):
                os.pread(self._fd, _READ_AT_A_TIME, start)

    def close(self) -> None:
        """Unmap and close; further use raises `ClosedFilterError`. Closing twice is fine."""
        self.closed = True
        place, self._place = self._place, None
        closers = [] if place is None else place.closers()
        del place
        for close in closers:
            close()
        self._file.close()
