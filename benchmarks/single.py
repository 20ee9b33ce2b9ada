"""How long does a key take alone, or with a few others? Single calls and small batches.

Question: nanoseconds of `in` and `add` for one key, against the filters that users would pick
instead; and the batch size from which `contains_many` and `add_many` pay off against a loop over
rbloom. How long does a call with ten keys take in each form of keys? What is the floor for an
`add` that has to take a lock?

Method: text keys of 34 to 41 characters, equal for every contender and made again for each step,
in a filter that fits in cache, at an error rate of 1 %; "present" keys were added, as other
objects. Each contender gets its own process each round, and they take turns. One key: `for key in
keys: key in seen` (and `seen.add(key)`) inside a function. Every figure includes the time of the
loop, which is also listed on its own. fastbloom-rs has calls for each type that are faster than
its `in` and `add`, and they are used here. Few keys: the lists are made before the clock starts;
rbloom is queried by a list comprehension, the fastest loop that keeps the answers. Ten keys in
each form: slices of one list, array or column, also made before the clock starts; all forms of a
round share a process, and each has its own filters, all of one size. The floor is `flock_pairs.c`:
a pair of `flock` calls on a file of its own.

Limits: the other libraries lock nothing, and all but pybloomfiltermmap3 and bloomsieve keep
nothing in a file. sketch-oxide is left out because its keys are `bytes` only. Python caches the
hash of a key that was queried before: rbloom, abloom and a set take less time than this if the
same object is queried again. No other process wants the lock here; contention.py measures that.
"""

import argparse
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from _keys import FORMS, Form, byte_strings, strings
from _measure import Report, Rows, apart, benchmark, compile_c, layout, seconds
from _ours import make, understands
from _peers import PACKAGES, PEERS, installed, missing

OURS, LOCKED = "mmbloom", "mmbloom, within locked()"
RBLOOM = "rbloom"
PRESENT, ABSENT = (
    ("in, bytes, present", "in, str, present"),
    ("in, bytes, absent", "in, str, absent"),
)
ADD = "add"
FLOOR, LOOP, NS = "a pair of flock calls, from C", "the loop alone", "ns"
SIZES = (1, 10, 50, 100, 1000, 10_000)
TEN = 10
TEN_AS = (
    *("list of bytes", "list of str", "S array", "U array", "Arrow strings"),
    *("list of int", "int64 array", "Arrow int64"),
)
PER_TYPE = {"fastbloom-rs": ("add_bytes", {bytes: "contains_bytes", str: "contains_str"})}
_OTHERS = 10**11  # keys from here on warm up, and are not asked for
_WARM = 100  # of these, before few keys a call
_FORMS: dict[type, Callable[[int, int], list[Any]]] = {bytes: byte_strings, str: strings}

Keys = list[Any]
Loop = Callable[[Any, Any], object]
Step = tuple[Loop, Any]


def ask(seen: Any, keys: Keys) -> None:
    for key in keys:
        key in seen  # noqa: B015  only the time matters


def add(seen: Any, keys: Keys) -> None:
    for key in keys:
        seen.add(key)


def call(method: Callable[[Any], object], keys: Keys) -> None:
    for key in keys:
        method(key)


def nothing(_: Any, keys: Keys) -> None:
    for _key in keys:
        pass


def contains_many(seen: Any, batches: list[Keys]) -> None:
    for keys in batches:
        seen.contains_many(keys)


def add_many(seen: Any, batches: list[Keys]) -> None:
    for keys in batches:
        seen.add_many(keys)


def loop_of_in(seen: Any, batches: list[Keys]) -> None:
    for keys in batches:
        [key in seen for key in keys]


def loop_of_add(seen: Any, batches: list[Keys]) -> None:
    for keys in batches:
        for key in keys:
            seen.add(key)


def update(seen: Any, batches: list[Keys]) -> None:
    for keys in batches:
        seen.update(keys)


Few = dict[str, tuple[str, Loop]]
ADDS: Few = {
    f"{OURS}, add_many": (OURS, add_many),
    f"{RBLOOM}, loop of add": (RBLOOM, loop_of_add),
    f"{RBLOOM}, update": (RBLOOM, update),
}
ASKS: Few = {
    f"{OURS}, contains_many": (OURS, contains_many),
    f"{RBLOOM}, loop of in": (RBLOOM, loop_of_in),
}
"""What is done with few keys: row to the contender and how."""


@contextmanager
def made(name: str, folder: str, capacity: int) -> Iterator[Any]:
    """Make a contender's filter; it is deleted in the end."""
    if name in PEERS:
        peer = PEERS[name](folder, capacity)
        yield peer.bloom
        peer.close()
        return
    with make(folder, capacity) as seen, seen.locked() if name == LOCKED else nullcontext():
        yield seen
    os.unlink(seen.path)


