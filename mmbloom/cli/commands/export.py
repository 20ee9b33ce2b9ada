"""``mmbloom export``: write a filter as a file that another program reads."""

import argparse

from mmbloom.cli.options import add_making_options, making_options
from mmbloom.cli.process import OK
from mmbloom.operations.guava import export_guava

EXAMPLES = (
    "mmbloom create jvm.bloom -n 1e6 --layout standard --hash murmur3 --seed 0",
    "mmbloom export --guava jvm.bloom guava.bin",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="the filter; read only")
    parser.add_argument("destination", metavar="DST", help="the new file; must not exist")
    formats = parser.add_mutually_exclusive_group(required=True)  # room for other formats
    formats.add_argument(
        "--guava",
        action="store_true",
        help="write for Guava's BloomFilter.readFrom (JVM); FILE needs --layout standard --seed 0",
    )
    add_making_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; the new file is on the disk when this returns."""
    export_guava(args.file, args.destination, **making_options(args))
    return OK
