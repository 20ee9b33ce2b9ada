"""dedup() that a signal, a fork or the output itself ends, wherever it comes."""

import ast
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sinks import Collect, a_filter, in_chunks

import mmbloom.filters.claim
import mmbloom.logs.dedup
from mmbloom import BloomFilter, FilterFullError
from mmbloom.errors import ClosedFilterError, DurabilityError, FileChangedError
from mmbloom.logs.dedup import Tally, dedup
from mmbloom.logs.lines import Chunk, LineWriter

Create = Callable[..., BloomFilter]


def lines_of_blocks(file: str) -> set[int]:
    """Lines at which a block begins, and may end too: Python runs no signal handler there."""
    nodes = ast.walk(ast.parse(Path(file).read_text()))
    return {node.lineno for node in nodes if isinstance(node, ast.With | ast.Try)}


WHERE = {
    str(module.__file__): lines_of_blocks(str(module.__file__))
    for module in (mmbloom.logs.dedup, mmbloom.filters.claim)
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
    lines = [b"%d" % (i % 11) for i in range(28)]
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
            repeated = max(repeated, len(before.lines + again.lines) - 11)
            if interrupt.left > 0:
                break
    assert interrupted == after - 1 > 200
    assert repeated <= 4, "more than a chunk is repeated"


def test_the_sinks_own_full_filter(create: Create) -> None:
    """A sink that adds to a filter which is full raises what it raises; nothing else is written."""
    seen, small = create(1000, 1e-9, seed=1), create(3, 1e-9, name="small", on_full="raise")

    class Add(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            small.add_many(lines.tobytes().split())
            super().write(lines, terminated=terminated)

    sink, tally = Add(), Tally()
    with pytest.raises(FilterFullError) as caught:
        dedup(seen, in_chunks([b"%d" % i for i in range(9)], 2), sink, tally=tally)
    assert caught.value.path == small.path
    assert sink.lines == [b"0", b"1"]
    assert tally.unique == 2
    assert not seen.contains_many([b"2", b"3"]).any()


def test_a_child_forked_in_a_write(create: Create) -> None:
    """A child that leaves the run, as by `sys.exit` in a signal handler, marks nothing."""
    seen, codes = create(1000, 1e-9, seed=1), list[int]()

    class Fork(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            super().write(lines, terminated=terminated)
            if not codes:
                child = os.fork()
                if not child:
                    raise SystemExit(7)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                assert not seen.contains_many(self.lines).any()

    sink = Fork()
    try:
        dedup(seen, in_chunks([b"%d" % i for i in range(9)], 2), sink)
    except SystemExit as end:
        os._exit(int(str(end.code)))
    assert codes == [7]
    assert seen.contains_many(sink.lines).all()
    assert len(sink.lines) == 9


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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next chunk notices it: nothing of that chunk is written and nothing is marked."""
    seen, path = create(1000, 1e-9, seed=1), tmp_path / "out"
    monkeypatch.setattr("mmbloom.logs.dedup.ReadAhead", lambda chunks: (yield from chunks))

    def chunks() -> Iterator[Chunk]:
        yield from in_chunks([b"a", b"b", b"c"], 1)
        change(seen, file)
        yield from in_chunks([b"d"], 1)

    with FileIO(path, "ab") as file, pytest.raises(error):
        dedup(seen, chunks(), LineWriter(file))
    assert path.read_bytes() == b"a\nb\nc\n"


def test_a_file_replaced_in_a_write(create: Create) -> None:
    """The lines count as written; they are marked in neither file, and so come again."""
    seen, tally = create(1000, 1e-9, seed=1), Tally()
    path, moved = Path(seen.path), Path(seen.path).with_suffix(".moved")

    class Replace(Collect):
        def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
            super().write(lines, terminated=terminated)
            if len(self.lines) == 4:
                path.rename(moved)
                BloomFilter.create(path, 1000, 1e-9, seed=1).close()

    sink = Replace()
    with pytest.raises(FileChangedError):
        dedup(seen, in_chunks([b"%d" % i for i in range(9)], 2), sink, tally=tally)
    assert (tally.lines, tally.unique) == (4, 4)
    for file, marked in [(path, 0), (moved, 2)]:
        with BloomFilter.open(file, "r") as other:
            assert np.count_nonzero(other.contains_many(sink.lines)) == marked


@pytest.mark.parametrize("error", [OSError, SystemExit, KeyboardInterrupt, TypeError])
@pytest.mark.parametrize("whole", [0, 1, 5])
def test_an_input_that_breaks(whole: int, error: type[BaseException], create: Create) -> None:
    """What was read before is written, counted and marked; what is no chunk breaks a run, too."""
    seen, sink, tally = create(1000, 1e-9, seed=1), Collect(), Tally()
    lines = [b"%d" % i for i in range(100 * whole)]

    def chunks() -> Iterator[Any]:
        yield from in_chunks(lines, 100)
        if error is TypeError:
            yield b"lines"
        raise error

    with pytest.raises(error):
        dedup(seen, chunks(), sink, tally=tally)
    assert sink.lines == lines
    assert (tally.lines, tally.unique) == (len(lines), len(lines))
    assert not lines or seen.contains_many(lines).all()
