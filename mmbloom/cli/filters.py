"""Open or create the filter that a command names, and report a long wait for its lock."""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from mmbloom.cli.arguments import error_rate, writing_options
from mmbloom.cli.process import UsageError, say
from mmbloom.errors import LockTimeoutError
from mmbloom.filters.bloom import BloomFilter

Opened = TypeVar("Opened")


def open_or_create(
    args: argparse.Namespace, open_existing: Callable[..., Opened]
) -> Opened | BloomFilter:
    """Open FILE; with -n, create it if it does not exist."""
    sizing = (args.error_rate, args.layout, args.hash, args.seed)
    if args.capacity is None:
        if sizing != (None,) * 4:
            raise UsageError(
                "-p, --layout, --hash and --seed apply only when FILE is created: give -n as well"
            )
        return open_existing(args.file, **writing_options(args))
    if os.path.isdir(args.file):
        raise UsageError(f"{args.file}: is a folder, which records its own plan: leave out -n")
    return BloomFilter.create(
        args.file,
        args.capacity,
        error_rate(args),
        layout=args.layout,
        hash=args.hash,
        seed=args.seed,
        exist_ok=True,
        **writing_options(args),
    )


T = TypeVar("T")

SILENT_SECONDS = 5.0


@contextmanager
def patiently(
    path: str, enter: Callable[[float | None], AbstractContextManager[T]], timeout: float | None
) -> Iterator[T]:
    """Enter a context that takes the write lock; print a message if the wait is long.

    Parameters
    ----------
    path : str
        The filter.
    enter : callable
        Called with the seconds to wait; returns the context that takes the lock.
    timeout : float or None
        Seconds to wait; None waits for ever.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        try:
            first = SILENT_SECONDS if timeout is None else min(SILENT_SECONDS, timeout)
            entered = stack.enter_context(enter(first))
        except LockTimeoutError:
            if timeout is not None and timeout <= SILENT_SECONDS:
                raise
            say(
                f"{path}: another process is writing to this filter; waiting. If these two "
                "commands are piped into each other, they will wait for ever: stop them and put "
                "a file in between."
            )
            rest = None if timeout is None else max(0.0, begun + timeout - time.monotonic())
            try:
                entered = stack.enter_context(enter(rest))
            except LockTimeoutError as error:  # its time is only the second part of the wait
                raise LockTimeoutError(error.path, timeout or 0.0) from None
        yield entered
