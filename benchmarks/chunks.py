"""What does Python cost between chunks of lines? CPU time of the thread that writes them.

Question: microseconds of CPU a chunk of 8,192 lines, of the thread that claims, writes and marks,
from the end of the engine's loops to their next beginning, for logs of long and of short lines, to
a file: new to the filter (three lines in ten repeat others of the log), and known to it.

Method: `mmbloom.dedup.dedup` as the command calls it, in this process. The engine's step, which
does several chunks, is wrapped in two looks at the thread's own clock, which counts its CPU time
alone: what is waited for is not in it, and what the kernel does for the thread (the lock, going to
sleep and waking up, waking the other thread) is. The time between two steps is divided by the
number of chunks of the first. The first chunk of a run is not counted: it takes several steps.

Limits: a look at the clock takes some 0.3 us, of which two are in each figure.
"""

import argparse
import os
import time
from collections.abc import Callable
from io import FileIO
from typing import Any

from _measure import Report, Rows, benchmark, layout
from make_log import write_addresses, write_log

from mmbloom import BloomFilter, _engine
from mmbloom.dedup import dedup
from mmbloom.lines import LineWriter, PlainFile, read_chunks

COLUMN = "us a chunk"


class Between:
    """The engine's step for a chunk, and the CPU time between one and the next."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self._step = step
        self.begin()

    def begin(self) -> None:
        """Count a run."""
        self.chunks = self.nanoseconds = self._ended = self._chunks = 0

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Do the step."""
        begun = time.thread_time_ns()
        if self._ended:
            self.nanoseconds += begun - self._ended
            self.chunks += self._chunks
        done = self._step(*given, **options)
        self._chunks = done[0]
        self._ended = time.thread_time_ns()
        return done


def run(args: argparse.Namespace, folder: str) -> Report:
    """Dedup both logs by turns, each into a filter that is new, and once more into the same."""
    step = Between(_engine.write_new)
    _engine.write_new = step
    kinds = {"lines of 144 bytes": write_log, "lines of 14 bytes": write_addresses}
    rows: Rows = {f"{kind}, {what}": {COLUMN: []} for kind in kinds for what in ("new", "known")}
    for kind, write in kinds.items():
        write(os.path.join(folder, kind), args.lines)
    for number in range(args.rounds):
        for kind in kinds:
            path = os.path.join(folder, f"{number} {kind}")
            with (
                BloomFilter.create(f"{path}.bloom", args.lines, 1e-6) as seen,
                FileIO(f"{path}.out", "ab+") as output,
            ):
                writer = LineWriter(output, existing=PlainFile(output.fileno()))
                for what in ("new", "known"):
                    step.begin()
                    with FileIO(os.path.join(folder, kind)) as log:
                        dedup(seen, read_chunks(log), writer)
                    rows[f"{kind}, {what}"][COLUMN].append(
                        step.nanoseconds / 1000 / max(1, step.chunks)
                    )
            os.unlink(f"{path}.out")
            os.unlink(f"{path}.bloom")
    title = f"### {args.rounds} runs of each, logs of {args.lines:,} lines\n\n"
    return Report(title + layout("", rows, 1), {"chunks": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {"lines": (2_000_000, "lines of each log"), "rounds": (5, "runs of each")},
    )
