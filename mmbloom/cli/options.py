"""The options that several commands share, and the functions that read their values."""

import argparse
import os
import re
from decimal import Decimal
from typing import Any, get_args

from mmbloom import _engine
from mmbloom._system.typing import HashName
from mmbloom.cli.process import STDERR_FD, UsageError, say
from mmbloom.logs.lines import Empty, KeyRule, LineKeys

# Of filters that commands make: a false positive is a line that dedup drops. In Python it is
# 0.01, for a look into the real data that was not needed is all that one costs most programs.
ERROR_RATE = 1e-6

RATE_HELP = (
    "error rate: the share of new lines that are taken for seen once N lines are in, and dropped "
    "by dedup (default 1e-6, one in a million)"
)

# Seconds of a rotating folder where they are not given: those of `RotatingFilter.create`.
_KEEP, _EVERY = 7 * 86_400, 86_400

_FIELDS = "they are counted from 1, such as 3, or 1,3 for two of them"

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
    # As UTF-8 in each locale, as the header of a file is.
    fields = _engine.fields_of(os.fsencode(text), ord(","))
    parts = [part.decode("utf-8", "surrogateescape") for part in fields]
    numbers = [
        int(part) if re.fullmatch(r"\d+", part, re.ASCII) and f'"{part}"' not in text else part
        for part in parts
    ]
    if not parts or not all(numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is no field: {_FIELDS}")
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


def add_sizing_options(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, required: bool
) -> None:
    """Add the options that give the size of a new filter."""
    add_planning_options(parser, required=required)
    add_shape_options(
        parser,
        layout_help="default blocked",
        hash_help="default siphash, safe for keys of strangers; Guava has murmur3",
        seed_help="seed of the hash, also as 0x... (default random)",
    )


def add_shape_options(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    *,
    layout_help: str,
    hash_help: str,
    seed_help: str,
) -> None:
    """Add the options that say how keys become positions."""
    parser.add_argument("--layout", choices=("blocked", "standard"), help=layout_help)
    parser.add_argument("--hash", choices=get_args(HashName), help=hash_help)
    parser.add_argument("--seed", type=hash_seed, help=seed_help)


def add_planning_options(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    *,
    required: bool,
    rate_help: str = RATE_HELP,
) -> None:
    """Add the options that give the planned capacity and error rate of a filter."""
    parser.add_argument(
        "-n",
        "--capacity",
        type=positive,
        required=required,
        metavar="N",
        help="distinct keys to plan for (1e9, 10M)",
    )
    parser.add_argument("-p", "--error-rate", type=rate, metavar="P", help=rate_help)


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Gather those of some options that were given."""
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def error_rate(args: argparse.Namespace) -> float:
    """Give the error rate asked for, or the default."""
    return ERROR_RATE if args.error_rate is None else float(args.error_rate)


def add_family_options(parser: argparse.ArgumentParser) -> "argparse._MutuallyExclusiveGroup":
    """Add the options that make a folder of files; gives the group of kinds, for another one."""
    family = parser.add_mutually_exclusive_group()
    family.add_argument(
        "--growing",
        action="store_true",
        help="a folder of ever larger files; the first is for -n keys",
    )
    family.add_argument(
        "--rotate",
        action="store_true",
        help="a folder with a file of -n keys for each period, dropped after --keep",
    )
    parser.add_argument(
        "--keep",
        type=duration,
        metavar="TIME",
        help="with --rotate: the least time that a line is known (90s, 12h; default 7d)",
    )
    parser.add_argument(
        "--every",
        type=duration,
        metavar="TIME",
        help="with --rotate: the length of a period (default 1d)",
    )
    return family


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


def add_permissions_option(parser: argparse.ArgumentParser, default: int | None) -> None:
    """Add the option for who may use a new filter; of no default where it may be there already."""
    parser.add_argument(
        "--permissions",
        type=mode_bits,
        default=default,
        metavar="MODE",
        help="mode bits of the new filter, in octal (default 600)",
    )


def add_making_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that make a new filter from others."""
    add_permissions_option(parser, 0o600)
    parser.add_argument("--allow-network", action="store_true", help="allow a network file system")


def making_options(args: argparse.Namespace) -> dict[str, Any]:
    """Gather the options of `add_making_options`."""
    return {"permissions": args.permissions, "allow_network": args.allow_network}


def add_quiet_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that say on a terminal what they did."""
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="on a terminal too, no progress bar and no line of figures in the end",
    )


def add_combining_arguments(parser: argparse.ArgumentParser, inputs: str) -> None:
    """Add the arguments of a command that makes one filter from several `inputs`."""
    parser.add_argument("destination", metavar="OUT", help="the new filter; must not exist")
    parser.add_argument(
        "file",
        nargs="+",
        metavar="IN",
        help=f"{inputs} with equal parameters, hash and seed (create --like); read only",
    )
    add_making_options(parser)
    add_quiet_option(parser)


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that write to a filter."""
    parser.add_argument("file", metavar="FILE", help="the filter; created if -n is given")
    add_sizing_options(parser, required=False)
    add_family_options(parser)
    add_permissions_option(parser, None)
    add_writing_options(parser)
    parser.add_argument(
        "--resident",
        action=argparse.BooleanOptionalAction,
        default="auto",
        help="keep the filter in shared memory, and write it to its file at the end (default: "
        "where the file is so large that keys would wait for the disk)",
    )
    parser.add_argument(
        "--stats",
        action="append_const",
        const=STDERR_FD,
        dest="stats_to",
        default=[],
        help="print one JSON object of figures, of all inputs and of each, to stderr",
    )
    parser.add_argument(
        "--stats-to",
        action="append",
        metavar="FILE",
        help="write the figures of --stats to this file, in place of what it has",
    )
    add_quiet_option(parser)


def add_writing_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for opening a filter for writing."""
    parser.add_argument(
        "--lock-timeout",
        type=seconds,
        metavar="S",
        help="give up after S seconds of waiting for other writers (default: wait)",
    )
    parser.add_argument(
        "--allow-network",
        action="store_true",
        help="allow writing on a network file system (safe from one host only)",
    )


def writing_options(args: argparse.Namespace) -> dict[str, Any]:
    """Gather the options of `add_writing_options`."""
    return {"lock_timeout": args.lock_timeout, "allow_network": args.allow_network}


def add_line_options(parser: argparse.ArgumentParser) -> None:
    """Add the inputs, and the options that select the part of a line that is its key."""
    parser.add_argument(
        "inputs",
        nargs="*",
        default=[],  # otherwise argparse reports them as required
        metavar="INPUT",
        help="files, also compressed by gzip, bzip2, xz or zstd; - or no INPUT: stdin",
    )
    add_key_options(parser)


def add_key_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the part of a line that is its key, and --progress."""
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar (default: on a terminal, unless lines are printed to it)",
    )
    group = parser.add_argument_group("what is compared (as in uniq; the whole line by default)")
    add = group.add_argument
    add("-i", "--ignore-case", action="store_true", help="ignore differences of case (ASCII)")
    add(
        "-f",
        "--skip-fields",
        type=count,
        default=0,
        metavar="N",
        help="skip N fields and the blanks before them",
    )
    add("-s", "--skip-chars", type=count, default=0, metavar="N", help="skip N bytes")
    add("-w", "--check-chars", type=count, metavar="N", help="compare at most N bytes")
    add("--crlf", action="store_true", help="a line's last carriage return is not compared")
    add("-z", "--zero-terminated", action="store_true", help="lines end in NUL, not newline")
    add(
        "-t",
        "--separator",
        type=separator,
        metavar="SEP",
        help="field separator for -k (default: runs of spaces and tabs, as in awk)",
    )
    add(
        "-k",
        "--field",
        type=columns,
        metavar="FIELD",
        help="compare only this field (from 1), or only these: 1,3; with --csv also by the names "
        "in the header; lines that lack one, or in which it is empty, are compared whole",
    )
    add(
        "--csv",
        action="store_true",
        help="the inputs are CSV: quotes, newlines within them, and a header, which is no key "
        "and is printed once; fields are compared by their values; -t is a comma by default",
    )
    add("--no-header", action="store_true", help="with --csv: the first row is one like others")
    add(
        "--json-key",
        action="append",
        type=member,
        metavar="A.B",
        help="compare only this member of JSON lines (write a backslash before a dot within "
        "a name); several, if given again; lines that lack one, or in which it is null or "
        '"", are compared whole',
    )
    add(
        "--empty",
        choices=get_args(Empty),
        help="how to treat a line whose field or member is missing, empty or null: whole "
        "(default, and an error if no line has it) compares the whole line; skip neither prints "
        "nor marks it; key compares what is missing as empty",
    )


