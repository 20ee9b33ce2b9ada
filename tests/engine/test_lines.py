"""The compiled kernels of lines against the reference, and against Python's own split."""

import os
import re
import shutil
import subprocess
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace
from typing import Any

import hypothesis
import numpy as np
import pytest
from batches import misaligned
from forms import bytes_of, chunk_of, octets_of
from fuzz.lines import key_of
from hypothesis import strategies as st
from kernels import BUILT, COMPILED, ENGINES, Engine, each_engine

from mmbloom._engine import WHOLE_LINE
from mmbloom.logs.lines import Chunk, LineKeys

PIECES = [b"a", b"B", b"xyz", b" ", b"  ", b"\t", b"\n", b"\r", b"\v", b"\f", b"\0", b"\xff"]
PIECES += [b",", b"::", b":", b"::", b"\xc3\x89", b"\x1c", b"\x85", b"\xa0", b"[", b"@", b"`", b"{"]
LINE = st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join) | st.binary(max_size=12)
LINES = st.lists(LINE, max_size=12)
HUGE = st.sampled_from([2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64])
COUNT = st.integers(0, 5) | HUGE
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "field": st.none() | st.integers(1, 5) | HUGE,
        "separator": st.sampled_from([None, b",", b"::", b":", b" ", b"\0", b"\t", b"aa", b"aB"]),
        "skip_fields": COUNT,
        "skip_chars": COUNT,
        "compare_at_most": st.none() | COUNT,
        "ignore_case": st.booleans(),
    },
)


def keys_of(engine: Engine, chunk: Chunk, **options: Any) -> list[bytes]:
    return bytes_of(engine.select_keys(chunk.octets, chunk.starts, chunk.ends, **options))


def parts_or_lines(parts: list[bytes], lines: list[bytes]) -> list[bytes]:
    """Of each line its part is the key, or the whole line where that is empty."""
    return [part or b"\xff\n\0" + line for part, line in zip(parts, lines, strict=True)]


@hypothesis.given(LINES, OPTIONS, st.binary(max_size=5), st.data())
@hypothesis.example(
    [b"a" + b"\0" * 9, b":::", b"::" * 9], {"field": 2, "separator": b"::"}, b"", None
)
@hypothesis.example([b",a,,b ", b",", b"\r,"], {"field": 3, "separator": b","}, b"", None)
def test_keys_of_lines(
    lines: list[bytes], options: dict[str, Any], before: bytes, data: st.DataObject | None
) -> None:
    """Any options find the keys that one finds by hand in any lines, wherever these are.

    Lines need not follow each other: some of a block, in an order of their own, twice too.
    """
    chunk, expected = chunk_of(lines, before=before), [key_by_hand(line, options) for line in lines]
    chosen = st.lists(st.integers(0, len(lines) - 1), max_size=12)
    places = data.draw(chosen) if lines and data else []
    some = Chunk(chunk.octets, chunk.starts[places], chunk.ends[places], True)
    for engine in ENGINES:
        assert keys_of(engine, chunk, **options) == expected, engine
    if BUILT:  # the reference takes lines that follow each other
        assert keys_of(COMPILED, some, **options) == [expected[place] for place in places]
    assert chunk.lines == lines


def key_by_hand(line: bytes, options: dict[str, Any]) -> bytes:
    given: Any = SimpleNamespace(**{**asdict(LineKeys()), **options})
    return key_of(line, given)


@each_engine
@pytest.mark.parametrize(
    ("options", "key"), [({"field": 1}, WHOLE_LINE), ({"ignore_case": True}, b"")]
)
def test_an_empty_line_of_an_empty_block(engine: Engine, options: Any, key: bytes) -> None:
    """Even of nothing a copy has an address, which .ci/sanitize checks."""
    nothing, place = np.empty(0, np.uint8), np.zeros(1, np.int64)
    assert bytes_of(engine.select_keys(nothing, place, place, **options)) == [key]


@each_engine
def test_lines_are_their_own_keys_without_options(engine: Engine) -> None:
    lines = [b" A b ", b"", b"\0", b"\xff\n\0"]
    for options in ({}, {"field": None, "skip_fields": 0, "compare_at_most": None}):
        assert keys_of(engine, chunk_of(lines), **options) == lines


def naive_lines(data: bytes, start: int, stop: int, terminator: bytes) -> list[tuple[int, int]]:
    found = []
    while (end := data.find(terminator, start, stop)) >= 0:
        found.append((start, end))
        start = end + 1
    return found


@hypothesis.given(LINES.map(b"\n".join), st.sampled_from([b"\n", b"\0", b"a", b"\xff"]), st.data())
def test_finding_lines(data: bytes, terminator: bytes, drawn: st.DataObject) -> None:
    """The first lines that end within a part of a buffer, and not one more than the limit."""
    start, stop = sorted(drawn.draw(st.tuples(*[st.integers(0, len(data))] * 2)))
    limit = drawn.draw(st.integers(1, 5) | st.just(16_384))
    expected = naive_lines(data, start, stop, terminator)[:limit]
    for engine in ENGINES:
        octets = misaligned(octets_of(data), drawn.draw(st.integers(0, 15)))
        starts, ends = engine.find_lines(octets, start, stop, terminator[0], limit)
        assert starts.dtype == ends.dtype == np.int64
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected, engine
        starts[:1] = 0  # the caller's own arrays: `read_chunks` changes the first


