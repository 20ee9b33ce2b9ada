"""Lines in and out: every byte of every input, whatever the blocks it arrives in."""

import io
import os
import threading
from io import FileIO
from pathlib import Path
from typing import Any

import has
import numpy as np
import pytest
from forms import chunk_of, octets_of, octets_of_lines
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sinks import Dripping

from mmbloom import InputError
from mmbloom.logs.lines import BLOCK_BYTES, Chunk, LineWriter, PlainFile, read_chunks

TERMINATORS = st.sampled_from([b"\n", b"\0"])
PIECES = [b"\n", b"\r\n", b"\r", b"\0", b"a", b"bcd", b" ", b"\xff\xfe", b"\xc3", "é".encode()]
DATA = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join) | st.binary(max_size=60)


def joined(chunks: list[Chunk], terminator: bytes) -> bytes:
    return b"".join(
        terminator.join([*chunk.lines, b""] if chunk.terminated else chunk.lines)
        for chunk in chunks
    )


def chunks_of(data: bytes, sizes: list[int], terminator: bytes) -> list[Chunk]:
    """The chunks of some data in pieces, unless it looks like text without lines."""
    try:
        return list(read_chunks(Dripping(data, sizes), terminator))
    except InputError:
        assume(data[:2] not in (b"\xff\xfe", b"\xfe\xff"))
        assume(terminator == b"\0" or data.count(0) < 2)
        assume(terminator != b"\n" or b"\n" in data or data.count(b"\r") < 2)
        raise


