"""``mmbloom intersect``: one filter that holds the keys that several have in common."""

import argparse

from mmbloom.cli.arguments import add_combining_arguments, making_options
from mmbloom.cli.process import OK
from mmbloom.operations.intersect import intersect


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_combining_arguments(parser, "filters")


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    intersect(args.destination, args.file, **making_options(args))
    return OK
