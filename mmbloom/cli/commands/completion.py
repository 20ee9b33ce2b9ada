"""``mmbloom completion``: print what completes commands, options and file names in a shell."""

import argparse

from mmbloom._system import extras as _extras
from mmbloom.cli.parser import whole
from mmbloom.cli.process import OK

EXAMPLES = (
    "mmbloom completion bash > ~/.local/share/bash-completion/completions/mmbloom",
    "mmbloom completion zsh > ~/.zfunc/_mmbloom    # with fpath+=~/.zfunc before compinit",
    "mmbloom completion fish > ~/.config/fish/completions/mmbloom.fish",
)

# What a value is, by the name that help gives it.
FILES = frozenset(("A", "B", "DST", "FILE", "IN", "INPUT", "OTHER", "OUT", "OUTPUT", "SRC"))
FOLDERS = frozenset(("DIR",))


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish"),
        metavar="SHELL",
        help="bash, zsh or fish; save what is printed where that shell looks, as below",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    shtab = _extras.load("shtab", "completion")
    parser, commands = whole()
    for command in commands.values():
        for action in command._actions:  # noqa: SLF001  argparse has no other way to list them
            if action.metavar in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab looks there
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=args.shell))
    return OK
