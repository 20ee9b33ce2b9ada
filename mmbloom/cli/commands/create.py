"""``mmbloom create``: make an empty filter."""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from mmbloom.cli.filters import create, one_file, planned_bytes, say_if_large
from mmbloom.cli.options import (
    add_family_options,
    add_making_options,
    add_quiet_option,
    add_sizing_options,
    error_rate,
    given,
    making_options,
    rotation,
)
from mmbloom.cli.process import OK, UsageError
from mmbloom.cli.report import bytes_of, told
from mmbloom.filters.base import Filter
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.growing import GrowingFilter
from mmbloom.filters.open import open as open_filter
from mmbloom.filters.rotating import RotatingFilter

EXAMPLES = (
    "mmbloom create seen.bloom -n 10M",
    "mmbloom create counts.bloom -n 1e6 --counting",
    "mmbloom create week -n 1e6 --rotate --keep 7d --every 1d",
    "mmbloom create other.bloom --like seen.bloom",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="the new filter; must not exist")
    add_sizing_options(parser, required=False)
    parser.add_argument(
        "--like",
        metavar="OTHER",
        help="take sizes, hash and seed from this filter, instead of -n and -p",
    )
    add_family_options(parser).add_argument(
        "--counting",
        action="store_true",
        help="keep a counter of four bits for each bit, so that lines can be removed",
    )
    add_making_options(parser)
    add_quiet_option(parser)
    parser.add_argument(
        "--reserve",
        choices=("zeros", "fallocate"),
        default="zeros",
        help="zeros (default) writes the whole file; fallocate is instant, but first use is slower",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    sizing = given(args, "error_rate", "layout", "hash", "seed")
    # It is closed at once: shared memory would be filled for nothing.
    options = {**making_options(args), "reserve": args.reserve, "resident": False}
    times = rotation(args)
    if args.like is None:
        if args.capacity is None:
            raise UsageError(
                "give the number of distinct keys to plan for with -n, or a filter with --like"
            )
        sizing["error_rate"] = error_rate(args)
        say_if_large(args)
        with told(args, args.file, partial(_planned_bytes, args)):
            create(args, {**sizing, **times, **options}).close()
        return OK
    if sizing or args.capacity is not None:
        raise UsageError(
            "--like takes all sizes from OTHER: leave out -n, -p, --layout, --hash and --seed"
        )
    with (
        open_filter(args.like, "r") as other,
        told(args, args.file, partial(bytes_of, args.like)),
        _make_like(args, other, options) as made,
    ):
        # Filters alike are to be merged or compared: their lines must become the same keys.
        if (rule := other.key_rule) is not None:
            made.note_key_rule(rule)
    return OK


def _planned_bytes(args: argparse.Namespace) -> int | None:
    """Tell how large a single file will be; None of the first file of a folder."""
    return None if args.growing or args.rotate else planned_bytes(args)


def _make_like(args: argparse.Namespace, other: Filter, options: Mapping[str, Any]) -> Filter:
    if args.growing or args.rotate:
        raise UsageError(
            "--like takes the kind of filter from OTHER: leave out --growing and --rotate"
        )
    if isinstance(other, BloomFilter | CountingBloomFilter):
        return one_file(args).create(args.file, like=other, **options)
    if args.counting:
        raise UsageError(f"{args.like}: is a folder: leave out --counting")
    settings = {**other.info().settings, **options}
    if isinstance(other, GrowingFilter):
        return GrowingFilter.create(args.file, **settings)
    times = {"keep": settings.pop("keep_seconds"), "every": settings.pop("every_seconds")}
    return RotatingFilter.create(args.file, **times, **settings)
