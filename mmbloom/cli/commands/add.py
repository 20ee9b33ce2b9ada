"""``mmbloom add``: mark lines as seen, and print nothing."""

import argparse
import time

from mmbloom.cli.filters import in_use, open_or_create
from mmbloom.cli.lines import check_lines, input_names, mark_lines, require_stats
from mmbloom.cli.options import add_filter_options, add_line_options, line_keys
from mmbloom.cli.process import OK, StoppedError
from mmbloom.cli.report import counted, progress_bar
from mmbloom.filters.open import open as open_filter
from mmbloom.logs.dedup import Discard, Tally

EXAMPLES = (
    "mmbloom add seen.bloom -n 1e6 access.log",
    "zcat events.jsonl.gz | mmbloom add events.bloom -n 1e6",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_filter_options(parser)
    add_line_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; the filter is on the disk when this returns."""
    started = time.perf_counter()
    keys, names = line_keys(args), input_names(args.inputs)
    check_lines(args, names)
    require_stats(args, names, [])
    tallies = [(name, Tally()) for name in names]
    # A counting filter counts every line, repeats too: `remove` takes out one copy a line.
    with (
        open_or_create(args, open_filter) as seen,
        in_use(args, seen, keys),
        counted(args, tallies, seen, started),
    ):
        with progress_bar(args, names, printing=False) as bar:
            for name, tally in tallies:
                if stopped := mark_lines(args, seen, name, bar, Discard(), tally=tally):
                    raise StoppedError(stopped)
        seen.flush()
    return OK
