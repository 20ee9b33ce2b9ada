"""What the value of an option is: text as people write it, read or refused."""

import argparse
import os
import re
from collections.abc import Callable
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
