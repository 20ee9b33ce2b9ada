"""Commands that describe the command line: help, completion, manual."""

import argparse
import sys

import mmbloom
from mmbloom._system import extras
from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import outline, parser_of, whole
from mmbloom.cli.process import EXIT_CODES, OK


def help_(args: argparse.Namespace) -> int:
    """Run the command."""
    (parser_of(args.command) if args.command else outline()[0]).print_help()
    return OK


# What a value is, by the name that help gives it.
FILES = frozenset(("A", "B", "DST", "FILE", "IN", "INPUT", "OTHER", "OUT", "OUTPUT", "SRC"))
FOLDERS = frozenset(("DIR",))


def completion(args: argparse.Namespace) -> int:
    """Run the command."""
    shtab = extras.load("shtab", "completion")
    parser, commands = whole()
    for command in commands.values():
        for action in command._actions:  # noqa: SLF001  argparse has no other way to list them
            if action.metavar in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab looks there
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=args.shell))
    return OK


def manual(_args: argparse.Namespace) -> int:
    """Run the command."""
    library = extras.load("argparse_manpage.manpage", "the manual page")
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
    examples = (_roff(example) for command in COMMANDS.values() for example in command.examples)
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
