"""Mistakes of a first hour: each is refused by a message that stands on the page of errors."""

import gzip
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import mmbloom as run_command
from pages import DOCS

import mmbloom

MESSAGES: list[str] = re.findall(
    r"^\| `(.+?)` \|", (DOCS / "errors.md").read_text("utf-8"), re.MULTILINE
)

COMMANDS = [
    "dedup new.bloom lines",
    "dedup lines",
    "create seen.bloom -n 10",
    "dedup seen.bloom -n 5e6 lines",
    "info short.bloom",
    "info damaged.bloom",
    "dedup seen.bloom lines",
    "remove seen.bloom lines",
    "merge all.bloom seen.bloom other.bloom",
    "dedpu seen.bloom lines",
    "dedup seen.bloom lines -o lines",
    "check seen.bloom lines -k 9",
    "check seen.bloom utf16",
    "check seen.bloom cut.gz",
]


def _locked(seen: Any) -> None:
    with seen.locked(), mmbloom.open("seen.bloom", lock_timeout=0) as other:
        other.add_many(["a"])


def _closed(seen: Any) -> None:
    seen.close()
    seen.add("a")


def _replaced(seen: Any) -> None:
    os.replace("other.bloom", "seen.bloom")
    seen.add_many(["a"])


CALLS: list[Callable[[Any], object]] = [
    lambda _: mmbloom.open("nothing.bloom"),
    lambda _: mmbloom.BloomFilter("seen.bloom"),
    lambda _: mmbloom.open_or_create("seen.bloom", 1e6),  # type: ignore[arg-type]
    lambda _: mmbloom.open_or_create("seen.bloom", 1000, 1),
    lambda seen: seen.add(["a", "b"]),
    lambda seen: seen.add(1.5),
    lambda seen: seen.add_many("abc"),
    lambda seen: seen.add_many(np.array([1.5])),
    lambda seen: seen.add_many(np.ma.masked_array([1, 2], [False, True])),
    lambda seen: seen.add("\ud800"),
    lambda _: mmbloom.open("seen.bloom", "r").add("a"),
    lambda seen: seen.add_many(range(900)),
    len,
    list,
    lambda seen: seen | seen,
    lambda seen: seen.clear(),
    _locked,
    _closed,
    _replaced,
]
# They need another user, or another file system: tests/storage has them.
NOT_HERE = {"no permission to write", "is on a network file system"}


def stands_on_the_page(said: str) -> str:
    """Return the message of the page that was said."""
    for message in MESSAGES:
        if re.search(".*".join(map(re.escape, message.split("…"))), said, re.DOTALL):
            return message
    raise AssertionError(f"not on the page: {said}")


def test_mistakes_of_a_first_hour(here: Path) -> None:
    """Every message of the page is said, and every mistake below is on the page."""
    Path("lines").write_text("".join(f"{n}\n" for n in range(200)))
    Path("utf16").write_text("a\nb\n", encoding="utf-16")
    Path("cut.gz").write_bytes(gzip.compress(os.urandom(5000))[:3000])
    for name in ("seen", "other"):
        mmbloom.BloomFilter.create(f"{name}.bloom", 100).close()
    whole = Path("seen.bloom").read_bytes()
    Path("short.bloom").write_bytes(whole[:4100])
    Path("damaged.bloom").write_bytes(whole[:40] + b"XX" + whole[42:])
    found = set()
    for command in COMMANDS:
        ended = run_command(*shlex.split(command))
        assert ended.code not in (0, 1), command
        found.add(stands_on_the_page(ended.err))
    for call in CALLS:
        with mmbloom.open("seen.bloom") as seen, pytest.raises((Exception, Warning)) as caught:
            call(seen)
        found.add(stands_on_the_page(str(caught.value)))
    rest = {message for message in MESSAGES if message not in found}
    assert len(rest) == len(NOT_HERE)
    assert all(message.startswith(tuple(NOT_HERE)) for message in rest), rest
