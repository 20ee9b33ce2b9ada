"""An open filter file: its header is checked, it is mapped, and it is checked before each access.

- Opening changes nothing: no byte, no size, no time of change.
- Nothing is mapped before the header and the size of the file have been checked.
- There are three ways to the map. A reader calls `look`, which checks that the file is still the
  one that was opened, and whole: touching a file that was cut is a fatal signal. A writer calls
  `attend` when its section begins, and `change` for each batch in it. `views` is for a caller that
  has just checked the file.

This file takes no lock: a caller that writes through the map holds it.
"""

import os
import stat

from mmbloom._storage.moving import MovingArray, Place, Views
from mmbloom._storage.opening import (
    BITS,
    Counters,
    Kind,
    identity_of,
    open_filter_file,
    open_regular,
    read_header,
    read_only_reason,
)
from mmbloom._storage.working_copy import NO_COPY
from mmbloom._system import disk, memory
from mmbloom._system.descriptors import OpenFile
from mmbloom._system.typing import Resident
from mmbloom.errors import (
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    NetworkFileSystemError,
    ReadOnlyError,
)
from mmbloom.format.header import HEADER_BYTES, KEY_RULE_OFFSET, encode_key_rule, read_key_rule


class MappedFilter:
    """A filter file, checked and mapped.

    Parameters
    ----------
    path : str
        Absolute path of the file.
    writable : bool
        Whether to map it for writing; a sealed file is mapped for reading in any case.
    allow_network : bool
        Whether to allow writing on a network file system, where two hosts see different memory.
    kind : Kind
        What it must be.
    resident : bool or "auto"
        As `MovingArray` takes it.

    Attributes
    ----------
    header : Header
        The immutable block.
    array : MovingArray
        Its array, wherever that lies.
    identity : (int, int)
        Device and inode of the mapped file.
    file : (bytes, int, int, int)
        The path, and the device, inode and size that it has unless something changed it.
    read_only_reason : str
        Why the map cannot be written, "" if it can.

    Raises
    ------
    FormatError
        If the file is no valid filter of this kind.
    NetworkFileSystemError, OSError
        If it cannot be opened in this way.
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
        self.path = path
        file = OpenFile(open_filter_file(path, os.O_RDONLY))
        try:
            self.header, size = read_header(file.fd, path, (kind,))
            self.identity = identity_of(os.fstat(file.fd))
            self.file = (os.fsencode(path), *self.identity, size)
            self.read_only_reason = read_only_reason(self.header, writable=writable)
            writable = not self.read_only_reason
            if writable:
                self._check_file_system(allow_network)
                read_only, file = file, OpenFile(open_regular(path, os.O_RDWR))
                read_only.close()
                if identity_of(os.fstat(file.fd)) != self.identity:
                    raise FileChangedError(path, "replaced by another file")
            self.array = MovingArray(
                file,
                path,
                self.identity,
                size,
                self.header,
                writable=writable,
                resident=resident,
            )
        except BaseException:
            file.close()
            raise

    def _check_file_system(self, allow_network: bool) -> None:
        file_system = disk.file_system_type(self.path)
        if file_system in disk.NETWORK and not allow_network:
            raise NetworkFileSystemError(self.path, file_system)

    @property
    def views(self) -> Views:
        """The map, as arrays, without a check: for a caller that has just checked the file."""
        place = self.array.mapped
        if place is None:
            raise ClosedFilterError(self.path)
        return place.views

    def look(self, keys: int) -> Views:
        """Return the map to test a number of keys; raise as `check_unchanged`."""
        self.check_unchanged()
        self._touch(keys)
        return self.views if self._is_at_home() else self.array.follow().views

    def attend(self) -> None:
        """Check that this object may write, and attend to its array, when a section begins.

        Raise as `check_writable`, `check_unchanged` and `MovingArray.flush`.
        """
        self.check_writable()
        self.check_unchanged()
        if self.array.wanted or not self._is_at_home():
            self.array.attend()

    def change(self, keys: int) -> Views:
        """Return the map to change a number of keys, within a section."""
        self._touch(keys)
        return self.views

    def _is_at_home(self) -> bool:
        """Return whether the array is in the file, as it always is for most filters.

        It does what `Place.is_plain` and `Place.is_named` do in one step, as each batch asks.
        """
        place = self.array.mapped
        return place is not None and place.named is NO_COPY and place.word_now[0] == place.word

    def _touch(self, keys: int) -> None:
        """Count keys down to the number after which the kernel may read around their memory."""
        array = self.array
        if array.few_left > 0:
            array.few_left -= keys
            if array.few_left <= 0 and (place := array.mapped) is not None:
                memory.expect_neighbours(place.array)

    def trusted(self, keys: int) -> Place | None:
        """Check the file for all single keys of the next moment, which then need no check.

        Return None if the file has changed or its array may be elsewhere: then each key checks.
        Nothing is raised, except by a signal handler.

        Parameters
        ----------
        keys : int
            How many keys relied on the previous check.
        """
        try:
            there = os.stat(self.path)
        except OSError:
            return None
        if (there.st_dev, there.st_ino, there.st_size) != self.file[1:]:
            return None
        place = self.array.steady()
        if place is not None:
            self._touch(keys)
        return place

    @property
    def counters(self) -> Counters:
        """The counters of the header."""
        return self.views.counters

    @property
    def key_rule(self) -> str | None:
        """How lines became its keys; None if that is not noted. The file is checked first."""
        self.check_unchanged()
        place = self.array.place  # keeps it mapped if another thread closes the filter
        return read_key_rule(place.head[:HEADER_BYTES])

    def note_key_rule(self, rule: str) -> None:
        """Write how lines become its keys, for the holder of the write lock."""
        self.attend()
        self.array.place.head[KEY_RULE_OFFSET:HEADER_BYTES] = encode_key_rule(rule)

    @property
    def positions_set(self) -> int:
        """How many positions are set; a damaged counter is limited to what is possible."""
        return min(self.counters["positions_set"], self.header.params.num_bits)

    @property
    def approx_count(self) -> int:
        """Estimated number of distinct keys; O(1)."""
        return round(self.header.params.estimated_count(self.positions_set))

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect at the present fill; O(1)."""
        return self.header.params.expected_error_rate(self.positions_set)

    def close(self) -> None:
        """Unmap and close; further use raises `ClosedFilterError`. Closing twice is fine."""
        self.array.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.array.closed

    def check_open(self) -> None:
        """Raise `ClosedFilterError` after `close`."""
        if self.array.closed:
            raise ClosedFilterError(self.path)

    @property
    def is_writable(self) -> bool:
        """Whether `check_writable` would raise nothing."""
        return not (self.array.closed or self.read_only_reason or self.array.failure)

    def check_writable(self) -> None:
        """Check that this object may write.

        Raises
        ------
        ClosedFilterError, ReadOnlyError, DurabilityError
            After `close`; in mode "r"; after a failed flush.
        """
        self.check_open()
        if self.read_only_reason:
            raise ReadOnlyError(self.path, self.read_only_reason)
        if self.array.failure:
            raise DurabilityError(self.path, self.array.failure)

    def check_unchanged(self) -> None:
        """Check that touching the map is safe: if the file was truncated, it is SIGBUS.

        Raises
        ------
        ClosedFilterError
            After `close`.
        FileChangedError
            If the file at the path is not the mapped one, or its size is not right.
        """
        self.check_open()
        size = self.file[-1]
        try:
            there = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise self._changed("removed or renamed") from None
        if (there.st_dev, there.st_ino) != self.identity:
            # A folder is there after `grow`, with all keys in it.
            what = "a folder" if stat.S_ISDIR(there.st_mode) else "another file"
            raise self._changed(f"replaced by {what}")
        if there.st_size != size:
            raise self._changed(f"resized from {size} to {there.st_size} bytes")

    def rename(self, path: str) -> None:
        """Take the file by another path, which it has by now; earlier checks are not valid."""
        self.array.news[0] += 1
        self.path = self.array.path = path
        self.file = (os.fsencode(path), *self.file[1:])

    def _changed(self, what: str) -> FileChangedError:
        self.array.news[0] += 1  # an earlier check is no longer valid
        return FileChangedError(self.path, what)
