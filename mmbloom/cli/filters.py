"""Open or create the filter that a command names, or a copy of it to try things on.

Classes are taken from the package, which imports each when it is asked for: a command on a file
imports nothing of folders.
"""

import argparse
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import mmbloom
from mmbloom.cli.process import StoppedError, UsageError, name_as, say
from mmbloom.cli.report import size_of
from mmbloom.errors import CapacityWarning, MmbloomError, NetworkFileSystemError
from mmbloom.filters.base import Filter
from mmbloom.filters.bloom import FileFilter
from mmbloom.filters.open import OfBits
from mmbloom.format.header import KIND_BITS, KIND_COUNTERS, Header
from mmbloom.logs.lines import WHOLE_LINES, KeyRule
from mmbloom.sizing import Fill, plan

Opened = TypeVar("Opened")

# Of filters that commands make: a false positive is a line that dedup drops. In Python it is 0.01:
# in most programs a false positive costs one needless lookup.
ERROR_RATE = 1e-6

# Seconds of a rotating folder where they are not given: those of `RotatingFilter.create`.
_KEEP, _EVERY = 7 * 86_400, 86_400


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of some options that were given."""
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def error_rate(args: argparse.Namespace) -> float:
    """Return the error rate asked for, or the default."""
    return ERROR_RATE if args.error_rate is None else float(args.error_rate)


def rotation(args: argparse.Namespace) -> dict[str, Any]:
    """Return --keep and --every, where they were given."""
    times = given(args, "keep", "every")
    if times and not args.rotate:
        raise UsageError("--keep and --every apply only to a rotating folder: also give --rotate")
    if times and times.get("every", _EVERY) > times.get("keep", _KEEP):
        say(
            "warning: --every is longer than --keep: lines are dropped one period at a time, so "
            "they are remembered for up to one period longer than --keep"
        )
    return times


def making_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of commands that make a filter."""
    return {"permissions": args.permissions, "allow_network": args.allow_network}


def writing_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of commands that write to a filter."""
    return {"lock_timeout": args.lock_timeout, "allow_network": args.allow_network}


def open_or_create(
    args: argparse.Namespace, open_existing: Callable[..., Opened]
) -> Opened | OfBits:
    """Open FILE; with -n, create it if it does not exist."""
    sizing = given(args, "layout", "hash", "seed")
    options = {**writing_options(args), "resident": args.resident}
    options["on_full"] = "raise" if args.when_full == "stop" else args.when_full
    times = rotation(args)
    if args.capacity is None:
        if sizing or given(args, "error_rate", "permissions"):
            raise UsageError(
                "-p, --layout, --hash, --seed and --permissions apply only when FILE is created: "
                "also give -n"
            )
        if args.growing or args.rotate:
            raise UsageError("--growing and --rotate apply only when FILE is created: also give -n")
        return open_existing(args.file, **options)
    say_if_large(args)
    sizing["error_rate"] = error_rate(args)
    options = {**sizing, **options, **given(args, "permissions")}
    if args.rotate or (args.growing and not os.path.isdir(args.file)):
        if os.path.isfile(args.file):
            raise UsageError(
                f"{args.file}: is a single file: turn it into a growing folder with mmbloom grow "
                f"{args.file}, or choose another path"
            )
        made: OfBits = make(args, {**times, **options, "exist_ok": True})
        return made
    return mmbloom.open_or_create(args.file, args.capacity, **options)


def make(args: argparse.Namespace, options: Mapping[str, Any]) -> Any:
    """Make the filter for -n keys that the other options ask for."""
    if args.rotate:
        return mmbloom.RotatingFilter.create(
            args.file, capacity_per_period=args.capacity, **options
        )
    made = mmbloom.GrowingFilter if args.growing else one_file(args)
    return made.create(args.file, args.capacity, **options)


def one_file(args: argparse.Namespace) -> "type[mmbloom.BloomFilter | mmbloom.CountingBloomFilter]":
    """Return the class of a filter of one file."""
    counting = getattr(args, "counting", False)
    return mmbloom.CountingBloomFilter if counting else mmbloom.BloomFilter


LARGE = 1 << 30  # bytes; a slip of -n, as 10G for 10M, is a file of gigabytes


def planned_bytes(args: argparse.Namespace) -> int:
    """Return the size of the file that -n asks for; for a folder, about that of the first."""
    params = plan(args.capacity, error_rate(args), layout=args.layout or "blocked")
    kind = KIND_COUNTERS if getattr(args, "counting", False) else KIND_BITS
    return Header(params, 0, bytes(16), kind).file_bytes


def say_if_large(args: argparse.Namespace) -> None:
    """Print what a large file is for, before it is made and may fill the disk."""
    if args.quiet or os.path.lexists(args.file) or (size := planned_bytes(args)) <= LARGE:
        return
    each = " per period" if args.rotate else ""
    say(
        f"creating {args.file}: {size_of(size)}{each} for {args.capacity:,} keys at an error rate "
        f"of {error_rate(args):g}; if that is too large, press Ctrl-C or remove it, and give a "
        "smaller -n"
    )


@contextmanager
def copied(args: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yield the arguments with a copy of the filter, removed at the end; messages name the filter.

    An error of the copy's file is told as one of the temporary folder.
    """
    import tempfile  # noqa: PLC0415  15 ms

    from mmbloom.operations.copy import copy  # noqa: PLC0415  few runs are dry

    path, temporary = os.path.abspath(args.file), os.path.abspath(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix="mmbloom-", dir=temporary) as folder:
        tried = os.path.join(folder, os.path.basename(path))
        name_as(tried, path)
        try:
            if os.path.lexists(path):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", CapacityWarning)  # `in_use` says it
                    copy(path, tried)
            elif args.capacity is not None:
                os.stat(os.path.dirname(path))  # an error if a run could not make it there
            yield argparse.Namespace(**{**vars(args), "file": tried})
        except OSError as error:
            if isinstance(error, FileNotFoundError) and error.filename == tried:
                raise FileNotFoundError(error.errno, error.strerror, path) from None
            if not str(getattr(error, "path", error.filename)).startswith(folder):
                raise
            network = isinstance(error, NetworkFileSystemError)
            why = "is on a network file system" if network else error.strerror
            raise OSError(
                error.errno,
                f"{why}: a dry run copies the filter to this folder: set TMPDIR to another folder, "
                "on this machine and with enough space",
                temporary,
            ) from error


