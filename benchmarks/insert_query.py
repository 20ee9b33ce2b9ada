"""How long does a key take? The numpy engine against the filters that users would pick.

Question: nanoseconds per key to add and to query a list of `bytes` of about 40 characters,
in a filter that fits in the cache and in one planned for 10^9 keys.

Method: rounds of fresh keys, the same objects for every contender, each peer by its fastest
documented call. The first round touches the filter's pages and is given as "cold"; medians
are of the other rounds, which follow at once. False positives are counted on absent keys.

Limits: pages of a mapped file that the kernel has written back (after some 30 s) cost a
fault again at their next change; the rounds are too quick to show it. rbloom uses Python's
own hash, whose filters cannot be saved; a set keeps the keys.
Peers that are not installed are left out: pip install 'mmbloom[bench]'.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from _measure import environment, ratio, seconds, spread, table

from mmbloom import BloomFilter

OURS = "mmbloom (numpy engine)"


class Contender(NamedTuple):
    """One way to keep keys: add a list, count the hits in a list."""

    add: Callable[[list[bytes]], object]
    hits: Callable[[list[bytes]], int]
    close: Callable[[], object]


def _mmbloom(folder: str, capacity: int, layout: Any = "blocked") -> Contender:
    path = os.path.join(folder, f"mmbloom-{layout}")
    seen = BloomFilter.create(path, capacity, 0.01, layout=layout)

    def close() -> None:
        seen.close()
        os.unlink(path)

    return Contender(seen.add_many, lambda keys: int(seen.contains_many(keys).sum()), close)


def _standard(folder: str, capacity: int) -> Contender:
    return _mmbloom(folder, capacity, "standard")


def _pybloomfilter(folder: str, capacity: int) -> Contender:
    import pybloomfilter  # noqa: PLC0415  a peer that need not be installed

    path = os.path.join(folder, "pybloomfilter")
    bloom = pybloomfilter.BloomFilter(capacity, 0.01, path)

    def close() -> None:
        bloom.close()
        os.unlink(path)

    return Contender(bloom.update, lambda keys: _count(bloom, keys), close)


def _rbloom(_folder: str, capacity: int) -> Contender:
    import rbloom  # noqa: PLC0415  a peer that need not be installed

    bloom = rbloom.Bloom(capacity, 0.01)
    return Contender(bloom.update, lambda keys: _count(bloom, keys), bloom.clear)


def _set(_folder: str, _capacity: int) -> Contender:
    seen: set[bytes] = set()
    return Contender(seen.update, lambda keys: _count(seen, keys), seen.clear)


def _count(container: Any, keys: Iterable[bytes]) -> int:
    # map keeps the loop in C: the fastest query these offer.
    return sum(map(container.__contains__, keys))


CONTENDERS: dict[str, Callable[[str, int], Contender]] = {
    OURS: _mmbloom,
    "mmbloom, layout=standard": _standard,
    "pybloomfiltermmap3": _pybloomfilter,
    "rbloom": _rbloom,
    "set": _set,
}


def make_keys(count: int, prefix: str) -> list[bytes]:
    """Make distinct keys of about 40 characters."""
    return [
        b"%s 192.168.%d.%d GET /item/%d" % (prefix.encode(), i % 255, i % 77, i * 7919)
        for i in range(count)
    ]


class Times(NamedTuple):
    """Nanoseconds per key, one figure a round; false positives and absent keys tried."""

    cold: list[float]
    add: list[float]
    hit: list[float]
    miss: list[float]
    false: list[float]


def measure(
    folder: str, capacity: int, batches: list[tuple[list[bytes], list[bytes]]], *, fresh: bool
) -> dict[str, Times]:
    """Run all contenders; with `fresh`, each round in a new filter."""
    times: dict[str, Times] = {}
    for name, make in CONTENDERS.items():
        try:
            contender = make(folder, capacity)
        except ImportError:
            continue
        times[name] = Times([], [], [], [], [])
        for number, (keys, absent) in enumerate(batches):
            if fresh and number:
                contender.close()
                contender = make(folder, capacity)
            one_round(contender, keys, absent, times[name], cold=number == 0)
        contender.close()
    return times


def one_round(
    contender: Contender, keys: list[bytes], absent: list[bytes], times: Times, *, cold: bool
) -> None:
    """Time one contender on one round's keys."""
    scale = 1e9 / len(keys)
    add = seconds(lambda: contender.add(keys)) * scale
    if cold:
        times.cold.append(add)
        return
    times.add.append(add)
    times.hit.append(seconds(lambda: contender.hits(keys)) * scale)
    found: list[int] = []
    times.miss.append(seconds(lambda: found.append(contender.hits(absent))) * scale)
    times.false.append(100 * found[0] / len(absent))


def report(title: str, times: dict[str, Times]) -> str:
    """Lay out one table."""
    ours = times[OURS]
    rows = [
        [
            name,
            spread(t.cold),
            spread(t.add),
            spread(t.hit),
            spread(t.miss),
            ratio(t.add, ours.add),
            spread(t.false, 4),
        ]
        for name, t in times.items()
    ]
    header = ["ns per key", "first add, cold", "add", "query, present", "query, absent"]
    return f"### {title}\n\n" + table([*header, "add: mmbloom is", "% false positives"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--large", type=int, default=1_000_000_000, help="capacity")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where filters are made (default: a temporary one)")
    args = parser.parse_args()
    print(environment("mmbloom", "numpy", "mmh3", "pybloomfiltermmap3", "rbloom"), end="\n\n")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        batches = [
            (make_keys(args.keys, f"round{number}"), make_keys(args.keys, f"absent{number}"))
            for number in range(args.rounds + 1)
        ]
        small = measure(folder, args.keys, batches, fresh=True)
        print(report(f"{args.keys:,} keys in a filter planned for them", small), end="\n\n")
        large = measure(folder, args.large, batches, fresh=False)
        print(report(f"{args.keys:,} keys a round in a filter for {args.large:,}", large))


if __name__ == "__main__":
    main()
