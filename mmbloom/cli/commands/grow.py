"""``mmbloom grow``: make a growing folder of a full filter, with all that it knows."""

import argparse
import os

from mmbloom.cli.options import add_writing_options, writing_options
from mmbloom.cli.process import OK, say
from mmbloom.filters.grow import grow
from mmbloom.sizing.planning import share_of

EXAMPLES = ("mmbloom grow seen.bloom",)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="the filter, a single file; the folder takes its place, with the file in it",
    )
    parser.add_argument(
        "--reserve",
        choices=("zeros", "fallocate"),
        default="zeros",
        help="for the further files; zeros (default) writes them whole, fallocate is instant",
    )
    add_writing_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; the folder is on the disk when this returns."""
    state = "already: nothing was done" if os.path.isdir(args.file) else "now"
    rate = grow(args.file, reserve=args.reserve, **writing_options(args))
    say(
        f"{args.file}: is a growing folder {state}; its error rate as a whole is at most "
        f"{rate:.2g}: {share_of(rate)} of new lines are taken for seen"
    )
    return OK
