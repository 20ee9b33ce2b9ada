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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import mmbloom
from mmbloom._system import extras
from mmbloom._system.disk import Direction, transferred
from mmbloom._system.threads import start
from mmbloom.cli.process import STDERR_FD, STDIN_FD, STDOUT_FD, say
from mmbloom.errors import InputError

if TYPE_CHECKING:  # a command that does not have them need not import them
    from mmbloom.filters.base import Filter
    from mmbloom.logs.dedup import Tally
    from mmbloom.logs.outputs import Place

Tallies: TypeAlias = "Sequence[tuple[Place, Tally]]"
"""The place of each input, and what went through of it."""


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
    return _for_people(args) and not torn and extras.installed("tqdm")


def _drawn(total: int | None, **options: Any) -> Any:
    tqdm = extras.load("tqdm", "a progress bar").tqdm
    # No thread of tqdm's own, whose start a signal could interrupt. It would redraw a bar whose
    # updates are skipped, which with miniters=1 none is.
    tqdm.monitor_interval = 0
    options |= {"unit": "B", "unit_scale": True, "leave": False, "miniters": 1}
    return tqdm(total=total, file=_Screen(), **options)


@contextmanager
def progress_bar(
    args: argparse.Namespace, places: Sequence[Place], *, printing: bool
) -> Iterator[Callable[[int], object]]:
    """Show how much of the inputs is read; by default on a terminal with tqdm installed.

    Parameters
    ----------
    args : argparse.Namespace
        Has --progress, if it was given.
    places : sequence of str or int
        The inputs.
    printing : bool
        Whether lines are printed to stdout meanwhile.

    Yields
    ------
    callable
        Is called with a number of bytes that were read.
    """
    if not _bar_wanted(args, printing=printing):
        yield lambda _: None
        return
    total = 0
    with suppress(OSError):
        total = sum(os.path.getsize(place) for place in places if place != STDIN_FD)
    with _drawn(total or None) as bar:
        yield bar.update


SILENT_SECONDS = 1.0  # what takes no longer has no bar
_PAUSE = 0.1  # seconds between two looks


@contextmanager
def watched(
    args: argparse.Namespace, direction: Direction, size: Callable[[], int | None]
) -> Iterator[Callable[[], None]]:
    """Show how much the process reads or writes, where that is a matter of gigabytes.

    The system counts it, so no layer below has to report it.

    Parameters
    ----------
    args : argparse.Namespace
        Has --quiet or --progress, where the command takes them and they were given.
    direction : {"rchar", "wchar"}
        What counts: bytes read, or bytes written.
    size : callable
        Returns how many there will be; None if that is not known.

    Yields
    ------
    callable
        Ends it before the block does.
    """
    if not _bar_wanted(args, printing=False) or transferred(direction) is None:
        yield lambda: None
        return
    total, done = size(), threading.Event()
    bar = _drawn(total, delay=SILENT_SECONDS)
    begun = transferred(direction) or 0

    def watch() -> None:
        while not done.wait(_PAUSE):
            so_far = (transferred(direction) or 0) - begun
            bar.update((so_far if total is None else min(so_far, total)) - bar.n)

    def end() -> None:
        done.set()
        if watcher.is_alive():
            watcher.join()
        bar.close()

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        start(watcher)  # without it the bar stands still
        yield end
    finally:
        end()


def bytes_at(path: str) -> int | None:
    """Size of a filter: of a file, or of all files of a folder; None if it cannot be told."""
    with suppress(OSError):
        if not os.path.isdir(path):
            return os.path.getsize(path)
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    return None


@contextmanager
def counted(
    args: argparse.Namespace, tallies: Tallies, seen: Filter, started: float
) -> Iterator[None]:
    """Print in the end what the block did, which counts each input in its tally.

    --stats and --stats-to ask for one JSON object, which is written after an error as well: what
    was done before it stays done. `started` is a reading of time.perf_counter.
    """
    try:
        yield
    except (InputError, OSError):
        with suppress(OSError):  # the first error is the one to report
            _write_stats(args, tallies, seen, started)
        raise
    _write_stats(args, tallies, seen, started)
    if not args.stats and _for_people(args):
        total = _total(tallies)
        lines = f"{total['lines']:,} lines, {total['unique']:,} new, {total['repeated']:,} seen"
        verb = "would be" if getattr(args, "dry_run", False) else "is"
        say(f"{lines}; {args.file} {verb} {_full(seen.info())}; {_seconds_since(started)}")


def _write_stats(args: argparse.Namespace, tallies: Tallies, seen: Filter, started: float) -> None:
    if not (args.stats or args.stats_to):
        return
    seconds, info = round(time.perf_counter() - started, 3), seen.info()
    of_filter = ("capacity", "approx_count", "current_error_rate", "past_plan")
    figures = _total(tallies) | {name: getattr(info, name) for name in of_filter}
    inputs = [
        {"input": "-" if place == STDIN_FD else place} | asdict(tally) for place, tally in tallies
    ]
    text = json.dumps({**figures, "seconds": seconds, "inputs": inputs}) + "\n"
    for place in (*[STDERR_FD] * args.stats, *args.stats_to):
        try:
            with open(place, "w", encoding="ascii", closefd=place != STDERR_FD) as file:
                file.write(text)
        except OSError as error:
            if place != STDERR_FD:  # the work is done, even if the figures cannot be printed
                raise OSError(error.errno, error.strerror, place) from error


def _total(tallies: Tallies) -> dict[str, int]:
    each = [asdict(tally) for _, tally in tallies]
    return {name: sum(one[name] for one in each) for name in each[0]}


@contextmanager
def told(args: argparse.Namespace, path: str, size: Callable[[], int | None]) -> Iterator[None]:
    """Show how a filter is being written, and print in one line what was made."""
    started = time.perf_counter()
    with watched(args, "wchar", size):
        yield
    if _for_people(args):
        with mmbloom.open(path, "r") as made:
            info = made.info()
        keys = f"for {info.capacity:,} keys, {_full(info)}"
        say(f"created {path}: {size_of(info.file_bytes)}, {keys}; {_seconds_since(started)}")


def _seconds_since(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"


def _full(info: mmbloom.FilterInfo | mmbloom.FolderInfo) -> str:
    """Return how much of the plan is used.

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