def line_keys(args: argparse.Namespace) -> KeyRule:
    """Gather the options of `add_key_options`."""
    if args.field is not None and args.json_key is not None:
        raise UsageError("-k FIELD and --json-key cannot be combined")
    if args.field is None and args.json_key is None and args.empty not in (None, "whole"):
        raise UsageError("--empty is for lines without a field or member: choose it with -k FIELD")
    return _row_keys(args) if args.csv else _line_keys(args)


def _line_keys(args: argparse.Namespace) -> LineKeys:
    if args.separator is not None and args.field is None:
        raise UsageError("-t SEP sets the field separator: choose the field with -k FIELD")
    if args.no_header:
        raise UsageError("--no-header is for CSV: give it with --csv")
    if args.crlf and args.zero_terminated:
        raise UsageError("--crlf is for lines that end in newline: leave out -z")
    chosen: tuple[int | str, ...] = args.field or ()
    if named := [name for name in chosen if isinstance(name, str)]:
        raise UsageError(f"-k: {named[0]!r} is no field: {_FIELDS}; names are for --csv")
    field = tuple(number for number in chosen if isinstance(number, int))
    members: list[str] | None = args.json_key
    return LineKeys(
        crlf=args.crlf,
        field=field[0] if len(field) == 1 else field or None,
        separator=args.separator,
        json_key=members[0] if members and len(members) == 1 else tuple(members or ()) or None,
        skip_fields=args.skip_fields,
        skip_chars=args.skip_chars,
        compare_at_most=args.check_chars,
        ignore_case=args.ignore_case,
        empty=args.empty or "whole",
    )


