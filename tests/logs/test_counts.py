"""How often lines occur: counted in chunks, written before them."""

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sinks import Collect

from mmbloom import BloomFilter
from mmbloom.logs import counts
from mmbloom.logs.counts import CountedWriter, LineCounts, NotCountedError, OnceWriter
from mmbloom.logs.dedup import dedup
from mmbloom.logs.lines import Chunk, LineKeys, LineWriter, read_chunks

TEXTS = st.lists(
    st.lists(st.sampled_from([b"a", b"A", b"b x", b"", b"b y"]), max_size=30), max_size=12
)


def chunks_of(lines: list[bytes]) -> list[Chunk]:
    return [*read_chunks(io.BytesIO(b"".join(line + b"\n" for line in lines)))]


def counted(*lines: bytes, keys: LineKeys | None = None) -> LineCounts:
    """Counts of lines that come in chunks."""
    found = LineCounts(keys or LineKeys())
    for chunk in chunks_of([*lines]):
        found.add(chunk)
    return found


@given(TEXTS, st.integers(1, 40))
def test_counts(texts: list[list[bytes]], together: int) -> None:
    """They are Counter's, however often they are brought together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "_TOGETHER", together)
        found = LineCounts(LineKeys())
        for lines in texts:
            for chunk in chunks_of(lines):
                found.add(chunk)
        expected = Counter(line for lines in texts for line in lines)
        asked = [b"a", b"A", b"b x", b"", b"b y", b"never"]
        (chunk,) = chunks_of(asked)
        assert found.of(chunk).tolist() == [expected[line] for line in asked]


def test_counts_of_many(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of more keys than are brought together at once, over and over."""
    monkeypatch.setattr(counts, "_TOGETHER", 1000)
    drawn = np.random.default_rng(seed).geometric(1e-3, 50_000)
    lines = [b"%d" % number for number in drawn]
    expected = Counter(lines)
    (chunk,) = chunks_of([*expected])
    assert counted(*lines).of(chunk).tolist() == [*expected.values()]


def test_the_key_is_counted() -> None:
    """What is no part of the key makes no difference."""
    lines = [b"a 1", b"b 2", b"A 3"]
    found = counted(*lines, keys=LineKeys(field=1, ignore_case=True))
    assert found.of(*chunks_of(lines)).tolist() == [2, 1, 2]


def test_same_keys_differ_by_run() -> None:
    """Nobody can make lines of which two have one hash: the seed is drawn for each."""
    (chunk,) = chunks_of([b"a"])
    assert LineCounts(LineKeys())._hashes(chunk) != LineCounts(LineKeys())._hashes(chunk)


def test_written(tmp_path: Path, create: Callable[..., BloomFilter]) -> None:
    text = b"b\na\nb\n" * 20_000 + b"c"
    with (tmp_path / "out").open("wb", buffering=0) as file:
        sink = CountedWriter(LineWriter(file), counted(*text.split(b"\n")))
        tally = dedup(create(1000), read_chunks(io.BytesIO(text)), sink)
    assert (tmp_path / "out").read_bytes() == b"  40000 b\n  20000 a\n      1 c"
    assert (tally.lines, tally.unique) == (60_001, 3)


def test_not_counted(create: Callable[..., BloomFilter]) -> None:
    """A line that was not there when all were counted has no number: nothing of it is written."""
    sink, found, seen = Collect(), counted(b"a"), create(1000)
    dedup(seen, chunks_of([b"a"]), CountedWriter(sink, found))
    with pytest.raises(NotCountedError):
        dedup(seen, chunks_of([b"a", b"x", b"y"]), CountedWriter(sink, found))
    assert sink.lines == [b"      1 a"]
    assert b"x" not in seen


def test_once() -> None:
    sink = Collect()
    writer = OnceWriter(sink, counted(b"a", b"a", b"b", b"c"))
    for data in (b"b\na", b"a\nb", b"a\nb\nc\n", b"a"):
        writer.write(np.frombuffer(data, np.uint8), terminated=data.endswith(b"\n"))
    assert sink.lines == [b"b", b"b", b"b", b"c"]
    assert sink.terminated == [True, False, True]
