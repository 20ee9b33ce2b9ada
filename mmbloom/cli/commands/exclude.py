"""``mmbloom exclude``: list and change the keys that a filter must answer as not seen."""

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from mmbloom._open import open as open_filter
from mmbloom.cli.filters import say_if_past_plan
from mmbloom.cli.inputs import open_input, say_what_is_read
from mmbloom.cli.outputs import open_output
from mmbloom.cli.process import NOTHING_FOUND, OK, UsageError, say
from mmbloom.cli.report import NO_BAR, STDIN
from mmbloom.format.exclusion_list import write_keys
from mmbloom.lines import read_chunks

_OF_SEVERAL = re.compile(r"-k \d+,|--json-key .* --json-key ")

EXAMPLES = (
    "mmbloom exclude seen.bloom --add aunt@mail.example",
    "mmbloom exclude seen.bloom --list",
    "mmbloom exclude seen.bloom --remove < taken-back.txt",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    where = "FILE.exclusions, or in FILE/exclusions for a folder"
    add("file", metavar="FILE", help=f"the filter; its exclusions are in {where}")
    add(
        "keys",
        nargs="*",
        default=[],
        metavar="KEY",
        help="a key; no KEY: each line of stdin is one",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--add", action="store_true", help="exclude these keys")
    action.add_argument(
        "--remove",
        action="store_true",
        help="stop excluding these keys; exit 1 if none of them was excluded",
    )
    action.add_argument(
        "--list",
        action="store_true",
        help="print all exclusions as in the file; exit 1 if there is none",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; a change is on the disk when this returns."""
    if args.list:
        if args.keys:
            raise UsageError("--list prints all exclusions: leave out KEY")
        return _print_all(args.file)
    with open_filter(args.file) as seen, _keys(args.keys) as keys:
        if _OF_SEVERAL.search(rule := seen.key_rule or ""):
            say(
                f'warning: {seen.path}: was filled by "{rule}", and a key of several parts cannot '
                "be typed here: exclude it in Python, as a tuple of them"
            )
        exclusions = seen.exclusions
        changed = exclusions.update(keys) if args.add else exclusions.difference_update(keys)
        say_if_past_plan(args.file, seen)
    return OK if args.add or changed else NOTHING_FOUND


def _print_all(file: str) -> int:
    with open_filter(file, "r") as seen, open_output(None, b"\n") as writer:
        written = write_keys(seen.exclusions)
        writer.write(np.frombuffer(written, np.uint8), terminated=True)
        say_if_past_plan(file, seen)
    return OK if written else NOTHING_FOUND


@contextmanager
def _keys(words: list[str]) -> Iterator[Iterable[bytes]]:
    if words:
        yield map(os.fsencode, words)  # the bytes as typed
        return
    say_what_is_read("keys, one a line,", "keys come after the filter")
    with open_input(STDIN, NO_BAR) as source:
        yield (line for chunk in read_chunks(source) for line in chunk.lines)
