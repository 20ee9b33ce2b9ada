"""``mmbloom exclude``: list and change the keys that a filter must answer as not seen."""

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from mmbloom._engine import bytes_of, fields_of
from mmbloom._keys.coerce import coerce
from mmbloom.cli.filters import say_if_past_plan, say_of_another_rule
from mmbloom.cli.lines import find_keys, open_lines, say_what_is_read
from mmbloom.cli.options import add_key_options, line_keys
from mmbloom.cli.parser import AS_TYPED
from mmbloom.cli.process import NOTHING_FOUND, OK, UsageError, say
from mmbloom.cli.report import NO_BAR, STDIN
from mmbloom.filters.open import open as open_filter
from mmbloom.format.exclusions import write_keys
from mmbloom.logs.lines import WHOLE_LINES
from mmbloom.logs.outputs import open_output

EXAMPLES = (
    "mmbloom exclude seen.bloom --add aunt@mail.example",
    "mmbloom exclude seen.bloom --list",
    "mmbloom exclude seen.bloom --remove < taken-back.txt",
    "mmbloom exclude seen.bloom --add --csv -k user < users.csv",
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
        help="a key; no KEY: each line of stdin is one, or the part of it that is chosen below",
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
    add_key_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; a change is on the disk when this returns."""
    args.file, *args.keys = (word.removeprefix(AS_TYPED) for word in (args.file, *args.keys))
    if args.list:
        if args.keys:
            raise UsageError("--list prints all exclusions: leave out KEY")
        return _print_all(args.file)
    chosen = line_keys(args)
    if args.keys and chosen.rule != WHOLE_LINES:
        raise UsageError("a KEY is a whole key: options that choose a part are for lines of stdin")
    with open_filter(args.file) as seen, _keys(args) as keys:
        if chosen.rule != WHOLE_LINES:
            say_of_another_rule(seen, chosen)
        elif _is_of_several(rule := seen.key_rule or ""):
            say(
                f'warning: {seen.path}: was filled by "{rule}", and a key of several parts cannot '
                f"be typed here: give lines that have them to stdin, with {rule}"
            )
        exclusions = seen.exclusions
        changed = exclusions.update(keys) if args.add else exclusions.difference_update(keys)
        say_if_past_plan(args.file, seen)
    return OK if args.add or changed else NOTHING_FOUND


def _is_of_several(rule: str) -> bool:
    """Tell whether keys by a rule have several parts, as a row of CSV has without -k."""
    try:
        words = shlex.split(rule)
    except ValueError:  # a long one is cut off
        return False
    if "-k" in words:
        chosen = words[words.index("-k") + 1].encode()
        return len(fields_of(chosen, ord(","))) > 1
    return "--csv" in words or words.count("--json-key") > 1


def _print_all(file: str) -> int:
    with open_filter(file, "r") as seen, open_output(None, b"\n") as writer:
        written = write_keys(seen.exclusions)
        writer.write(np.frombuffer(written, np.uint8), terminated=True)
        say_if_past_plan(file, seen)
    return OK if written else NOTHING_FOUND


@contextmanager
def _keys(args: argparse.Namespace) -> Iterator[Iterable[bytes]]:
    if args.keys:
        yield map(os.fsencode, args.keys)  # the bytes as typed
        return
    say_what_is_read("keys, one a line,", "keys come after the filter")
    with open_lines(args, STDIN, NO_BAR) as lines:
        # Of a last line without its newline both keys, as by either it would be known.
        batches = (
            coerce(of_line)
            for _, found in find_keys(lines, STDIN)
            for of_line in (found.keys, found.part_key)
            if of_line is not None
        )
        yield (key for batch in batches for part in batch.parts for key in bytes_of(part))
