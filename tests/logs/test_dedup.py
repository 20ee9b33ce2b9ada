"""dedup(): each line once, marked only when it is written, by one process at a time."""

import gzip
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from forms import chunk_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sinks import Breaks, Collect, Lines, a_filter, cut, in_chunks
from workers import running

from mmbloom import BloomFilter, FilterFullError
from mmbloom.errors import LockTimeoutError
from mmbloom.logs.dedup import Discard, Tally, dedup
from mmbloom.logs.lines import Chunk, LineKeys, LineWriter, PlainFile, read_chunks

Create = Callable[..., BloomFilter]
T = TypeVar("T")
Octets = npt.NDArray[np.uint8]
LINES = st.lists(st.sampled_from([b"", b"a", b"b", b"A", b"\r", b"\xff", b"long" * 9]), max_size=30)


@settings(max_examples=30)  # each makes a file and waits for the disk
@given(LINES, st.integers(1, 8))
def test_like_an_ordered_dict(
    tmp_path_factory: pytest.TempPathFactory, lines: Lines, size: int
) -> None:
    """Each line comes out once, at its first place; the tally counts every line and byte."""
    sink = Collect()
    with a_filter(tmp_path_factory.getbasetemp()) as seen:
        tally = dedup(seen, in_chunks(lines, size), sink)
    unique = list(dict.fromkeys(lines))
    assert sink.lines == unique
    num_bytes = len(lines) + sum(map(len, lines))
    assert tally == Tally(len(lines), len(unique), len(lines) - len(unique), num_bytes)


@settings(max_examples=30)  # each makes a file and waits for the disk
@given(LINES, st.integers(1, 8))
def test_repeats_are_the_rest(
    tmp_path_factory: pytest.TempPathFactory, lines: Lines, size: int
) -> None:
    sinks = [Collect(), Collect()]
    for sink in sinks:
        with a_filter(tmp_path_factory.getbasetemp()) as seen:
            tally = dedup(seen, in_chunks(lines, size), sink, repeats=sink is sinks[1])
        assert tally.lines == tally.unique + tally.repeated == len(lines)
    firsts, repeats = (iter(sink.lines) for sink in sinks)
    known: set[bytes] = set()
    for line in lines:
        assert next(repeats if line in known else firsts) == line
        known.add(line)
    assert not [*firsts, *repeats]


