"""``mmbloom export``: a filter as a file that another program reads."""

import argparse

from mmbloom.cli.arguments import add_making_options, making_options
from mmbloom.cli.process import OK
from mmbloom.operations.guava import export_guava


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("file", metavar="FILE", help="the filter; read only")
    parser.add_argument("destination", metavar="DST", help="where to make it; must not exist")
    formats = parser.add_mutually_exclusive_group(required=True)  # others may come
    formats.add_argument(
        "--guava",
        action="store_true",
        help="for BloomFilter.readFrom of Guava (JVM); FILE has --layout standard --seed 0",
    )
    add_making_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the new file is on the disk when it returns."""
    export_guava(args.file, args.destination, **making_options(args))
    return OK
