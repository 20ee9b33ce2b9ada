"""The parser of each command, and what is printed of it: help, completion, the manual page."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import mmbloom
from mmbloom._system import extras
from mmbloom.cli.commands import COMMANDS, near, no_command
from mmbloom.cli.options import OPTIONS, add_options
from mmbloom.cli.process import EXIT_CODES, OK, USAGE, escaped, flush_stdout


def _marked(argv: Sequence[str], mark: str) -> list[str]:
    """Mark the words that follow ``--`` so that none of them looks like an option."""
    # parse_intermixed_args (Python 3.11) drops a -- that no positional argument precedes.
    if "--" not in argv:
        return list(argv)
    end = argv.index("--")
    marked = [f"{mark}{word}" if word[:1] == "-" != word else word for word in argv[end + 1 :]]
    return [*argv[:end], *marked]


class _Formatter(argparse.HelpFormatter):
    """Help in which examples keep their lines, and all else is wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        wrapped = super()._fill_text
        return "\n\n".join(
            part if part.startswith("examples:") else wrapped(part, width, indent)
            for part in text.split("\n\n")
        )


class _Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors; help that cannot be printed is an error."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        flush_stdout()
        # A full disk under stderr must not change the code. Python 3.11.2, which Debian 12 has,
        # raises that error; 3.11.7 suppresses it.
        with suppress(OSError):
            super().exit(status, message)
        sys.exit(status)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {escaped(message)}; see {self.prog} --help\n")

    def near_option(self, word: str) -> str:
        """Return a question whether the nearest long option was meant; "" if none is like it."""
        if not word.startswith("--"):
            return ""
        # Without the dashes, by which all options are alike.
        names = [option[2:] for option in self._option_string_actions if option[:2] == "--"]
        return near(word[2:].partition("=")[0], names, "--")


_COUNT = re.compile(r"\d[\d_]*(\.\d+)?([KMGBT]|e\d+)?", re.ASCII | re.IGNORECASE)


def without_n(word: str, args: argparse.Namespace) -> str:
    """Return how to give a number of keys, if it was given without -n."""
    missing = getattr(args, "capacity", 0) is None
    return f" (give the number of keys with -n {word})" * bool(missing and _COUNT.fullmatch(word))


class _Version(argparse.Action):
    """Print the version; to look it up takes 25 ms, as long as all else of the help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it to stdout, and end."""
        print(f"mmbloom {mmbloom.__version__}")
        parser.exit()


def _furnish(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of a command to its parser, and its help, which ends in the examples."""
    examples = "\n".join(("examples:", *(f"  {example}" for example in COMMANDS[name].examples)))
    parser.allow_abbrev = False  # otherwise a new option could change what a script means
    parser.description = f"{COMMANDS[name].summary.capitalize()}."
    parser.epilog = f"{examples}\n\n{EXIT_CODES}"
    parser.formatter_class = _Formatter
    add_options(parser, OPTIONS[name])


def parser_of(name: str) -> _Parser:
    """Make the parser of one command."""
    parser = _Parser(prog=f"mmbloom {name}")
    _furnish(parser, name)
    return parser


def outline() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Make the parser of the command line, and those of its commands without their options."""
    parser = _Parser(
        prog="mmbloom",
        description="A memory-mapped, persistent Bloom filter that many processes share.",
        epilog=f"mmbloom help COMMAND shows the help of a command; {EXIT_CODES}",
    )
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version")
    commands = parser.add_subparsers(required=True, title="commands", metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    return parser, commands.choices


def whole() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Make the same with all options, for what is made of them."""
    parser, commands = outline()
    for name, command in commands.items():
        _furnish(command, name)
    return parser, commands


def parse(argv: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Read the command and its options, which may stand before, between and after files."""
    if argv and argv[0] in COMMANDS:
        parser = parser_of(argv[0])
        mark = COMMANDS[argv[0]].mark
        args, others = parser.parse_known_intermixed_args(_marked(argv[1:], mark))
        if others:
            behind = "; words after -- are not options" if "--" in argv else ""
            typed = [word if word in argv else word.removeprefix(mark) for word in others]
            meant = [parser.near_option(word) or without_n(word, args) for word in typed]
            said = behind or next(filter(None, meant), "")
            parser.error(f"unrecognized arguments: {' '.join(typed)}{said}")
        return argv[0], args
    whole_line, _ = outline()
    if argv and argv[0][:1] != "-":
        whole_line.error(no_command(argv[0]))
    whole_line.parse_args(argv)  # --help, --version, or an error: all of them exit
    raise AssertionError("argparse accepted an unknown command")


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