# The command has done its work: a filter that cannot be looked at any more is no error of it.
_LOOKED_AT_LAST = suppress(OSError, MmbloomError)


@contextmanager
def in_use(args: argparse.Namespace, seen: Filter, keys: KeyRule) -> Iterator[None]:
    """Warn of what is odd about the open filter of a command that reads lines.

    Before the command works: that the keys were made of lines in another way than this command's;
    after it, if another command has noted its way first. At the end, with the figures then, and in
    place of the warning during the work: that the filter is past its plan, or would be.
    """
    noted = say_of_another_rule(seen, keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        yield
    with _LOOKED_AT_LAST:
        if not noted:
            say_of_another_rule(seen, keys)
    dry = getattr(args, "dry_run", False)
    say_if_past_plan(args.file, seen, "after a real run: " if dry else "")


def say_of_another_rule(seen: Filter, keys: KeyRule) -> bool:
    """Warn if the keys of a filter were made in another way; return whether a way is noted."""
    rule, mine = seen.key_rule, keys.rule
    if rule in (None, mine):
        return rule is not None
    differs = "the same line can have another key, and then counts as new"
    if _without_empty(rule) == _without_empty(mine):
        differs = "the two differ only for lines whose field or member is missing, empty or null"
    to_do = f"leave out {mine}" if rule == WHOLE_LINES else f"give {rule}"
    say(
        f'warning: {seen.path}: was filled with the key rule "{rule}", but this command has '
        f'"{mine}": {differs}; {to_do}, or use another filter'
    )
    return True


def _without_empty(rule: str) -> str:
    """Return a key rule without ``--empty``, which is its last option."""
    return re.sub(r" --empty \w+$", "", rule)


def fill_of(info: "mmbloom.FilterInfo | mmbloom.FolderInfo") -> Fill:
    """Return how full a filter is, for the words for it."""
    return Fill(info.approx_count, info.capacity, info.current_error_rate)


def fill_of_file(seen: FileFilter) -> Fill:
    """Return how full an open filter of one file is, without all else that `info` reads."""
    params = seen.params
    return Fill.of(params, round(seen.fill_ratio * params.num_bits))


def say_if_past_plan(path: str, seen: Filter, before: str = "") -> None:
    """Print a line if an open filter, named as the user did, has more keys than planned."""
    with _LOOKED_AT_LAST:
        if isinstance(seen, FileFilter) and not fill_of_file(seen).is_past:  # as most of the time
            return
        info: mmbloom.FilterInfo | mmbloom.FolderInfo = seen.info()
        if info.past_plan:
            say(f"{before}{path}: {_past_plan(path, info)}")


def _past_plan(path: str, info: "mmbloom.FilterInfo | mmbloom.FolderInfo") -> str:
    advice = "to fix this, create a larger filter and add the lines again"
    fill = fill_of(info)
    past = f"has a file past its capacity: {fill.taken('lines')}"
    if isinstance(info, mmbloom.FilterInfo):
        from mmbloom._storage.folder import is_named  # noqa: PLC0415  few runs need it

        past = f"is past its capacity: it {fill}: {fill.taken('lines')}"
        usable = info.kind == "bits" and not fill.is_useless
        if usable and not info.sealed and not is_named(info.path):
            advice = f"mmbloom grow {path} keeps it from getting worse; {advice}"
    elif info.kind == "rotating":
        advice = "this ends with the period; to prevent it, make a folder with more keys per period"
    return f"{past}; {advice}"


def require_use(args: argparse.Namespace, seen: OfBits) -> None:
    """Stop before the first line at a file that takes every other new line for seen.

    Else a file whose bits are all set would drop each line, and meet no new one to stop at.
    """
    if args.when_full == "stop" and isinstance(seen, FileFilter):
        fill = fill_of_file(seen)
        if fill.is_useless:
            raise StoppedError(f"{seen.path}: is full: it {fill}; nothing was read")


def to_go_on(seen: OfBits) -> str:
    """Return what to do about a full filter, and which share of new lines it drops."""
    if not isinstance(seen, FileFilter):
        return "wait for the next period, or create a folder with more keys per period"
    from mmbloom.filters.grow import why_not  # noqa: PLC0415  to be needed by few runs

    fill = fill_of_file(seen)
    reason = why_not(seen.params, fill)
    to_do = f"make room with mmbloom grow {seen.path}, then run the same command again"
    if reason:
        to_do = f"it cannot grow: {reason}"
    if fill.is_past and not fill.is_useless:  # since a run that went on
        return f"it is already past its capacity, and {fill.taken('lines')}; {to_do}"
    return to_do
