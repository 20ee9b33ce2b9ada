"""``mmbloom manual``: print the manual page, made from the parser."""

import argparse
import sys

import mmbloom
from mmbloom._system import extras as _extras
from mmbloom.cli.parser import COMMANDS, file_of, whole
from mmbloom.cli.process import EXIT_CODES, OK

EXAMPLES = (
    "mmbloom manual | man -l -",
    "mmbloom manual > ~/.local/share/man/man1/mmbloom.1    # then: man mmbloom",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Take no arguments."""


def run(_args: argparse.Namespace) -> int:
    """Run the command."""
    library = _extras.load("argparse_manpage.manpage", "the manual page")
    parser, commands = whole()
    parser.epilog = None  # the sections below say it
    parser.formatter_class = _Unwrapped  # for the options of all commands, too
    for command in commands.values():
        command.description = None  # its summary stands above already
        command.formatter_class = _Unwrapped  # for its usage
    about = {
        "description": "a memory-mapped, persistent Bloom filter that many processes share",
        "manual_title": "mmbloom",
        "project_name": "mmbloom",
        "version": mmbloom.__version__,
    }
    page = library.Manpage(parser, about, format="single-commands-section")
    examples = (_roff(example) for name in COMMANDS for example in file_of(name).EXAMPLES)
    page.add_section("examples", "=", "\n".join((".nf", *examples, ".fi")))
    page.add_section("exit status", "=", _roff(EXIT_CODES.removeprefix("exit codes: ")))
    print(page, end="")
    return OK


class _Unwrapped(argparse.HelpFormatter):
    """Help in lines of any length, which man wraps.

    A line that is wrapped here may begin with a dot, as in .gz, and man would drop it as a request
    that it does not know.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=sys.maxsize)


def _roff(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")
