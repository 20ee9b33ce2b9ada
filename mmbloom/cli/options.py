"""The options of every command, as tables, and how the text of their values is read.

Help needs no numpy, so nothing here does.
"""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from mmbloom.cli.commands import COMMANDS, no_command

FIELDS = "they are counted from 1, such as 3, or 1,3 for two of them"

_SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}


def count(text: str) -> int:
    """Read a whole number as people write it: 1e9, 10M, 1_000_000.

    Examples
    --------
    >>> count("1e9"), count("2.5M"), count("1_000")
    (1000000000, 2500000, 1000)
    """
    factor = _SUFFIXES.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    try:
        value = Decimal(digits) * factor
        # Compare before converting to an int: 1e999999 has a million digits.
        wrong = "is less than 0" if value < 0 else ""
        wrong = "is too large: at most 2^64 - 1, which is 1.8e19" if value >= 2**64 else wrong
        if not wrong and value != int(value):
            wrong = "is not a whole number"
    except (ArithmeticError, ValueError):
        wrong = "is not a count such as 1000000, 1e6 or 1M"
    if wrong:
        raise argparse.ArgumentTypeError(f"{text!r} {wrong}")
    return int(value)


def hash_seed(text: str) -> int:
    """Read a seed: as many digits as it has, or hexadecimal ones after 0x, or as `count`."""
    try:
        return int(text, 16 if text[:2] in {"0x", "0X"} else 10)
    except ValueError:
        return count(text)


