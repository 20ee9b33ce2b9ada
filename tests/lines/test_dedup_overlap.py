"""dedup() with a sink of another thread: what is written while the next lines are claimed.

Here the next chunk is always there when it is looked for, so that the claims follow one another.
"""

import ast
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
import sinks
from forms import chunk_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sinks import Lines, a_filter, in_chunks

import mmbloom.dedup
import mmbloom.filters.claim
from mmbloom import BloomFilter, FilterFullError
from mmbloom._threads import ReadAhead
from mmbloom.dedup import Tally, dedup
from mmbloom.filters.claim import Claim
from mmbloom.lines import Chunk, LineWriter

Create = Callable[..., BloomFilter]
LONGEST = mmbloom.dedup._LONGEST  # seconds
LINES = st.lists(st.sampled_from([b"%d" % i for i in range(12)]), max_size=40)


class Collect(sinks.Collect):
    """A sink that another thread may call."""

    any_thread = True


class Breaks(sinks.Breaks):
    """One that takes so many writes and then breaks."""

    any_thread = True


@pytest.fixture(autouse=True)
def _steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next chunk be there, if there is one, however slow the machine is."""
    look = ReadAhead.peek

    def peek(self: Any) -> Any:
        while not self._ready:
            time.sleep(0)
        return look(self)

    monkeypatch.setattr(ReadAhead, "peek", peek)
    monkeypatch.setattr(mmbloom.dedup, "_LONGEST", 60.0)


def alone(folder: Path, lines: Lines, size: int) -> tuple[Lines, Tally]:
    """What one claim after the other gives."""
    sink = Collect()
    sink.any_thread = False
    with a_filter(folder) as seen:
        tally = dedup(seen, in_chunks(lines, size), sink)
    assert set(sink.threads) <= {"MainThread"}
    return sink.lines, tally


@settings(max_examples=60)  # each makes a file and waits for the disk
@given(LINES, st.integers(1, 8))
def test_the_same_lines(tmp_path_factory: pytest.TempPathFactory, lines: Lines, size: int) -> None:
    """Lines, order and figures are those without overlap; all but the last is written behind."""
    folder, sink = tmp_path_factory.getbasetemp(), Collect()
    with a_filter(folder) as seen:
        tally = dedup(seen, in_chunks(lines, size), sink)
        assert seen.contains_many(lines).all()
    assert (sink.lines, tally) == alone(folder, lines, size)
    assert sink.lines == list(dict.fromkeys(lines))
    chunks = -(-len(lines) // size)
    behind = sink.threads.count("mmbloom-behind")
    assert behind >= chunks - 1 - chunks // 8
    assert len(sink.threads) == chunks


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@settings(max_examples=60)  # each makes a file and waits for the disk
@given(LINES, st.integers(1, 5), st.integers(0, 9))
def test_what_is_written_is_marked_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    error: type[BaseException],
    lines: Lines,
    size: int,
    good_writes: int,
) -> None:
    """When the output breaks, exactly the lines that it took are marked (law 6)."""
    before, after, tally = Breaks(good_writes, error), Collect(), Tally()
    with a_filter(tmp_path_factory.getbasetemp()) as seen:
        if -(-len(lines) // size) > good_writes:
            with pytest.raises(error, match="broke"):
                dedup(seen, in_chunks(lines, size), before, tally=tally)
        else:
            dedup(seen, in_chunks(lines, size), before, tally=tally)
        assert tally.unique == len(before.lines)
        assert seen.contains_many(sorted(set(lines))).tolist() == [
            line in before.lines for line in sorted(set(lines))
        ]
        dedup(seen, in_chunks(lines, size), after)
    assert before.lines + after.lines == list(dict.fromkeys(lines))


def lines_of_blocks(file: str) -> set[int]:
    """Lines at which a block begins, and may end too: Python runs no signal handler there."""
    nodes = ast.walk(ast.parse(Path(file).read_text()))
    return {node.lineno for node in nodes if isinstance(node, ast.With | ast.Try)}


WHERE = {
    str(module.__file__): lines_of_blocks(str(module.__file__))
    for module in (mmbloom.dedup, mmbloom.filters.claim)
}


class Interrupt:
    """Raises `KeyboardInterrupt` before the n-th line of `dedup` and of claims is run."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        but = WHERE.get(frame.f_code.co_filename)
        if but is None:
            return None
        if event == "line" and frame.f_lineno not in but:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def test_a_signal_between_any_two_lines(tmp_path: Path) -> None:
    """Ctrl-C wherever it comes: nothing is marked that was not written, and nothing stays held."""
    lines = [b"%d" % (i % 23) for i in range(48)]
    interrupted = repeated = 0
    for after in range(1, 10_000):
        before, again = Collect(), Collect()
        with a_filter(tmp_path) as seen:
            interrupt = Interrupt(after)
            sys.settrace(interrupt)
            try:
                dedup(seen, in_chunks(lines, 4), before)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                sys.settrace(None)
            done = {line for line in set(lines) if line in seen}
            assert done <= set(before.lines), f"lost after {after} lines of code"
            with BloomFilter.open(seen.path, lock_timeout=0) as other:
                dedup(other, in_chunks(lines, 4), again)
            assert set(before.lines + again.lines) == set(lines)
            repeated = max(repeated, len(before.lines + again.lines) - 23)
            if interrupt.left > 0:
                break
    assert interrupted == after - 1 > 300
    assert repeated <= 8, "more than two chunks are repeated"


