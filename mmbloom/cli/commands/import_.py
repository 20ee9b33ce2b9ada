"""``mmbloom import``: a filter of a file that another program wrote."""

import argparse

from mmbloom.cli.arguments import add_making_options, add_planning_options, making_options
from mmbloom.cli.process import OK
from mmbloom.operations.guava import import_guava


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("source", metavar="SRC", help="the other program's file; read only")
    parser.add_argument("destination", metavar="FILE", help="where to make it; must not exist")
    formats = parser.add_mutually_exclusive_group(required=True)  # others may come
    formats.add_argument(
        "--guava", action="store_true", help="SRC is of BloomFilter.writeTo of Guava (JVM)"
    )
    add_planning_options(parser, required=False)
    add_making_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    import_guava(
        args.source,
        args.destination,
        capacity=args.capacity,
        error_rate=0.01 if args.error_rate is None else args.error_rate,
        **making_options(args),
    )
    return OK