@each_engine
@pytest.mark.parametrize(
    ("data", "start", "stop", "limit"),
    [(b"abc", 0, 3, 9), (b"", 0, 0, 9), (b"a\n", 1, 1, 9), (b"a\nb\n", 0, 4, 0)],
)
def test_finding_nothing(engine: Engine, data: bytes, start: int, stop: int, limit: int) -> None:
    starts, ends = engine.find_lines(octets_of(data), start, stop, 10, limit)
    assert (starts.tolist(), ends.tolist()) == ([], [])


@each_engine
@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 200])
def test_gathering_lines_at_the_end(engine: Engine, length: int, extra: int) -> None:
    """A line is copied whole and alone, wherever the buffer ends behind it."""
    octets = np.random.default_rng(5).integers(0, 256, 4 * (length + extra) + 40, np.uint8)
    starts = np.arange(4, dtype=np.int64) * (length + extra)
    for size in range(4 * (length + extra), len(octets)):
        block = octets[:size].copy()  # so that a sanitizer sees what is read behind it
        for number in range(16):
            wanted = np.array([number >> i & 1 for i in range(4)], np.bool_)
            found = engine.gather(block, starts, starts + length, wanted, extra)
            lines = [block[start : start + length + extra].tobytes() for start in starts[wanted]]
            assert found.tobytes() == b"".join(lines)


@hypothesis.given(LINES, st.data(), st.binary(max_size=5))
def test_gathering_lines(lines: list[bytes], data: st.DataObject, before: bytes) -> None:
    """The wanted lines come out in order, each with the bytes that end it."""
    chosen = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    wanted = np.array(chosen, dtype=np.bool_)
    chunk = chunk_of(lines, before=before)
    for extra in (0, 1):
        expected = b"".join(
            line + b"\n" * extra for line, on in zip(lines, chosen, strict=True) if on
        )
        for engine in ENGINES:
            found = engine.gather(chunk.octets, chunk.starts, chunk.ends, wanted, extra)
            assert found.dtype == np.uint8
            assert found.tobytes() == expected, engine


@each_engine
@pytest.mark.parametrize("size", [1, 4096, 3_000_000])
def test_many_lines_and_long_ones(engine: Engine, size: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    lines = [b"%d" % number for number in chance.integers(0, 99, 20_000)] + [b"x" * size, b""]
    chunk, wanted = chunk_of(lines), chance.random(len(lines)) < 0.5
    wanted[-2:] = True
    found = engine.gather(chunk.octets, chunk.starts, chunk.ends, wanted, 1).tobytes()
    assert found == b"".join(line + b"\n" for line, on in zip(lines, wanted, strict=True) if on)
    starts, ends = engine.find_lines(chunk.octets, 0, len(chunk.octets), 10, len(lines) + 5)
    assert (starts == chunk.starts).all()
    assert (ends == chunk.ends).all()
    folded = engine.select_keys(chunk.octets, starts, ends, ignore_case=True)
    assert bytes_of(folded) == lines


AWK = shutil.which("awk")


@each_engine
@pytest.mark.skipif(AWK is None, reason="there is no awk to compare with")
@pytest.mark.parametrize("field", [1, 2, 3])
def test_same_fields_as_awk(engine: Engine, field: int, seed: int) -> None:
    """Fields between blanks are those of awk, carriage returns of CRLF files included."""
    chance = np.random.default_rng(seed)
    pieces = [b"a", b"B1", b" ", b"  ", b"\t", b" \t ", b"\r", b"\v", b"\f", b","]
    lines = [b"".join(chance.choice(pieces, 6).tolist()) for _ in range(300)]
    data = b"".join(line + b"\n" for line in lines)
    done = subprocess.run(
        [str(AWK), f"{{print ${field}}}"],
        input=data,
        capture_output=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    printed = done.stdout.split(b"\n")[:-1]
    assert keys_of(engine, chunk_of(lines), field=field) == parts_or_lines(printed, lines)


@each_engine
def test_blanks_and_case_byte_by_byte(engine: Engine) -> None:
    """Which bytes part fields, which part the fields to skip, and which are folded: in C's way."""
    lines = [b"x" + bytes([byte]) + b"Y" for byte in range(256)]
    keys = partial(keys_of, engine, chunk_of(lines, terminator=b"\0"))
    parts = [re.split(rb"[ \t\n]", line) for line in lines]  # as awk, in which \r is none
    assert keys(field=1) == [part[0] for part in parts]
    assert keys(field=2) == parts_or_lines([(*part, b"")[1] for part in parts], lines)
    assert keys(skip_fields=1) == [line[1:] if line[1] in b" \t\n" else b"" for line in lines]
    assert keys(ignore_case=True) == [line.lower() for line in lines]
