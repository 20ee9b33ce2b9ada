"""``mmbloom copy``: make a consistent copy of a filter in use; with ``--seal``, an archive."""

import argparse
from functools import partial

from mmbloom.cli.options import add_making_options, add_quiet_option, making_options
from mmbloom.cli.process import OK, UsageError
from mmbloom.cli.report import bytes_of, told
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.operations.copy import copy

EXAMPLES = (
    "mmbloom copy seen.bloom backup.bloom",
    "mmbloom copy --replace seen.bloom backup.bloom    # the next night",
    "mmbloom copy --seal seen.bloom archive.bloom",
    "mmbloom copy --plain counts.bloom plain.bloom",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="SRC", help="the filter; read only")
    parser.add_argument(
        "destination", metavar="DST", help="the copy; must not exist, unless --replace is given"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--plain",
        action="store_true",
        help="of a counting filter: a plain one, a quarter as large, of the lines that are in it",
    )
    what.add_argument(
        "--seal",
        action="store_true",
        help="freeze the copy: read-only for ever, with checksums that verify compares",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="put the copy in the place of the filter at DST, in one step; other files stay",
    )
    add_making_options(parser)
    add_quiet_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; the copy is on the disk when this returns."""
    if args.plain and args.replace:
        raise UsageError("--plain makes another filter than the one there: leave out --replace")
    with told(args, args.destination, partial(bytes_of, args.file)):
        if args.plain:
            with CountingBloomFilter.open(args.file, "r") as counting:
                counting.to_bloom(args.destination, **making_options(args))
        else:
            options = {"seal": args.seal, "replace": args.replace, **making_options(args)}
            copy(args.file, args.destination, **options)
    return OK
