"""The filters that commands name: there, opened or made, and waited for in words."""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from mmbloom.cli.arguments import writing_options
from mmbloom.cli.process import UsageError, say
from mmbloom.errors import LockTimeoutError
from mmbloom.filters.bloom import BloomFilter

Opened = TypeVar("Opened")


def open_or_create(
    args: argparse.Namespace, open_existing: Callable[..., Opened]
) -> Opened | BloomFilter:
    """Open FILE, or make it when -n says how large."""
    sizing = (args.error_rate, args.layout, args.seed)
    if args.capacity is None:
        if sizing != (None, None, None):
            raise UsageError("-p, --layout and --seed are for making FILE: give -n as well")
        return open_existing(args.file, **writing_options(args))
    if os.path.isdir(args.file):
        raise UsageError(f"{args.file}: is a folder, which says itself how it grows: leave -n")
    return BloomFilter.create(
        args.file,
        args.capacity,
        args.error_rate,
        layout=args.layout,
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
    """Enter what takes the write lock within `timeout` seconds; say so when it takes long.

    Parameters
    ----------
    path : str
        The filter.
    enter : callable
        Gives, for a number of seconds to wait, what takes the lock.
    timeout : float or None
        Seconds to wait; None for ever.
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
                f"{path}: waiting for another writer to release the lock, which it "
                "keeps until its output is taken (so never pipe two commands on one filter)"
            )
            rest = None if timeout is None else max(0.0, begun + timeout - time.monotonic())
            try:
                entered = stack.enter_context(enter(rest))
            except LockTimeoutError as error:  # which knows of the rest only
                raise LockTimeoutError(error.path, timeout or 0.0) from None
        yield entered
