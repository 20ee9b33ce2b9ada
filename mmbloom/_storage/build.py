"""A new filter file, written front to back: empty, or a copy, a union, a repaired filter.

The array is written in segments, in order; the header, which counts what was written, is written
last. The file appears at its path complete and forced to the disk, or not at all.
"""

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mmbloom._storage.atomic import WRITE_BYTES, Target, new_file, write_at, write_zeros
from mmbloom._storage.opening import BITS, Kind, kind_of, possible_count
from mmbloom._system import disk
from mmbloom._system.memory import too_large_to_be_dirty
from mmbloom._system.typing import Reserve, Words
from mmbloom.format.header import HEADER_BYTES, SEALED, Header, encode, with_counters
from mmbloom.sizing.params import FilterParams


class Appender:
    """A file that is written from `start` on; `finish` writes the bytes before.

    The path, which the file does not have yet, is for errors.
    """

    def __init__(self, fd: int, path: str, start: int = 0) -> None:
        self._fd, self._path = fd, path
        self._at, self._waiting = start, bytearray()

    @property
    def size(self) -> int:
        """Bytes of the file so far."""
        return self._at + len(self._waiting)

    def append(self, octets: bytes) -> None:
        """Write at the end."""
        self._waiting += octets
        if len(self._waiting) >= WRITE_BYTES:
            # To the next multiple, which lets the file be mapped as huge pages: see `write_zeros`.
            self._write_out(WRITE_BYTES - self._at % WRITE_BYTES)

    def finish(self, beginning: bytes = b"") -> None:
        """Write what is buffered, then the beginning of the file, and force all to the disk."""
        self._write_out(len(self._waiting))
        with self._named():
            if beginning:
                write_at(self._fd, beginning, 0)
            disk.sync(self._fd)

    def _write_out(self, size: int) -> None:
        rest = memoryview(bytes(self._waiting[:size]))
        del self._waiting[:size]
        with self._named():
            self._at = write_at(self._fd, rest, self._at)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(
                error.errno, f"cannot be written: {error.strerror}", self._path
            ) from error


class Builder:
    """A filter file that `new_filter` writes."""

    def __init__(self, fd: int, path: str, header: Header, key_rule: str | None) -> None:
        self._header, self._key_rule = header, key_rule
        self._count_set = kind_of(header).count_set
        self._file = Appender(fd, path, HEADER_BYTES)
        self._checksums: list[int] = []
        self.positions_set = 0

    def write(self, segment: Words) -> None:
        """Append the next segment of the array: 1 MiB, the last one what remains."""
        octets = segment.tobytes()
        self.positions_set += self._count_set(segment)
        if self._header.sealed:
            self._checksums.append(zlib.crc32(octets))
        self._file.append(octets)

    def finish(self, keys_added: int, batches: int) -> int:
        """Write everything except the array, and force the file to the disk.

        Return the number of keys added in the header: `keys_added` if so many keys can have set
        these bits, else an estimate. It is not trusted because the counters of a source may be
        damaged.
        """
        keys_added = possible_count(self._header, keys_added, self.positions_set)
        if self._header.sealed:
            table = np.array(self._checksums, "<u4").tobytes()
            self._file.append(table + zlib.crc32(table).to_bytes(4, "little"))
        assert self._file.size == self._header.file_bytes  # noqa: S101  the array was complete
        counters = {
            "keys_added": keys_added,
            "positions_set": self.positions_set,
            "batches_begun": batches,
            "batches_done": batches,
            "flushed_ns": time.time_ns(),
        }
        self._file.finish(with_counters(encode(self._header, self._key_rule), counters))
        return keys_added


@contextmanager
def new_filter(
    target: Target,
    params: FilterParams,
    *,
    sealed: bool = False,
    kind: Kind = BITS,
    key_rule: str | None = None,
) -> Iterator[Builder]:
    """Make a filter file from the segments that the block writes, if the block succeeds."""
    flags = SEALED if sealed else 0
    header = Header(params, time.time_ns(), os.urandom(16), kind.number, read_only_compatible=flags)
    with new_file(target, header.file_bytes) as made:
        yield Builder(made.fd, target.path, header, key_rule)


def create_file(
    target: Target,
    params: FilterParams,
    *,
    reserve: Reserve = "zeros",
    kind: Kind = BITS,
    key_rule: str | None = None,
) -> None:
    """Create the file of an empty filter.

    With `reserve` "zeros" the array's zeros are written as well (see `write_zeros`), else only
    reserved. They are never written if the file is too large for its pages to be dirty: the kernel
    would write back a run of 2 MiB for every key in it (10^9 keys at 1e-6 on ext4: 84 us a key, and
    3 without zeros).

    Raises
    ------
    FileExistsError
        If something is at the path, a dangling symbolic link as well, or the exclusions of a
        filter that was there before (with their path).
    OSError
        If the space cannot be reserved (ENOSPC, with the size asked for), or from the system. No
        file is left at the path, except by the very last step: if forcing the folder to the disk
        fails, a complete filter is there, which others may have opened.
    NetworkFileSystemError
        If the folder is on a network file system.
    """
    header = Header(params, time.time_ns(), os.urandom(16), kind.number)
    with new_file(target, header.file_bytes) as made:
        write_at(made.fd, encode(header, key_rule), 0)
        disk.sync(made.fd)
        on_disk = made.reserved and made.file_system not in disk.IN_MEMORY
        if on_disk and reserve == "zeros" and not too_large_to_be_dirty(header.array_bytes):
            write_zeros(made.fd, HEADER_BYTES, header.file_bytes)
