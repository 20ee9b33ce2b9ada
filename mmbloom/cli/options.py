"""The options of every command, as tables, and what several commands make of them.

A function named after the command declares its options. Help needs no numpy, so nothing here does.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from mmbloom.cli.parser import COMMANDS, no_command
from mmbloom.cli.process import STDERR_FD, UsageError, say
from mmbloom.cli.values import READERS, hash_seed

# Of filters that commands make: a false positive is a line that dedup drops. In Python it is 0.01:
# in most programs a false positive costs one needless lookup.
ERROR_RATE = 1e-6

RATE_HELP = (
    "error rate: the share of new lines that are taken for seen once N lines are in, and dropped "
    "by dedup (default 1e-6, one in a million)"
)

# Seconds of a rotating folder where they are not given: those of `RotatingFilter.create`.
_KEEP, _EVERY = 7 * 86_400, 86_400

Table = Mapping[str, str]
"""How arguments are spelled in a usage, and their help; see `add_options`."""


def add_options(
    to: argparse.ArgumentParser | argparse._ArgumentGroup, table: Table, **how: Any
) -> None:
    """Declare arguments, each spelled as in a usage, with its default at the end.

    An option without a value is a flag: ``--json``. A value has a name, or is one of some words:
    ``-j --jobs N=1``, ``--when-full {stop,warn}=stop``. With ``...`` an option can be given several
    times: ``--keys INPUT ...``. ``--[no-]progress`` has an opposite. What has no dashes is not an
    option but an argument, with its name in Python first: ``file FILE``, ``inputs INPUT*``.

    Parameters
    ----------
    to
        The parser, or a group of its options.
    table
        How each is spelled, and its help.
    how
        Passed to each call of ``add_argument``.
    """
    for row, text in table.items():
        spelled, _, default = row.partition("=")
        words = spelled.split()
        names = [word.replace("[no-]", "") for word in words if word[0] == "-"] or words[:1]
        name, values = names[-1].strip("-").replace("-", "_"), words[len(names) :]
        options: dict[str, Any] = {"help": text, "default": default or None, **how}
        if "[no-]" in row:
            options["action"] = argparse.BooleanOptionalAction
        elif not values:
            options |= {"action": "store_true", "default": False}
        elif values[0][0] == "{":
            options["choices"] = tuple(values[0].strip("{}").split(","))
        else:
            options |= {"metavar": values[0].rstrip("*+"), "type": READERS.get(name)}
            if values[0][-1] in "*+":
                # Without the default argparse reports arguments of which there may be none.
                options |= {"nargs": values[0][-1], "default": []}
            if values[1:]:
                options |= {"action": "append", "default": []}
        to.add_argument(*names, **options)


_ALLOW_NETWORK = "allow writing on a network file system (safe from one host only)"
_QUIET = "on a terminal too, no progress bar and no line of figures in the end"
_RESERVE = "--reserve {zeros,fallocate}=zeros"

_WRITING = {
    "--lock-timeout S": "give up after S seconds of waiting for other writers (default: wait)",
    "--allow-network": _ALLOW_NETWORK,
}
_MAKING = {
    "--permissions MODE=600": "mode bits of the new filter, in octal (default 600)",
    "--allow-network": "allow a network file system",
}
_TIMES = {
    "--keep TIME": "with --rotate: the least time that a line is known (90s, 12h; default 7d)",
    "--every TIME": "with --rotate: the length of a period (default 1d)",
}
_FAMILY = {
    "--growing": "a folder of ever larger files; the first is for -n keys",
    "--rotate": "a folder with a file of -n keys for each period, dropped after --keep",
}
_LINES = {
    "inputs INPUT*": "files, also compressed by gzip, bzip2, xz or zstd; - or no INPUT: stdin",
}
_PROGRESS = {
    "--[no-]progress": "show a progress bar (default: on a terminal, unless lines are printed to "
    "it)",
}
_KEYS = {
    "-i --ignore-case": "ignore differences of case (ASCII)",
    "-f --skip-fields N=0": "skip N fields and the blanks before them",
    "-s --skip-chars N=0": "skip N bytes",
    "-w --check-chars N": "compare at most N bytes",
    "--crlf": "a line's last carriage return is not compared",
    "-z --zero-terminated": "lines end in NUL, not newline",
    "-t --separator SEP": "field separator for -k (default: runs of spaces and tabs, as in awk)",
    "-k --field FIELD": "compare only this field (from 1), or only these: 1,3; with --csv also by "
    "the names in the header; lines that lack one, or in which it is empty, are compared whole",
    "--csv": "the inputs are CSV: quotes, newlines within them, and a header, which is no key and "
    "is printed once; fields are compared by their values; -t is a comma by default",
    "--no-header": "with --csv: the first row is one like others",
    "--json-key A.B ...": "compare only this member of JSON lines (write a backslash before a dot "
    "within a name); several, if given again; lines that lack one, or in which it is null or "
    '"", are compared whole',
    "--empty {whole,skip,key}": "how to treat a line whose field or member is missing, empty or "
    "null: whole (default, and an error if no line has it) compares the whole line; skip neither "
    "prints nor marks it; key compares what is missing as empty",
}


def _planning(rate: str = RATE_HELP) -> Table:
    return {
        "-n --capacity N": "distinct keys to plan for (1e9, 10M)",
        "-p --error-rate P": rate,
    }


def _shape(
    to: argparse.ArgumentParser | argparse._ArgumentGroup, layout: str, hash_: str, seed: str
) -> None:
    add_options(to, {"--layout {blocked,standard}": layout, "--hash {siphash,murmur3}": hash_})
    to.add_argument("--seed", type=hash_seed, help=seed)


def _sizing(parser: argparse.ArgumentParser) -> None:
    add_options(parser, _planning())
    hashes = "default siphash, safe for keys of strangers; Guava has murmur3"
    _shape(parser, "default blocked", hashes, "seed of the hash, also as 0x... (default random)")


def add_key_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the part of a line that is its key, and --progress."""
    add_options(parser, _PROGRESS)
    what = "what is compared (as in uniq; the whole line by default)"
    add_options(parser.add_argument_group(what), _KEYS)


