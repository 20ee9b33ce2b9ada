"""The ratios to reach: what was asked of mmbloom, and what a run measured."""

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import cliff
import cluster
import contention
import counting
import dedup_log
import engines
import insert_query
import members
import memory
import open_filter
import single
import start_up
from _measure import Figures, table
from _peers import IN_MEMORY, MAPPED


class Goal(NamedTuple):
    """A figure to reach; `measured` takes it from a script's figures, None if it is not there."""

    what: str
    against: str
    script: str
    asked: float
    measured: Callable[[Figures], float | None]
    at_most: bool = False
    unit: str = "x"

    def met(self, value: float) -> bool:
        """Say whether a value reaches it."""
        return value <= self.asked if self.at_most else value >= self.asked


def _median(figures: Figures, place: str, row: str, column: str) -> float | None:
    values = figures.get(place, {}).get(row, {}).get(column, [])
    return statistics.median(values) if values else None


def _over(
    place: str, column: str, theirs: Iterable[str], ours: str
) -> Callable[[Figures], float | None]:
    """Divide the least of their medians by ours."""
    names = list(theirs)

    def measured(figures: Figures) -> float | None:
        found = [_median(figures, place, name, column) for name in names]
        there = [value for value in found if value is not None]
        own = _median(figures, place, ours, column)
        return min(there) / own if there and own else None

    return measured


_QUERY, _DEDUP, _OPEN = "insert_query", "dedup_log", "open_filter"
_OURS = insert_query.OURS
_ADD, _ASK = "add_many, list of bytes, 10^9-key file", "contains_many, list of bytes, 10^9-key file"
_BESIDE_THE_LOCK = 400  # nanoseconds of a lone add
_SINGLE, _RBLOOM, _PYBLOOM = "single", single.RBLOOM, "pybloomfiltermmap3"
_BYTES, _STR = zip(single.PRESENT, single.ABSENT, strict=True)
_RBLOOM_LOAD = "rbloom, saveable hash: load, query one key"


def _large(ours: str, theirs: Iterable[str], column: str) -> Callable[[Figures], float | None]:
    return _over("large", column, theirs, ours)


def _limit(form: str) -> Callable[[Figures], float | None]:
    return _over("large", "add", [f"{_OURS}, {form}"], insert_query.LIMIT)


def _counting(what: str, against: str) -> Callable[[Figures], float | None]:
    def measured(figures: Figures) -> float | None:
        there = _median(figures, "counting", f"{counting.PLAIN}, int64 array", against)
        ours = _median(figures, "counting", f"{counting.COUNTING}, int64 array", what)
        return ours / there if there and ours else None

    return measured


def _dedup(theirs: str, place: str = "dedup") -> Callable[[Figures], float | None]:
    return _over(place, "wall", [theirs], dedup_log.OURS)


def _members(name: str, *, per_file: int) -> Callable[[Figures], float | None]:
    plain = f"{members.PLAIN}, {members.BYTES}"
    times = _over("members", members.ABSENT, [f"{name}, {members.BYTES}"], plain)

    def measured(figures: Figures) -> float | None:
        found = times(figures)
        return None if found is None else found / per_file

    return measured


def _worst(*found: Callable[[Figures], float | None]) -> Callable[[Figures], float | None]:
    """Give the highest of several figures, if all are there."""

    def measured(figures: Figures) -> float | None:
        values = [one(figures) for one in found]
        there = [value for value in values if value is not None]
        return max(there) if len(there) == len(values) else None

    return measured


def _ask(columns: Iterable[str], against: str) -> Callable[[Figures], float | None]:
    """Divide our time of `in` by theirs, where that is highest."""
    return _worst(*(_over("single", column, [single.OURS], against) for column in columns))


def _few(size: int) -> Callable[[Figures], float | None]:
    """Divide our time of a call with few keys by that of a loop, where that is highest."""
    ours, loop = f"{single.OURS}, contains_many", f"{single.RBLOOM}, loop of in"
    return _worst(
        *(
            _over("few", str(size), [f"{ours}, {asked}"], f"{loop}, {asked}")
            for asked in ("present", "absent")
        )
    )


