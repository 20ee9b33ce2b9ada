"""Filter files read with `pread`: if a file is changed meanwhile, that is an error and no signal.

This is for files that may be anything, and for reading a filter from end to end. If a file is
truncated, a map of it kills the process, while `pread` only returns less. No lock is taken: bits
only go from 0 to 1, so a reader finds at least every key whose add had returned when it began.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from mmbloom._storage.opening import (
    ALL_KINDS,
    BITS,
    Kind,
    kind_of,
    open_filter_file,
    open_regular,
    read_header,
)
from mmbloom._storage.warnings import warn
from mmbloom._storage.working_copy import WorkingCopy
from mmbloom._system.typing import Array, HashHalves, Words
from mmbloom.errors import FileChangedError, FormatError, MmbloomWarning
from mmbloom.format.header import (
    HEADER_BYTES,
    KIND_BITS,
    SEGMENT_BYTES,
    Header,
    read_counters,
    read_key_rule,
)
from mmbloom.format.positions import positions

_FEW_BYTES = 1 << 16  # read around a single position


class UnmappedFile:
    """A regular file, open for reading; a context manager, which closes it.

    Attributes
    ----------
    path : str
        The file.
    size : int
        Its size when it was opened.
    """

    def __init__(self, path: str, open_file: Callable[[str, int], int] = open_regular) -> None:
        self.path = path
        self._copy: WorkingCopy | None = None
        self._fd = open_file(path, os.O_RDONLY)
        try:
            self.size = os.fstat(self._fd).st_size
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)
        if self._copy is not None:
            self._copy.close()

    def find_array(self, header: Header) -> None:
        """Find where the array is: if in shared memory, the file is as old as its last flush.

        Raise OSError if it is there and cannot be read.
        """
        before, self._copy = self._copy, None
        if before is not None:
            before.close()
        self._copy = WorkingCopy.find(self._fd, header, self.path, writable=False)[1]

    def read(self, start: int, size: int) -> bytes:
        """Read a part of the file; raise `FileChangedError` if it is no longer there."""
        fd = self._fd if self._copy is None or start < HEADER_BYTES else self._copy.fd
        parts = []
        while size:
            try:
                part = os.pread(fd, size, start)
            except OSError as error:  # which has a descriptor and no path
                reason = f"cannot be read: {error.strerror}"
                raise OSError(error.errno, reason, self.path) from error
            if not part:
                raise FileChangedError(self.path, "truncated")
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check_size(self) -> None:
        """Raise `FileChangedError` if the file was resized since it was opened."""
        size = os.fstat(self._fd).st_size
        if size != self.size:
            raise FileChangedError(self.path, f"resized from {self.size} to {size} bytes")

    def bytes_not_reserved(self) -> int:
        """Return how many bytes of the file are holes, without disk space; 0 if unknown."""
        blocks = getattr(os.fstat(self._fd), "st_blocks", 0)
        # A filter has a header: a file system that reports no block at all does not count them.
        return max(0, self.size - 512 * blocks) if blocks else 0


class UnmappedFilter(UnmappedFile):
    """A filter file whose header has been checked.

    Opening raises `FormatError` if it is no valid filter of one of these kinds, and
    `FileChangedError` if its uuid is not the one given.

    Attributes
    ----------
    header : Header
        The immutable block.
    """

    def __init__(
        self, path: str, uuid: bytes | None = None, *, kinds: tuple[Kind, ...] = (BITS,)
    ) -> None:
        super().__init__(path, open_filter_file)
        try:
            self.header, self.size = read_header(self._fd, path, kinds)
            if uuid not in (None, self.header.uuid):
                raise FileChangedError(path, "replaced by another filter")
            self.find_array(self.header)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def resident(self) -> bool:
        """Whether the array is in shared memory, where the writers of the filter have put it."""
        return self._copy is not None

    def counters(self) -> dict[str, int]:
        """Read the counters: any values, as they have no checksum."""
        return read_counters(self.read(0, HEADER_BYTES))

    def key_rule(self) -> str | None:
        """Read how lines became its keys; None if that is not noted."""
        return read_key_rule(self.read(0, HEADER_BYTES))

    def header_first(self) -> bytes:
        """Read the header, then find the array, which has all that the header counts."""
        raw = self.read(0, HEADER_BYTES)
        self.find_array(self.header)
        return raw

    def check_same(self) -> None:
        """Raise `FileChangedError` if the file was overwritten or resized since it was opened."""
        self.check_size()
        try:
            header = read_header(self._fd, self.path, ALL_KINDS)[0]
        except FormatError as error:
            raise FileChangedError(self.path, f"overwritten: its {error.field} is wrong") from error
        if header != self.header:
            raise FileChangedError(self.path, "overwritten by another filter")

    def checksums(self) -> Array[np.uint32]:
        """Read the checksums of a sealed filter's segments; none if it is not sealed.

        Raise `FormatError` if the table itself is damaged, and `FileChangedError` if the file was
        overwritten.
        """
        start = HEADER_BYTES + self.header.array_bytes
        if start == self.size:
            return np.zeros(0, np.uint32)
        table = np.frombuffer(self.read(start, self.size - start), "<u4")
        found, expected = int(table[-1]), zlib.crc32(table[:-1].tobytes())
        if found != expected:
            self.check_same()
            raise FormatError(self.path, "checksum of the seal", hex(found), hex(expected))
        return table[:-1]

    def segments(self) -> Iterator[Words]:
        """Read the array segment by segment; check a seal, and warn if bits are lost.

        The warning is here because every file made from this one counts its bits, which hides the
        loss. A segment is 1 MiB of the array, the last one what remains.

        Raise `FormatError` at the first segment that is not what was sealed, and `FileChangedError`
        if the file was overwritten.
        """
        checksums = self.checksums().tolist()
        # Read before the array: bits are set before they are counted, and never cleared.
        counted = read_counters(self.header_first())["positions_set"]
        array = Segments(self, self.header, checksums, self._refuse)
        yield from array
        # A file of counters may have lost keys since then.
        if kind_of(self.header) is BITS and array.positions_set < counted:
            self.check_same()  # if it was overwritten, that is another error
            warn(
                f"{self.path}: {array.positions_set} bits are set, but {counted} were counted: "
                "bits are lost, or the counters are damaged; verify the file to find out which",
                MmbloomWarning,
            )

    def _refuse(self, number: int, found: int, sealed: int) -> None:
        self.check_same()
        field = f"checksum of MiB {number} of the array"
        raise FormatError(self.path, field, hex(found), hex(sealed))

    def contains(self, hashes: HashHalves) -> Array[np.bool_]:
        """Return for each key of a batch whether it was added: bool array of shape (n,)."""
        params = self.header.params
        # Positions in a byte, and the mask of the first of them.
        per, mask = (8, 1) if self.header.kind == KIND_BITS else (2, 15)
        wanted = np.array(list(positions(*hashes, params)), np.uint64)
        flat = wanted.ravel()
        order = np.argsort(flat)
        in_order, found = flat[order], np.zeros(len(flat), np.bool_)
        start = 0
        while start < len(flat):  # each part of the file is read once
            first = int(in_order[start]) // (per * _FEW_BYTES) * _FEW_BYTES
            stop = int(np.searchsorted(in_order, np.uint64(per * (first + _FEW_BYTES))))
            size = min(_FEW_BYTES, self.header.array_bytes - first)
            octets = np.frombuffer(self.read(HEADER_BYTES + first, size), np.uint8)
            place, rest = np.divmod(in_order[start:stop] - np.uint64(per * first), np.uint64(per))
            found[order[start:stop]] = octets[place] >> rest * np.uint64(8 // per) & mask != 0
            start = stop
        return np.asarray(found.reshape(wanted.shape).all(axis=0))


OnDamage = Callable[[int, int, int], None]


class Segments:
    """The array of a file, read in segments; set positions are counted, the seal is compared.

    Parameters
    ----------
    file : UnmappedFile
        The file; if it ends early, zeros are returned for the rest.
    header : Header
        The size of the array, and its kind.
    checksums : sequence of int
        Of the segments, as they were sealed; empty to compare none.
    on_damage : callable
        Called with the number of a segment that is not what was sealed, its checksum, and the
        one that was sealed, before the segment is returned.

    Attributes
    ----------
    positions_set : int
        Positions that are not 0 in the segments so far.
    """

    def __init__(
        self, file: UnmappedFile, header: Header, checksums: Sequence[int], on_damage: OnDamage
    ) -> None:
        self._file, self._header = file, header
        self._count_set = kind_of(header).count_set
        self._checksums, self._on_damage = checksums, on_damage
        self.positions_set = 0

    def __iter__(self) -> Iterator[Words]:
        # Not a loop, whose variable would keep each segment alive until the next is asked for: a
        # union of many filters would keep one of each.
        return map(self._read, range(self._header.num_segments))

    def _read(self, number: int) -> Words:
        start = number * SEGMENT_BYTES
        size = min(SEGMENT_BYTES, self._header.array_bytes - start)
        there = min(size, max(0, self._file.size - HEADER_BYTES - start))
        octets = self._file.read(HEADER_BYTES + start, there).ljust(size, b"\0")
        segment = np.frombuffer(octets, "<u8")
        self.positions_set += self._count_set(segment)
        if self._checksums and (found := zlib.crc32(octets)) != self._checksums[number]:
            self._on_damage(number, found, self._checksums[number])
        return segment
