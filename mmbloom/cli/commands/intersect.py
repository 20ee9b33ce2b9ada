"""``mmbloom intersect``: make one filter of the keys that several filters share."""

import argparse
from functools import partial

from mmbloom.cli.options import add_combining_arguments, making_options
from mmbloom.cli.process import OK
from mmbloom.cli.report import bytes_of, told
from mmbloom.operations.combine import intersect

EXAMPLES = ("mmbloom intersect shared.bloom seen.bloom like.bloom",)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_combining_arguments(parser, "filters")


def run(args: argparse.Namespace) -> int:
    """Run the command; the new filter is on the disk when this returns."""
    with told(
        args, args.destination, partial(bytes_of, args.file[0])
    ):  # of the same size, or larger
        intersect(args.destination, args.file, **making_options(args))
    return OK