@settings(max_examples=30)  # each makes a file and waits for the disk
@given(LINES, LINES, st.integers(1, 8))
def test_across_inputs_and_runs(
    tmp_path_factory: pytest.TempPathFactory, first: Lines, second: Lines, size: int
) -> None:
    sinks = [Collect(), Collect()]
    with a_filter(tmp_path_factory.getbasetemp()) as seen:
        dedup(seen, in_chunks(first, size), sinks[0])
        with BloomFilter.open(seen.path) as again:
            dedup(again, in_chunks(second, size), sinks[1])
    assert sinks[0].lines + sinks[1].lines == list(dict.fromkeys(first + second))


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@settings(max_examples=30)  # each makes a file and waits for the disk
@given(LINES, st.integers(1, 5), st.integers(0, 5))
def test_nothing_is_lost_when_the_output_breaks(
    tmp_path_factory: pytest.TempPathFactory,
    error: type[BaseException],
    lines: Lines,
    size: int,
    good_writes: int,
) -> None:
    """Only lines that were written are marked: a second run gives all the others (law 6)."""
    before, after = Breaks(good_writes, error), Collect()
    with a_filter(tmp_path_factory.getbasetemp()) as seen:
        if -(-len(lines) // size) > good_writes:
            with pytest.raises(error, match="broke"):
                dedup(seen, in_chunks(lines, size), before)
        else:
            dedup(seen, in_chunks(lines, size), before)
        assert seen.contains_many(sorted(set(lines))).tolist() == [
            line in before.lines for line in sorted(set(lines))
        ]
        dedup(seen, in_chunks(lines, size), after)
    assert before.lines + after.lines == list(dict.fromkeys(lines))


def test_marked_after_written(create: Create) -> None:
    seen = create(1000, 1e-9, seed=1)

    class Look(Collect):
        def write(self, lines: Octets, *, terminated: bool) -> None:
            assert not seen.contains_many(cut(lines, terminated)).any()
            assert seen.contains_many(self.lines).all()
            super().write(lines, terminated=terminated)

    sink = Look()
    dedup(seen, in_chunks([b"%d" % i for i in range(50)], 7), sink)
    assert len(sink.lines) == 50
    assert seen.contains_many(sink.lines).all()


def test_the_lock_is_held_while_writing(create: Create) -> None:
    """No other writer can come between the answer and the mark (law 7), nor after the run."""
    seen = create(1000, 1e-9, seed=1)
    with BloomFilter.open(seen.path, lock_timeout=0.01) as other:

        class Intrude(Collect):
            def write(self, lines: Octets, *, terminated: bool) -> None:
                with pytest.raises(LockTimeoutError):
                    other.add(cut(lines, terminated)[0])
                super().write(lines, terminated=terminated)

        sink = Intrude()
        dedup(seen, in_chunks([b"a", b"b", b"c"], 2), sink)
        assert sink.lines == [b"a", b"b", b"c"]
        assert other.add(b"d")
    broken = Breaks(0, OSError)
    with pytest.raises(OSError, match="broke"):
        dedup(seen, in_chunks([b"e"], 1), broken)
    with BloomFilter.open(seen.path, lock_timeout=0.01) as other:
        assert other.add(b"e")


def test_the_lock_is_free_while_reading(create: Create) -> None:
    seen = create(1000, 1e-9, seed=1)

    def slowly() -> Iterator[Chunk]:
        with BloomFilter.open(seen.path, lock_timeout=0.01) as other:
            for line in (b"a", b"b"):
                other.add(b"theirs " + line)
                yield chunk_of([line])

    assert dedup(seen, slowly(), Discard()).unique == 2


def test_the_wait_wraps_each_write(create: Create) -> None:
    """`wait` is how a claim is entered: once for each chunk, around its write."""
    seen = create(1000, 1e-9, seed=1)
    events: list[str] = []

    @contextmanager
    def wait(enter: Callable[[float | None], AbstractContextManager[T]], /) -> Iterator[T]:
        events.append("take")
        with enter(None) as entered:
            yield entered
        events.append("release")

    class Note(Collect):
        def write(self, lines: Octets, *, terminated: bool) -> None:
            events.append("write")
            super().write(lines, terminated=terminated)

    dedup(seen, in_chunks([b"a", b"b"], 1), Note(), wait=wait)
    assert events == ["take", "write", "release"] * 2


def test_chunks_larger_than_the_engine_takes_at_once(create: Create, seed: int) -> None:
    """A chunk of 50,000 lines, repeats at any distance, is answered as lines one by one."""
    seen, sink = create(100_000, 1e-9, seed=1), Collect()
    numbers = np.random.default_rng(seed).integers(0, 30_000, 50_000)
    lines = [b"line %d" % number for number in numbers]
    tally = dedup(seen, [chunk_of(lines)], sink)
    assert sink.lines == list(dict.fromkeys(lines))
    assert tally.unique == len(sink.lines)
    again = Collect()
    assert dedup(seen, [chunk_of(lines)], again).unique == 0
    assert again.lines == []


def test_keys_decide_and_lines_are_printed(create: Create) -> None:
    seen, sink = create(1000, 1e-9, seed=1), Collect()
    lines = [b"1,x", b"2,X", b"3,y", b"4"]
    keys = LineKeys(field=2, separator=b",", ignore_case=True)
    tally = dedup(seen, in_chunks(lines, 3), sink, keys=keys)
    assert sink.lines == [b"1,x", b"3,y", b"4"]
    assert (tally.repeated, tally.bytes) == (1, 14)
    assert b"x" in seen
    assert b"1,x" not in seen


def test_unfinished_last_line_is_the_same_key(create: Create) -> None:
    seen, sink = create(1000, 1e-9, seed=1), Collect()
    for data in (b"a\nb", b"b\nc\n", b"a", b"c"):
        dedup(seen, read_chunks(io.BytesIO(data)), sink)
    assert sink.lines == [b"a", b"b", b"c"]
    assert sink.terminated[:2] == [True, False]  # "a" with its newline, "b" without


def test_discard_marks(create: Create) -> None:
    seen = create(1000, 1e-9, seed=1)
    dedup(seen, in_chunks([b"a", b"b"], 5), Discard())
    assert seen.contains_many([b"a", b"b", b"c"]).tolist() == [True, True, False]


def test_tallies_add_up() -> None:
    tally = Tally(1, 2, 3, 4, 5)
    tally.add(Tally(10, 20, 30, 40, 50))
    assert tally == Tally(11, 22, 33, 44, 55)


@pytest.mark.parametrize("size", [1, 3, 10, 64, 1000])
@pytest.mark.parametrize("capacity", [50, 64, 299, 301])
def test_full(capacity: int, size: int, create: Create) -> None:
    """The first lines that fit are written and marked, however the lines are cut into chunks."""
    seen, sink, tally = create(capacity, 1e-6, seed=1, on_full="raise"), Collect(), Tally()
    lines = [b"%d" % (number * number % 601) for number in range(1000)]
    unique = list(dict.fromkeys(lines))
    if capacity < len(unique):
        with pytest.raises(FilterFullError) as full:
            dedup(seen, in_chunks(lines, size), sink, tally=tally)
        assert (full.value.keys, full.value.capacity, full.value.fits) == (capacity, capacity, 0)
        assert tally.lines == lines.index(unique[capacity])
    else:
        dedup(seen, in_chunks(lines, size), sink, tally=tally)
        assert tally.lines == len(lines)
    assert sink.lines == unique[:capacity]
    assert seen.contains_many(sink.lines).all()
    assert tally.unique == len(sink.lines)


def test_two_processes_and_one_output(create: Create, tmp_path: Path) -> None:
    seen, path = create(40_000, 1e-9, seed=1), tmp_path / "out"
    lines = [b"line %d" % (number * 7919 % 30_011) for number in range(30_011)]

    def run() -> None:
        with BloomFilter.open(seen.path) as own, FileIO(path, "ab+") as file:
            writer = LineWriter(file, existing=PlainFile(file.fileno()))
            dedup(own, in_chunks(lines, 100), writer)

    with running(run):
        run()
        run()  # what is left, if the other is behind
    assert sorted(path.read_bytes().splitlines()) == sorted(lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(b"a\nb\n")
    return tmp_path / "log"


def test_files_in_place_of_chunks_and_sink(tmp_path: Path, log: Path) -> None:
    anything: Any = dedup
    with (
        BloomFilter.create(tmp_path / "seen", 100) as seen,
        log.open("rb") as source,
        (tmp_path / "out").open("wb") as output,
    ):
        with pytest.raises(TypeError, match=r"sink is .*LineWriter\(file\)"):
            anything(seen, source, output)
        with pytest.raises(TypeError, match=r"yields b'a.n', .*read_chunks\(file\)"):
            anything(seen, source, Discard())
        with pytest.raises(TypeError, match=r"sink is None"):
            anything(seen, [], None)
        with pytest.raises(TypeError, match=r"seen is 'seen', .*mmbloom.open"):
            anything("seen", [], Discard())
        assert seen.approx_count == 0
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize(
    "wrong", ["log", b"log", None, io.StringIO("a"), [b"a"]], ids=lambda wrong: type(wrong).__name__
)
def test_what_cannot_be_cut(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a binary file"):
        next(read_chunks(wrong))


def test_what_cannot_be_written_to(tmp_path: Path) -> None:
    """A file with a buffer would have a line marked that is not written."""
    spooled: Any = tempfile.SpooledTemporaryFile
    with (
        (tmp_path / "a").open("wb") as buffered,
        (tmp_path / "b").open("w") as text,
        (tmp_path / "c").open("a+b") as both,
        gzip.open(tmp_path / "d", "wb") as compressed,
        tempfile.NamedTemporaryFile(dir=tmp_path) as wrapped,
        spooled(dir=tmp_path) as kept,
    ):
        files: list[Any] = [buffered, text, both, compressed, wrapped, kept]
        for wrong in (*files, "path", None):
            with pytest.raises(TypeError, match="buffering=0"):
                LineWriter(wrong)
    LineWriter(io.BytesIO())
    with tempfile.NamedTemporaryFile(dir=tmp_path, buffering=0) as raw:
        LineWriter(raw)
