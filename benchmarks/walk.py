"""How far a call walks: which files of the package it enters, and how often it goes to another.

    python benchmarks/walk.py [--rooms]

Traces the Python frames of the calls that matter, on 300 keys, with one thread. A file is a room;
a stay is a stretch of time in one room, so the fewer stays, the straighter the path. What is
compiled has no frames: the kernels, and all of a call with one key or a few. Set
MMBLOOM_ENGINE=numpy to see the reference's rooms as well.
`--rooms` names the rooms of each call, in the order in which it enters them.
"""

import argparse
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import mmbloom
import mmbloom.logs.dedup
import mmbloom.logs.lines
from mmbloom.cli import main

ROOT = os.path.dirname(mmbloom.__file__)
ROUNDS = 10  # the shortest is told: once in a millisecond a file is looked at as well
KEYS = 300  # of a round, and as lines of an input
CAPACITY = 100_000  # room for all rounds of all calls: a filter that is full walks another way


class Walk:
    """The stays of one call, over all its threads."""

    def __init__(self) -> None:
        self.stays: dict[int, list[str]] = {}

    def _see(self, frame: FrameType | None, event: str, _: Any) -> None:
        if event == "return" and frame is not None:
            frame = frame.f_back
        elif event != "call":
            return
        while frame is not None and not frame.f_code.co_filename.startswith(ROOT):
            frame = frame.f_back
        if frame is not None:
            room = frame.f_code.co_filename
            stays = self.stays.setdefault(threading.get_ident(), [])
            if not stays or stays[-1] != room:
                stays.append(room)

    def follow(self, call: Callable[[list[bytes]], object], keys: list[bytes]) -> "Walk":
        """Make the call, and note where it goes."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            call(keys)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self

    def length(self) -> int:
        """How many stays there were."""
        return sum(map(len, self.stays.values()))

    @property
    def rooms(self) -> list[str]:
        """The rooms, in the order in which they were entered."""
        entered = dict.fromkeys(room for stays in self.stays.values() for room in stays)
        return [os.path.relpath(room, ROOT) for room in entered]


def walks(folder: str) -> dict[str, Walk]:
    """Follow each call once, after a first one that leaves nothing to be imported."""
    lines = Path(folder, "lines")
    seen = mmbloom.BloomFilter.create(os.path.join(folder, "one"), CAPACITY, threads=1)
    growing = mmbloom.GrowingFilter.create(
        os.path.join(folder, "growing"), initial_capacity=CAPACITY, threads=1
    )
    command = ["dedup", os.path.join(folder, "cli"), str(lines), "-o", os.path.join(folder, "out")]

    def dedup(keys: list[bytes]) -> None:
        lines.write_bytes(b"\n".join(keys))
        _run(command)

    _run(["create", os.path.join(folder, "cli"), "-n", str(CAPACITY)])
    calls: dict[str, Callable[[list[bytes]], object]] = {
        "BloomFilter.add_many": seen.add_many,
        "BloomFilter.contains_many": seen.contains_many,
        "BloomFilter.add": lambda keys: [seen.add(key + b" alone") for key in keys[:1]],
        "BloomFilter.claim": partial(_claim, seen),
        "GrowingFilter.add_many": growing.add_many,
        "dedup(), a filter that is open": partial(_dedup, seen),
        "mmbloom dedup FILTER FILE": dedup,
    }
    found = {}
    for name, call in calls.items():
        call([b"first"])
        rounds = [[b"%d of %d" % (i, number) for i in range(KEYS)] for number in range(ROUNDS)]
        found[name] = min((Walk().follow(call, keys) for keys in rounds), key=Walk.length)
    for made in (seen, growing):
        assert made.approx_count < CAPACITY // 2
        made.close()
    return found


def _run(command: list[str]) -> None:
    """Run a command, which must end well: one that stops on the way walks less far."""
    if code := main(command):
        sys.exit(f"mmbloom {' '.join(command)} ended with {code}")


def _claim(seen: mmbloom.BloomFilter, keys: list[bytes]) -> None:
    with seen.claim(key + b" claimed" for key in keys):
        pass


def _dedup(seen: mmbloom.BloomFilter, keys: list[bytes]) -> None:
    lines = io.BytesIO(b"\n".join(keys))
    mmbloom.logs.dedup.dedup(
        seen, mmbloom.logs.lines.read_chunks(lines), mmbloom.logs.dedup.Discard()
    )


def report(*, rooms: bool) -> None:
    """Print a row a call."""
    print(f"| call ({mmbloom.engine} engine) | rooms | stays |\n| --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, walk in walks(folder).items():
            stays = " + ".join(str(len(stays)) for stays in walk.stays.values())
            print(f"| `{name}` | {len(walk.rooms)} | {stays} |")
            if rooms:
                print("".join(f"    {room}\n" for room in walk.rooms), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", action="store_true", help="name the rooms of each call")
    report(rooms=parser.parse_args().rooms)
