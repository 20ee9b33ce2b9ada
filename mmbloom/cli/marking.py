"""Mark the lines of an input in a filter; a long wait for its lock is reported."""

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from mmbloom._machine.holders import holder
from mmbloom._typing import Bools
from mmbloom.cli.arguments import line_keys
from mmbloom.cli.inputs import shown
from mmbloom.cli.keyed import open_lines, warn_of_lacking
from mmbloom.cli.process import say
from mmbloom.dedup import Sink, Tally
from mmbloom.errors import FilterFullError, LockTimeoutError
from mmbloom.files.keyed import dedup_lines
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim


def mark_lines(
    args: argparse.Namespace,
    seen: Filter,
    name: str,
    bar: Any,
    writer: Sink,
    *,
    tally: Tally,
    repeats_to: Sink | None = None,
    size: int | None = None,
) -> str:
    """Mark the lines of one input, or of its first `size` bytes, and write those that are new.

    Counts them in `tally`, so that what was done is known after an error too. Returns why a filter
    that is full has stopped it, "" at the end: no error, so that the output is completed.
    """
    keys, path, stopped = line_keys(args), seen.path, ""
    repeats = getattr(args, "repeated", False)

    def enter(claim: Claim) -> AbstractContextManager[Bools]:
        return Patiently(path, claim.within, args.lock_timeout)

    try:
        with open_lines(args, name, bar, size) as lines:
            dedup_lines(
                seen,
                lines,
                shown(name),
                writer,
                repeats=repeats,
                repeats_to=repeats_to,
                locked=lambda: Patiently(path, seen.locked, args.lock_timeout),
                enter=enter,
                tally=tally,
            )
    except FilterFullError as full:
        marked = "what was read before" if repeats else "what is printed"
        stopped = (
            f"{full.path}: is full: it holds about {full.keys} keys and was planned for "
            f"{full.capacity}; stopped in {shown(name)}: {marked} is marked, and nothing else"
        )
    warn_of_lacking(keys, name, tally.lines, tally.lacking)
    return stopped


T = TypeVar("T")

SILENT_SECONDS = 5.0


class Patiently(Generic[T]):
    """Enter a context that takes the write lock; print a message if the wait is long.

    A class, as a generator with its stack of contexts takes 3 us more for each chunk of lines.

    Parameters
    ----------
    path : str
        The filter.
    enter : callable
        Called with the seconds to wait; returns the context that takes the lock.
    timeout : float or None
        Seconds to wait; None waits for ever.
    """

    def __init__(
        self,
        path: str,
        enter: Callable[[float | None], AbstractContextManager[T]],
        timeout: float | None,
    ) -> None:
        self._path, self._enter, self._timeout = path, enter, timeout

    def __enter__(self) -> T:
        begun, timeout = time.monotonic(), self._timeout
        first = SILENT_SECONDS if timeout is None else min(SILENT_SECONDS, timeout)
        self._entered = self._enter(first)
        try:
            return self._entered.__enter__()
        except LockTimeoutError:
            if timeout is not None and timeout <= SILENT_SECONDS:
                raise
        who = holder(self._path) or "another process, which the system does not name,"
        say(
            f"{self._path}: {who} is writing to this filter; waiting. If these two commands are "
            "piped into each other, they will wait for ever: stop them and put a file in between."
        )
        self._entered = self._enter(
            None if timeout is None else max(0.0, begun + timeout - time.monotonic())
        )
        try:
            return self._entered.__enter__()
        except LockTimeoutError as error:  # its time is only the second part of the wait
            raise LockTimeoutError(error.path, timeout or 0.0) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._entered.__exit__(kind, error, traceback)
