"""``mmbloom intersect``: one filter that holds the keys that several have in common."""

import argparse

from mmbloom.cli.arguments import add_combining_arguments
from mmbloom.cli.filters import require_files
from mmbloom.cli.process import OK
from mmbloom.operations.intersect import intersect

_WHY_FILES = "a key may be in file 1 of one folder and in file 2 of another, and would be lost; \
check the lines in one folder, and what is printed in the other"


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_combining_arguments(parser, "filters")


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    require_files(args.file, _WHY_FILES)
    intersect(
        args.destination, args.file, permissions=args.permissions, allow_network=args.allow_network
    )
    return OK
