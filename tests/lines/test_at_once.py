"""Chunks that are claimed, written and marked in one step: when they are, and to what effect."""

import errno
import fcntl
import mmap
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import die_when_written
from forms import chunk_of
from sinks import Collect, in_chunks
from workers import Child, ChildDiedError, ChildFailedError, in_child, running

from mmbloom import BloomFilter, CapacityWarning, CountingBloomFilter, GrowingFilter, _engine
from mmbloom._typing import Octets
from mmbloom.dedup import Sink, Tally, dedup
from mmbloom.errors import ClosedFilterError, DurabilityError, FileChangedError, FilterFullError
from mmbloom.filters.base import Filter
from mmbloom.format.header import HEADER_BYTES
from mmbloom.lines import Chunk, LineKeys, LineWriter, PlainFile, read_chunks
from mmbloom.rows import RowWriter

Create = Callable[..., BloomFilter]
Steps = list[bool]
Patch = pytest.MonkeyPatch
PAGE = mmap.PAGESIZE
LINES = [b"%d" % (number * number % 601) for number in range(1000)]  # 301 of them are new


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Tells of each chunk whether a step that it was given to did it; nothing of those behind."""
    found: Steps = []
    write_new = _engine.write_new

    def write(*args: Any, **options: Any) -> Any:
        done = write_new(*args, **options)
        found.extend([True] * done[0])
        if done[0] < len(args[3]):
            found.append(False)
        return done

    monkeypatch.setattr(_engine, "write_new", write)
    return found


@contextmanager
def several_steps() -> Iterator[None]:
    """Take each chunk in the block of a claim."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_engine, "write_new", lambda *_, **__: (0, 0, None))
        yield


BOTH_WAYS: list[tuple[str, Callable[[], AbstractContextManager[None]]]] = [
    ("steps", several_steps),
    ("at once", nullcontext),
]


@contextmanager
def appending(path: Path, **options: Any) -> Iterator[LineWriter]:
    """Write to a file that others may append to."""
    with FileIO(path, "ab+") as file:
        yield LineWriter(file, existing=PlainFile(file.fileno()), **options)


