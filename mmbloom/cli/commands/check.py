"""``mmbloom check``: print the lines that are in a filter, or not in it; change nothing."""

import argparse
from collections.abc import Callable
from contextlib import closing
from functools import partial

import numpy as np

from mmbloom._open import open as open_filter
from mmbloom._threads import read_ahead
from mmbloom._typing import Bools, Keys
from mmbloom.cli.arguments import add_line_options, line_keys, terminator
from mmbloom.cli.inputs import check_inputs, input_keys, input_names, open_input
from mmbloom.cli.outputs import open_output, refuse_overlap
from mmbloom.cli.process import NOTHING_FOUND, OK
from mmbloom.cli.report import progress_bar
from mmbloom.lines import Chunk, read_chunks

EXAMPLES = (
    "mmbloom check seen.bloom access.log",
    "mmbloom check -v -k 1 addresses.bloom access.log    # lines of new addresses",
    "mmbloom check -c seen.bloom access.log",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="the filter; opened for reading only")
    add_line_options(parser)
    add = parser.add_argument
    add("-v", "--invert-match", action="store_true", help="print the lines that are not in it")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("-c", "--count", action="store_true", help="print only the number of lines")
    output.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing; exit with 0 or 1"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 if a line was found, 1 if none was."""
    keys, names, end = line_keys(args), input_names(args.inputs), terminator(args)
    check_inputs(names)
    refuse_overlap(None, names, args.file)
    found = 0
    with open_filter(args.file, "r") as seen, open_output(None, end) as writer:

        def look(take: Callable[[Chunk], Keys], chunk: Chunk) -> tuple[Chunk, Bools]:
            return chunk, seen.contains_many(take(chunk)) != args.invert_match

        with progress_bar(args, names, printing=not args.count) as bar:
            for name in names:
                with (
                    input_keys(keys, name) as take,
                    open_input(name, bar) as source,
                    closing(
                        read_ahead(map(partial(look, take), read_chunks(source, end)))
                    ) as looked_at,
                ):
                    for chunk, wanted in looked_at:
                        found += int(np.count_nonzero(wanted))
                        if args.quiet and found:
                            return OK
                        if not (args.quiet or args.count):
                            writer.write(chunk.where(wanted), terminated=chunk.terminated)
        if args.count:
            writer.write(np.frombuffer(b"%d%b" % (found, end), np.uint8), terminated=True)
    return OK if found else NOTHING_FOUND
