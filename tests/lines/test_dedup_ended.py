"""dedup() that a signal, a fork or the output itself ends, wherever it comes."""

import ast
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sinks import Collect, a_filter, in_chunks

import mmbloom.dedup
import mmbloom.filters.claim
from mmbloom import BloomFilter, FilterFullError
from mmbloom.dedup import Tally, dedup

Create = Callable[..., BloomFilter]


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