def one(name: str, folder: str, keys: int, number: int) -> dict[str, list[float]]:
    """Run one round of a contender, a key a call."""
    keys = max(1, keys // PEERS[name].share) if name in PEERS else keys
    times: dict[str, list[float]] = {}

    def note(column: str, work: Loop, seen: Any, some: Keys) -> None:
        times[column] = [1e9 * seconds(lambda: work(seen, some)) / len(some)]

    with made(name, folder, 3 * keys) as seen:
        adding: Step = (add, seen)
        asking: dict[type, Step] = dict.fromkeys(_FORMS, (ask, seen))
        if name in PER_TYPE:
            put, get = PER_TYPE[name]
            adding = (call, getattr(seen, put))
            asking = {kind: (call, getattr(seen, method)) for kind, method in get.items()}
        for kind, form in _FORMS.items():
            warm = form(_OTHERS, max(1, keys // 100))
            add(seen, warm)
            asking[kind][0](asking[kind][1], warm)
        first = 3 * number * keys
        note(ADD, *adding, byte_strings(first, keys))
        add(seen, strings(first + keys, keys))
        starts = (first, first + keys)
        for (kind, form), start, column in zip(_FORMS.items(), starts, PRESENT, strict=True):
            note(column, *asking[kind], form(start, keys))
        for (kind, form), column in zip(_FORMS.items(), ABSENT, strict=True):
            note(column, *asking[kind], form(first + 2 * keys, keys))
        assert all(key in seen for key in byte_strings(first, min(100, keys)))
        assert all(key in seen for key in strings(first + keys, min(100, keys)))
    return times


def alone(keys: int, number: int) -> float:
    """Time the loop that does nothing with its keys."""
    some = byte_strings(number * keys, keys)
    return 1e9 * seconds(lambda: nothing(None, some)) / keys


def few(
    way: str,
    folder: str,
    keys: int,
    number: int,
    *,
    sizes: Sequence[int] = SIZES,
    form: Form = byte_strings,
) -> Rows:
    """Run one round of a way to use few keys a call: about as many keys for each size."""
    name, work = (ADDS | ASKS)[way]
    calls = {size: max(1, keys // size) for size in sizes}
    room = sum(size * count for size, count in calls.items())
    first = 2 * number * room
    steps = (
        {way: first} if way in ADDS else {f"{way}, present": first, f"{way}, absent": first + room}
    )
    rows: Rows = {step: {} for step in steps}
    with made(name, folder, room + 2 * _WARM) as seen:
        fill = add_many if name == OURS else update
        fill(seen, [form(_OTHERS, _WARM), *([] if way in ADDS else [form(first, room)])])
        work(seen, [form(_OTHERS, 10)] * 10)
        for step, start in steps.items():
            at = start
            for size, count in calls.items():
                flat = form(at, size * count)
                at += len(flat)
                batches = [flat[i : i + size] for i in range(0, len(flat), size)]
                elapsed = seconds(partial(work, seen, batches))
                rows[step][str(size)] = [1e9 * elapsed / len(flat)]
    return rows


def ten(folder: str, keys: int, number: int) -> Rows:
    """Run one round of ten keys a call in each form that can be had here: microseconds a call."""
    rows: Rows = {}
    for name in (name for name in TEN_AS if understands(FORMS[name])):
        for way in (f"{OURS}, contains_many", f"{OURS}, add_many"):
            found = few(way, folder, keys, number, sizes=(TEN,), form=FORMS[name])
            for step, row in found.items():
                column = step.removeprefix(f"{OURS}, ")
                rows.setdefault(name, {})[column] = [TEN * value / 1e3 for value in row[str(TEN)]]
    return rows


def gather(rows: Rows, more: Rows) -> None:
    """Add the figures of a round."""
    for name, row in more.items():
        for column, values in row.items():
            rows.setdefault(name, {}).setdefault(column, []).extend(values)


def run(args: argparse.Namespace, folder: str) -> Report:
    """Let all take turns, round by round."""
    peers = [name for name, peer in PEERS.items() if peer.takes_text]
    names = [OURS, LOCKED, *filter(installed, peers)]
    program = compile_c("flock_pairs.c", folder)
    ways = [way for way, (name, _) in {**ASKS, **ADDS}.items() if name == OURS or installed(name)]
    single: Rows = {}
    floor: Rows = {}
    some: Rows = {}
    by_form: Rows = {}
    for number in range(args.rounds):
        for name in names:
            gather(single, {name: apart(one, name, folder, args.keys, number)})
        gather(floor, {LOOP: {NS: [apart(alone, args.keys, number)]}})
        if program:
            command = [program, os.path.join(folder, "floor"), str(args.keys)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            gather(floor, {FLOOR: {NS: [float(done.stdout)]}})
        for way in ways:
            gather(some, apart(few, way, folder, args.keys, number))
        gather(by_form, apart(ten, folder, args.keys, number))
    a_call: Rows = {
        name: {size: [int(size) * value for value in row[size]] for size in row}
        for name, row in some.items()
    }
    parts = [
        f"### One key a call, {args.keys:,} keys a step, in a filter for {3 * args.keys:,}",
        layout("ns a key", single),
        layout("", floor, 1),
        "### Few keys a call: ns a key",
        layout("keys a call", some),
        "### Few keys a call: ns a call",
        layout("keys a call", a_call),
        "### Ten keys a call, by their form: microseconds a call",
        layout("", by_form, 2),
    ]
    figures = {"single": single, "floor": floor, "few": some, "forms": by_form}
    return Report("\n\n".join(parts) + missing(peers), figures)


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "keys": (100_000, "keys a step; of the slowest peer a tenth"),
            "rounds": (7, "rounds"),
        },
        ("numpy", "mmh3", *PACKAGES),
    )
