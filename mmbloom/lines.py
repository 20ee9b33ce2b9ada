"""Lines of a byte stream in bounded chunks, and the part of each line that is its key.

The options mean what they mean in uniq(1) in the C locale. If a line lacks the chosen field or
member, the whole line is its key, and no field or member of another line makes the same key:
no line is dropped because the chosen part of it is missing. A field or member that is empty or
null is missing, and of several one that is missing is enough: what says nothing of two lines
does not say that they are the same.
"""

from __future__ import annotations

import select
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedWriter, FileIO, TextIOBase
from typing import Any, Protocol, cast

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import ByteKeys, KeyBatch, PackedKeys
from mmbloom._keys.coerce import joined
from mmbloom._typing import Bools, Keys, Octets, Offsets
from mmbloom.format.header import KEY_RULE_BYTES

# A block of log lines of usual length fills a chunk, which is what the engine hashes fastest.
# After a kill a rerun repeats at most 64 Ki lines or 8 MiB, of which this is far short.
BLOCK_BYTES = 1 << 20
CHUNK_LINES = 1 << 13  # whose blocks, hashes and cells are in the second cache together


class RawInput(Protocol):
    """Anything that reads like a raw file, such as `io.FileIO` or `io.BytesIO`."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Read some bytes into a buffer, and return how many; 0 at the end."""


@dataclass(frozen=True, slots=True)
class Chunk:
    r"""At most 8,192 consecutive lines, and the block of bytes that they lie in.

    Attributes
    ----------
    octets : ndarray of uint8, shape (m,)
        The block.
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]], without its terminator.
    terminated : bool
        False for the last line of an input that does not end in a terminator. Such a line
        is a chunk of its own.

    Examples
    --------
    >>> import io
    >>> (chunk,) = read_chunks(io.BytesIO(b"a\nbc\n"))
    >>> len(chunk), chunk.num_bytes, chunk.lines
    (2, 5, [b'a', b'bc'])
    >>> chunk.where(np.array([False, True])).tobytes()
    b'bc\n'
    """

    octets: Octets
    starts: Offsets
    ends: Offsets
    terminated: bool

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def num_bytes(self) -> int:
        """Number of bytes in the input, terminators included."""
        return int(self.ends[-1] - self.starts[0]) + self.terminated

    @property
    def lines(self) -> list[bytes]:
        """The lines as a list of bytes, without terminators."""
        return _engine.lines_of(self.octets, self.starts, self.ends)

    def first(self, number: int) -> Chunk:
        r"""Give the first lines of it, at least one, as a chunk.

        Parameters
        ----------
        number : int
            How many lines.

        Returns
        -------
        Chunk
            It has the same block.

        Examples
        --------
        >>> import io
        >>> (chunk,) = read_chunks(io.BytesIO(b"a\nbc\n"))
        >>> chunk.first(1).lines
        [b'a']
        """
        return Chunk(self.octets, self.starts[:number], self.ends[:number], self.terminated)

    def where(self, wanted: Bools) -> Octets:
        """Give some of the lines, with their terminators.

        Parameters
        ----------
        wanted : ndarray of bool, shape (n,)
            True for each line to give.

        Returns
        -------
        ndarray of uint8
            The lines, one after the other: a copy, or that part of the block if all are wanted.
        """
        if wanted.all():
            # As a rule where most lines are new: to copy 1 MB takes 70 us.
            return self.octets[self.starts[0] : self.ends[-1] + self.terminated]
        return _engine.gather(self.octets, self.starts, self.ends, wanted, int(self.terminated))


