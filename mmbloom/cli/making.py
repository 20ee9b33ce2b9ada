"""Commands that make a filter, or the file of another program from one.

What makes it is taken from the package, which imports each function when it is asked for.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mmbloom
from mmbloom.cli import filters
from mmbloom.cli.process import NOT_SOUND, OK, UsageError, say
from mmbloom.cli.report import bytes_at, told
from mmbloom.filters.base import Filter
from mmbloom.sizing import capacity_of, plan, share_of
from mmbloom.sizing.formulas import PAGE_BITS
from mmbloom.sizing.params import FilterParams, Shape


def create(args: argparse.Namespace) -> int:
    """Run the command."""
    sizing = filters.given(args, "error_rate", "layout", "hash", "seed")
    # It is closed at once: shared memory would be filled for nothing.
    options = {**filters.making_options(args), "reserve": args.reserve, "resident": False}
    times = filters.rotation(args)
    if args.like is None:
        if args.capacity is None:
            raise UsageError(
                "give the capacity (the number of distinct keys) with -n, or a filter with --like"
            )
        sizing["error_rate"] = filters.error_rate(args)
        filters.say_if_large(args)
        folder = args.growing or args.rotate  # whose files are not known yet
        with told(args, args.file, lambda: None if folder else filters.planned_bytes(args)):
            filters.make(args, {**sizing, **times, **options}).close()
        return OK
    if sizing or args.capacity is not None:
        raise UsageError(
            "--like takes all sizes from OTHER: leave out -n, -p, --layout, --hash and --seed"
        )
    with (
        mmbloom.open(args.like, "r") as other,
        told(args, args.file, partial(bytes_at, args.like)),
        _make_like(args, other, options) as made,
    ):
        # Filters alike are to be merged or compared: their lines must become the same keys.
        if (rule := other.key_rule) is not None:
            made.note_key_rule(rule)
    return OK


def _make_like(args: argparse.Namespace, other: Filter, options: Mapping[str, Any]) -> Filter:
    if args.growing or args.rotate:
        raise UsageError(
            "--like takes the kind of filter from OTHER: leave out --growing and --rotate"
        )
    if isinstance(other, mmbloom.BloomFilter | mmbloom.CountingBloomFilter):
        return filters.one_file(args).create(args.file, like=other, **options)
    if args.counting:
        raise UsageError(f"{args.like}: is a folder: leave out --counting")
    settings = {**other.info().settings, **options}
    if isinstance(other, mmbloom.GrowingFilter):
        return mmbloom.GrowingFilter.create(args.file, **settings)
    times = {"keep": settings.pop("keep_seconds"), "every": settings.pop("every_seconds")}
    return mmbloom.RotatingFilter.create(args.file, **times, **settings)


def copy(args: argparse.Namespace) -> int:
    """Run the command; the copy is on the disk when this returns."""
    if args.plain and args.replace:
        raise UsageError("--plain and --replace cannot be combined: leave out --replace")
    with told(args, args.destination, partial(bytes_at, args.file)):
        if args.plain:
            with mmbloom.CountingBloomFilter.open(args.file, "r") as counting:
                counting.to_bloom(args.destination, **filters.making_options(args))
        else:
            options = {"seal": args.seal, "replace": args.replace, **filters.making_options(args)}
            mmbloom.copy(args.file, args.destination, **options)
    return OK


def merge(args: argparse.Namespace) -> int:
    """Run the command; the new filter is on the disk when this returns."""
    return _combine(args, mmbloom.merge)


def intersect(args: argparse.Namespace) -> int:
    """Run the command; the new filter is on the disk when this returns."""
    return _combine(args, mmbloom.intersect)


def _combine(args: argparse.Namespace, combine: Callable[..., object]) -> int:
    # The new filter is as large as the first one, or larger.
    with told(args, args.destination, partial(bytes_at, args.file[0])):
        combine(args.destination, args.file, **filters.making_options(args))
    return OK


def grow(args: argparse.Namespace) -> int:
    """Run the command; the folder is on the disk when this returns."""
    state = "was already" if os.path.isdir(args.file) else "is now"
    rate = mmbloom.grow(args.file, reserve=args.reserve, **filters.writing_options(args))
    say(
        f"{args.file}: {state} a growing folder; its overall error rate is at most {rate:.2g}: "
        f"{share_of(rate)} of new lines are reported as seen"
    )
    return OK


def repair(args: argparse.Namespace) -> int:
    """Run the command; return 0 if every key is there, 1 if bits may be missing."""
    params = _params(args)
    if params and os.path.isdir(args.file):
        raise UsageError(
            f"{args.file}: is a folder, whose manifest has the parameters: leave out these options"
        )
    done = mmbloom.repair(
        args.file, args.destination, params=params, **filters.making_options(args)
    )
    _say(done, args.destination)
    return NOT_SOUND if done.losses else OK


def _params(args: argparse.Namespace) -> FilterParams | None:
    """Return the parameters that the header would have; None if none was given."""
    sizes, blocks = (args.num_bits, args.num_hashes), args.blocks_per_key
    of_plan = (args.capacity, args.error_rate, args.layout, args.hash, args.seed)
    if {*of_plan, *sizes, blocks} == {None}:
        return None
    needed = (args.hash, args.seed, args.layout)
    if None in needed or (None in sizes and args.capacity is None):
        raise UsageError(
            "to rebuild a header, give --hash, --seed and --layout, and either --num-bits and "
            "--num-hashes (and --blocks-per-key) or the -n and -p that the filter was made with"
        )
    planned = filters.error_rate(args)
    if sizes == (None, None):
        if blocks is not None:
            raise UsageError("--blocks-per-key applies only with --num-bits and --num-hashes")
        return plan(args.capacity, planned, layout=args.layout, seed=args.seed, hash=args.hash)
    if None in sizes:
        raise UsageError("--num-bits and --num-hashes apply only together: give both")
    if blocks is None:
        # A wrong guess would make a filter that finds none of its keys, and no error.
        if args.layout == "blocked" and args.num_bits % PAGE_BITS == 0:
            raise UsageError(
                f"an array of {args.num_bits} bits may have several blocks per key: also give "
                "--blocks-per-key (1 unless info showed another number)"
            )
        blocks = 1
    shape: Shape = {"layout": args.layout, "blocks_per_key": blocks}
    capacity = args.capacity or capacity_of(*sizes, planned, **shape)
    return FilterParams(capacity, planned, args.layout, *sizes, args.seed, args.hash, blocks)


def _say(done: mmbloom.Repair, destination: str) -> None:
    if done.header_damage:
        say(f"{destination}: header rebuilt; its {done.header_damage} was wrong")
        say(f"{destination}: check with known keys that the header is right: mmbloom verify --keys")
    for note in done.notes:
        say(f"{destination}: {note}")
    for loss in done.losses:
        say(f"{destination}: BITS MAY BE MISSING: {loss}")
    if done.losses:
        say(f"{destination}: some keys may no longer be found; add them again if you can")
    wrong = done.header_damage or done.notes or done.losses
    found = "" if wrong else "nothing was wrong with it; "
    say(f"{destination}: {found}{done.positions_set} bits set, {done.keys_added} keys added")


def export(args: argparse.Namespace) -> int:
    """Run the command; the new file is on the disk when this returns."""
    mmbloom.export_guava(args.file, args.destination, **filters.making_options(args))
    return OK


def import_(args: argparse.Namespace) -> int:
    """Run the command; the new filter is on the disk when this returns."""
    with told(args, args.destination, partial(bytes_at, args.source)):
        mmbloom.import_guava(
            args.source,
            args.destination,
            capacity=args.capacity,
            error_rate=filters.error_rate(args),
            **filters.making_options(args),
        )
    return OK