@given(DATA, TERMINATORS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
@example(b"", b"\n", [1])
@example(b"\n", b"\n", [1])
@example(b"a\r\n\rb\r", b"\n", [2])
@example(b"a\nb\0c\n\0", b"\0", [3])
def test_every_byte_comes_through(data: bytes, terminator: bytes, sizes: list[int]) -> None:
    chunks = chunks_of(data, sizes, terminator)
    assert joined(chunks, terminator) == data
    assert sum(chunk.num_bytes for chunk in chunks) == len(data)


@given(DATA, TERMINATORS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_lines_are_what_stands_between(data: bytes, terminator: bytes, sizes: list[int]) -> None:
    """Lines do not depend on blocks; only an unfinished last line is marked, and alone."""
    chunks = chunks_of(data, sizes, terminator)
    expected, rest = (parts := data.split(terminator))[:-1], parts[-1]
    finished = [chunk for chunk in chunks if chunk.terminated]
    assert [line for chunk in finished for line in chunk.lines] == expected
    assert all(chunk.lines for chunk in chunks)
    if rest:
        assert (chunks[-1].lines, chunks[-1].terminated) == ([rest], False)
    assert all(chunk.terminated for chunk in chunks[:-1])
    assert len(chunks) == len(finished) + bool(rest)


@pytest.mark.parametrize("count", [8_191, 8_192, 8_193, 40_000])
def test_chunks_have_at_most_8192_lines(count: int) -> None:
    data = b"".join(b"%d\n" % i for i in range(count))
    chunks = list(read_chunks(io.BytesIO(data)))
    assert max(len(chunk.lines) for chunk in chunks) <= 8_192
    assert joined(chunks, b"\n") == data


def test_no_more_than_8_mib_are_read_ahead() -> None:
    """A chunk, which a rerun may repeat, is not more than 8 MiB of ordinary lines (law 6)."""
    data = (b"x" * 999 + b"\n") * 20_000
    source = Dripping(data, [1 << 30])
    chunks = list(read_chunks(source))
    assert 0 < source.largest <= 8 << 20
    assert max(chunk.num_bytes for chunk in chunks) <= 8 << 20
    assert joined(chunks, b"\n") == data


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nlast", b"\nlast\n"])
def test_a_line_may_span_many_blocks(extra: int, end: bytes) -> None:
    data = b"first\n" + b"x" * (3 * BLOCK_BYTES + extra - len(b"first\n")) + end
    chunks = list(read_chunks(io.BytesIO(data)))
    assert joined(chunks, b"\n") == data
    assert [line for chunk in chunks for line in chunk.lines] == data.removesuffix(b"\n").split(
        b"\n"
    )


def test_the_first_lines_come_before_the_end() -> None:
    source = iter([b"a\nb\nc", b"d\n", b""])

    class Pipe:
        def readinto(self, buffer: Any, /) -> int:
            assert len(buffer) > 0
            return io.BytesIO(next(source)).readinto(buffer)

    chunks = read_chunks(Pipe())
    assert next(chunks).lines == [b"a", b"b"]
    assert next(source) == b"d\n"  # was not asked for yet


def test_where_selects_lines_in_order() -> None:
    chunk = chunk_of([b"a", b"b", b"a"], before=b"z\n")
    assert chunk.where(np.array([True, False, True])).tobytes() == b"a\na\n"
    whole = chunk.where(np.array([True, True, True]))
    assert whole.tobytes() == b"a\nb\na\n"
    assert np.shares_memory(whole, chunk.octets)  # all of them are not copied
    assert chunk.where(np.array([False, False, False])).tobytes() == b""
    unfinished = chunk_of([b"a"], terminated=False, before=b"z\n")
    assert unfinished.where(np.array([True])).tobytes() == b"a"


class Stingy(FileIO):
    """A file that takes three bytes at a time, as a nearly full pipe may."""

    def write(self, data: Any, /) -> int:
        return super().write(bytes(data[:3]))


# What a chunk is: any finished lines, or one unfinished line, which is not empty.
FINISHED = st.tuples(st.lists(st.binary(max_size=8)), st.just(value=True))
UNFINISHED = st.tuples(
    st.lists(st.binary(min_size=1, max_size=8), max_size=1), st.just(value=False)
)


@given(st.lists(FINISHED | UNFINISHED, max_size=6), TERMINATORS)
def test_writer_keeps_lines_apart(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[list[bytes], bool]],
    terminator: bytes,
) -> None:
    path = tmp_path_factory.getbasetemp() / "writer"
    with Stingy(path, "wb") as file:
        writer = LineWriter(file, terminator)
        for lines, terminated in writes:
            octets = octets_of_lines(lines, terminator, terminated=terminated and bool(lines))
            writer.write(octets, terminated=terminated)
    written = [(lines, terminated) for lines, terminated in writes if lines]
    expected = [line for lines, _ in written for line in lines]
    end = terminator if written and written[-1][1] else b""
    assert path.read_bytes() == terminator.join(expected) + end


def test_nothing_to_write_writes_nothing(tmp_path: Path) -> None:
    with FileIO(tmp_path / "out", "wb") as file:
        file.write(b"a")
        with (tmp_path / "out").open("rb") as again:
            writer = LineWriter(file, existing=PlainFile(again.fileno()))
            writer.write(octets_of(b""), terminated=True)
    assert (tmp_path / "out").read_bytes() == b"a"


def test_writer_waits_for_a_full_pipe_that_does_not_block() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    lines = [b"%06d" % i for i in range(100_000)]
    received: list[bytes] = []

    def receive() -> None:
        with open(reading, "rb") as pipe:
            received.append(pipe.read())

    thread = threading.Thread(target=receive)
    with FileIO(writing, "wb") as file:
        while file.write(b"filled to the capacity check\n" * 100) is not None:
            pass
        thread.start()
        octets = octets_of_lines([b"", *lines], b"\n", terminated=True)
        LineWriter(file).write(octets, terminated=True)
    thread.join()
    assert received[0].endswith(b"\n" + b"\n".join(lines) + b"\n")


@pytest.mark.skipif(not has.DEV_FULL, reason="this system has no /dev/full")
def test_an_error_of_the_file_gets_through(tmp_path: Path) -> None:
    with FileIO("/dev/full", "wb") as file, pytest.raises(OSError, match="No space"):
        LineWriter(file).write(octets_of(b"a\n"), terminated=True)


def test_writer_looks_before_each_write(tmp_path: Path) -> None:
    """Lines stay lines when others write to the file, and end in the middle of one."""
    out = tmp_path / "out"
    with FileIO(out, "ab") as file, out.open("rb") as again, FileIO(out, "ab") as other:
        writer = LineWriter(file, existing=PlainFile(again.fileno()))
        for theirs, line in [(b"x", b"a\n"), (b"y\n", b"b\n"), (b"", b"c\n"), (b"z", b"d\n")]:
            other.write(theirs)
            writer.write(octets_of(line), terminated=True)
    assert out.read_bytes() == b"x\na\ny\nb\nc\nz\nd\n"
