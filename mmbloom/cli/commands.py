"""The commands: what each does, its examples, and the module that it is imported from.

A command is imported when it runs: what only describes the command line needs no numpy.
"""

import argparse
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NamedTuple

AS_TYPED = "\0"  # marks a word that its command takes as typed: no argument can have it


class Command(NamedTuple):
    """A command: its help, and what must be known of it before and after it runs."""

    summary: str
    examples: tuple[str, ...]
    mark: str = "./"  # is put before words behind -- that look like options
    each: bool = False  # is run for each of several filters
    left: str = ""  # by Ctrl-C or a full disk, and what to do then


_NONE_HALF_MADE = "no incomplete file is left"

COMMANDS = {
    "create": Command(
        "create an empty filter",
        (
            "mmbloom create seen.bloom -n 10M",
            "mmbloom create counts.bloom -n 1e6 --counting",
            "mmbloom create week -n 1e6 --rotate --keep 7d --every 1d",
            "mmbloom create other.bloom --like seen.bloom",
        ),
        left=_NONE_HALF_MADE,
    ),
    "dedup": Command(
        "print each line the first time it is seen, across inputs, runs and processes",
        (
            "mmbloom dedup seen.bloom -n 1e6 access.log > new.log",
            "mmbloom dedup addresses.bloom -n 1e6 -k 1 access.log    # one line per address",
            ("mmbloom dedup today.bloom -n 1e6 -c access.log | sort -rn    # most frequent first"),
            "mmbloom dedup events.bloom -n 1e6 --json-key user.id events.jsonl.gz",
            "mmbloom dedup days.bloom -n 1e6 --output-dir unique -j 2 monday.log tuesday.log",
            "mmbloom dedup all.bloom -n 1e6 --output-dir kept --relative north/a.log south/a.log",
        ),
        left="nothing is lost: run the same command again to continue",
    ),
    "add": Command(
        "mark lines as seen",
        (
            "mmbloom add seen.bloom -n 1e6 access.log",
            "zcat events.jsonl.gz | mmbloom add events.bloom -n 1e6",
        ),
        left="nothing is lost: run the same command again to continue (a counting filter then "
        "counts some lines twice)",
    ),
    "check": Command(
        "print the lines that are in a filter",
        (
            "mmbloom check seen.bloom access.log",
            "mmbloom check -v -k 1 addresses.bloom access.log    # lines with new addresses",
            "mmbloom check -c seen.bloom access.log",
        ),
    ),
    "remove": Command(
        "remove lines from a counting filter",
        ("mmbloom remove counts.bloom monday.log",),
        left="run the same command again to continue",
    ),
    "exclude": Command(
        "list, add or remove exclusions: keys that a filter must report as not seen",
        (
            "mmbloom exclude seen.bloom --add aunt@mail.example",
            "mmbloom exclude seen.bloom --list",
            "mmbloom exclude seen.bloom --remove < taken-back.txt",
            "mmbloom exclude seen.bloom --add --csv -k user < users.csv",
        ),
        mark=AS_TYPED,  # keys must not be rewritten, as names of files may be
    ),
    "grow": Command(
        "turn a full filter into a growing folder, which keeps all its keys",
        ("mmbloom grow seen.bloom",),
    ),
    "info": Command(
        "show a filter's parameters and how full it is",
        (
            "mmbloom info seen.bloom",
            "mmbloom info --json seen.bloom",
            "mmbloom info --fail-above 80% seen.bloom    # for monitoring: exit code 1",
            "mmbloom info --recount seen.bloom    # after a writer was killed",
        ),
        each=True,
    ),
    "verify": Command(
        "check a filter for damage",
        (
            "mmbloom verify seen.bloom",
            "mmbloom verify seen.bloom --keys access.log    # also check that it has every line",
        ),
        each=True,
    ),
    "copy": Command(
        "copy a filter, even while other processes write to it",
        (
            "mmbloom copy seen.bloom backup.bloom",
            "mmbloom copy --replace seen.bloom backup.bloom    # every night after that",
            "mmbloom copy --seal seen.bloom archive.bloom",
            "mmbloom copy --plain counts.bloom plain.bloom",
        ),
        left=_NONE_HALF_MADE,
    ),
    "merge": Command(
        "merge several filters into one",
        ("mmbloom merge both.bloom seen.bloom like.bloom",),
        left=_NONE_HALF_MADE,
    ),
    "intersect": Command(
        "make a filter of the keys that several filters share",
        ("mmbloom intersect shared.bloom seen.bloom like.bloom",),
        left=_NONE_HALF_MADE,
    ),
    "compare": Command(
        "estimate how many keys two filters share", ("mmbloom compare seen.bloom like.bloom",)
    ),
    "repair": Command(
        "make a sound filter from a damaged one",
        (
            "mmbloom repair seen.bloom sound.bloom",
            (
                "mmbloom repair headless.bloom mended.bloom -n 1e6 --layout blocked --hash siphash "
                "\\\n    --seed 0x00112233445566778899aabbccddeeff"
            ),
        ),
        left=_NONE_HALF_MADE,
    ),
    "export": Command(
        "write a filter in another program's format",
        (
            "mmbloom create jvm.bloom -n 1e6 --layout standard --hash murmur3 --seed 0",
            "mmbloom export --guava jvm.bloom guava.bin",
        ),
        left=_NONE_HALF_MADE,
    ),
    "import": Command(
        "make a filter from another program's file",
        (
            "mmbloom import --guava guava.bin ours.bloom",
            "mmbloom import --guava guava.bin planned.bloom -n 1e6 -p 1e-6",
        ),
        left=_NONE_HALF_MADE,
    ),
    "plan": Command("show how large a filter would be", ("mmbloom plan -n 1e9 -p 1e-6",)),
    "help": Command("show the help of a command", ("mmbloom help", "mmbloom help dedup")),
    "completion": Command(
        "print a script that completes commands and options in a shell",
        (
            "mmbloom completion bash > ~/.local/share/bash-completion/completions/mmbloom",
            "mmbloom completion zsh > ~/.zfunc/_mmbloom    # with fpath+=~/.zfunc before compinit",
            "mmbloom completion fish > ~/.config/fish/completions/mmbloom.fish",
        ),
    ),
    "manual": Command(
        "print the manual page",
        (
            "mmbloom manual | man -l -",
            "mmbloom manual > ~/.local/share/man/man1/mmbloom.1    # then: man mmbloom",
        ),
    ),
}


