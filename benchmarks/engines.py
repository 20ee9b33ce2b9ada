"""How much faster is the compiled engine, and what does the keyed hash cost? By form of keys.

Question: nanoseconds per key to add and to query keys in each form that mmbloom takes, with the
numpy engine and with the compiled one, in a filter that fits in cache and in one with a capacity
of 10^9 keys; and with SipHash, the default, and with MurmurHash3.

Method: each engine runs in processes of its own. In cache, each form gets a new filter each round,
with the capacity of one round, touched first by 1 % of other keys. In the large filter all forms
share one file, whose pages are touched first, and each gets its own keys. Queries are for the keys
just added, as other objects. The two hashes take turns in one process, with the compiled engine if
it is built. Each has a large filter of its own, and their order changes each round.

Limits: converting keys to a form is not timed.
"""

import argparse
import os

from _keys import FORMS
from _measure import (
    Figures,
    Report,
    Rows,
    apart,
    benchmark,
    engine_is_built,
    ratio,
    seconds,
    spread,
    table,
)
from _ours import Mmbloom, takes, understands

NUMPY, COMPILED = "numpy", "compiled"
HASHES = DEFAULT, MURMUR3 = "siphash", "murmur3"
_OTHERS = 10**11  # keys from here on touch pages, and are not asked for
_TOUCH = 500  # one key for so many planned: more than six a page


def one_form(
    name: str, made: Mmbloom, first: int, keys: int, times: dict[str, list[float]]
) -> None:
    """Time one round of one form."""
    form = FORMS[name]
    batch = form(first, keys)
    times["add"].append(1e9 / keys * seconds(lambda: made.add(batch)))
    batch = form(first, keys)
    times["query"].append(1e9 / keys * seconds(lambda: made.hits(batch)))


def forms(folder: str, keys: int, capacity: int, rounds: int) -> Figures:
    """Measure all forms with the engine of this process."""
    names = [name for name, form in FORMS.items() if understands(form)]
    figures: Figures = {
        place: {name: {"add": [], "query": []} for name in names} for place in ("cache", "large")
    }
    few = max(1, keys // 100)
    for number in range(rounds):
        for name in names:
            made = Mmbloom(folder, keys + few)
            made.add(FORMS[name](_OTHERS, few))
            one_form(name, made, number * keys, keys, figures["cache"][name])
            made.close()
    made = Mmbloom(folder, capacity)
    made.add(FORMS["int64 array"](_OTHERS, max(1, capacity // _TOUCH)))
    for number in range(rounds):
        for place, name in enumerate(names):
            first = (number * len(names) + place) * keys
            one_form(name, made, first, keys, figures["large"][name])
    made.close()
    return figures


def hashes(folder: str, keys: int, capacity: int, rounds: int) -> Rows:
    """Measure all forms with both hashes, in turns, in two large filters."""
    names = [name for name, form in FORMS.items() if understands(form)]
    rows: Rows = {
        name: {f"{one} {what}": [] for what in ("add", "query") for one in HASHES} for name in names
    }
    made: dict[str, Mmbloom] = {}
    for one in HASHES:
        os.mkdir(os.path.join(folder, one))
        made[one] = Mmbloom(os.path.join(folder, one), capacity, hash=one)
        made[one].add(FORMS["int64 array"](_OTHERS, max(1, capacity // _TOUCH)))
    for number in range(rounds):
        for place, name in enumerate(names):
            first = (number * len(names) + place) * keys
            for one in HASHES if (number + place) % 2 else HASHES[::-1]:
                times = {what: rows[name][f"{one} {what}"] for what in ("add", "query")}
                one_form(name, made[one], first, keys, times)
    for some in made.values():
        some.close()
    return rows


def lay_out_hashes(rows: Rows, title: str) -> str:
    """Lay out the table of the two hashes."""
    cells = []
    for name, row in rows.items():
        shown = [name]
        for what in ("add", "query"):
            default, other = (row[f"{one} {what}"] for one in HASHES)
            shown += [spread(other), spread(default), ratio(default, other)]
        cells.append(shown)
    columns = [f"{one} {what}" for what in ("add", "query") for one in HASHES[::-1]]
    header = ["ns per key", *columns[:2], "siphash / murmur3", *columns[2:], "siphash / murmur3"]
    return f"### {title}\n\n{table(header, cells)}"


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and set the engines side by side."""
    given = (folder, args.keys, args.large, args.rounds)
    found: dict[str, Figures] = {
        name: apart(forms, *given, engine=name)
        for name in (NUMPY, COMPILED)
        if engine_is_built(name)
    }
    titles = {
        "cache": f"{args.keys:,} keys in a filter sized for them",
        "large": f"{args.keys:,} keys a round in a filter sized for {args.large:,}",
    }
    sections, figures = [], Figures()
    for place, title in titles.items():
        rows: Rows = {
            name: {
                f"{name_of_engine} {what}": found[name_of_engine][place][name][what]
                for what in ("add", "query")
                for name_of_engine in found
            }
            for name in found[NUMPY][place]
        }
        columns = [f"{one} {what}" for what in ("add", "query") for one in (NUMPY, COMPILED)]
        cells = []
        for name, row in rows.items():
            times = [row.get(column, []) for column in columns]
            gains = [ratio(times[i], times[i + 1]) for i in (0, 2)]
            shown = [spread(some) for some in times]
            cells.append([name, *shown[:2], gains[0], *shown[2:], gains[1]])
        header = ["ns per key", *columns[:2], "speed-up", *columns[2:], "speed-up"]
        sections.append(f"### {title}\n\n{table(header, cells)}")
        figures[place] = rows
    if takes(hash=DEFAULT):
        engine = COMPILED if COMPILED in found else NUMPY
        rows = apart(hashes, *given, engine=engine)
        sections.append(lay_out_hashes(rows, f"The two hashes, {engine}: {titles['large']}"))
        figures["hashes"] = rows
    if COMPILED not in found:
        sections.append("The compiled engine is not built here.")
    left_out = [name for name in FORMS if name not in found[NUMPY]["cache"]]
    if left_out:
        sections.append(f"Not in this version, or not installed: {', '.join(left_out)}")
    return Report("\n\n".join(sections), figures)


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "keys": (1_000_000, "keys a round"),
            "large": (1_000_000_000, "capacity of the large filter"),
            "rounds": (5, "rounds"),
        },
        ("numpy", "mmh3", "pyarrow"),
    )
