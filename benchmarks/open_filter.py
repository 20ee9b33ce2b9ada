"""How long until the first answer? Opening a filter file and querying one key.

Question: milliseconds to create a filter, and to open it and query one key, in one process;
against the peers that can be saved, reading back a filter of the same capacity.

Method: one file is opened many times, each time as a new object that is closed again; the file is
in the page cache, as after any earlier use. Each peer runs in a process of its own.

Limits: later queries pay for whatever is not yet in memory when they touch its pages: see huge.py.
rbloom gets a hash function that can be saved.
"""

import argparse
import os
from functools import partial

from _measure import Report, Rows, apart, benchmark, ratio, seconds, spread, table
from _peers import PACKAGES, PEERS, installed, missing

from mmbloom import BloomFilter

OPEN, CREATE = "mmbloom: open, query one key, close", "mmbloom: create, close"
_KEY = b"a key"
_CREATIONS = 5


def ask(path: str) -> None:
    """Open, query one key, close."""
    with BloomFilter.open(path) as seen:
        assert _KEY in seen


def make(path: str, capacity: int) -> None:
    """Create a filter, close it."""
    BloomFilter.create(path, capacity).close()


def ours(folder: str, capacity: int, rounds: int) -> Rows:
    """Time creating and opening."""
    created = []
    for number in range(_CREATIONS):
        path = os.path.join(folder, f"seen{number}")
        created.append(1000 * seconds(partial(make, path, capacity)))
        if number:
            os.unlink(path)
    path = os.path.join(folder, "seen0")
    with BloomFilter.open(path) as seen:
        seen.add(_KEY)
    opened = [1000 * seconds(partial(ask, path)) for _ in range(rounds)]
    size = float(os.path.getsize(path))
    os.unlink(path)
    return {
        OPEN: {"milliseconds": opened, "bytes": [size]},
        CREATE: {"milliseconds": created, "bytes": [size]},
    }


def load(name: str, folder: str, capacity: int, rounds: int) -> dict[str, list[float]]:
    """Save a peer's filter, time reading it back."""
    path = os.path.join(folder, "saved")
    peer = PEERS[name](folder, capacity)
    peer.add([_KEY])
    peer.save(path)
    peer.close()

    def load_and_ask() -> None:
        loaded = PEERS[name].load(path)
        assert loaded.hits([_KEY])
        loaded.close()

    times = [1000 * seconds(load_and_ask) for _ in range(rounds)]
    size = float(os.path.getsize(path))
    os.unlink(path)
    return {"milliseconds": times, "bytes": [size]}


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure mmbloom, then each peer."""
    rows = ours(folder, args.capacity, args.rounds)
    names = [name for name, peer in PEERS.items() if peer.loads]
    for name in filter(installed, names):
        rows[f"{name}: load, query one key"] = apart(load, name, folder, args.capacity, args.loads)
    cells = [
        [
            name,
            spread(row["milliseconds"], 3),
            ratio(row["milliseconds"], rows[OPEN]["milliseconds"]),
            spread(row["bytes"]),
        ]
        for name, row in rows.items()
    ]
    title = f"### A filter for {args.capacity:,} keys at 1 %\n\n"
    laid_out = table(["", "milliseconds", "times mmbloom's", "bytes of file"], cells)
    return Report(title + laid_out + missing(names), {"open": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of the filters"),
            "rounds": (101, "openings of mmbloom"),
            "loads": (5, "loads of each peer"),
        },
        ("numpy", *PACKAGES),
    )
