"""``mmbloom copy``: make a consistent copy of a filter in use; with ``--seal``, an archive."""

import argparse

from mmbloom.cli.arguments import add_making_options, making_options
from mmbloom.cli.process import OK
from mmbloom.operations.copy import copy

EXAMPLES = (
    "mmbloom copy seen.bloom backup.bloom",
    "mmbloom copy --seal seen.bloom archive.bloom",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="SRC", help="the filter; read only")
    parser.add_argument("destination", metavar="DST", help="the copy; must not exist")
    parser.add_argument(
        "--seal",
        action="store_true",
        help="freeze the copy: read-only for ever, with checksums that verify compares",
    )
    add_making_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; the copy is on the disk when this returns."""
    copy(args.file, args.destination, seal=args.seal, **making_options(args))
    return OK
