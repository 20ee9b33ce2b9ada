"""``mmbloom create``: make an empty filter."""

import argparse

from mmbloom.cli._arguments import add_sizing_options
from mmbloom.cli._errors import OK, UsageError
from mmbloom.filter import BloomFilter


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("file", metavar="FILE", help="where to make it; must not exist")
    add_sizing_options(parser, required=False)
    parser.add_argument(
        "--like", metavar="OTHER", help="copy sizes and seed from this filter, instead of -n -p"
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
        options = dict(
            zip(("capacity", "error_rate", "layout", "seed"), sizing, strict=True),
            allow_network=args.allow_network,
            reserve=args.reserve,
        )
        BloomFilter.create(args.file, **options).close()
        return OK
    if sizing != (None, None, None, None):
        raise UsageError("--like copies all sizes: give it without -n, -p, --layout and --seed")
    with BloomFilter.open(args.like, "r") as other:
        options = {"allow_network": args.allow_network, "reserve": args.reserve}
        BloomFilter.create(args.file, like=other, **options).close()
    return OK