def read_chunks(source: RawInput, terminator: bytes = b"\n") -> Iterator[Chunk]:
    r"""Cut a stream into chunks of lines; memory is bounded by the block and the longest line.

    Parameters
    ----------
    source : RawInput
        The stream. It is read to its end, and not closed.
    terminator : bytes
        The one byte that ends a line.

    Yields
    ------
    Chunk
        The lines in order. An empty line is a line; a last line without its terminator is a
        chunk of its own.

    Raises
    ------
    OSError
        If the stream cannot be read.
    TypeError
        If it is no binary file.

    Examples
    --------
    >>> import io
    >>> [(c.lines, c.terminated) for c in read_chunks(io.BytesIO(b"a\r\n\nb"))]
    [([b'a\r', b''], True), ([b'b'], False)]
    """
    if not hasattr(source, "readinto"):
        raise TypeError(f"source is {source!r}, expected a binary file, as open(path, 'rb') gives")
    block, filled = np.empty(BLOCK_BYTES, dtype=np.uint8), 0
    while count := _read(source, block[filled : filled + BLOCK_BYTES]):
        start, searched, filled = 0, filled, filled + count
        # Bytes from earlier reads hold no terminator: even a long line is searched only once.
        while True:
            starts, ends = _engine.find_lines(block, searched, filled, terminator[0], CHUNK_LINES)
            if not len(starts):
                break
            starts[0] = start
            start = searched = int(ends[-1]) + 1
            yield Chunk(block, starts, ends, terminated=True)
        if start or filled == len(block):
            # The chunks keep their block, so the rest of it is copied to a new one: with
            # twice as much room, which lets a long line be copied a few times only.
            left = block[start:filled]
            block, filled = np.empty(max(BLOCK_BYTES, 2 * len(left)), dtype=np.uint8), len(left)
            block[:filled] = left
    if filled:
        one = np.array([[0], [filled]], dtype=np.int64)
        yield Chunk(block, one[0], one[1], terminated=False)


def _read(source: RawInput, room: Octets) -> int:
    # None means that the read would block. The command line waits before it reads such inputs.
    return source.readinto(room.data) or 0