def _row_keys(args: argparse.Namespace) -> KeyRule:
    from mmbloom.logs.rows import RowKeys  # noqa: PLC0415  few runs read CSV

    for given_, option, why in (
        (args.json_key, "--json-key", "is for lines of JSON"),
        (args.skip_fields, "-f", "skips words: choose fields with -k FIELD"),
        (args.zero_terminated, "-z", "is for lines: rows of CSV end in newline"),
        (args.crlf, "--crlf", "is for lines: of CSV no carriage return before a newline counts"),
    ):
        if given_:
            raise UsageError(f"{option} {why}; leave it out, or --csv")
    named = [column for column in args.field or () if isinstance(column, str)]
    if args.no_header and named:
        raise UsageError(f"-k {named[0]}: with --no-header columns have numbers only, from 1")
    try:
        return RowKeys(
            columns=args.field or (),
            delimiter=delimiter(args) or b"",
            skip_chars=args.skip_chars,
            compare_at_most=args.check_chars,
            ignore_case=args.ignore_case,
            empty=args.empty or "whole",
        )
    except ValueError as error:
        raise UsageError(f"-t: {error}") from None


def terminator(args: argparse.Namespace) -> bytes:
    """Return the byte that ends a line."""
    return b"\0" if args.zero_terminated else b"\n"


def delimiter(args: argparse.Namespace) -> bytes | None:
    """Return the byte between the fields of rows; None of lines."""
    if not args.csv:
        return None
    return b"," if args.separator is None else bytes(args.separator)