def create(parser: argparse.ArgumentParser) -> None:
    """Make an empty filter."""
    add_options(parser, {"file FILE": "the new filter; must not exist"})
    _sizing(parser)
    like = "take sizes, hash and seed from this filter, instead of -n and -p"
    add_options(parser, {"--like OTHER": like})
    counting = "keep a counter of four bits for each bit, so that lines can be removed"
    family = parser.add_mutually_exclusive_group()
    add_options(family, _FAMILY)
    add_options(parser, _TIMES)
    add_options(family, {"--counting": counting})
    reserve = "zeros (default) writes the whole file; fallocate is instant, but first use is slower"
    add_options(parser, {**_MAKING, "-q --quiet": _QUIET, _RESERVE: reserve})


def add(parser: argparse.ArgumentParser) -> None:
    """Mark lines as seen: the filter to write to, and lines."""
    add_options(parser, {"file FILE": "the filter; created if -n is given"})
    _sizing(parser)
    add_options(parser.add_mutually_exclusive_group(), _FAMILY)
    permissions = "mode bits of the new filter, in octal (default 600)"
    add_options(parser, {**_TIMES, "--permissions MODE": permissions, **_WRITING})
    resident = (
        "keep the filter in shared memory, and write it to its file at the end (default: where "
        "the file is so large that keys would wait for the disk)"
    )
    add_options(parser, {"--[no-]resident=auto": resident})
    parser.add_argument(
        "--stats",
        action="append_const",
        const=STDERR_FD,
        dest="stats_to",
        default=[],
        help="print one JSON object of figures, of all inputs and of each, to stderr",
    )
    stats_to = "write the figures of --stats to this file, in place of what it has"
    add_options(parser, {"--stats-to FILE ...": stats_to, "-q --quiet": _QUIET, **_LINES})
    add_key_options(parser)


def dedup(parser: argparse.ArgumentParser) -> None:
    """Print each line the first time it is seen."""
    add(parser)
    table = {
        "-d --repeated": "print the repeated lines instead",
        "-c --count": "before each line print how many lines of this run's inputs have its key, as "
        "uniq; the inputs are read twice",
        "-u --unique": "print only lines whose key comes once in this run's inputs; all are marked",
        "--dry-run": "print what would be printed, and mark nothing: on a copy of the filter in "
        "TMPDIR",
        "-o --output OUTPUT": "append to this file instead of stdout; compressed, if it is a .gz, "
        ".bz2, .xz or .zst",
        "--output-dir DIR": "append to one file per input in this folder",
        "--repeats-to FILE": "append the lines that are not printed to this file, which is written "
        "and forced to the disk as OUTPUT is; with --output-dir a folder, with one file per input",
        "--relative": "with --output-dir: keep the folders of inputs in it, as they are typed",
        "-j --jobs N=1": "number of processes (with --output-dir)",
        "--durable": "force lines to the disk before they are marked: then a power cut loses none "
        "(slower; the output must be a file)",
        "--when-full {stop,warn}=stop": "stop (default) ends with 6 before the first line that "
        "goes past the filter's plan; warn goes on, and drops more and more new lines as seen",
    }
    add_options(parser, table)


