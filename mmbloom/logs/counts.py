"""Count how often the key of each line occurs, as uniq -c does, or write lines that occur once.

Lines are read twice: the first pass counts them, and the second writes those that are wanted. Only
a hash of each key is kept, so memory grows with the number of distinct keys, not with their length:
16 bytes per distinct key.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import numpy as np

from mmbloom._keys.coerce import coerce
from mmbloom._system.typing import Array, Octets, Words
from mmbloom.errors import InputError
from mmbloom.logs.dedup import Sink
from mmbloom.logs.lines import Chunk, KeyRule, cut_lines
from mmbloom.sizing.params import KeyHash

_TOGETHER = 1 << 20  # hashes that wait to be counted: to sort them takes a tenth of a second


class LineCounts:
    r"""How often the key of each line occurs.

    Parameters
    ----------
    keys : LineKeys or RowKeys
        Selects the part of a line that is its key.

    Notes
    -----
    A key is identified by 64 bits of its hash, SipHash-1-3 with a random seed. Among n distinct
    keys, two have the same hash with a probability of n^2 / 2^65 (one in 4,000 for 100 million
    keys); both then get the sum of their counts.

    Examples
    --------
    >>> import io
    >>> from mmbloom.logs.lines import LineKeys, read_chunks
    >>> counts = LineCounts(LineKeys())
    >>> (chunk,) = read_chunks(io.BytesIO(b"a\nb\na\n"))
    >>> counts.add(chunk)
    >>> counts.of(chunk).tolist()
    [2, 1, 2]
    """

    def __init__(self, keys: KeyRule) -> None:
        self._select = keys
        self._hash = KeyHash("siphash", int.from_bytes(os.urandom(16), "little"))
        self._known = np.zeros(0, np.uint64)  # ascending
        self._times = np.zeros(0, np.int64)
        self._waiting: list[Words] = []
        self._many = 0  # of these

    def add(self, chunk: Chunk) -> None:
        """Count the lines of a chunk.

        Parameters
        ----------
        chunk : Chunk
            The lines.
        """
        self._waiting.append(self._hashes(chunk))
        self._many += len(chunk)
        # As many as are known, so that each is sorted a few times only, however many come.
        if self._many >= max(_TOGETHER, len(self._known)):
            self._settle()

    def of(self, chunk: Chunk) -> Array[np.int64]:
        """Return how often the key of each line was counted.

        Parameters
        ----------
        chunk : Chunk
            The lines.

        Returns
        -------
        ndarray of int64, shape (n,)
            The count of each line's key; 0 if it was not counted.
        """
        if self._waiting:
            self._settle()
        hashes = self._hashes(chunk)
        if not len(self._known):
            return np.zeros(len(hashes), np.int64)
        places = np.searchsorted(self._known, hashes)
        places[places == len(self._known)] = 0
        return np.where(self._known[places] == hashes, self._times[places], 0)

    def _hashes(self, chunk: Chunk) -> Words:
        found = self._select.find(chunk)
        keys = found.keys if found.part_key is None else found.part_key
        return coerce(keys).hashes(self._hash, 1)[0].copy()  # without the second halves

    def _settle(self) -> None:
        """Bring what waits together with what is known."""
        found, times = np.unique(np.concatenate(self._waiting), return_counts=True)
        together = np.concatenate([self._known, found])
        order = np.argsort(together, kind="stable")
        together = together[order]
        first = np.flatnonzero(np.diff(together, prepend=~together[:1]))  # of each run of equals
        self._times = np.add.reduceat(np.concatenate([self._times, times])[order], first)
        self._known, self._waiting, self._many = together[first], [], 0


class NotCountedError(InputError):
    """A line to be written was not counted: the input has changed since it was counted."""

    def __init__(self) -> None:
        super().__init__(
            "an input changed between counting and printing: the printed lines are marked; run "
            "again on a copy of the inputs"
        )


class CountedWriter:
    r"""Write lines with the number of times that their keys occur, as `uniq -c` does.

    Parameters
    ----------
    sink : Sink
        Where the lines are written.
    counts : LineCounts
        The counts of all lines.
    terminator : bytes
        The bytes that end a line.

    Examples
    --------
    >>> import io, os, sys, tempfile
    >>> from mmbloom import BloomFilter
    >>> from mmbloom.logs.dedup import dedup
    >>> from mmbloom.logs.lines import LineKeys, read_chunks
    >>> class Print:
    ...     def write(self, lines, *, terminated):
    ...         sys.stdout.write(lines.tobytes().decode())
    >>> text, counts = b"b\na\nb\n", LineCounts(LineKeys())
    >>> for chunk in read_chunks(io.BytesIO(text)):
    ...     counts.add(chunk)
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     tally = dedup(seen, read_chunks(io.BytesIO(text)), CountedWriter(Print(), counts))
          2 b
          1 a
    """

    def __init__(self, sink: Sink, counts: LineCounts, terminator: bytes = b"\n") -> None:
        self._sink, self._counts, self._terminator = sink, counts, terminator
        self.existing = getattr(sink, "existing", None)  # for `mmbloom.logs.dedup.alone`

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write lines, each after its count, right-aligned in seven columns, and a space.

        Parameters
        ----------
        lines, terminated
            As for `mmbloom.logs.lines.LineWriter.write`.

        Raises
        ------
        NotCountedError
            If the key of a line was not counted. Nothing is written then.
        OSError
            If the sink raises it.
        """
        pieces: list[bytes] = []
        for chunk, times in _counted(lines, self._counts, self._terminator):
            end = self._terminator if chunk.terminated else b""
            pairs = zip(times.tolist(), chunk.lines, strict=True)
            pieces.extend(b"%7d %b%b" % (number, line, end) for number, line in pairs)
        if pieces:  # in one write, so that nothing of another process comes between
            self._sink.write(np.frombuffer(b"".join(pieces), np.uint8), terminated=terminated)


class OnceWriter(CountedWriter):
    r"""Write the lines whose keys occur once, as `uniq -u` does.

    Parameters
    ----------
    sink, counts, terminator
        As for `CountedWriter`.
    """

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write the lines whose keys occur once.

        Parameters
        ----------
        lines, terminated
            As for `mmbloom.logs.lines.LineWriter.write`.

        Raises
        ------
        NotCountedError, OSError
            As for `CountedWriter.write`.
        """
        ended, pieces = terminated, list[Octets]()
        for chunk, times in _counted(lines, self._counts, self._terminator):
            if (once := times == 1).any():
                pieces.append(chunk.where(once))
                ended = chunk.terminated
        if pieces:
            self._sink.write(np.concatenate(pieces), terminated=ended)


def _counted(
    lines: Octets, counts: LineCounts, terminator: bytes
) -> Iterator[tuple[Chunk, Array[np.int64]]]:
    """Cut what is to be written into its lines again, and yield them with their numbers.

    Their input was checked as a whole. A few lines of it may be like UTF-16, or end in carriage
    returns, where all of it is not.
    """
    for chunk in cut_lines(io.BytesIO(lines.data), terminator, None):
        times = counts.of(chunk)
        if not times.all():
            raise NotCountedError
        yield chunk, times
