"""``mmbloom merge``: one filter that holds the keys of several."""

import argparse
import os

from mmbloom.cli.arguments import add_combining_arguments
from mmbloom.cli.process import OK
from mmbloom.errors import IncompatibleFiltersError
from mmbloom.operations.merge import merge, merge_folders


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_combining_arguments(parser, "filters, files or folders,")


def run(args: argparse.Namespace) -> int:
    """Do it; the new filter is on the disk when it returns."""
    made = merge_folders if _are_folders(args.file) else merge
    made(
        args.destination, args.file, permissions=args.permissions, allow_network=args.allow_network
    )
    return OK


def _are_folders(paths: list[str]) -> bool:
    folders = [path for path in paths if os.path.isdir(path)]
    files = [path for path in paths if os.path.isfile(path)]
    if folders and files:
        raise IncompatibleFiltersError(folders[0], files[0], (("kind", "a folder", "a file"),))
    return bool(folders)