def check(parser: argparse.ArgumentParser) -> None:
    """Print the lines that are in a filter."""
    add_options(parser, {"file FILE": "the filter; opened for reading only", **_LINES})
    add_key_options(parser)
    table = {
        "-v --invert-match": "print the lines that are not in it",
        "-H --with-name": "print the input's name before each line",
    }
    add_options(parser, table)
    table = {
        "-c --count": "print only their number; with -H of each input",
        "-q --quiet": "print nothing; exit with 0 or 1",
    }
    add_options(parser.add_mutually_exclusive_group(), table)


def remove(parser: argparse.ArgumentParser) -> None:
    """Take lines out of a counting filter."""
    made = "the filter, made with create --counting"
    add_options(parser, {"file FILE": made, **_WRITING, **_LINES})
    add_key_options(parser)


def exclude(parser: argparse.ArgumentParser) -> None:
    """List, add or remove exclusions."""
    where = "FILE.exclusions, or in FILE/exclusions for a folder"
    table = {
        "file FILE": f"the filter; its exclusions are in {where}",
        "keys KEY*": "a key; no KEY: each line of stdin is one, or the part of it that is chosen "
        "below",
    }
    add_options(parser, table)
    table = {
        "--add": "exclude these keys",
        "--remove": "stop excluding these keys; exit 1 if none of them was excluded",
        "--list": "print all exclusions as in the file; exit 1 if there is none",
    }
    add_options(parser.add_mutually_exclusive_group(required=True), table)
    add_key_options(parser)


def grow(parser: argparse.ArgumentParser) -> None:
    """Make a full filter grow."""
    table = {
        "file FILE": "the filter, a single file; the folder takes its place, with the file in it",
        _RESERVE: "for the further files; zeros (default) writes them whole, fallocate is instant",
    }
    add_options(parser, {**table, **_WRITING})


def info(parser: argparse.ArgumentParser) -> None:
    """Show what a filter is and what it holds."""
    table = {
        "file FILE+": "a filter",
        "--json": "print one JSON object for each",
        "--fail-above SHARE": "exit with 1 if a filter has more than this share of its planned "
        "keys (such as 0.8); of a rotating folder, in any period; a growing one makes room by "
        "itself",
        "--show-key": "print the hash's secret key as well, for repair --seed; whoever has it can "
        "make keys that the filter confuses",
        "--recount": "first count the set bits again (corrects the figures after a killed writer)",
    }
    add_options(parser, table)


def verify(parser: argparse.ArgumentParser) -> None:
    """Check everything in a filter that can be checked."""
    table = {
        "file FILE+": "a filter; read only, and others may write to it meanwhile",
        "--keys INPUT ...": "check that the key of each line is found; may be repeated; - is stdin",
        "--json": "print one JSON object for each",
    }
    add_options(parser, table)
    add_key_options(parser)


def copy(parser: argparse.ArgumentParser) -> None:
    """Copy a filter."""
    table = {
        "file SRC": "the filter; read only",
        "destination DST": "the copy; must not exist, unless --replace is given",
    }
    add_options(parser, table)
    table = {
        "--plain": "of a counting filter: a plain one, a quarter as large, of the lines that are "
        "in it",
        "--seal": "freeze the copy: read-only for ever, with checksums that verify compares",
    }
    add_options(parser.add_mutually_exclusive_group(), table)
    replace = "put the copy in the place of the filter at DST, in one step; other files stay"
    add_options(parser, {"--replace": replace, **_MAKING, "-q --quiet": _QUIET})


def merge(parser: argparse.ArgumentParser) -> None:
    """Make one filter from several."""
    _combining(parser, "filters, files or folders,")


def intersect(parser: argparse.ArgumentParser) -> None:
    """Make one filter of the keys that several filters share."""
    _combining(parser, "filters")


def _combining(parser: argparse.ArgumentParser, inputs: str) -> None:
    table = {
        "destination OUT": "the new filter; must not exist",
        "file IN+": f"{inputs} with equal parameters, hash and seed (create --like); read only",
    }
    add_options(parser, {**table, **_MAKING, "-q --quiet": _QUIET})


