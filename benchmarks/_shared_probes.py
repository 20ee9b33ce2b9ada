"""The probes where several processes, or one that is killed, have the same file."""

import math
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

from _apart import DiedError, apart, at_once, barrier
from _keys import byte_strings
from _library import Library
from _probes import FEW, KEYS, ROOM, Cell, missing, rounded, yes

_PATIENCE = 120.0  # seconds
_KEYS = 4000  # of each process a file: they share few cache lines, which a race needs
_SLICE = 200
_SECONDS_A_FILE = 0.05


def killed_writer(library: Library, folder: str) -> Cell:
    """Kill a process with SIGKILL after its adds have returned, and reopen the file."""
    path = os.path.join(folder, "seen")
    try:
        apart(_add_and_die, library, path)
    except DiedError:
        lost = missing(library.open(path)) if os.path.exists(path) else ROOM
    return yes(lost == 0, lost=lost)


def _add_and_die(library: Library, path: str) -> None:
    bloom = library.create(path, ROOM)
    for key in KEYS:
        library.add(bloom, key)
    os.kill(os.getpid(), signal.SIGKILL)


def two_writers(library: Library, folder: str, files: int) -> Cell:
    """Let two processes add different keys at once; count those that are missing then."""
    paths = [os.path.join(folder, f"seen{number}") for number in range(files)]
    for path in paths:
        library.settle(library.create(path, 2 * _KEYS), path)
    added = _both(_add_keys, library, paths)
    lost = sum(
        missing(library.open(path), byte_strings(who * _KEYS, numbers[place]))
        for place, path in enumerate(paths)
        for who, numbers in enumerate(added)
    )
    figures: dict[str, float] = {"lost": lost, "added": sum(map(sum, added))}
    if lost:
        return Cell(f"{_share(lost / figures['added'])} lost", figures)
    return Cell("yes" if library.locks else "none lost; no lock", figures)


def one_is_told(library: Library, folder: str, files: int) -> Cell:
    """Let two processes add the same keys at once: each is new to exactly one of them."""
    paths = [os.path.join(folder, f"seen{number}") for number in range(files)]
    for path in paths:
        library.settle(library.create(path, _KEYS, FEW), path)
    answers = _both(_ask_keys, library, paths)
    told = [
        one + other for pair in zip(*answers, strict=True) for one, other in zip(*pair, strict=True)
    ]
    figures: dict[str, float] = {"twice": told.count(2), "never": told.count(0), "keys": len(told)}
    if wrong := figures["twice"] + figures["never"]:
        return Cell(f"{_share(wrong / len(told))} wrong", figures)
    return Cell("yes" if library.locks else "none wrong; no lock", figures)


def _share(part: float) -> str:
    """Write a share of keys; of few, the power of ten only, as the next run finds others."""
    if part >= 0.1:
        return f"{rounded(100 * part)} %"
    return f"1 in {10 ** round(-math.log10(part)):,}"


def _both(work: Callable[..., Any], library: Library, paths: list[str]) -> list[Any]:
    """Run it in two processes, which meet before each file."""
    meeting = barrier(2)
    return at_once(work, [(library, paths, who, meeting) for who in (0, 1)], _PATIENCE)


def _add_keys(library: Library, paths: list[str], who: int, meeting: Barrier) -> list[int]:
    """Add own keys to each file, as many as time allows; tell how many."""
    keys = byte_strings(who * _KEYS, _KEYS)
    added = []
    for path in paths:
        bloom = library.open(path)
        meeting.wait(_PATIENCE)
        end = time.monotonic() + _SECONDS_A_FILE
        number = 0
        while number < _KEYS and time.monotonic() < end:
            library.add_all(bloom, keys[number : number + _SLICE])
            number += _SLICE
        library.settle(bloom, path)
        added.append(number)
        meeting.wait(_PATIENCE)
    return added


def _ask_keys(library: Library, paths: list[str], who: int, meeting: Barrier) -> list[list[bool]]:  # noqa: ARG001
    """Add the same keys to each file; tell which were said to be new."""
    keys = byte_strings(0, _KEYS)
    answers = []
    for path in paths:
        bloom = library.open(path)
        meeting.wait(_PATIENCE)
        answers.append([library.add_tells(bloom, key) for key in keys])
        library.settle(bloom, path)
        meeting.wait(_PATIENCE)
    return answers