class LineWriter:
    r"""Writes lines to a raw file; nothing is buffered when `write` returns.

    If the file ends in the middle of a line, a terminator is written first, so that the next
    line starts as a line.

    Parameters
    ----------
    file : FileIO
        The file to write to.
    terminator : bytes
        What ends a line.
    name : str, optional
        The name of the file in errors; by default that of the file object.
    ends_mid_line : callable, optional
        Returns whether the file ends in the middle of a line now. Pass it if something else
        may have written to the file; by default only the last write of this object counts.
    sync : callable, optional
        Forces the file to the disk. If it is passed, `write` calls it before it returns, so
        that lines are on the disk before `mmbloom.dedup.dedup` marks them.

    Raises
    ------
    TypeError
        If the file has a buffer of its own, or is none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "unique.log")
    >>> with path.open("wb", buffering=0) as file:
    ...     writer = LineWriter(file)
    ...     writer.write(np.frombuffer(b"a", np.uint8), terminated=False)
    ...     writer.write(np.frombuffer(b"b\n", np.uint8), terminated=True)
    >>> path.read_bytes()
    b'a\nb\n'
    """

    def __init__(
        self,
        file: FileIO,
        terminator: bytes = b"\n",
        *,
        name: str | None = None,
        ends_mid_line: Callable[[], bool] | None = None,
        sync: Callable[[], None] | None = None,
    ) -> None:
        given: object = file
        if not hasattr(given, "write") or isinstance(given, BufferedWriter | TextIOBase):
            # A line in a buffer would be marked before it is written.
            raise TypeError(
                f"file is {file!r}, expected a raw file, as open(path, 'ab', buffering=0) gives"
            )
        self._file, self._name, self._sync = file, name or str(file.name), sync
        self._terminator, self._mid_line = terminator, False
        self._ends_mid_line = ends_mid_line or (lambda: self._mid_line)

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write lines.

        Parameters
        ----------
        lines : ndarray of uint8
            The lines with their terminators, as `Chunk.where` returns them.
        terminated : bool
            Whether the last of them ends in a terminator.

        Raises
        ------
        OSError
            If they cannot be written, or forced to the disk; some of them may be in the file,
            the last one cut off.
        """
        if not len(lines):
            return
        if self._ends_mid_line():
            self._write(self._terminator)
        self._write(lines)
        self._mid_line = not terminated
        if self._sync is not None:
            self._sync()

    def _write(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            try:
                written = self._file.write(rest)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._name) from error
            if written is None:  # the file is a pipe that does not block, and it is full
                room = select.poll()
                room.register(self._file, select.POLLOUT)
                room.poll()
            else:
                rest = rest[written:]


WHOLE_LINES = "whole lines"  # the rule without options

_RETURN = 13  # the carriage return, before the newline of a line that Windows has ended


@dataclass(frozen=True, slots=True)
class LineKeys:
    r"""Turn lines into keys; without options, each line is its own key.

    The options are applied in the order in which they stand here.

    Where the field or member chosen is missing, empty or null, the whole line is the key: so it is
    where that is one of several.

    Attributes
    ----------
    field : int or tuple of int, optional
        Take this field, counted from 1; or several, whose key is that of the tuple of them.
    separator : bytes, optional
        What separates fields; by default runs of blanks, which are space, tab and newline, as
        for awk(1): a carriage return is a part of the last field, unless ``crlf`` is set.
    json_key : str or tuple of str, optional
        Take this member of a line of JSON, as in "user.id"; digits index arrays, and a dot within
        a name has a backslash before it, as in r"app\.name". Of several the key is that of the
        tuple of them. The string "5" and the number 5 are two keys. Numbers are compared as
        they are written: 1.0 and 1 are two keys.
    skip_fields : int
        Skip so many fields. A field is a run of blanks (as above) and the non-blanks after it.
    skip_chars : int
        Skip so many bytes.
    compare_at_most : int, optional
        Keep at most so many bytes.
    ignore_case : bool
        Take ASCII capitals for small letters.
    crlf : bool
        First leave out a carriage return at the end of the line: so lines that Windows has ended
        and those that it has not are the same.

    Examples
    --------
    >>> import io, os, tempfile
    >>> from mmbloom import BloomFilter
    >>> (chunk,) = read_chunks(io.BytesIO(b"1,a\n2,b\n3,a\n"))
    >>> keys = LineKeys(field=2, separator=b",")(chunk)
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     seen.add_many(keys)
    array([ True,  True, False])
    """

    field: int | tuple[int, ...] | None = None
    separator: bytes | None = None
    json_key: str | tuple[str, ...] | None = None
    skip_fields: int = 0
    skip_chars: int = 0
    compare_at_most: int | None = None
    ignore_case: bool = False
    crlf: bool = False

    def __call__(self, chunk: Chunk) -> Keys:
        """Find the key of each line.

        Parameters
        ----------
        chunk : Chunk
            The lines.

        Returns
        -------
        Keys
            One key a line, in order, for any call of a filter that takes several keys. They
            are views of the chunk's block, for the engine; they are no sequence.
        """
        if self.crlf:
            returns = chunk.octets[chunk.ends - 1] == _RETURN
            ends = chunk.ends - (returns & (chunk.ends > chunk.starts))
            chunk = Chunk(chunk.octets, chunk.starts, ends, chunk.terminated)
        keys: KeyBatch
        if isinstance(self.json_key, tuple):
            keys = _side_by_side(chunk, [self._members(chunk, name) for name in self.json_key])
        elif self.json_key is not None:
            keys = self._members(chunk, self.json_key)
        elif isinstance(self.field, tuple):
            keys = _side_by_side(chunk, [self._field(chunk, number) for number in self.field])
        else:
            keys = self._field(chunk, self.field)
        # Filters take the engine's own forms as well, which are no matter of their signatures.
        return cast("Keys", keys)

    @property
    def rule(self) -> str:
        r"""All that decides which bytes of a line are its key, as options of the commands.

        What the options choose is the same exactly if this is the same text: "whole lines" if
        there are none. One that is too long for the header of a filter ends in its SHA-256.

        Examples
        --------
        >>> LineKeys().rule, LineKeys(field=(1, 3), separator=b"\t").rule
        ('whole lines', "-k 1,3 -t '\\t'")
        """
        words = self._words()
        if self.skip_fields:
            words += ["-f", str(self.skip_fields)]
        if self.skip_chars:
            words += ["-s", str(self.skip_chars)]
        if self.compare_at_most is not None:
            words += ["-w", str(self.compare_at_most)]
        words += ["-i"] * self.ignore_case + ["--crlf"] * self.crlf
        raw = shlex.join(words).encode("utf-8", "backslashreplace") or WHOLE_LINES.encode()
        if len(raw) > KEY_RULE_BYTES:
            from hashlib import sha256  # noqa: PLC0415  for names of members of a kilobyte

            digest = f"... SHA-256 {sha256(raw).hexdigest()}".encode()
            raw = raw[: KEY_RULE_BYTES - len(digest)] + digest
        return raw.decode(errors="ignore")

    def _words(self) -> list[str]:
        """Spell the field or member as options; a tuple of one ends in a comma, as in Python."""
        if isinstance(self.json_key, tuple):
            end = [","] * (len(self.json_key) == 1)
            return [word for name in self.json_key for word in ("--json-key", name)] + end
        if self.json_key is not None:
            return ["--json-key", self.json_key]
        if self.field is None:
            return []
        several = isinstance(self.field, tuple)
        numbers = ",".join(map(str, self.field if isinstance(self.field, tuple) else [self.field]))
        words = ["-k", numbers + "," * (several and "," not in numbers)]
        if self.separator is None:
            return words
        spelled = self.separator
        for raw, escape in ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\0", rb"\0"), (b"\n", rb"\n")):
            spelled = spelled.replace(raw, escape)
        return [*words, "-t", spelled.decode("utf-8", "backslashreplace")]

    def lacking(self, keys: Keys) -> int:
        """Count the lines that lack the field or member, by the keys that were found of them.

        Parameters
        ----------
        keys : Keys
            What a call of this object gave.

        Returns
        -------
        int
            How many of them are whole lines, as that part is missing, empty or null.
        """
        if self.field is None and self.json_key is None:
            return 0
        found, mark = cast("KeyBatch", keys), _engine.WHOLE_LINE
        if isinstance(found, ByteKeys):
            return sum(key[: len(mark)] == mark for key in found.items)
        assert isinstance(found, PackedKeys)  # noqa: S101  what the engine makes of fields
        at = found.starts[found.ends - found.starts >= len(mark)]
        for offset, octet in enumerate(mark):
            at = at[found.octets[at + offset] == octet]
        return len(at)

    def _field(self, chunk: Chunk, number: int | None) -> KeyBatch:
        return _engine.select_keys(
            chunk.octets,
            chunk.starts,
            chunk.ends,
            field=number,
            separator=self.separator,
            skip_fields=self.skip_fields,
            skip_chars=self.skip_chars,
            compare_at_most=self.compare_at_most,
            ignore_case=self.ignore_case,
        )

    def _members(self, chunk: Chunk, path: str) -> KeyBatch:
        # Here, not above: json takes as long to import as all of this file.
        from mmbloom._keys.members import member_taker, names_of  # noqa: PLC0415

        names = [name.encode("utf-8", "surrogatepass") for name in names_of(path)]
        narrow = _engine.narrower(
            self.skip_fields, self.skip_chars, self.compare_at_most, ignore_case=self.ignore_case
        )
        octets, starts, ends, declined = _engine.find_members(
            chunk.octets, chunk.starts, chunk.ends, names if self._takes_all else []
        )
        if not declined.any():
            return PackedKeys(octets, starts, ends)
        take, keys = member_taker(path), []
        for line in _engine.lines_of(chunk.octets, chunk.starts[declined], chunk.ends[declined]):
            part = take(line)
            keys.append(_engine.WHOLE_LINE + line if part is None else narrow(part))
        if declined.all():
            return ByteKeys.of(list(keys))
        # What the parser has found comes behind what was found without it.
        sizes = np.array([len(key) for key in keys], dtype=np.int64)
        ends[declined] = len(octets) + np.cumsum(sizes)
        starts[declined] = ends[declined] - sizes
        more = np.frombuffer(b"".join(keys), dtype=np.uint8)
        return PackedKeys(np.concatenate([octets, more]), starts, ends)

    @property
    def _takes_all(self) -> bool:
        """Whether a field or member is a key as a whole."""
        narrowed = self.skip_fields or self.skip_chars or self.ignore_case
        return not narrowed and self.compare_at_most is None


def _side_by_side(chunk: Chunk, parts: Sequence[KeyBatch]) -> ByteKeys:
    """Join the keys of each line, as a tuple of them; a line that lacks one is its own key."""
    mark = _engine.WHOLE_LINE
    return ByteKeys.of(
        [
            mark + line if any(item.startswith(mark) for item in items) else joined(items)
            for line, *items in zip(chunk.lines, *map(_bytes_of, parts), strict=True)
        ]
    )


def _bytes_of(keys: KeyBatch) -> list[bytes]:
    if isinstance(keys, PackedKeys):
        starts, ends = keys.starts.astype(np.int64), keys.ends.astype(np.int64)
        return _engine.lines_of(keys.octets, starts, ends)
    assert isinstance(keys, ByteKeys)  # noqa: S101  what the engine makes of fields
    return cast("list[bytes]", keys.items)
