"""``mmbloom intersect``: make one filter of the keys that several filters share."""

import argparse

from mmbloom.cli.arguments import add_combining_arguments, making_options
from mmbloom.cli.process import OK
from mmbloom.operations.intersect import intersect

EXAMPLES = ("mmbloom intersect shared.bloom seen.bloom like.bloom",)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_combining_arguments(parser, "filters")


def run(args: argparse.Namespace) -> int:
    """Run the command; the new filter is on the disk when this returns."""
    intersect(args.destination, args.file, **making_options(args))
    return OK
