"""``mmbloom create``: make an empty filter."""

import argparse

from mmbloom.cli._arguments import add_sizing_options
from mmbloom.cli._errors import OK, UsageError
from mmbloom.cli._filters import Filter, open_filter
from mmbloom.filter import BloomFilter
from mmbloom.growing import GrowingFilter


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("file", metavar="FILE", help="where to make it; must not exist")
    add_sizing_options(parser, required=False)
    parser.add_argument(
        "--like", metavar="OTHER", help="copy sizes and seed from this filter, instead of -n -p"
    )
    parser.add_argument(
        "--growing",
        action="store_true",
        help="a folder of ever larger files, of which the first is for -n keys",
    )
    parser.add_argument("--allow-network", action="store_true", help="on a network file system")
    parser.add_argument(
        "--reserve",
        choices=("zeros", "fallocate"),
        default="zeros",
        help="write zeros (default), or be done at once and slower at first touch",
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    sizing = (args.capacity, args.error_rate, args.layout, args.seed)
    if args.like is None:
        if args.capacity is None:
            raise UsageError("say how many distinct keys to plan for with -n, or copy with --like")
        _make(args).close()
        return OK
    if sizing != (None, None, None, None) or args.growing:
        raise UsageError(
            "--like copies all sizes: give it without -n, -p, --layout, --seed and --growing"
        )
    with open_filter(args.like, "r") as other:
        _make_like(args, other).close()
    return OK


def _make_like(args: argparse.Namespace, other: Filter) -> Filter:
    options = {"allow_network": args.allow_network, "reserve": args.reserve}
    if isinstance(other, GrowingFilter):
        return GrowingFilter.create(args.file, **{**other.info().settings, **options})
    return type(other).create(args.file, like=other, **options)


def _make(args: argparse.Namespace) -> Filter:
    sizes = {
        "error_rate": 0.01 if args.error_rate is None else args.error_rate,
        "layout": args.layout or "blocked",
        "seed": args.seed,
        "allow_network": args.allow_network,
        "reserve": args.reserve,
    }
    if args.growing:
        return GrowingFilter.create(args.file, args.capacity, **sizes)
    return BloomFilter.create(args.file, args.capacity, **sizes)
