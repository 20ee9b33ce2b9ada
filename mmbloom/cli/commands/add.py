"""``mmbloom add``: mark lines as seen, and print nothing."""

import argparse
import time
from contextlib import AbstractContextManager

from mmbloom._open import open as open_filter
from mmbloom._typing import Bools
from mmbloom.cli.arguments import add_filter_options, add_line_options, line_keys, terminator
from mmbloom.cli.filters import in_use, open_or_create, patiently
from mmbloom.cli.inputs import (
    check_inputs,
    input_names,
    open_input,
    warn_of_lacking,
)
from mmbloom.cli.process import OK
from mmbloom.cli.report import counted, progress_bar
from mmbloom.dedup import Discard, Tally, dedup
from mmbloom.filters.claim import Claim
from mmbloom.lines import read_chunks

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
    keys, names, tally = line_keys(args), input_names(args.inputs), Tally()
    check_inputs(names)
    # A counting filter counts every line, repeats too: `remove` takes out one copy a line.
    marked = open_or_create(args, open_filter)
    with marked as seen, in_use(args, seen, keys):

        def enter(claim: Claim) -> AbstractContextManager[Bools]:
            return patiently(seen.path, claim.within, args.lock_timeout)

        with counted(args, tally, seen, started):
            with progress_bar(args, names, printing=False) as bar:
                for name in names:
                    one = Tally()
                    try:
                        with open_input(name, bar) as source:
                            chunks = read_chunks(source, terminator(args))
                            dedup(seen, chunks, Discard(), keys=keys, enter=enter, tally=one)
                    finally:
                        tally.add(one)
                    warn_of_lacking(keys, name, one.lines, one.lacking)
            seen.flush()
    return OK