def _lone_add(figures: Figures) -> float | None:
    pair = _median(figures, "floor", single.FLOOR, single.NS)
    ours = _median(figures, "single", single.OURS, single.ADD)
    return ours / (pair + _BESIDE_THE_LOCK) if pair and ours else None


def _peak(figures: Figures) -> float | None:
    return _median(figures, "large", dedup_log.OURS, "peak")


def _start(ours: str) -> Callable[[Figures], float | None]:
    return _over("start_up", start_up.WALL, [ours], start_up.NUMPY)


def _import(figures: Figures) -> float | None:
    ours, numpy = (
        _median(figures, "start_up", name, start_up.WALL)
        for name in (start_up.IMPORT_FILTER, start_up.NUMPY)
    )
    return ours - numpy if ours and numpy else None


def _keyed(figures: Figures) -> float | None:
    name = "list of bytes"
    times = [
        _median(figures, "hashes", name, f"{one} add") for one in (engines.DEFAULT, engines.MURMUR3)
    ]
    return times[0] / times[1] if times[0] and times[1] else None


def _slowest(figures: Figures) -> float | None:
    batches = figures.get("cliff", {}).get(cliff.RESIDENT, {}).get("add", [])
    return max(batches) / statistics.median(batches) if batches else None


GOALS = [
    Goal(
        "add_many, list of bytes, filter in cache",
        "abloom, serializable",
        _QUERY,
        1.0,
        _over("cache", "add", ["abloom, serializable"], _OURS),
    ),
    Goal(_ADD, "fastest in memory", _QUERY, 3, _large(_OURS, IN_MEMORY, "add")),
    Goal(_ASK, "fastest in memory", _QUERY, 3, _large(_OURS, IN_MEMORY, "hit")),
    Goal(_ADD, "fastest mapped", _QUERY, 15, _large(_OURS, MAPPED, "add")),
    Goal(_ASK, "fastest mapped", _QUERY, 15, _large(_OURS, MAPPED, "hit")),
    Goal(
        "add_many, int64 array, 10^9-key file: time",
        "the C limit",
        _QUERY,
        1.6,
        _limit("int64 array"),
        at_most=True,
    ),
    Goal(
        "add_many, Arrow strings, 10^9-key file: time",
        "the C limit",
        _QUERY,
        1.6,
        _limit("Arrow strings"),
        at_most=True,
    ),
    Goal(
        "add_many, list of bytes, 10^9-key file: time",
        'hash="murmur3"',
        "engines",
        1.25,
        _keyed,
        at_most=True,
    ),
    Goal("dedup", "awk", _DEDUP, 10, _dedup(dedup_log.AWK)),
    Goal("dedup", "sort -u", _DEDUP, 6, _dedup(dedup_log.SORT)),
    Goal("dedup", "DuckDB", _DEDUP, 3, _dedup(dedup_log.DUCKDB)),
    Goal("dedup", "polars", _DEDUP, 5, _dedup(dedup_log.POLARS)),
    Goal("dedup", "loop over rbloom", _DEDUP, 7, _dedup(dedup_log.RBLOOM)),
    *(
        Goal(
            f"dedup, {what}: time",
            "the C limit",
            _DEDUP,
            asked,
            _over(place, "wall", [dedup_log.OURS], dedup_log.LIMIT),
            at_most=True,
        )
        for what, place, asked in (
            ("long lines", "dedup", 1.2),
            ("short lines", "short", 2.5),
            ("25 million short lines", "large short", 1.2),
        )
    ),
    Goal("dedup, short lines", "DuckDB", _DEDUP, 3, _dedup(dedup_log.DUCKDB, "short")),
    Goal("dedup, large log", "DuckDB", _DEDUP, 6, _dedup(dedup_log.DUCKDB, "large")),
    Goal("dedup, large log: peak memory", "", _DEDUP, 200, _peak, at_most=True, unit=" MiB"),
    Goal("in, bytes: time", "rbloom", _SINGLE, 1.5, _ask(_BYTES, _RBLOOM), at_most=True),
    Goal("in, str: time", "rbloom", _SINGLE, 1.5, _ask(_STR, _RBLOOM), at_most=True),
    Goal("in: time", _PYBLOOM, _SINGLE, 0.75, _ask([*_BYTES, *_STR], _PYBLOOM), at_most=True),
    Goal(
        "add, within locked(): time",
        "rbloom",
        _SINGLE,
        1,
        _over("single", single.ADD, [single.LOCKED], _RBLOOM),
        at_most=True,
    ),
    Goal(
        "a single add: time",
        f"a pair of flock calls and {_BESIDE_THE_LOCK} ns",
        _SINGLE,
        1,
        _lone_add,
        at_most=True,
    ),
    Goal(
        "contains_many, 10 keys a call: time",
        "loop over rbloom",
        _SINGLE,
        1.5,
        _few(10),
        at_most=True,
    ),
    Goal(
        "import of BloomFilter: time above numpy's import",
        "",
        "start_up",
        25,
        _import,
        at_most=True,
        unit=" ms",
    ),
    *(
        Goal(f"{name}: time", "numpy's import", "start_up", 1.5, _start(name), at_most=True)
        for name in (start_up.NEW, start_up.EXISTING)
    ),
    Goal(
        "open, query one key, close",
        "rbloom.load, query one key",
        _OPEN,
        300,
        _over("open", "milliseconds", [_RBLOOM_LOAD], open_filter.OPEN),
    ),
    Goal(
        "open, query one key, close",
        "",
        _OPEN,
        2,
        lambda figures: _median(figures, "open", open_filter.OPEN, "milliseconds"),
        at_most=True,
        unit=" ms",
    ),
    Goal(
        "memory of 8 workers that share a filter",
        "8 times rbloom",
        "memory",
        6,
        _over("memory", "all", [memory.PEER], memory.OURS),
    ),
    Goal(
        "numpy engine, add_many, 10^9-key file",
        "pybloomfiltermmap3",
        _QUERY,
        1.5,
        _large(insert_query.NUMPY, ["pybloomfiltermmap3"], "add"),
    ),
    Goal(
        "4 writers, batches of 64 Ki, in total",
        "one writer",
        "contention",
        1.0,
        _over("writers", contention.RATE, ["4"], "1"),
    ),
    *(
        Goal(
            f"CountingBloomFilter, {what}, int64 array: time",
            f"BloomFilter, {against}",
            "counting",
            3,
            _counting(what, against),
            at_most=True,
        )
        for what, against in (("add", "add"), ("query", "query"), ("remove", "add"))
    ),
    Goal(
        "GrowingFilter, 4 files, absent keys: time per file",
        "BloomFilter",
        "members",
        1.5,
        _members(members.GROWING, per_file=members.FILES[members.GROWING]),
        at_most=True,
    ),
    Goal(
        "RotatingFilter, 7 periods, absent keys: time",
        "BloomFilter",
        "members",
        3,
        _members(members.ROTATING, per_file=1),
        at_most=True,
    ),
    Goal(
        "add, int64 array, 10^9 keys at 1e-6: time",
        "at 1 %",
        "cliff",
        4,
        _over("cliff", "add", [cliff.RESIDENT], cliff.SMALL),
        at_most=True,
    ),
    Goal("the slowest batch of these: time", "the median", "cliff", 10, _slowest, at_most=True),
    Goal(
        "new rows on Dask",
        "its drop_duplicates",
        "cluster",
        1.3,
        _over("cluster", cluster.NEW, [cluster.DASK_EXACT], cluster.DASK),
    ),
]


def ratios(scripts: Mapping[str, Figures]) -> str:
    """Lay out all goals with what the scripts' figures say, medians against medians."""
    cells = []
    for goal in GOALS:
        value = goal.measured(scripts.get(goal.script, {}))
        asked = f"{'at most' if goal.at_most else 'at least'} {goal.asked:g}{goal.unit}"
        measured, met = "-", "not measured"
        if value is not None:
            measured = f"{value:,.{1 if value >= 10 else 2}f}{goal.unit}"
            met = "yes" if goal.met(value) else "**no**"
        cells.append([goal.what, goal.against, asked, measured, met])
    return table(["", "against", "goal", "measured", "met"], cells)
