"""Writing a whole filter file from front to back: for copies, unions and mended filters.

The array comes in pieces, whose set positions are counted on the way, so that the counters of the
new file are right whatever those of its source were. The file gets its path when all of it
is on the disk (law 8).
"""

import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from mmbloom._append import Appender
from mmbloom._create import new_file
from mmbloom._engine import Words
from mmbloom._header import HEADER_BYTES, SEALED, Header, encode, with_counters
from mmbloom._kinds import BITS, Kind, kind_of
from mmbloom.sizing import FilterParams


@dataclass(frozen=True, slots=True)
class Target:
    """Where a new filter file goes, and how: the options that all ways to make one share."""

    path: str
    permissions: int
    allow_network: bool


class Builder:
    """A filter file that is being written; made by `new_filter`."""

    def __init__(self, fd: int, path: str, header: Header) -> None:
        self._header, self._count_set = header, kind_of(header).count_set
        self._file = Appender(fd, path, HEADER_BYTES)
        self._checksums: list[int] = []
        self.positions_set = 0

    def write(self, piece: Words) -> None:
        """Append a piece of the array, as `UnmappedFilter.pieces` cuts it."""
        octets = piece.tobytes()
        self.positions_set += self._count_set(piece)
        if self._header.sealed:
            self._checksums.append(zlib.crc32(octets))
        self._file.append(octets)

    def finish(self, keys_added: int, batches: int) -> int:
        """Write what is not the array, and force everything to the disk.

        Gives the number of keys added that the file says: the one given, if the bits can be
        those of so many keys, else an estimate; for the counters of a source are not proved.
        """
        keys_added = self._possible(keys_added)
        if self._header.sealed:
            table = np.array(self._checksums, "<u4").tobytes()
            self._file.append(table + zlib.crc32(table).to_bytes(4, "little"))
        assert self._file.size == self._header.file_bytes  # noqa: S101  all of it, and nothing else
        counters = {
            "keys_added": keys_added,
            "positions_set": self.positions_set,
            "batches_begun": batches,
            "batches_done": batches,
            "flushed_ns": time.time_ns(),
        }
        self._file.finish(with_counters(encode(self._header), counters))
        return keys_added

    def _possible(self, keys_added: int) -> int:
        params, most = self._header.params, self.positions_set  # a new key sets 1 to k bits
        fewest = -(-most // params.num_hashes)
        if fewest <= keys_added <= most:
            return keys_added
        return min(max(fewest, round(params.estimated_count(most))), most)


@contextmanager
def new_filter(
    target: Target, params: FilterParams, *, sealed: bool = False, kind: Kind = BITS
) -> Iterator[Builder]:
    """Make a filter file of the pieces that the block writes; it is there when that succeeds."""
    header = Header(params, time.time_ns(), uuid.uuid4().bytes, kind.number)
    if sealed:
        header = replace(header, read_only_compatible=SEALED)
    with new_file(
        target.path,
        header.file_bytes,
        permissions=target.permissions,
        allow_network=target.allow_network,
    ) as made:
        yield Builder(made.fd, target.path, header)
