"""``mmbloom check``: print the lines that are in a filter, or not in it; change nothing."""

import argparse
import os
from contextlib import closing
from itertools import starmap
from typing import Any

import numpy as np

from mmbloom._system.threads import ReadAhead
from mmbloom._system.typing import Bools, Octets
from mmbloom.cli.filters import in_use
from mmbloom.cli.lines import check_lines, find_keys, input_names, open_lines, refuse_overlap, shown
from mmbloom.cli.options import add_line_options, delimiter, line_keys, terminator
from mmbloom.cli.process import NOTHING_FOUND, OK, UsageError
from mmbloom.cli.report import STDIN, progress_bar
from mmbloom.filters.base import Filter
from mmbloom.filters.open import open as open_filter
from mmbloom.logs.dedup import begin
from mmbloom.logs.lines import Chunk, Found, LineWriter
from mmbloom.logs.outputs import open_output

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
    add("-H", "--with-name", action="store_true", help="print the input's name before each line")
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "-c", "--count", action="store_true", help="print only their number; with -H of each input"
    )
    output.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing; exit with 0 or 1"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 if a line was found, 1 if none was."""
    names, end = input_names(args.inputs), terminator(args)
    if args.csv and args.with_name and not args.count:
        raise UsageError("-H writes a name before each row, which is a field of no column: not CSV")
    check_lines(args, names)
    refuse_overlap(None, names, args.file)
    counts: list[int] = []
    with (
        open_filter(args.file, "r") as seen,
        open_output(None, end, delimiter=delimiter(args)) as writer,
    ):
        with (
            in_use(args, seen, line_keys(args)),
            progress_bar(args, names, printing=not args.count) as bar,
        ):
            for name in names:
                counts.append(_look_up(args, seen, name, bar, writer))
                if args.quiet and counts[-1]:
                    return OK
        if args.count:
            each = zip(map(_prefix, names), counts, strict=True)
            for prefix, count in each if args.with_name else [(b"", sum(counts))]:
                line = b"%b%d%b" % (prefix, count, end)
                writer.write(np.frombuffer(line, np.uint8), terminated=True)
    return OK if any(counts) else NOTHING_FOUND


def _look_up(
    args: argparse.Namespace, seen: Filter, name: str, bar: Any, writer: LineWriter
) -> int:
    """Print the lines of one input that are asked for; gives their number, of -q at least one."""
    end, number = terminator(args), 0

    def look(chunk: Chunk, found: Found) -> tuple[Chunk, Bools]:
        return chunk, found.of_lines(found.known(seen) != args.invert_match)

    with (
        open_lines(args, name, bar) as lines,
        closing(ReadAhead(starmap(look, find_keys(lines, name)))) as looked_at,
    ):
        if lines.head and not (args.quiet or args.count):
            begin(writer, lines.head, shown(name))
        for chunk, wanted in looked_at:
            number += int(np.count_nonzero(wanted))
            if args.quiet and number:
                break
            if not (args.quiet or args.count):
                printed = chunk.where(wanted)
                named = _prefixed(printed, _prefix(name), end) if args.with_name else printed
                writer.write(named, terminated=chunk.terminated)
    return number


def _prefix(name: str) -> bytes:
    return b"stdin:" if name == STDIN else os.fsencode(name) + b":"


def _prefixed(lines: Octets, prefix: bytes, end: bytes) -> Octets:
    """Put the name of their input before each of some lines, which end as those of a chunk do."""
    whole = lines.tobytes()
    parts = whole.removesuffix(end).split(end) if whole else []
    named = end.join(prefix + part for part in parts)
    return np.frombuffer(named + end * whole.endswith(end), np.uint8)
