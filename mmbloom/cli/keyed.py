"""The lines of an input as the options of a command say, with what finds their keys."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from mmbloom.cli.arguments import line_keys, terminator
from mmbloom.cli.inputs import FirstBytes, check_inputs, open_input, shown
from mmbloom.cli.process import STDIN_FD, say
from mmbloom.cli.report import NO_BAR, STDIN
from mmbloom.files.keyed import Keyed, Proof, check_first_lines, lines_of
from mmbloom.lines import Chunk, Empty, Found, KeyRule


@contextmanager
def open_lines(
    args: argparse.Namespace, name: str, progress: Any, size: int | None = None
) -> Iterator[Keyed]:
    """Open one input, or its first `size` bytes, decompressed."""
    if not hasattr(args, "proof"):
        args.proof = Proof(args.empty is not None)
    with open_input(name, progress) as source:
        yield lines_of(
            source if size is None else FirstBytes(source, size),
            shown(name),
            line_keys(args),
            terminator=terminator(args),
            header=not args.no_header,
            proof=args.proof,
            is_file=_is_file(name),
            warn=None if getattr(args, "warned", False) else partial(_warn, args),
        )


def _warn(args: argparse.Namespace, message: str) -> None:
    args.warned = True  # once a run
    say(f"warning: {message}")


def find_keys(lines: Keyed, name: str) -> Iterator[tuple[Chunk, Found]]:
    """Give each chunk with its keys; in the end `warn_of_lacking`."""
    number = lacking = 0
    for chunk in lines.chunks:
        found = lines.keys.find(chunk)
        number, lacking = number + len(chunk), lacking + found.lacking
        yield chunk, found
    warn_of_lacking(lines.keys, name, number, lacking)


def check_lines(args: argparse.Namespace, names: list[str]) -> None:
    """Fail if inputs cannot be read as asked for, before anything is created or marked.

    Of a pipe that is found only when it is read.
    """
    check_inputs(names)
    files = [name for name in names if _is_file(name)]
    begin = os.lseek(STDIN_FD, 0, os.SEEK_CUR) if STDIN in files else 0
    check_first_lines(open_lines(args, name, NO_BAR) for name in files)
    if STDIN in files:
        os.lseek(STDIN_FD, begin, os.SEEK_SET)


def _is_file(name: str) -> bool:
    return os.path.isfile(STDIN_FD if name == STDIN else name)


def warn_of_lacking(keys: KeyRule, name: str, lines: int, lacking: int) -> None:
    """Say so if no line of an input has the field or member asked for, and that is no error."""
    if not lines or lines != lacking:
        return
    say(f"warning: {shown(name)}: no line has the {keys.part} empty: {_DONE[keys.empty]}")


_DONE: dict[Empty, str] = {
    "whole": "each whole line was its own key",
    "skip": "each line was skipped",
    "key": "all lines were the same for it",
}
