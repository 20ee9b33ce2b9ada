"""Each line once: claim, write, and only then mark.

A run that is killed, or whose output breaks, can repeat lines when it is run again and can
never lose one: a line is handed to the output before it is marked as seen. The write lock
is kept from the claim to the mark, so of all processes one writes each line.

A power cut is another matter. The system writes marks to the disk when it likes, and a `flush`
of any process those of all: a mark can be there before its line is. A sink whose `write`
returns only when its lines are on the disk, such as `mmbloom.lines.LineWriter` with `sync`,
excludes that. With any other, force the output to the disk before you flush the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mmbloom._threads import read_ahead
from mmbloom._typing import Bools, Octets
from mmbloom.errors import FilterFullError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.lines import Chunk, LineKeys


class Sink(Protocol):
    """Where lines go; see `mmbloom.lines.LineWriter`."""

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write lines with their terminators; when it returns they are out of this process.

        If it returns only when they are on the disk, a power cut loses no line.
        """


class Discard:
    """A sink for a run that only marks lines."""

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Tally:
    """What went through.

    Attributes
    ----------
    lines, unique, repeated : int
        Lines read; of these new, and not new.
    bytes : int
        Bytes read.
    lacking : int
        Lines without the field or member asked for: each was its own key.
    """

    lines: int = 0
    unique: int = 0
    repeated: int = 0
    bytes: int = 0
    lacking: int = 0

    def add(self, other: Tally) -> None:
        """Add the figures of another run."""
        self.lines += other.lines
        self.unique += other.unique
        self.repeated += other.repeated
        self.bytes += other.bytes
        self.lacking += other.lacking


def dedup(
    seen: Filter,
    chunks: Iterable[Chunk],
    sink: Sink,
    *,
    keys: LineKeys | None = None,
    repeats: bool = False,
    enter: Callable[[Claim], AbstractContextManager[Bools]] | None = None,
    tally: Tally | None = None,
) -> Tally:
    r"""Write each line that is new to the filter, and mark it as seen.

    Parameters
    ----------
    seen : BloomFilter, GrowingFilter or RotatingFilter
        What was seen before, in this run or any other.
    chunks : iterable of Chunk
        The lines.
    sink : Sink
        Gets the lines in order.
    keys : LineKeys, optional
        Which part of a line counts; all of it by default.
    repeats : bool, default False
        Write the lines that are not new instead.
    enter : callable, optional
        Enters a claim, giving its answers; by default each waits for the write lock as long as
        the filter does.
    tally : Tally, optional
        Gets the figures chunk by chunk, so that they are known after an error too; by default
        a new one.

    Returns
    -------
    Tally

    Raises
    ------
    FilterFullError
        If the filter was opened with ``on_full="raise"``, at the first line that goes past its
        plan: all lines before it are done, and none after it.

    Examples
    --------
    >>> import io, os, sys, tempfile
    >>> from mmbloom import BloomFilter
    >>> from mmbloom.lines import read_chunks
    >>> class Print:
    ...     def write(self, lines, *, terminated):
    ...         print(lines.tobytes())
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     dedup(seen, read_chunks(io.BytesIO(b"a\nb\na\n")), Print())
    b'a\nb\n'
    Tally(lines=3, unique=2, repeated=1, bytes=6, lacking=0)
    """
    select = keys or LineKeys()
    total = Tally() if tally is None else tally

    def prepare(chunk: Chunk) -> tuple[Chunk, Claim, int]:
        found = select(chunk)
        return chunk, seen.claim(found), select.lacking(found)  # hashes, unlocked

    def write(chunk: Chunk, claim: Claim, lacking: int) -> None:
        with enter(claim) if enter else claim as new:
            sink.write(chunk.where(~new if repeats else new), terminated=chunk.terminated)
        unique = int(np.count_nonzero(new))
        repeated = len(chunk) - unique
        total.add(Tally(len(chunk), unique, repeated, chunk.num_bytes, lacking))

    with closing(read_ahead(map(prepare, chunks))) as prepared:
        for chunk, claim, lacking in prepared:
            try:
                write(chunk, claim, lacking)
            except FilterFullError as error:
                full, before = error, total.unique
                while full.fits:  # others may leave less room meanwhile
                    try:
                        write(*prepare(chunk.first(full.fits)))
                    except FilterFullError as fuller:
                        full = fuller
                    else:
                        held = full.keys + total.unique - before
                        full = FilterFullError(full.path, held, full.capacity, 0, full.advice)
                raise full from None
    return total
