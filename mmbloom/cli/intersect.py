"""``mmbloom intersect``: one filter that holds the keys that several have in common."""

import argparse

from mmbloom.cli._arguments import add_combining_arguments
from mmbloom.cli._errors import OK
from mmbloom.intersection import intersect


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_combining_arguments(parser, "filters")


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    intersect(
        args.destination, args.file, permissions=args.permissions, allow_network=args.allow_network
    )
    return OK
