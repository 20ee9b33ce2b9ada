"""``mmbloom import``: make a filter from a file that another program wrote."""

import argparse
from functools import partial

from mmbloom.cli.options import (
    add_making_options,
    add_planning_options,
    add_quiet_option,
    error_rate,
    making_options,
)
from mmbloom.cli.process import OK
from mmbloom.cli.report import bytes_of, told
from mmbloom.operations.guava import import_guava

EXAMPLES = (
    "mmbloom import --guava guava.bin ours.bloom",
    "mmbloom import --guava guava.bin planned.bloom -n 1e6 -p 1e-6",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("source", metavar="SRC", help="the other program's file; read only")
    parser.add_argument("destination", metavar="FILE", help="the new filter; must not exist")
    formats = parser.add_mutually_exclusive_group(required=True)  # room for other formats
    formats.add_argument(
        "--guava", action="store_true", help="SRC was written by Guava's BloomFilter.writeTo (JVM)"
    )
    made_for = "false-positive rate that the file was made for (default 1e-6)"
    add_planning_options(parser, required=False, rate_help=made_for)
    add_making_options(parser)
    add_quiet_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; the new filter is on the disk when this returns."""
    with told(args, args.destination, partial(bytes_of, args.source)):
        import_guava(
            args.source,
            args.destination,
            capacity=args.capacity,
            error_rate=error_rate(args),
            **making_options(args),
        )
    return OK