def compare(parser: argparse.ArgumentParser) -> None:
    """Estimate how many keys two filters share."""
    table = {
        "file A": "a filter",
        "other B": "a filter with equal parameters, hash and seed",
        "--json": "print one JSON object",
    }
    add_options(parser, table)


def repair(parser: argparse.ArgumentParser) -> None:
    """Make a sound filter from a damaged one."""
    table = {
        "file FILE": "the damaged filter; not changed",
        "destination DST": "the new filter; must not exist",
    }
    add_options(parser, {**table, **_MAKING})
    group = parser.add_argument_group(
        "for a damaged header: the parameters of the filter",
        "--hash, --seed and --layout, and either -n and -p or the sizes below (info --show-key "
        "shows all of them)",
    )
    table = {
        "--num-bits M": "size of the array in bits",
        "--num-hashes K": "number of positions of each key",
        "--blocks-per-key BLOCKS": "with --num-bits: number of blocks of each key (blocked layout)",
    }
    add_options(group, {**table, **_planning()})
    _shape(
        group,
        "needed: blocked, unless another was given",
        "needed: siphash, unless another was given",
        "needed: the seed or the key of the hash, also as 0x...",
    )


def export(parser: argparse.ArgumentParser) -> None:
    """Write a filter in another program's format."""
    table = {
        "file FILE": "the filter; read only",
        "destination DST": "the new file; must not exist",
    }
    add_options(parser, table)
    guava = "write for Guava's BloomFilter.readFrom (JVM); FILE needs --layout standard --seed 0"
    formats = parser.add_mutually_exclusive_group(required=True)  # room for other formats
    add_options(formats, {"--guava": guava})
    add_options(parser, _MAKING)


def import_(parser: argparse.ArgumentParser) -> None:
    """Make a filter from another program's file."""
    table = {
        "source SRC": "the other program's file; read only",
        "destination FILE": "the new filter; must not exist",
    }
    add_options(parser, table)
    formats = parser.add_mutually_exclusive_group(required=True)  # room for other formats
    add_options(formats, {"--guava": "SRC was written by Guava's BloomFilter.writeTo (JVM)"})
    made_for = "false-positive rate that the file was made for (default 1e-6)"
    add_options(parser, {**_planning(made_for), **_MAKING, "-q --quiet": _QUIET})


def plan(parser: argparse.ArgumentParser) -> None:
    """Show what a filter will cost."""
    number, rate = _planning().items()
    add_options(parser, dict([number]), required=True)
    add_options(parser, dict([rate]) | {"--json": "print one JSON object"})


def help_(parser: argparse.ArgumentParser) -> None:
    """Describe a command."""
    text = "the command; without it, all are listed"
    known, named = tuple(COMMANDS), "COMMAND"
    add = parser.add_argument
    add("command", nargs="?", type=_command, choices=known, metavar=named, help=text)


def _command(name: str) -> str:
    if name not in COMMANDS:
        raise argparse.ArgumentTypeError(no_command(name))
    return name


def completion(parser: argparse.ArgumentParser) -> None:
    """Print what completes commands and options in a shell."""
    text = "bash, zsh or fish; save what is printed where that shell looks, as below"
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help=text)


def manual(parser: argparse.ArgumentParser) -> None:
    """Print the manual page: no option."""


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Gather those of some options that were given."""
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def error_rate(args: argparse.Namespace) -> float:
    """Return the error rate asked for, or the default."""
    return ERROR_RATE if args.error_rate is None else float(args.error_rate)


def rotation(args: argparse.Namespace) -> dict[str, Any]:
    """Gather --keep and --every."""
    times = given(args, "keep", "every")
    if times and not args.rotate:
        raise UsageError(
            "--keep and --every apply only to a rotating folder: give --rotate as well"
        )
    if times and times.get("every", _EVERY) > times.get("keep", _KEEP):
        say(
            "warning: --every is longer than --keep: lines are dropped a period at a time, and so "
            "are known for up to a period longer than --keep"
        )
    return times


def making_options(args: argparse.Namespace) -> dict[str, Any]:
    """Gather the options of commands that make a filter."""
    return {"permissions": args.permissions, "allow_network": args.allow_network}


def writing_options(args: argparse.Namespace) -> dict[str, Any]:
    """Gather the options of commands that write to a filter."""
    return {"lock_timeout": args.lock_timeout, "allow_network": args.allow_network}
