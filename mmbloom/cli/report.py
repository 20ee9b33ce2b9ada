"""What a command says of its work on stderr: a bar while it goes on, its figures in the end.

Both are for people, so they are only on a terminal, unless they are asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from mmbloom import _extras
from mmbloom.cli.process import STDOUT_FD, say
from mmbloom.errors import InputError

if TYPE_CHECKING:  # a command that does not have them need not import them
    from mmbloom.dedup import Tally
    from mmbloom.filters.base import Filter
    from mmbloom.filters.info import FilterInfo
    from mmbloom.folders.info import FolderInfo

STDIN = "-"  # the name of an input


class _NoBar:
    """A replacement for the progress bar where none is wanted."""

    def update(self, amount: int) -> None:
        """Do nothing."""


NO_BAR = _NoBar()


class _Screen:
    """A replacement for stderr: a bar that cannot be drawn (a full disk) is no error."""

    def write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def _for_people(args: argparse.Namespace) -> bool:
    return sys.stderr.isatty() and not getattr(args, "quiet", False)


def _bar_wanted(args: argparse.Namespace, *, printing: bool) -> bool:
    asked: bool | None = getattr(args, "progress", None)
    if asked is not None:
        return asked
    # A bar would tear the lines that are printed to the same terminal.
    torn = printing and os.isatty(STDOUT_FD)
    return _for_people(args) and not torn and _extras.installed("tqdm")


def _drawn(total: int | None, **options: Any) -> Any:
    tqdm = _extras.load("tqdm", "a progress bar")
    return tqdm.tqdm(total=total, unit="B", unit_scale=True, file=_Screen(), leave=False, **options)


@contextmanager
def progress_bar(args: argparse.Namespace, names: list[str], *, printing: bool) -> Iterator[Any]:
    """Show how much of the inputs is read; by default on a terminal with tqdm installed.

    Parameters
    ----------
    args : argparse.Namespace
        Has --progress, if it was given.
    names : list of str
        The inputs.
    printing : bool
        Whether lines are printed to stdout meanwhile.
    """
    if not _bar_wanted(args, printing=printing):
        yield NO_BAR
        return
    total = 0
    with suppress(OSError):
        total = sum(os.path.getsize(name) for name in names if name != STDIN)
    with _drawn(total or None) as bar:
        yield bar


SILENT_SECONDS = 1.0  # what takes no longer has no bar
_PAUSE = 0.1  # seconds between two looks
Direction = Literal["rchar", "wchar"]  # as /proc/self/io names what is read and written


@contextmanager
def watched(
    args: argparse.Namespace, direction: Direction, size: Callable[[], int | None]
) -> Iterator[Callable[[], None]]:
    """Show how much the process reads or writes, where that is a matter of gigabytes.

    The system counts it, so that no layer below has to tell.

    Parameters
    ----------
    args : argparse.Namespace
        Has --quiet or --progress, where the command takes them and they were given.
    direction : {"rchar", "wchar"}
        What counts: bytes read, or bytes written.
    size : callable
        Gives how many there will be; None if that cannot be told.

    Yields
    ------
    callable
        Ends it before the block does.
    """
    if not _bar_wanted(args, printing=False) or _octets(direction) is None:
        yield lambda: None
        return
    total, done = size(), threading.Event()
    bar = _drawn(total, delay=SILENT_SECONDS)
    begun = _octets(direction) or 0

    def watch() -> None:
        while not done.wait(_PAUSE):
            so_far = (_octets(direction) or 0) - begun
            bar.update((so_far if total is None else min(so_far, total)) - bar.n)

    def end() -> None:
        done.set()
        watcher.join()
        bar.close()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield end
    finally:
        end()


def _octets(direction: Direction) -> int | None:
    """Bytes that this process has read, or written; None where the system does not count them."""
    with suppress(OSError), open("/proc/self/io", encoding="ascii") as counts:
        for line in counts:
            name, _, count = line.partition(":")
            if name == direction:
                return int(count)
    return None


def bytes_of(path: str) -> int | None:
    """Size of a filter: of a file, or of all files of a folder; None if it cannot be told."""
    with suppress(OSError):
        if not os.path.isdir(path):
            return os.path.getsize(path)
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    return None


@contextmanager
def counted(args: argparse.Namespace, tally: Tally, seen: Filter, started: float) -> Iterator[None]:
    """Say in the end what was done by the block, which counts it in `tally`.

    --stats asks for one JSON object, which an error does not keep back: what was done before it
    stays done. `started` is a reading of time.perf_counter.
    """
    try:
        yield
    except (InputError, OSError):
        if args.stats:
            _print_stats(tally, seen, started)
        raise
    if args.stats:
        _print_stats(tally, seen, started)
    else:
        _say_tally(args, tally, seen, started)


def _print_stats(tally: Tally, seen: Filter, started: float) -> None:
    seconds, info = round(time.perf_counter() - started, 3), seen.info()
    names = ("capacity", "approx_count", "current_error_rate", "past_plan")
    figures = {**asdict(tally), **{name: getattr(info, name) for name in names}}
    with suppress(OSError):  # the work is done, even if the figures cannot be printed
        print(json.dumps({**figures, "seconds": seconds}), file=sys.stderr, flush=True)


def _say_tally(args: argparse.Namespace, tally: Tally, seen: Filter, started: float) -> None:
    if _for_people(args):
        lines = f"{tally.lines:,} lines, {tally.unique:,} new, {tally.repeated:,} seen"
        verb = "would be" if getattr(args, "dry_run", False) else "is"
        say(f"{lines}; {args.file} {verb} {_full(seen.info())}; {_seconds_since(started)}")


@contextmanager
def told(args: argparse.Namespace, path: str, size: Callable[[], int | None]) -> Iterator[None]:
    """Show how a filter is being written, and say in one line what was made."""
    started = time.perf_counter()
    with watched(args, "wchar", size):
        yield
    if _for_people(args):
        with import_module("mmbloom._open").open(path, "r") as made:
            info: FilterInfo | FolderInfo = made.info()
        keys = f"for {info.capacity:,} keys, {_full(info)}"
        say(f"made {path}: {size_of(info.file_bytes)}, {keys}; {_seconds_since(started)}")


def _seconds_since(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"


def _full(info: FilterInfo | FolderInfo) -> str:
    """Say how much of the plan is used.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> with BloomFilter.create(os.path.join(tempfile.mkdtemp(), "a"), 1000, seed=1) as seen:
    ...     empty, _, some = _full(seen.info()), seen.update(range(250)), _full(seen.info())
    >>> empty, some
    ('empty', '25 % full')
    """
    if not info.approx_count:
        return "empty"
    share = 100 * info.approx_count / info.capacity
    return "less than 0.1 % full" if share < 0.1 else f"{share:.{0 if share >= 10 else 1}f} % full"


def size_of(octets: int) -> str:
    """Write a size as people do.

    Examples
    --------
    >>> size_of(4096), size_of(3_901_234), size_of(3_897_500_000)
    ('4.1 kB', '3.9 MB', '3.9 GB')
    """
    size, unit = octets / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}"