def test_the_lock_is_kept_for_eight_chunks(create: Create) -> None:
    """Others have their chance after eight chunks, and each lock is entered once."""
    seen, sink, entered = create(1000, 1e-9, seed=1), Collect(), []

    def enter(claim: Claim) -> Claim:
        entered.append(len(sink.threads))
        return claim

    dedup(seen, in_chunks([b"%d" % i for i in range(20)], 1), sink, enter=enter)
    assert entered == [0, 8, 16]
    assert sink.threads == ["mmbloom-behind"] * 20


def test_a_chunk_that_is_alone_is_written_at_once(
    create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What trickles in is written and marked before the next is waited for."""
    monkeypatch.setattr(ReadAhead, "peek", lambda _self: None)
    seen, sink = create(1000, 1e-9, seed=1), Collect()
    handed_on = threading.Event()

    def slowly() -> Iterator[Chunk]:
        yield chunk_of([b"a"])
        assert handed_on.wait(60)
        yield chunk_of([b"b"])

    class Hand(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            super().write(lines, terminated=terminated)
            handed_on.set()

    sink = Hand()
    assert dedup(seen, slowly(), sink).unique == 2
    assert sink.threads == ["MainThread"] * 2


def test_a_slow_output_leaves_the_lock(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 20 ms no further chunk follows, so that others have their chance between two."""
    monkeypatch.setattr(mmbloom.dedup, "_LONGEST", LONGEST)
    seen, entered = create(1000, 1e-9, seed=1), []

    class Slow(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            super().write(lines, terminated=terminated)
            time.sleep(0.03)

    sink = Slow()

    def enter(claim: Claim) -> Claim:
        entered.append(len(sink.threads))
        return claim

    dedup(seen, in_chunks([b"%d" % i for i in range(10)], 1), sink, enter=enter)
    assert entered == [0, 2, 4, 6, 8]


def test_the_sinks_own_full_filter(create: Create) -> None:
    """A sink that adds to a filter which is full raises what it raises; nothing else is written."""
    seen, small = create(1000, 1e-9, seed=1), create(3, 1e-9, name="small", on_full="raise")

    class Add(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            small.add_many(lines.tobytes().split())
            super().write(lines, terminated=terminated)

    for any_thread in (True, False):
        sink, tally = Add(), Tally()
        sink.any_thread = any_thread
        with pytest.raises(FilterFullError) as caught:
            dedup(seen, in_chunks([b"%d" % i for i in range(9)], 2), sink, tally=tally)
        assert caught.value.path == small.path
        assert sink.lines == [b"0", b"1"] * any_thread
        assert tally.unique == len(sink.lines)
        assert not seen.contains_many([b"2", b"3"]).any()


def test_the_writer_of_lines_is_called_behind(create: Create, tmp_path: Path) -> None:
    """`LineWriter`, which the command line writes with, overlaps."""
    seen, threads = create(1000, 1e-9, seed=1), []

    def look() -> bool:
        threads.append(threading.current_thread().name)
        return False

    with (tmp_path / "out").open("wb", buffering=0) as file:
        sink = LineWriter(file, ends_mid_line=look)
        dedup(seen, in_chunks([b"%d" % i for i in range(6)], 2), sink)
    assert threads == ["mmbloom-behind"] * 3


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Have SIGINT raise, which a process in the background of a shell ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_a_late_write_and_the_next_run(create: Create) -> None:
    """A write that an interrupt has left under way, and those after it, are not mixed."""
    seen = create(100_000, 1e-9, seed=1)
    reading, writing = os.pipe()
    lines = [b"%05d" % i + b"x" * 296 for i in range(4000)]  # more than a pipe holds
    got = bytearray()

    def read() -> None:
        time.sleep(0.1)  # until both write
        while piece := os.read(reading, 4096):
            got.extend(piece)

    class Stop(threading.Thread):
        def run(self) -> None:
            time.sleep(0.05)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with open(writing, "wb", buffering=0) as file:
        sink = LineWriter(file)

        def stopped() -> None:
            Stop().start()
            dedup(seen, in_chunks(lines, 500), sink)  # nobody reads

        with pytest.raises(KeyboardInterrupt):
            stopped()
        reader = threading.Thread(target=read)
        reader.start()
        dedup(seen, in_chunks(lines, 500), sink)
    reader.join()
    os.close(reading)
    assert {*bytes(got).split()} == {*lines}, "a line is torn"


def test_a_child_forked_amid_a_run(create: Create) -> None:
    """A child that leaves the run, as by `sys.exit` in a signal handler, does leave it."""
    seen = create(1000, 1e-9, seed=1)

    class Fork(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            super().write(lines, terminated=terminated)

    sink, mark, parent = Fork(), Claim.mark_first, os.getpid()
    codes: list[int] = []

    def fork(self: Claim) -> None:
        if os.getpid() == parent and not codes:
            child = os.fork()
            if not child:
                raise SystemExit(7)
            codes.append(os.waitstatus_to_exitcode(waited(child)))
        mark(self)

    def run() -> None:
        try:
            dedup(seen, in_chunks([b"%d" % i for i in range(9)], 2), sink)
        except SystemExit as end:
            os._exit(int(str(end.code)))

    with mock.patch.object(Claim, "mark_first", fork):
        run()
    assert codes == [7]
    assert seen.contains_many(sink.lines).all()
    assert len(sink.lines) == 9


def waited(child: int) -> int:
    """Wait for a child, which is ended after 20 seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]
