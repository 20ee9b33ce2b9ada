"""``mmbloom merge``: one filter that holds the keys of several."""

import argparse

from mmbloom.cli._arguments import add_combining_arguments
from mmbloom.cli._errors import OK
from mmbloom.union import merge


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_combining_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    merge(
        args.destination, args.file, permissions=args.permissions, allow_network=args.allow_network
    )
    return OK