# By the module of `cli` that has them, as functions of their names.
MODULES = {
    "marking": ("dedup", "add", "check", "remove", "exclude", "verify"),
    "making": ("create", "grow", "copy", "merge", "intersect", "repair", "export", "import"),
    "showing": ("info", "compare", "plan"),
    "parser": ("help", "completion", "manual"),
}


def function_of(command: str) -> Callable[[argparse.Namespace], int]:
    """Return the function of a command, whose module is imported only now."""
    # numpy starts a thread a core for linear algebra: a quarter of its import's processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    name = f"{command}_" if command in ("import", "help") else command
    module = next(module for module, commands in MODULES.items() if command in commands)
    found: Callable[[argparse.Namespace], int]
    found = getattr(import_module(f"mmbloom.cli.{module}"), name)
    return found


def near(word: str, words: Iterable[str], before: str = "") -> str:
    """Return a question whether the nearest of some words was meant; "" if none is like it."""
    # argparse does so from Python 3.14 on. Few words are wrong, and the import takes 4 ms.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(word, words, 1)
    return "".join(f" (did you mean {before}{other}?)" for other in close)


def no_command(name: str) -> str:
    """Return that no command has this name, and which there are or which one was perhaps meant."""
    there_are = f" (expected one of {', '.join(COMMANDS)})"
    return f"no such command: {name!r}{near(name, COMMANDS) or there_are}"