@contextmanager
def small_pipe() -> Iterator[tuple[int, FileIO]]:
    """Make a pipe that holds 4,096 bytes; the end to write to may be closed."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with FileIO(write, "w") as file:
        yield read, file
    os.close(read)


def read_to_end(fd: int) -> bytes:
    return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))


def unique(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in dict.fromkeys(lines))


@pytest.mark.parametrize("size", [1, 7, 500, 1000])
@pytest.mark.parametrize("shared", [False, True])
def test_all_but_the_first(
    size: int, shared: bool, create: Create, steps: Steps, tmp_path: Path
) -> None:
    """The first chunk with a new line notes the rule in the filter; each later one is one step."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"
    with FileIO(path, "ab+") as file:
        existing = PlainFile(file.fileno()) if shared else None
        tally = dedup(seen, in_chunks(LINES, size), LineWriter(file, existing=existing))
        assert steps == [True] * (-(-1000 // size) - 1)
        assert path.read_bytes() == unique(LINES)
        num_bytes = sum(len(line) + 1 for line in LINES)
        assert tally == Tally(1000, 301, 699, num_bytes)
        assert seen.key_rule == "whole lines"
        assert seen.contains_many(LINES).all()
        steps.clear()
        again = dedup(seen, in_chunks(LINES, size), LineWriter(file, existing=existing))
    assert again == Tally(1000, 0, 1000, num_bytes)
    assert steps == [True] * (-(-1000 // size) - 1)
    assert path.read_bytes() == unique(LINES)


def test_the_file_is_the_same(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Every byte of the filter and its counters, and of the output, is as in several steps."""
    found = []
    for name, block in BOTH_WAYS:
        with block(), appending(tmp_path / f"{name}.log") as writer:
            seen = create(1000, 1e-6, seed=1, name=f"{name}.bloom")
            dedup(seen, in_chunks(LINES, 70), writer)
            counters = seen._storage.counters.words.tolist()
            array = Path(seen.path).read_bytes()[HEADER_BYTES:]
        found.append((array, counters, (tmp_path / f"{name}.log").read_bytes()))
    assert steps == [True] * 14
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "options",
    [
        {"repeats": True},
        {"repeats_to": Collect()},
        {"keys": LineKeys(field=1, empty="skip")},
    ],
    ids=["repeats", "repeats to another", "lines without a key"],
)
def test_other_lines_are_wanted(
    options: dict[str, Any], create: Create, steps: Steps, tmp_path: Path
) -> None:
    """Not where other lines than those with new keys are written."""
    seen = create(1000, 1e-9, seed=1)
    lines = [line for line in LINES for line in (line, b"")] if "keys" in options else LINES
    with appending(tmp_path / "out") as writer:
        tally = dedup(seen, in_chunks(lines, 100), writer, **options)
    written = (tmp_path / "out").read_bytes().splitlines()
    assert not steps
    assert len(written) == (699 if "repeats" in options else 301)
    assert (tally.unique, tally.repeated) == (301, 699)


def test_other_outputs(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Not where a write is more than one to the file: forced to the disk, or seen to first."""
    forced: list[int] = []

    class Loud(FileIO):
        def write(self, data: Any) -> int:
            forced.append(len(data))
            return super().write(data)

    def writers(file: FileIO, loud: FileIO) -> Iterator[Sink]:
        yield LineWriter(file, sync=lambda: forced.append(1))
        yield LineWriter(loud)
        yield LineWriter(file, terminator=b"\r\n")
        yield RowWriter(file)

    with FileIO(tmp_path / "out", "ab") as file, Loud(tmp_path / "loud", "ab") as loud:
        for number, writer in enumerate(writers(file, loud)):
            seen = create(1000, 1e-9, seed=1, name=f"{number}.bloom")
            assert dedup(seen, in_chunks(LINES, 250), writer).unique == 301
    assert not steps
    assert (tmp_path / "loud").read_bytes() == unique(LINES)
    assert len(forced) == 2 + 2  # two chunks have new lines


def test_writer_of_a_users_own(create: Create, steps: Steps, tmp_path: Path) -> None:
    """What a subclass does with lines is done with all of them."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"

    class Loud(LineWriter):
        def write(self, lines: Octets, *, terminated: bool) -> None:
            shouted = np.frombuffer(lines.tobytes().upper(), np.uint8)
            super().write(shouted, terminated=terminated)

    with FileIO(path, "ab") as file:
        dedup(seen, in_chunks([b"a", b"b", b"c"], 1), Loud(file))
    assert path.read_bytes() == b"A\nB\nC\n"
    assert not steps


def test_other_filters(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Not with a filter that does more about a key than to set its bits."""

    def filters() -> Iterator[Filter]:
        yield create(1000, 1e-9, seed=1, verify_after_add=True)
        yield CountingBloomFilter.create(tmp_path / "counting.bloom", 1000, 1e-9, seed=1)
        yield GrowingFilter.create(tmp_path / "growing", 100, 1e-9, seed=1)

    for number, one in enumerate(filters()):
        with closing(one) as seen, appending(tmp_path / f"{number}.log") as writer:
            dedup(seen, in_chunks(LINES, 100), writer)
        assert (tmp_path / f"{number}.log").read_bytes() == unique(LINES)
    assert not steps


def test_exclusions(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Not while a key is excluded, whose every line is new; others may exclude one at any time."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"

    def chunks() -> Iterator[Chunk]:
        yield from in_chunks([b"a", b"b", b"a"], 1)
        with BloomFilter.open(seen.path) as other:
            other.exclusions.add(b"a")
            time.sleep(0.01)
            yield from in_chunks([b"a", b"b", b"c"], 1)
            other.exclusions.discard(b"a")
            time.sleep(0.01)
            yield from in_chunks([b"a", b"d"], 1)

    with appending(path) as writer, several_reads():
        dedup(seen, chunks(), writer)
    assert path.read_bytes() == b"a\nb\na\nc\nd\n"
    assert steps == [True, True, False, True]  # none is begun while one is known


@contextmanager
def several_reads() -> Iterator[None]:
    """Read each chunk only when the one before is done: no thread reads ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmbloom.dedup.ReadAhead", closing_of)
        yield


def closing_of(items: Iterator[Any]) -> Iterator[Any]:
    yield from items


def test_in_a_block_of_the_callers(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Within `locked` the lock is a block's, and within a claim nothing may come between."""
    seen = create(1000, 1e-9, seed=1)
    with appending(tmp_path / "out") as writer, seen.locked():
        dedup(seen, in_chunks(LINES, 100), writer)
    assert not steps
    assert (tmp_path / "out").read_bytes() == unique(LINES)


def test_waits_for_the_lock(create: Create, steps: Steps, tmp_path: Path) -> None:
    """A chunk whose lock another has waits as a claim does, and does not hang on to one step."""
    seen, begun, waits = create(1000, 1e-9, seed=1), threading.Event(), 1.0

    def hold() -> None:
        with BloomFilter.open(seen.path) as other, other.locked():
            begun.set()
            time.sleep(waits)

    def chunks() -> Iterator[Chunk]:
        yield from in_chunks(LINES[:500], 250)
        thread.start()
        begun.wait()
        yield from in_chunks(LINES[500:], 250)

    thread = threading.Thread(target=hold)
    with appending(tmp_path / "out") as writer, several_reads():
        before = time.monotonic()
        dedup(seen, chunks(), writer)
        assert time.monotonic() - before > waits / 2
    thread.join()
    assert steps == [True, True]
    assert (tmp_path / "out").read_bytes() == unique(LINES)


def as_far_as_it_goes(
    seen: BloomFilter, chunks: Iterable[Chunk], out: Path
) -> tuple[bytes, Tally, tuple[int, int, int | None] | None]:
    """Dedup until the filter is full: what is written and counted, and what the error says."""
    tally, told = Tally(), None
    with appending(out) as writer:
        try:
            dedup(seen, chunks, writer, tally=tally)
        except FilterFullError as error:
            told = (error.keys, error.capacity, error.fits)
    lines = out.read_bytes().split()
    assert seen.contains_many(lines).all()
    assert tally.unique == len(lines) <= seen.info().capacity
    return out.read_bytes(), tally, told


@pytest.mark.parametrize("size", [1, 3, 10, 64])
@pytest.mark.parametrize("capacity", [50, 64, 299, 301])
def test_full(capacity: int, size: int, create: Create, steps: Steps, tmp_path: Path) -> None:
    """The first lines that fit are written and marked, and the error is the same."""
    found: list[Any] = []
    for name, block in BOTH_WAYS:
        with block():
            seen = create(capacity, 1e-6, seed=1, name=f"{name}.bloom", on_full="raise")
            found.append(as_far_as_it_goes(seen, in_chunks(LINES, size), tmp_path / name))
    assert found[0] == found[1]
    assert any(steps) == (size < 64 or capacity > 64)
    assert (found[0][2] is None) == (capacity == 301)


def test_warned_once(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Where more than planned is only told, it is told once, and all goes on in one step."""
    seen = create(100, 1e-9, seed=1)
    with appending(tmp_path / "out") as writer, pytest.warns(CapacityWarning) as told:
        dedup(seen, in_chunks(LINES, 20), writer)
    assert len(told) == 1
    assert (tmp_path / "out").read_bytes() == unique(LINES)
    assert steps[-1]
    assert steps.count(False) == 1


def test_half_a_line_of_others(create: Create, steps: Steps, tmp_path: Path) -> None:
    """What another run has begun, and was killed in, is ended first."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"

    def chunks() -> Iterator[Chunk]:
        yield from in_chunks([b"a", b"b"], 1)
        with path.open("ab") as other:
            other.write(b"hal")
        yield from in_chunks([b"c", b"d"], 1)

    with appending(path) as writer, several_reads():
        dedup(seen, chunks(), writer)
    assert path.read_bytes() == b"a\nb\nhal\nc\nd\n"
    assert steps == [True, False, True]


def test_own_half_line(create: Create, steps: Steps, tmp_path: Path) -> None:
    """So is the last line of an input before the next one, in an output of one run alone."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"
    with FileIO(path, "wb") as file:
        writer = LineWriter(file)
        for data in (b"a\nb\nc", b"d\n", b"e\n"):
            (tmp_path / "in").write_bytes(data)
            with FileIO(tmp_path / "in") as source:
                dedup(seen, read_chunks(source), writer)
    assert path.read_bytes() == b"a\nb\nc\nd\ne\n"
    assert not any(step is False for step in steps)


def test_half_line_amid(create: Create, steps: Steps, tmp_path: Path) -> None:
    """So is one amid the chunks of a run."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"
    chunks = [
        *in_chunks([b"a", b"b"], 1),
        chunk_of([b"c"], terminated=False),
        *in_chunks([b"d", b"e"], 1),
    ]
    with FileIO(path, "wb") as file:
        dedup(seen, chunks, LineWriter(file))
    assert path.read_bytes() == b"a\nb\nc\nd\ne\n"
    assert steps == [True, True]


def test_array_moves_between_chunks(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Another that moves the array to shared memory is followed: keys are marked where it is."""
    seen = create(10_000, 1e-9, seed=1)

    def chunks() -> Iterator[Chunk]:
        yield from in_chunks(LINES[:300], 100)
        with BloomFilter.open(seen.path, resident=True) as other:
            other.add(b"moves it")
            assert other.info().resident
            yield from in_chunks(LINES[300:], 100)
            assert other.contains_many(LINES).all()

    with appending(tmp_path / "out") as writer, several_reads():
        dedup(seen, chunks(), writer)
    assert steps == [True, True, False]
    assert (tmp_path / "out").read_bytes() == unique(LINES)
    assert seen.contains_many([*LINES, b"moves it"]).all()


def test_pipe_that_takes_little(create: Create, steps: Steps) -> None:
    """What is written partly is written to its end, and marked: no line is cut or there twice."""
    seen = create(20_000, 1e-9, seed=1)
    lines = [b"%d" % number * 5 for number in range(9000)]
    with small_pipe() as (read, file):
        os.set_blocking(file.fileno(), False)

        def write() -> None:
            with file:
                dedup(seen, in_chunks(lines, 1000), LineWriter(file))

        thread = threading.Thread(target=write)
        thread.start()
        found = read_to_end(read)
        thread.join()
    assert found == unique(lines)
    assert not all(steps)
    assert seen.contains_many(lines).all()
    assert seen.info().keys_added == 9000


def in_the_write(
    seen: BloomFilter, meanwhile: Callable[[], None], tally: Tally | None = None
) -> tuple[bytes, Exception | None]:
    """Dedup into a pipe, of which the second chunk fills it; what comes out, and the error."""
    lines, errors = [b"%d" % number * 50 for number in range(200)], list[Exception]()

    def write() -> None:
        with file:
            try:
                chunks = [*in_chunks([b"first"], 1), *in_chunks(lines, 200)]
                dedup(seen, chunks, LineWriter(file), tally=tally)
            except Exception as error:  # noqa: BLE001  whatever it is, the test looks
                errors.append(error)

    with small_pipe() as (read, file):
        thread = threading.Thread(target=write)
        thread.start()
        found = b""
        while len(found) <= len(b"first\n"):
            found += os.read(read, 7)
        meanwhile()
        found += read_to_end(read)
        thread.join()
    assert found == b"first\n" + unique(lines)
    return found, errors[0] if errors else None


def test_nothing_is_marked_before_it_is_written(create: Create, steps: Steps) -> None:
    """While the output takes a chunk, no key of it is marked, and all are as soon as it is out."""
    seen = create(1000, 1e-9, seed=1)
    with BloomFilter.open(seen.path, "r") as other:
        marked: list[int] = []
        found, error = in_the_write(
            seen, lambda: marked.append(int(other.contains_many(found_lines()).sum()))
        )
        assert error is None
        assert marked == [1]
        assert steps == [True]
        assert other.contains_many(found.split()).all()


def found_lines() -> list[bytes]:
    return [b"first", *(b"%d" % number * 50 for number in range(200))]


def test_file_replaced_while_it_writes(create: Create, steps: Steps) -> None:
    """Then nothing is marked, in neither of the two files: the lines will come again."""
    seen = create(1000, 1e-9, seed=1)
    path, moved = Path(seen.path), Path(seen.path).with_suffix(".moved")

    def replace() -> None:
        path.rename(moved)
        BloomFilter.create(path, 1000, 1e-9, seed=1).close()

    tally = Tally()
    _, error = in_the_write(seen, replace, tally)
    assert isinstance(error, FileChangedError)
    assert steps == [False]
    assert (tally.lines, tally.unique) == (201, 201), "they are written, and will come again"
    for file in (path, moved):
        with BloomFilter.open(file) as other:
            assert other.contains_many(found_lines()).sum() == (file == moved)


def fill_the_pipe(path: str, write: int, ready: int) -> None:
    """In a child: tell when the step of the second chunk begins, which cannot end."""
    write_new = _engine.write_new

    def tell(*args: Any, **options: Any) -> Any:
        os.write(ready, b"!")
        return write_new(*args, **options)

    _engine.write_new = tell
    with BloomFilter.open(path) as seen, FileIO(write, "w") as file:
        chunks = [*in_chunks([b"first"], 1), *in_chunks(found_lines()[1:], 200)]
        dedup(seen, chunks, LineWriter(file))


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (signal.SIGKILL, ChildDiedError, "SIGKILL"),
        (signal.SIGINT, ChildFailedError, "KeyboardInterrupt"),
    ],
)
def test_ended_while_it_writes(
    number: signal.Signals, error: type[Exception], said: str, create: Create
) -> None:
    """A process that is killed, or interrupted, in the write has marked nothing of that chunk."""
    seen = create(1000, 1e-9, seed=1)
    ready, tell = os.pipe()
    with small_pipe() as (read, file):
        child: Child[None] = Child(lambda: fill_the_pipe(seen.path, file.fileno(), tell))
        try:
            os.read(ready, 1)
            found = b""
            while len(found) <= len(b"first\n"):
                found += os.read(read, 7)
            os.kill(child.pid, number)
            with pytest.raises(error, match=said):
                child.result()
        finally:
            child.kill()
            child.wait()
            os.close(ready)
            os.close(tell)
    assert seen.contains_many(found_lines()).sum() == 1
    sink = Collect()
    dedup(seen, in_chunks(found_lines(), 50), sink)
    assert sink.lines == found_lines()[1:]


def test_killed_while_it_marks(create: Create, tmp_path: Path) -> None:
    """A process that is killed amid the marks has written all lines that it marks."""
    seen, path = create(100_000, 1e-9, seed=1), tmp_path / "out"
    lines = [b"%d" % number for number in range(4000)]

    def write() -> None:
        with BloomFilter.open(seen.path) as own, appending(path) as writer:
            words = own._storage.views.words

            def chunks() -> Iterator[Chunk]:
                yield from in_chunks([b"first"], 1)
                del _engine.claim  # it is done in one step
                die_when_written(words.ctypes.data + words.nbytes // 2 // PAGE * PAGE, PAGE)
                yield from in_chunks(lines, 4000)

            with several_reads():
                dedup(own, chunks(), writer)

    with pytest.raises(ChildDiedError) as died:
        in_child(write)
    assert died.value.signal == signal.SIGSEGV
    assert path.read_bytes() == b"first\n" + unique(lines)
    marked = seen.contains_many(lines).sum()
    bits_set = int(_engine.count_set(seen._storage.views.words))
    assert marked < 4000
    assert bits_set > seen.params.num_hashes, "it was amid the marks"
    sink = Collect()
    dedup(seen, in_chunks(lines, 500), sink)
    assert len(sink.lines) == 4000 - marked
    assert seen.contains_many(lines).all()


def test_output_is_full(create: Create, steps: Steps) -> None:
    """The error is that of the write, and the chunk is not marked."""
    seen = create(1000, 1e-9, seed=1)
    seen.note_key_rule("whole lines")
    seen.add(b"known")
    with FileIO("/dev/full", "wb") as file, pytest.raises(OSError, match="/dev/full") as error:
        dedup(seen, in_chunks([b"known", b"new"], 1), LineWriter(file))
    assert error.value.errno == errno.ENOSPC
    assert steps == [False]
    assert not seen.contains_many([b"new"]).any()


def test_output_breaks_after_a_part(create: Create, steps: Steps) -> None:
    """The error is that of the rest, and nothing of the chunk is marked or counted."""
    seen, tally, (read, write) = create(1000, 1e-9, seed=1), Tally(), os.pipe()
    real = LineWriter.finish

    def finish(writer: LineWriter, *given: Any) -> None:
        os.close(read)
        real(writer, *given)

    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(write, False)
    chunks = [*in_chunks([b"first"], 1), *in_chunks(found_lines()[1:], 200)]
    with FileIO(write, "w") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(LineWriter, "finish", finish)
        with pytest.raises(BrokenPipeError):
            dedup(seen, chunks, LineWriter(file), tally=tally)
    assert steps == [False]
    assert tally.unique == 1
    assert seen.contains_many(found_lines()).sum() == 1


def test_forked_in_the_rest(create: Create, steps: Steps) -> None:
    """A child that is forked while the rest is written marks nothing: the lock is the parent's."""
    seen, children, real = create(1000, 1e-9, seed=1), list[int](), LineWriter.finish

    def finish(writer: LineWriter, *given: Any) -> None:
        words = bytes(seen._storage.views.words)
        children.append(os.fork())
        if children[0]:
            assert os.waitpid(children[0], 0)[1] == 0
            assert bytes(seen._storage.views.words) == words, "the child has marked"
            fcntl.fcntl(file.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)
            real(writer, *given)

    chunks = [*in_chunks([b"first"], 1), *in_chunks(found_lines()[1:], 200)]
    with small_pipe() as (read, file), several_reads(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(LineWriter, "finish", finish)
        os.set_blocking(file.fileno(), False)
        try:
            dedup(seen, chunks, LineWriter(file))
        finally:
            if children == [0]:
                os._exit(0)
        file.close()
        assert read_to_end(read) == unique(found_lines())
    assert len(children) == 1
    assert steps == [False]
    assert seen.contains_many(found_lines()).all()


def close_the_output(_: BloomFilter, file: FileIO) -> None:
    file.close()


def close_the_filter(seen: BloomFilter, _: FileIO) -> None:
    seen.close()


def remove_the_filter(seen: BloomFilter, _: FileIO) -> None:
    os.unlink(seen.path)


def cut_the_filter(seen: BloomFilter, _: FileIO) -> None:
    os.truncate(seen.path, 4096)


def fail_a_flush(seen: BloomFilter, _: FileIO) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    with suppress(DurabilityError):
        seen._storage.array._to_disk(fail)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (close_the_output, ValueError),
        (close_the_filter, ClosedFilterError),
        (remove_the_filter, FileChangedError),
        (cut_the_filter, FileChangedError),
        (fail_a_flush, DurabilityError),
    ],
)
def test_what_happens_between_chunks(
    change: Callable[[BloomFilter, FileIO], None],
    error: type[Exception],
    create: Create,
    steps: Steps,
    tmp_path: Path,
) -> None:
    """It is noticed by the next chunk, of which nothing is written and nothing is marked."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"

    def chunks() -> Iterator[Chunk]:
        yield from in_chunks([b"a", b"b", b"c"], 1)
        change(seen, file)
        yield from in_chunks([b"d"], 1)

    with FileIO(path, "ab") as file, several_reads(), pytest.raises(error):
        dedup(seen, chunks(), LineWriter(file))
    assert path.read_bytes() == b"a\nb\nc\n"
    assert steps[:2] == [True, True]
    assert not any(steps[2:])


def test_number_of_a_closed_output(create: Create, tmp_path: Path) -> None:
    """The file that has the number of a closed output now is not written to."""
    seen, other = create(1000, 1e-9, seed=1), tmp_path / "other"
    number = -1

    def chunks() -> Iterator[Chunk]:
        nonlocal number
        yield from in_chunks([b"a", b"b"], 1)
        number = file.fileno()
        file.close()
        taken = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if taken != number:
            os.dup2(taken, number)
            os.close(taken)
        yield from in_chunks([b"c"], 1)

    with FileIO(tmp_path / "out", "ab") as file:
        try:
            with several_reads(), pytest.raises(ValueError, match="closed file"):
                dedup(seen, chunks(), LineWriter(file))
        finally:
            os.close(number)
    assert not other.read_bytes()
    assert not seen.contains_many([b"c"]).any()


def test_two_processes_and_one_output(create: Create, tmp_path: Path) -> None:
    """Of all that dedup the same lines into the same file, one writes each."""
    seen, path = create(40_000, 1e-9, seed=1), tmp_path / "out"
    lines = [b"line %d" % (number * 7919 % 30_011) for number in range(30_011)]

    def run() -> None:
        with BloomFilter.open(seen.path) as own, appending(path) as writer:
            dedup(own, in_chunks(lines, 100), writer)

    with running(run):
        run()
        with appending(path) as writer:  # what is left, if the other is behind
            dedup(seen, in_chunks(lines, 1000), writer)
    assert sorted(path.read_bytes().splitlines()) == sorted(lines)


def followed(chunks: Iterator[Chunk]) -> list[Chunk]:
    """Have each chunk say that the next one is there, as those of one block do."""
    found = list(chunks)
    for chunk in found[:-1]:
        chunk.followed = True
    return found


TOGETHER_OR_NOT: list[tuple[str, Callable[[Iterator[Chunk]], list[Chunk]]]] = [
    ("together", followed),
    ("one by one", list),
]


def test_chunks_that_are_there_together(create: Create, steps: Steps, tmp_path: Path) -> None:
    """Several are one step, of which all is as if they came one by one."""
    found = []
    for name, make in TOGETHER_OR_NOT:
        seen, path = create(1000, 1e-6, seed=1, name=f"{name}.bloom"), tmp_path / f"{name}.log"
        given = make(in_chunks(LINES, 70))
        with appending(path) as writer:
            tally = dedup(seen, given, writer)
        counters = seen._storage.counters.words.tolist()
        array = Path(seen.path).read_bytes()[HEADER_BYTES:]
        found.append((tally, counters, array, path.read_bytes()))
    assert found[0] == found[1]
    assert steps == [True] * 14 * 2


def test_number_of_chunks_a_step(create: Create, tmp_path: Path, monkeypatch: Patch) -> None:
    """Of those that are there; another that must be waited for is not waited for."""
    sizes: list[int] = []
    write_new = _engine.write_new

    def write(*given: Any, **options: Any) -> Any:
        sizes.append(len(given[3]))
        return write_new(*given, **options)

    monkeypatch.setattr(_engine, "write_new", write)
    seen = create(1000, 1e-6, seed=1)
    with appending(tmp_path / "out") as writer:
        dedup(seen, followed(in_chunks(LINES, 100)), writer)
        assert sizes == [5, 4]  # the first chunk notes the rule
        sizes.clear()
        dedup(seen, in_chunks(LINES, 100), writer)
        assert sizes == [1] * 9


def test_lines_are_not_kept_waiting(create: Create, tmp_path: Path) -> None:
    """Lines that fill a chunk go out though the input goes on, and gives nothing more for now."""
    seen = create(100_000, 1e-9, seed=1)
    lines = b"".join(b"%d\n" % number for number in range(2 * 8192))
    (out, in_), (end, last) = os.pipe(), os.pipe()
    fcntl.fcntl(in_, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(in_, lines)

    def run() -> None:
        with FileIO(out) as source, FileIO(last, "w") as sink:
            dedup(seen, read_chunks(source), LineWriter(sink))

    thread = threading.Thread(target=run)
    thread.start()
    found = b""
    try:
        while len(found) < len(lines) and select.select([end], [], [], 10)[0]:
            found += os.read(end, 1 << 16)
        assert thread.is_alive()
    finally:
        os.close(in_)
        rest = read_to_end(end)
        thread.join()
        os.close(end)
    assert found == lines
    assert not rest


@pytest.mark.parametrize("broken", [0, 1, 2, 3, 5])
def test_input_breaks_among_chunks(
    broken: int, create: Create, steps: Steps, tmp_path: Path
) -> None:
    """What was read before it is done, counted and marked."""
    seen, tally = create(1000, 1e-9, seed=1), Tally()

    def chunks() -> Iterator[Chunk]:
        yield from followed(in_chunks(LINES, 100))[:broken]
        raise OSError(errno.EIO, "Input/output error")

    with appending(tmp_path / "out") as writer, pytest.raises(OSError, match="Input/output"):
        dedup(seen, chunks(), writer, tally=tally)
    given = LINES[: 100 * broken]
    assert (tmp_path / "out").read_bytes() == unique(given)
    assert tally.lines == len(given)
    assert tally.unique == len(set(given))
    assert seen.contains_many(given).all()
    assert steps == [True] * max(0, broken - 1)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, StopAsyncIteration])
def test_what_ends_the_input_among_chunks(
    error: type[BaseException], create: Create, tmp_path: Path
) -> None:
    """So it is whatever is raised."""
    seen = create(1000, 1e-9, seed=1)

    def chunks() -> Iterator[Chunk]:
        yield from followed(in_chunks(LINES, 100))[:5]
        raise error

    with appending(tmp_path / "out") as writer, pytest.raises(error):
        dedup(seen, chunks(), writer)
    assert (tmp_path / "out").read_bytes() == unique(LINES[:500])


def test_empty_chunk_among_chunks(create: Create, tmp_path: Path) -> None:
    """So it is where one of them has no line, as none should be."""
    seen = create(1000, 1e-9, seed=1)
    chunks = followed(in_chunks(LINES, 100))
    chunks.insert(5, Chunk(chunks[5].octets, chunks[5].starts[:0], chunks[5].ends[:0], True, True))
    with appending(tmp_path / "out") as writer, pytest.raises(IndexError):
        dedup(seen, chunks, writer)
    assert (tmp_path / "out").read_bytes() == unique(LINES[:500])


def test_no_chunk_among_chunks(create: Create, tmp_path: Path) -> None:
    """So it is where one of them is none."""
    seen = create(1000, 1e-9, seed=1)
    chunks: list[Any] = [*followed(in_chunks(LINES, 100))[:5], b"lines"]
    with appending(tmp_path / "out") as writer, pytest.raises(TypeError, match="chunks gives"):
        dedup(seen, chunks, writer)
    assert (tmp_path / "out").read_bytes() == unique(LINES[:500])


@pytest.mark.parametrize("capacity", [50, 64, 150, 299, 301])
def test_full_among_chunks(capacity: int, create: Create, steps: Steps, tmp_path: Path) -> None:
    """The first lines that fit are written and marked, and the error is the same."""
    found: list[Any] = []
    for name, make in TOGETHER_OR_NOT:
        seen = create(capacity, 1e-6, seed=1, name=f"{name}.bloom", on_full="raise")
        found.append(as_far_as_it_goes(seen, make(in_chunks(LINES, 30)), tmp_path / name))
    assert found[0] == found[1]
    assert True in steps


def test_lines_without_a_key_among_chunks(create: Create, steps: Steps, tmp_path: Path) -> None:
    """A last line that is not ended takes several steps, and those before it one."""
    seen = create(1000, 1e-9, seed=1)
    last = chunk_of([b"last"], terminated=False)
    chunks = [*followed(in_chunks(LINES, 250)), last]
    chunks[-2].followed = True
    with appending(tmp_path / "out") as writer:
        tally = dedup(seen, chunks, writer)
    assert (tmp_path / "out").read_bytes() == unique([*LINES]) + b"last"
    assert tally.lines == 1001
    assert steps == [True] * 3


def test_change_among_chunks(create: Create, steps: Steps) -> None:
    """Chunks behind one in whose write the file was replaced are not done; those before it are."""
    seen, tally = create(1000, 1e-9, seed=1), Tally()
    path, moved = Path(seen.path), Path(seen.path).with_suffix(".moved")
    lines, errors = [b"%d" % number * 50 for number in range(300)], list[Exception]()
    chunks = [*in_chunks([b"first"], 1), *followed(in_chunks([b"one", b"two", *lines], 1))]
    chunks[3:] = followed(in_chunks(lines, 100))
    for chunk in chunks[1:-1]:
        chunk.followed = True

    def write() -> None:
        with file:
            try:
                dedup(seen, chunks, LineWriter(file), tally=tally)
            except FileChangedError as error:
                errors.append(error)

    with small_pipe() as (read, file):
        fcntl.fcntl(file.fileno(), fcntl.F_SETPIPE_SZ, 8192)  # the short lines do not fill it
        thread = threading.Thread(target=write)
        thread.start()
        found = b""
        while len(found) <= len(b"first\none\ntwo\n"):
            found += os.read(read, 7)
        path.rename(moved)
        BloomFilter.create(path, 1000, 1e-9, seed=1).close()
        found += read_to_end(read)
        thread.join()
    assert len(errors) == 1
    assert found == unique([b"first", b"one", b"two", *lines[:100]])
    assert (tally.lines, tally.unique) == (103, 103), "they are written, and some will come again"
    assert steps == [True, True, False]
    with BloomFilter.open(moved) as old, BloomFilter.open(path) as new:
        assert old.contains_many([b"first", b"one", b"two", *lines]).sum() == 3
        assert not new.contains_many([b"first", b"one", b"two", *lines]).any()
