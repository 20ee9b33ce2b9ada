"""How long does a key take? mmbloom against the filters that users would pick instead.

Question: nanoseconds per key to add and to query keys of about 40 characters, in a filter that
fits in cache and in one with a capacity of 10^9 keys, at an error rate of 1 %.

Method: every contender gets equal keys, made again for each step, and each peer uses its fastest
documented call. Each contender runs in a process of its own. In cache they take turns, each round
in a new filter with the capacity of one round, touched first by 1 % of other keys. The filter for
10^9 keys is made once per contender: the round that first touches its pages is listed as "cold",
and the other rounds follow at once. "Present" queries the keys just added, as other objects;
"absent" keys were never added, and those found are the false positives.

Limits: pages of a mapped file that the kernel has written back (after some 30 s) cause another
fault at their next change; the rounds are too short to show this. After these few rounds the
filter for 10^9 keys is still nearly empty. A set keeps the keys. The C limit gets hashes instead
of keys, and answers in one thread.
"""

import argparse
import os
import subprocess
from typing import Any, NamedTuple

from _keys import FORMS
from _measure import (
    Report,
    Rows,
    apart,
    benchmark,
    compile_c,
    ratio,
    seconds,
    spread,
    table,
)
from _ours import Mmbloom, takes, understands
from _peers import PACKAGES, PEERS, Peer, installed, missing

from mmbloom.sizing import plan

OURS = "mmbloom"
LIMIT = "the C limit"
NUMPY = "mmbloom, numpy engine"
COLUMNS = {"cold": "add, cold", "add": "add", "hit": "query, present", "miss": "query, absent"}
FALSE = "false"
_OTHERS = 10**11  # keys from here on touch pages, and are not asked for


class Way(NamedTuple):
    """A way to use mmbloom: the form of its keys, options of `create`, and the engine."""

    form: str = "list of bytes"
    options: dict[str, Any] = {}  # noqa: RUF012  never changed
    engine: str | None = None


WAYS: dict[str, Way] = {
    OURS: Way(),
    "mmbloom, threads=1": Way(options={"threads": 1}),
    "mmbloom, layout=standard": Way(options={"layout": "standard"}),
    NUMPY: Way(engine="numpy"),
    "mmbloom, int64 array": Way("int64 array"),
    "mmbloom, S array": Way("S array"),
    "mmbloom, Arrow strings": Way("Arrow strings"),
}


def ways() -> list[str]:
    """Name the ways that this version of mmbloom has."""
    return [
        name for name, way in WAYS.items() if takes(**way.options) and understands(FORMS[way.form])
    ]