def positive(text: str) -> int:
    """Read a count of at least 1."""
    if (value := count(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return value


def columns(text: str) -> tuple[int | str, ...]:
    """Read numbers of fields or, for CSV, names; one with a comma, or of digits, has quotes.

    Examples
    --------
    >>> columns("3"), columns('1,user,"last, first"'), columns('"2024"')
    ((3,), (1, 'user', 'last, first'), ('2024',))
    """
    from mmbloom._engine import fields_of  # noqa: PLC0415  help needs no numpy

    # As UTF-8 in each locale, as the header of a file is.
    fields = fields_of(os.fsencode(text), ord(","))
    parts = [part.decode("utf-8", "surrogateescape") for part in fields]
    numbers = [
        int(part) if re.fullmatch(r"\d+", part, re.ASCII) and f'"{part}"' not in text else part
        for part in parts
    ]
    if not parts or not all(numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is no field: {FIELDS}")
    return tuple(numbers)


def member(text: str) -> str:
    """Read the name of a member of JSON, which is UTF-8 in each locale."""
    try:
        return os.fsencode(text).decode()
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8, as JSON is") from None


def rate(text: str) -> float:
    """Read an error rate between 0 and 1: 0.01, 1e-3, 1%."""
    if not 0 < (value := _part(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate between 0 and 1, such as 0.01")
    return value


def share(text: str) -> float:
    """Read a share of a whole: 80% or 0.8.

    Examples
    --------
    >>> share("80%"), share("0.8"), share("100%")
    (0.8, 0.8, 1.0)
    """
    if not 0 < (value := _part(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of a whole, such as 80% or 0.8")
    return value


def _part(text: str) -> float:
    """Read a number, or a percentage; -1 if it is neither."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return -1.0


def seconds(text: str) -> float:
    """Read a number of seconds, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def duration(text: str) -> int:
    """Read a duration such as 90s, 30m, 12h, 7d or 2w; return seconds."""
    # Here, not above: only commands with a duration need what says of periods what they are.
    from mmbloom.format.folder import seconds_of  # noqa: PLC0415

    try:
        return seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("duration is ")) from None


def mode_bits(text: str) -> int:
    """Read the mode bits of a file, in octal as for chmod."""
    if not re.fullmatch("[0-7]{3,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a mode such as 640")
    return int(text, 8)


def separator(text: str) -> bytes:
    r"""Read a field separator; ``\t``, ``\0`` and other escapes stand for their bytes."""
    escapes = {rb"\t": b"\t", rb"\0": b"\0", rb"\n": b"\n", rb"\\": b"\\"}
    value = re.sub(rb"\\[t0n\\]", lambda found: escapes[found.group()], os.fsencode(text))
    if not value:
        raise argparse.ArgumentTypeError("the field separator is empty")
    return value


def command(text: str) -> str:
    """Read the name of a command."""
    if text not in COMMANDS:
        raise argparse.ArgumentTypeError(no_command(text))
    return text


# By the name of the option; other values are text, or one of a few words.
READERS: dict[str, Callable[[str], Any]] = {
    "blocks_per_key": positive,
    "capacity": positive,
    "check_chars": count,
    "command": command,
    "error_rate": rate,
    "every": duration,
    "fail_above": share,
    "field": columns,
    "jobs": positive,
    "json_key": member,
    "keep": duration,
    "lock_timeout": seconds,
    "num_bits": positive,
    "num_hashes": positive,
    "permissions": mode_bits,
    "seed": hash_seed,
    "separator": separator,
    "skip_chars": count,
    "skip_fields": count,
}

CHOICES = {"command": tuple(COMMANDS), "shell": ("bash", "zsh", "fish")}

Table = Mapping[str, str]
"""How arguments are spelled in a usage, and their help; see `add_options`."""

# Groups that help shows: their titles and descriptions.
_TITLES = {
    "key": ("what is compared (as in uniq; the whole line by default)", None),
    "header": (
        "for a damaged header: the parameters of the filter",
        (
            "--hash, --seed and --layout, and either -n and -p or the sizes below (info --show-key "
            "shows all of them)"
        ),
    ),
}
_NEEDED = {"action", "format"}  # groups of which one option must be given


def add_options(parser: argparse.ArgumentParser, table: Table) -> None:
    """Declare arguments, each spelled as in a usage.

    An option without a value is a flag: ``--json``. A value has a name, or is one of some words; a
    default stands at the end: ``-j --jobs N=1``, ``--layout {blocked,standard}=blocked``. A name in
    small letters is left to argparse; ``!`` behind it says that the option must be given. With
    ``...`` an option can be given several times: ``--keys INPUT ...``. ``--[no-]progress`` has an
    opposite.
    What has no dashes is not an option but an argument, with its name in Python first: ``file
    FILE``, ``inputs INPUT*``. Of the options of a group, such as ``kind: --rotate``, at most one
    can be given, unless the group has a title.
    """
    groups: dict[str, Any] = {"": parser}
    for row, text in table.items():
        group, _, spelled = row.rpartition(": ")
        if group in _TITLES and group not in groups:
            groups[group] = parser.add_argument_group(*_TITLES[group])
        elif group not in groups:
            groups[group] = parser.add_mutually_exclusive_group(required=group in _NEEDED)
        names, options = _read(spelled)
        groups[group].add_argument(*names, help=text, **options)


def _read(spelled: str) -> tuple[list[str], dict[str, Any]]:
    """Return what ``add_argument`` takes for an argument that is spelled so."""
    spelled, _, default = spelled.partition("=")
    words = spelled.split()
    names = [word.replace("[no-]", "") for word in words if word[0] == "-"] or words[:1]
    name, values = names[-1].strip("-").replace("-", "_"), words[len(names) :]
    options: dict[str, Any] = {"default": default or None}
    if "[no-]" in spelled:
        return names, {**options, "action": argparse.BooleanOptionalAction}
    if not values:
        return names, {"action": "store_true"}
    if values == ["..."]:
        return names, {"action": "count", "default": 0}
    if values[0][0] == "{":
        return names, {**options, "choices": tuple(values[0].strip("{}").split(","))}
    value, times = values[0].rstrip("*+?!"), values[0][-1]
    options |= {"metavar": value if value.isupper() else None, "type": READERS.get(name)}
    options |= {"choices": CHOICES[name]} if name in CHOICES else {}
    options |= {"required": True} if times == "!" else {}
    if times in "*+?":
        # Without this default argparse reports arguments of which there may be none.
        options |= {"nargs": times, "default": None if times == "?" else []}
    if values[1:]:
        options |= {"action": "append", "default": []}
    return names, options


def _group(name: str, table: Table) -> Table:
    return {f"{name}: {spelled}": text for spelled, text in table.items()}


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
    "kind: --growing": "a folder of ever larger files; the first is for -n keys",
    "kind: --rotate": "a folder with a file of -n keys for each period, dropped after --keep",
}
_INPUTS = {
    "inputs INPUT*": "files, also compressed by gzip, bzip2, xz or zstd; - or no INPUT: stdin",
}
_PART = {
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
KEYS = {
    "--[no-]progress": "show a progress bar (default: on a terminal, unless lines are printed to "
    "it)",
    **_group("key", _PART),
}
_PLANNING = {
    "-n --capacity N": "distinct keys to plan for (1e9, 10M)",
    "-p --error-rate P": "error rate: the share of new lines that are taken for seen once N lines "
    "are in, and dropped by dedup (default 1e-6, one in a million)",
}
_SIZING = {
    **_PLANNING,
    "--layout {blocked,standard}": "default blocked",
    "--hash {siphash,murmur3}": "default siphash, safe for keys of strangers; Guava has murmur3",
    "--seed seed": "seed of the hash, also as 0x... (default random)",
}
_JSON, _JSON_EACH = ({"--json": f"print one JSON object{each}"} for each in ("", " for each"))
_NEW_FILTER = "the new filter; must not exist"
_COMBINING = {
    "destination OUT": _NEW_FILTER,
    "file IN+": "filters with equal parameters, hash and seed (create --like); read only",
    **_MAKING,
    "-q --quiet": _QUIET,
}
_WHEN_FULL = (
    "stop ends with 6 before the first line that goes past the filter's plan; warn goes on, and "
    "takes more and more new lines for seen; grow makes room, as the command grow does, and goes on"
)
_MARKING = {
    "file FILE": "the filter; created if -n is given",
    **_SIZING,
    **_FAMILY,
    **_TIMES,
    "--permissions MODE": "mode bits of the new filter, in octal (default 600)",
    **_WRITING,
    "--[no-]resident=auto": "keep the filter in shared memory, and write it to its file at the end "
    "(default: where the file is so large that keys would wait for the disk)",
    "--stats ...": "print one JSON object of figures, of all inputs and of each, to stderr",
    "--stats-to FILE ...": "write the figures of --stats to this file, in place of what it has",
    "-q --quiet": _QUIET,
    **_INPUTS,
    **KEYS,
}

OPTIONS: dict[str, Table] = {
    "create": {
        "file FILE": _NEW_FILTER,
        **_SIZING,
        "--like OTHER": "take sizes, hash and seed from this filter, instead of -n and -p",
        **_FAMILY,
        **_TIMES,
        "kind: --counting": "keep a counter of four bits for each bit, so that lines can be "
        "removed",
        **_MAKING,
        "-q --quiet": _QUIET,
        _RESERVE: "zeros (default) writes the whole file; fallocate is instant, but first use is "
        "slower",
    },
    "dedup": {
        **_MARKING,
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
        "--when-full {stop,warn,grow}=stop": f"{_WHEN_FULL}; default: stop",
    },
    "add": {**_MARKING, "--when-full {stop,warn,grow}=warn": f"{_WHEN_FULL}; default: warn"},
    "check": {
        "file FILE": "the filter; opened for reading only",
        **_INPUTS,
        **KEYS,
        "-v --invert-match": "print the lines that are not in it",
        "-H --with-name": "print the input's name before each line",
        "output: -c --count": "print only their number; with -H of each input",
        "output: -q --quiet": "print nothing; exit with 0 or 1",
    },
    "remove": {
        "file FILE": "the filter, made with create --counting",
        **_WRITING,
        **_INPUTS,
        **KEYS,
    },
    "exclude": {
        "file FILE": "the filter; its exclusions are in FILE.exclusions, or in FILE/exclusions for "
        "a folder",
        "keys KEY*": "a key; no KEY: each line of stdin is one, or the part of it that is chosen "
        "below",
        "action: --add": "exclude these keys",
        "action: --remove": "stop excluding these keys; exit 1 if none of them was excluded",
        "action: --list": "print all exclusions as in the file; exit 1 if there is none",
        **KEYS,
    },
    "grow": {
        "file FILE": "the filter, a single file; the folder takes its place, with the file in it",
        _RESERVE: "for the further files; zeros (default) writes them whole, fallocate is instant",
        **_WRITING,
    },
    "info": {
        "file FILE+": "a filter",
        **_JSON_EACH,
        "--fail-above SHARE": "exit with 1 if a filter has more than this share of its planned "
        "keys (such as 0.8); of a rotating folder, in any period; a growing one makes room by "
        "itself",
        "--show-key": "print the hash's secret key as well, for repair --seed; whoever has it can "
        "make keys that the filter confuses",
        "--recount": "first count the set bits again (corrects the figures after a killed writer)",
    },
    "verify": {
        "file FILE+": "a filter; read only, and others may write to it meanwhile",
        "--keys INPUT ...": "check that the key of each line is found; may be repeated; - is stdin",
        **_JSON_EACH,
        **KEYS,
    },
    "copy": {
        "file SRC": "the filter; read only",
        "destination DST": "the copy; must not exist, unless --replace is given",
        "kind: --plain": "of a counting filter: a plain one, a quarter as large, of the lines that "
        "are in it",
        "kind: --seal": "freeze the copy: read-only for ever, with checksums that verify compares",
        "--replace": "put the copy in the place of the filter at DST, in one step; other files "
        "stay",
        **_MAKING,
        "-q --quiet": _QUIET,
    },
    "merge": {
        **_COMBINING,
        "file IN+": f"filters, files or folders, {_COMBINING['file IN+'].removeprefix('filters ')}",
    },
    "intersect": _COMBINING,
    "compare": {
        "file A": "a filter",
        "other B": "a filter with equal parameters, hash and seed",
        **_JSON,
    },
    "repair": {
        "file FILE": "the damaged filter; not changed",
        "destination DST": _NEW_FILTER,
        **_MAKING,
        "header: --num-bits M": "size of the array in bits",
        "header: --num-hashes K": "number of positions of each key",
        "header: --blocks-per-key BLOCKS": "with --num-bits: number of blocks of each key (blocked "
        "layout)",
        **_group("header", _SIZING),
        "header: --layout {blocked,standard}": "needed: blocked, unless another was given",
        "header: --hash {siphash,murmur3}": "needed: siphash, unless another was given",
        "header: --seed seed": "needed: the seed or the key of the hash, also as 0x...",
    },
    "export": {
        "file FILE": "the filter; read only",
        "destination DST": "the new file; must not exist",
        "format: --guava": "write for Guava's BloomFilter.readFrom (JVM); FILE needs --layout "
        "standard --seed 0",
        **_MAKING,
    },
    "import": {
        "source SRC": "the other program's file; read only",
        "destination FILE": _NEW_FILTER,
        "format: --guava": "SRC was written by Guava's BloomFilter.writeTo (JVM)",
        **_PLANNING,
        "-p --error-rate P": "false-positive rate that the file was made for (default 1e-6)",
        **_MAKING,
        "-q --quiet": _QUIET,
    },
    "plan": {
        "-n --capacity N!": _PLANNING["-n --capacity N"],
        "-p --error-rate P": _PLANNING["-p --error-rate P"],
        **_JSON,
    },
    "help": {"command COMMAND?": "the command; without it, all are listed"},
    "completion": {
        "shell SHELL": "bash, zsh or fish; save what is printed where that shell looks, as below"
    },
    "manual": {},
}
