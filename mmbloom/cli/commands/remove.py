"""``mmbloom remove``: take lines out of a counting filter, and print nothing."""

import argparse

import numpy as np

from mmbloom._storage.opening import absolute
from mmbloom.cli.filters import in_use
from mmbloom.cli.lines import (
    Patiently,
    check_lines,
    find_keys,
    input_names,
    open_lines,
    refuse_overlap,
)
from mmbloom.cli.options import (
    add_line_options,
    add_writing_options,
    line_keys,
    writing_options,
)
from mmbloom.cli.process import NOTHING_FOUND, OK
from mmbloom.cli.report import progress_bar
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.operations.combine import require_files

_WHY_FILES = "bits, which many keys share, cannot be taken back; make one with create --counting"


EXAMPLES = ("mmbloom remove counts.bloom monday.log",)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="the filter, made with create --counting")
    add_writing_options(parser)
    add_line_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 if a line was there, 1 if none was.

    The change is on the disk when this returns.
    """
    keys, names, removed = line_keys(args), input_names(args.inputs), 0
    check_lines(args, names)
    refuse_overlap(None, names, args.file)
    require_files([absolute(args.file)], _WHY_FILES)
    with (
        CountingBloomFilter.open(args.file, **writing_options(args)) as seen,
        in_use(args, seen, keys),
        progress_bar(args, names, printing=False) as bar,
    ):
        for name in names:
            with open_lines(args, name, bar) as lines:
                for _, found in find_keys(lines, name):
                    with Patiently(seen.path, seen.locked, args.lock_timeout):
                        removed += int(np.count_nonzero(seen.remove_many(found.keys)))
        seen.flush()
    return OK if removed else NOTHING_FOUND