class Rounds:
    """The rounds of one contender; made and run in a process of its own.

    Parameters
    ----------
    name : str
        Which contender.
    folder : str
        Where its file goes.
    capacity : int
        The capacity of the filters; by default the keys of one round.
    keys : int
        Keys a round.
    """

    def __init__(self, name: str, folder: str, keys: int, capacity: int | None = None) -> None:
        self.name, self.folder = name, folder
        self.keys = max(1, keys // PEERS[name].share) if name in PEERS else keys
        self.capacity = capacity or self.keys + self.few
        self.form = FORMS[WAYS[name].form if name in WAYS else "list of bytes"]
        self.times: dict[str, list[float]] = {column: [] for column in (*COLUMNS, FALSE)}

    @property
    def few(self) -> int:
        """So many keys touch every page of a small filter."""
        return max(1, self.keys // 100)

    def make(self) -> Mmbloom | Peer:
        """Make a new filter."""
        if self.name in WAYS:
            return Mmbloom(self.folder, self.capacity, **WAYS[self.name].options)
        return PEERS[self.name](self.folder, self.capacity)

    def cold(self, number: int) -> Mmbloom | Peer:
        """Make a filter and time its first keys."""
        made, batch = self.make(), self.form(_OTHERS + number * self.keys, self.keys)
        self.note("cold", seconds(lambda: made.add(batch)))
        return made

    def warm(self, made: Mmbloom | Peer, number: int) -> None:
        """Time one round in a filter whose pages are touched."""
        first = 2 * number * self.keys
        batch = self.form(first, self.keys)
        self.note("add", seconds(lambda: made.add(batch)))
        batch = self.form(first, self.keys)
        self.note("hit", seconds(lambda: made.hits(batch)))
        batch = self.form(first + self.keys, self.keys)
        found: list[int] = []
        self.note("miss", seconds(lambda: found.append(made.hits(batch))))
        self.times[FALSE].append(100 * found[0] / self.keys)

    def note(self, column: str, elapsed: float) -> None:
        """Keep a time as nanoseconds per key."""
        self.times[column].append(1e9 * elapsed / self.keys)


def one_small(name: str, folder: str, keys: int, number: int) -> dict[str, list[float]]:
    """Run one round of a contender, in a new filter sized for it."""
    rounds = Rounds(name, folder, keys)
    rounds.cold(number).close()
    made = rounds.make()
    made.add(rounds.form(_OTHERS, rounds.few))
    rounds.warm(made, number)
    made.close()
    return rounds.times


def all_large(
    name: str, folder: str, keys: int, capacity: int, count: int
) -> dict[str, list[float]]:
    """Run all rounds of a contender in one large filter."""
    rounds = Rounds(name, folder, keys, capacity)
    made = rounds.cold(0)
    for number in range(count):
        rounds.warm(made, number)
    made.close()
    return rounds.times


def limit(
    program: str, folder: str, keys: int, capacity: int, rounds: int
) -> dict[str, list[float]]:
    """Run the C program."""
    params = plan(capacity)
    given = [params.num_bytes, params.num_hashes, keys, rounds]
    command = [program, os.path.join(folder, "limit"), *map(str, given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [map(float, line.split()) for line in done.stdout.splitlines()]
    return {
        column: list(values)
        for column, values in zip((*COLUMNS, FALSE), zip(*lines, strict=True), strict=True)
    }


def lay_out(title: str, rows: Rows) -> str:
    """Lay out one table."""
    cells = []
    for name, times in rows.items():
        share = PEERS[name].share if name in PEERS else 1
        cells.append(
            [
                name if share == 1 else f"{name} (one key in {share})",
                *(spread(times[column]) for column in COLUMNS),
                ratio(times["add"], rows[OURS]["add"]),
                ratio(times["hit"], rows[OURS]["hit"]),
                spread(times[FALSE], 3),
            ]
        )
    header = ["ns per key", *COLUMNS.values(), "add: times mmbloom's", "query: times mmbloom's"]
    return f"### {title}\n\n" + table([*header, "% false positives"], cells)


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure in the cache, then at large."""
    names = [*ways(), *filter(installed, PEERS)]
    engines = {name: way.engine for name, way in WAYS.items()}
    small: Rows = {name: {} for name in names}
    for number in range(args.rounds):
        for name in names:
            some = apart(one_small, name, folder, args.keys, number, engine=engines.get(name))
            for column, values in some.items():
                small[name].setdefault(column, []).extend(values)
    given = (folder, args.keys, args.large, args.rounds)
    large: Rows = {name: apart(all_large, name, *given, engine=engines.get(name)) for name in names}
    program = compile_c("insert_limit.c", folder)
    if program:
        small[LIMIT] = limit(program, folder, args.keys, args.keys, args.rounds)
        large[LIMIT] = limit(program, *given)
    tables = [
        lay_out(f"{args.keys:,} keys in a filter sized for them", small),
        lay_out(f"{args.keys:,} keys a round in a filter sized for {args.large:,}", large),
    ]
    absent = [name for name in WAYS if name not in names]
    notes = missing(PEERS) + (f"\n\nNot in this version: {', '.join(absent)}" if absent else "")
    return Report("\n\n".join(tables) + notes, {"cache": small, "large": large})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "keys": (2_000_000, "keys a round"),
            "large": (1_000_000_000, "capacity of the large filter"),
            "rounds": (5, "rounds after the cold one"),
        },
        ("numpy", "mmh3", "pyarrow", *PACKAGES),
    )
