"""``mmbloom help``: describe a command, or the command line as a whole."""

import argparse

from mmbloom.cli.parser import COMMANDS, no_command, outline, parser_of
from mmbloom.cli.process import OK

EXAMPLES = (
    "mmbloom help",
    "mmbloom help dedup",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "command",
        nargs="?",
        type=_command,
        choices=tuple(COMMANDS),
        metavar="COMMAND",
        help="the command; without it, all are listed",
    )


def _command(name: str) -> str:
    if name not in COMMANDS:
        raise argparse.ArgumentTypeError(no_command(name))
    return name


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    (parser_of(args.command) if args.command else outline()[0]).print_help()
    return OK
