"""``mmbloom merge``: one filter that holds the keys of several."""

import argparse

from mmbloom.cli._arguments import add_making_options
from mmbloom.cli._errors import OK
from mmbloom.union import merge


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("destination", metavar="OUT", help="where to make it; must not exist")
    parser.add_argument(
        "file",
        nargs="+",
        metavar="IN",
        help="filters with equal parameters and seed (create --like); read only",
    )
    add_making_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    merge(
        args.destination, args.file, permissions=args.permissions, allow_network=args.allow_network
    )
    return OK
