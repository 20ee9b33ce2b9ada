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

FIELDS = "give a number from 1, such as 3, or 1,3 for two fields"

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
        raise argparse.ArgumentTypeError(f"{text!r} is not a field: {FIELDS}")
    return tuple(numbers)


def member(text: str) -> str:
    """Read the name of a member of JSON, which is UTF-8 in each locale."""
    try:
        return os.fsencode(text).decode()
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8, which JSON requires") from None


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
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of a whole, such as 80% or 0.8")
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 30")
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a file mode, such as 640")
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
    "key": ("the key (default: the whole line; -f, -i, -s, -w and -z work as in uniq)", None),
    "header": (
        "the parameters of the filter, needed only if its header is damaged",
        (
            "give --hash, --seed and --layout, and either -n and -p or the sizes below (info "
            "--show-key prints all of them for a sound filter)"
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


_ALLOW_NETWORK = "allow writing on a network file system (safe only if a single host writes)"
_QUIET = "show no progress bar and no summary line, even on a terminal"
_RESERVE = "--reserve {zeros,fallocate}=zeros"

_WRITING = {
    "--lock-timeout S": "give up after S seconds of waiting for other writers (default: wait)",
    "--allow-network": _ALLOW_NETWORK,
}
_MAKING = {
    "--permissions MODE=600": "permissions of the new file, in octal (default 600)",
    "--allow-network": "allow the new file to be on a network file system",
}
_TIMES = {
    "--keep TIME": "with --rotate: remember each line for at least this long (90s, 12h; default "
    "7d)",
    "--every TIME": "with --rotate: the length of a period (default 1d)",
}
_FAMILY = {
    "kind: --growing": "create a growing folder: the first file is for -n keys, each later one for "
    "twice as many as the one before",
    "kind: --rotate": "create a rotating folder: one file for -n keys per period, dropped after "
    "--keep",
}
_INPUTS = {
    "inputs INPUT*": "files, plain or compressed with gzip, bzip2, xz or zstd; - or no INPUT reads "
    "stdin",
}
_PART = {
    "-i --ignore-case": "ignore differences of case (ASCII)",
    "-f --skip-fields N=0": "skip N fields and the blanks before them",
    "-s --skip-chars N=0": "skip N bytes",
    "-w --check-chars N": "compare at most N bytes",
    "--crlf": "ignore a carriage return at the end of a line",
    "-z --zero-terminated": "lines end in NUL, not newline",
    "-t --separator SEP": "field separator for -k (default: runs of spaces and tabs, as in awk)",
    "-k --field FIELD": "compare only this field, counted from 1, or these fields: 1,3; with --csv "
    "also columns by name; a line in which one is missing or empty is compared whole",
    "--csv": "read the inputs as CSV: quoted fields may contain newlines, fields are compared "
    "without their quotes, and the header is printed once and not compared; -t defaults to a comma",
    "--no-header": "with --csv: the inputs have no header",
    "--json-key A.B ...": "compare only this member of JSON lines (write a backslash before a dot "
    "within a name); repeat the option for several; a line in which one is missing, null or "
    '"" is compared whole',
    "--empty {whole,skip,key}": "how to treat a line whose field or member is missing, empty or "
    "null: whole compares the whole line (default; without --empty, it is an error if no line "
    "has that part); skip neither prints nor marks it; key treats the missing part as empty",
}
KEYS = {
    "--[no-]progress": "show a progress bar (default: on a terminal, unless lines are printed "
    "there)",
    **_group("key", _PART),
}
_PLANNING = {
    "-n --capacity N": "capacity: the number of distinct keys to size the filter for (1e9, 10M)",
    "-p --error-rate P": "error rate: the share of new lines reported as seen, and dropped by "
    "dedup, once the filter holds N keys (default 1e-6, one in a million)",
}
_SIZING = {
    **_PLANNING,
    "--layout {blocked,standard}": "how bits are laid out (default blocked)",
    "--hash {siphash,murmur3}": "hash function (default siphash, which is safe with untrusted "
    "keys; Guava uses murmur3)",
    "--seed seed": "seed of the hash, in decimal or as 0x... (default random)",
}
_JSON, _JSON_EACH = ({"--json": f"print one JSON object{each}"} for each in ("", " per filter"))
_NEW_FILTER = "the new filter; must not exist"
_COMBINING = {
    "destination OUT": _NEW_FILTER,
    "file IN+": "filters with the same parameters, hash and seed (see create --like); not changed",
    **_MAKING,
    "-q --quiet": _QUIET,
}
_WHEN_FULL = (
    "what to do before the first line that would exceed the filter's capacity: stop exits with 6; "
    "warn goes on, and more and more new lines are reported as seen; grow makes room, as the "
    "command grow does"
)
_MARKING = {
    "file FILE": "the filter; with -n, it is created if it does not exist",
    **_SIZING,
    **_FAMILY,
    **_TIMES,
    "--permissions MODE": "permissions of the new file, in octal (default 600)",
    **_WRITING,
    "--[no-]resident=auto": "keep the filter in shared memory, and write it to its file at the end "
    "(default: if the file is so large that adding keys would wait for the disk)",
    "--stats ...": "print one JSON object of figures to stderr, in total and for each input",
    "--stats-to FILE ...": "write the figures of --stats to this file, replacing its contents",
    "-q --quiet": _QUIET,
    **_INPUTS,
    **KEYS,
}

OPTIONS: dict[str, Table] = {
    "create": {
        "file FILE": _NEW_FILTER,
        **_SIZING,
        "--like OTHER": "copy the sizes, hash and seed of this filter, instead of giving -n and -p",
        **_FAMILY,
        **_TIMES,
        "kind: --counting": "keep a four-bit counter in place of each bit, so that lines can be "
        "removed",
        **_MAKING,
        "-q --quiet": _QUIET,
        _RESERVE: "how to reserve disk space: zeros (default) writes the whole file; fallocate is "
        "instant, but slows down the first use",
    },
    "dedup": {
        **_MARKING,
        "-d --repeated": "print the repeated lines instead",
        "-c --count": "before each line, print how many lines of this run's inputs have its key, "
        "as uniq -c does; the inputs are read twice",
        "-u --unique": "print only lines whose key occurs once in this run's inputs, but mark all",
        "--dry-run": "print what a run would print, but mark nothing; works on a copy of the "
        "filter in TMPDIR",
        "-o --output OUTPUT": "append to this file instead of stdout, compressed if its name ends "
        "in .gz, .bz2, .xz or .zst",
        "--output-dir DIR": "append to one file per input, in this folder",
        "--repeats-to FILE": "append to this file the lines that are not printed; it is written "
        "and forced to disk like OUTPUT; with --output-dir, append to one file per input in this "
        "folder",
        "--relative": "with --output-dir: recreate the inputs' folders in it, as you typed them",
        "-j --jobs N=1": "with --output-dir: number of processes (default 1)",
        "--durable": "force lines to disk before they are marked, so that a power cut loses none "
        "(slower; the output must be a file)",
        "--when-full {stop,warn,grow}=stop": f"{_WHEN_FULL}; default: stop",
    },
    "add": {**_MARKING, "--when-full {stop,warn,grow}=warn": f"{_WHEN_FULL}; default: warn"},
    "check": {
        "file FILE": "the filter; not changed",
        **_INPUTS,
        **KEYS,
        "-v --invert-match": "print the lines that are not in the filter",
        "-H --with-name": "print the input's name before each line",
        "output: -c --count": "print only the number of lines; with -H, the number for each input",
        "output: -q --quiet": "print nothing, only set the exit code",
    },
    "remove": {
        "file FILE": "the filter, created with create --counting",
        **_WRITING,
        **_INPUTS,
        **KEYS,
    },
    "exclude": {
        "file FILE": "the filter; its exclusions are in FILE.exclusions, or in FILE/exclusions for "
        "a folder",
        "keys KEY*": "a key; without KEY, the key of each line of stdin: the whole line, or the "
        "part chosen below",
        "action: --add": "exclude these keys",
        "action: --remove": "stop excluding these keys; exit with 1 if none of them was excluded",
        "action: --list": "print all exclusions as they are in the file; exit with 1 if there are "
        "none",
        **KEYS,
    },
    "grow": {
        "file FILE": "the filter, a single file, which becomes the first file of the new folder",
        _RESERVE: "how to reserve disk space for later files: zeros (default) writes them whole; "
        "fallocate is instant",
        **_WRITING,
    },
    "info": {
        "file FILE+": "a filter",
        **_JSON_EACH,
        "--fail-above SHARE": "exit with 1 if a filter is fuller than this share of its capacity "
        "(such as 0.8); a rotating folder is as full as its fullest file; a growing folder always "
        "passes",
        "--show-key": "also print the hash's secret key, for repair --seed; anyone who has it can "
        "construct keys that collide",
        "--recount": "count the set bits again first, to correct the figures after a writer was "
        "killed",
    },
    "verify": {
        "file FILE+": "a filter; not changed, and other processes may write to it meanwhile",
        "--keys INPUT ...": "also check that the filter has the key of each line; may be repeated; "
        "- is stdin",
        **_JSON_EACH,
        **KEYS,
    },
    "copy": {
        "file SRC": "the filter; not changed",
        "destination DST": "the copy; must not exist, unless --replace is given",
        "kind: --plain": "make a plain filter, a quarter of the size, from a counting filter",
        "kind: --seal": "make the copy permanently read-only, with checksums for verify",
        "--replace": "replace a filter at DST, in one step; other files are not replaced",
        **_MAKING,
        "-q --quiet": _QUIET,
    },
    "merge": {
        **_COMBINING,
        "file IN+": f"files or folders: {_COMBINING['file IN+']}",
    },
    "intersect": _COMBINING,
    "compare": {
        "file A": "a filter",
        "other B": "a filter with the same parameters, hash and seed",
        **_JSON,
    },
    "repair": {
        "file FILE": "the damaged filter; not changed",
        "destination DST": _NEW_FILTER,
        **_MAKING,
        "header: --num-bits M": "size of the array in bits",
        "header: --num-hashes K": "number of positions per key",
        "header: --blocks-per-key BLOCKS": "with --num-bits: number of blocks per key (blocked "
        "layout)",
        **_group("header", _SIZING),
        "header: --layout {blocked,standard}": "the filter's layout (blocked by default in create)",
        "header: --hash {siphash,murmur3}": "the filter's hash (siphash by default in create)",
        "header: --seed seed": "the seed or secret key of the hash, in decimal or as 0x...",
    },
    "export": {
        "file FILE": "the filter; not changed",
        "destination DST": "the new file; must not exist",
        "format: --guava": "write for Guava's BloomFilter.readFrom (JVM); FILE must have been "
        "created with --layout standard --hash murmur3 --seed 0",
        **_MAKING,
    },
    "import": {
        "source SRC": "the other program's file; not changed",
        "destination FILE": _NEW_FILTER,
        "format: --guava": "SRC was written by Guava's BloomFilter.writeTo (JVM)",
        "-n --capacity N": "capacity the file was made for (default: what its size allows at -p)",
        "-p --error-rate P": "error rate the file was made for (default 1e-6)",
        **_MAKING,
        "-q --quiet": _QUIET,
    },
    "plan": {
        "-n --capacity N!": _PLANNING["-n --capacity N"],
        "-p --error-rate P": _PLANNING["-p --error-rate P"],
        **_JSON,
    },
    "help": {"command COMMAND?": "the command; without it, all commands are listed"},
    "completion": {
        "shell SHELL": "bash, zsh or fish; save the script where that shell looks for it, as below"
    },
    "manual": {},
}
