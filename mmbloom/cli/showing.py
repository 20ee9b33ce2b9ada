"""Commands that show figures: of a filter, of two, of one that is planned."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import mmbloom
from mmbloom._engine import engine
from mmbloom._system.typing import Layout
from mmbloom.cli.filters import error_rate, fill_of
from mmbloom.cli.process import NOT_ALIKE, OK, TOO_FULL, UsageError, in_rows, say, terminal_columns
from mmbloom.errors import IncompatibleFiltersError
from mmbloom.filters.info import FilterInfo, FolderInfo
from mmbloom.format.header import HEADER_BYTES
from mmbloom.sizing import best_practice, best_practice_table
from mmbloom.sizing import plan as plan_for
from mmbloom.sizing.params import HASHES, KeyHash

WIDTH = 40


def bar(share: float, encoding: str, width: int = WIDTH) -> str:
    """Draw a share from 0 to 1; the bar is empty or full only at exactly 0 or 1.

    Examples
    --------
    >>> bar(0.25, "ascii")
    '[##########------------------------------]'
    >>> bar(0.25, "utf-8")
    '██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░'
    """
    filled = min(max(round(width * share), share > 0), width - (share < 1))
    drawn = "█" * filled + "░" * (width - filled)
    try:
        drawn.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return f"[{drawn.replace('█', '#').replace('░', '-')}]"
    return drawn


_LEAST_AGE = 60.0  # seconds; a younger filter allows no forecast


_DAY = 86_400


_LONGEST = 1000 * 365 * _DAY  # a date has only four digits for the year


def when_full(info: FilterInfo, now_ns: int) -> str:
    """Return when the planned capacity will be passed; "" if that is not known.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> with BloomFilter.create(os.path.join(tempfile.mkdtemp(), "a"), 1000, seed=1) as seen:
    ...     added, info = seen.update(range(100)), seen.info()
    >>> when_full(info, info.created_ns), when_full(info, info.created_ns + 10**13)[-32:]
    ('', 'at the pace since it was created')
    """
    count = info.approx_count
    if info.past_plan:
        return f"passed: {fill_of(info).taken('lines')}"
    if count > info.capacity:
        return "reached"
    age = (now_ns - info.created_ns) / 1e9
    if info.sealed or count == 0 or age < _LEAST_AGE:
        return ""
    left = age * (info.capacity - count) / count
    if left > _LONGEST:
        return "not passed in a thousand years, at the pace since it was created"
    then = datetime.fromtimestamp(now_ns / 1e9 + left, UTC)
    date = then.date().isoformat() if left > 2 * _DAY else f"{then:%Y-%m-%d %H:%M} UTC"
    return f"will be passed around {date}, at the pace since it was created"


def info(args: argparse.Namespace) -> int:
    """Run the command."""
    with mmbloom.open(args.file, "r+" if args.recount else "r") as seen:
        if args.recount:
            seen.recount()
        info = seen.info()
    chosen, key = _hash_of(info), None
    # Not unless asked for: what is printed ends up in logs, and in reports to others.
    if args.show_key and HASHES[chosen.name].secret:
        key = f"0x{chosen.seed:0{HASHES[chosen.name].seed_bits // 4}x}"
    if args.json:
        record: dict[str, Any] = {**info.as_dict(), "engine": engine}
        for each in (record, *record.get("files", ())) if key else ():
            each.get("settings", each)["seed"] = key
        print(json.dumps(record))
    else:
        rows = _of_file(info) if isinstance(info, FilterInfo) else _of_folder(info)
        rows.insert(2, ("hash", f"{chosen.name}, seed {key or chosen.spelled_seed}"))
        rows.append(("engine", f"{engine} (of this installation, not of the file)"))
        width = max(15, *(len(name) for name, _ in rows))  # files of folders have longer names
        print(in_rows([row for row in rows if row[1]], width))
    if args.fail_above is not None and (full := _fullest(info)):
        used = full.approx_count / full.capacity
        if used > args.fail_above:
            about = f"it {fill_of(full)}"
            say(f"{args.file}: is {used:.0%} full, above {args.fail_above:.0%}: {about}")
            return TOO_FULL
    return OK


def _fullest(info: FilterInfo | FolderInfo) -> FilterInfo | None:
    """Return the file that decides how full a filter is; None if it makes room by itself."""
    if isinstance(info, FilterInfo):
        return info
    files = info.files if info.kind == "rotating" else []
    return max(files, key=lambda file: file.approx_count / file.capacity, default=None)


def _hash_of(info: FilterInfo | FolderInfo) -> KeyHash:
    if isinstance(info, FilterInfo):
        return KeyHash(info.hash, info.seed)
    name: Any = info.settings["hash"]
    seed: Any = info.settings["seed"]
    return KeyHash(name, seed)


def _of_file(info: FilterInfo) -> list[tuple[str, str]]:
    several = f" in {info.blocks_per_key} blocks of a page" * (info.blocks_per_key > 1)
    return [
        ("path", info.path),
        ("layout", f"{info.layout}, {info.num_hashes} hashes{several}"),
        ("size", f"{info.file_bytes:,} bytes, {info.num_bits:,} {info.kind}"),
        ("sealed", "permanently read-only" * info.sealed),
        ("resident", "in shared memory; the file is as of the last flush" * info.resident),
        ("sized for", f"{info.capacity:,} keys at an error rate of {info.error_rate:g}"),
        *_held(info),
        ("exclusions", _exclusions(info)),
        ("key rule", info.key_rule or ""),
        ("capacity", when_full(info, time.time_ns())),
        ("created", _time(info.created_ns)),
        ("last flush", _time(info.flushed_ns) if info.flushed_ns else "never"),
        ("uuid", info.uuid),
        ("note", _unfinished(info.unfinished_batches)),
    ]


def _of_folder(info: FolderInfo) -> list[tuple[str, str]]:
    gone = f", and {info.past_files} expired, which the next period removes"
    past = sum(file.past_plan for file in info.files)
    passed = f"passed in {past} of {len(info.files)} files: {fill_of(info).taken('lines')}"
    each = [
        (
            os.path.basename(file.path),
            f"about {file.approx_count:,} of {file.capacity:,} keys, from {_time(file.created_ns)}",
        )
        for file in info.files
    ]
    return [
        ("path", info.path),
        ("kind", f"{info.kind}: {_plan(info)}"),
        ("files", f"{len(info.files)}{gone * bool(info.past_files)}"),
        ("size", f"{info.file_bytes:,} bytes"),
        ("sealed", "permanently read-only" * any(file.sealed for file in info.files)),
        *_held(info),
        ("capacity", passed * bool(past)),
        ("exclusions", _exclusions(info)),
        ("key rule", info.key_rule or ""),
        ("uuid", info.uuid),
        *each,
        ("note", _unfinished(sum(file.unfinished_batches for file in info.files))),
    ]


def _held(info: FilterInfo | FolderInfo) -> list[tuple[str, str]]:
    width = min(WIDTH, max(10, (terminal_columns() or 80) - 36))
    drawn = bar(info.fill_ratio, sys.stdout.encoding or "ascii", width)  # None of one in memory
    return [
        ("holds about", f"{info.approx_count:,} keys ({info.keys_added:,} were new when added)"),
        ("fill ratio", f"{info.fill_ratio:.4f} {drawn}"),
        ("error rate now", f"{info.current_error_rate:.3g}, at capacity {info.error_rate:g}"),
    ]


def _unfinished(batches: int) -> str:
    note = (
        f"{batches} batches begun but not finished: writers are at work, or were killed; every key "
        "is safe, but the figures may lag: info --recount corrects them"
    )
    return note * bool(batches)


def _plan(info: FolderInfo) -> str:
    of = info.settings
    if info.kind == "growing":
        return f"the first file is for {of['initial_capacity']:,} keys, the next for twice as many"
    keep, every = of["keep_seconds"], of["every_seconds"]
    times = f"keeps keys for {_span(keep)}, in periods of {_span(every)}"
    return f"{times} with {of['capacity_per_period']:,} keys each"


def _span(seconds: Any) -> str:
    """Write a duration as --keep and --every take it.

    Examples
    --------
    >>> _span(604_800), _span(5400), _span(61)
    ('7d', '90m', '61s')
    """
    units = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
    unit = next(unit for unit, length in units.items() if seconds % length == 0)
    return f"{seconds // units[unit]}{unit}"


def _exclusions(info: FilterInfo | FolderInfo) -> str:
    return f"{info.exclusions:,} keys, reported as not seen" if info.exclusions else ""


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(" ", "seconds")


def compare(args: argparse.Namespace) -> int:
    """Run the command; return 0 if the filters can be compared, 1 if their parameters differ."""
    found: mmbloom.Similarity | None = None
    differences: dict[str, tuple[str, str]] = {}
    try:
        found = mmbloom.compare(args.file, args.other)
    except IncompatibleFiltersError as error:
        differences = {name: (here, there) for name, here, there in error.differences}
    if args.json:
        unknown = dict.fromkeys(field.name for field in fields(mmbloom.Similarity))
        figures = asdict(found) if found else unknown
        print(json.dumps({**figures, "differences": differences}))
        return OK if found else NOT_ALIKE
    rows = [("first", args.file), ("second", args.other)]
    if found:
        rows += [
            ("keys of first", f"about {found.first_count:,}"),
            ("keys of second", f"about {found.second_count:,}"),
            ("common keys", f"about {found.common_count:,}"),
            ("keys of either", f"about {found.union_count:,}"),
            ("Jaccard", f"{found.jaccard:.4f}"),
        ]
    else:
        rows += [(name, f"{here} and {there}") for name, (here, there) in differences.items()]
        rows.append(("verdict", "cannot be compared: their parameters differ"))
    print(in_rows(rows))
    return OK if found else NOT_ALIKE


_LAYOUTS: tuple[Layout, ...] = ("blocked", "standard")


_ROWS_AROUND = 3  # that people see, before the one that is enough and after it


_TABLE_ROWS = 24  # whole bits per key up to an error rate of 1e-5


def plan(args: argparse.Namespace) -> int:
    """Run the command."""
    capacity, rate = args.capacity, error_rate(args)
    plans: dict[str, Any] = {one: _planned(capacity, rate, one) for one in _LAYOUTS}
    if all("error" in of_layout for of_layout in plans.values()):
        raise UsageError(f"no layout can hold {capacity} keys at an error rate of {rate:g}")
    whole = None
    with suppress(ValueError):  # the rate takes more than 64 hashes
        whole = best_practice(rate)._asdict()
    if args.json:
        table = [row._asdict() for row in best_practice_table(_TABLE_ROWS)]
        planned = {"capacity": capacity, "error_rate": rate}
        print(json.dumps({**planned, **plans, "whole_bits": whole, "table": table}))
        return OK
    print(f"{capacity:,} keys at an error rate of {rate:g}\n")
    print("layout     bits per key  hashes  blocks per key            file size")
    for layout, row in plans.items():
        if "error" in row:
            print(f"{layout:<9} not possible: {row['error']}")
            continue
        bits, hashes, size = row["bits_per_key"], row["num_hashes"], row["file_bytes"]
        blocks = row["blocks_per_key"] if layout == "blocked" else "-"
        print(f"{layout:<9} {bits:>13.2f} {hashes:>7} {blocks:>15} {size:>14,} bytes")
    print("\nwhole bits per key (textbook values; small standard filters need more):")
    print("bits per key  hashes  error rate")
    enough = whole["bits_per_key"] if whole else 0
    for best in best_practice_table(max(_TABLE_ROWS, enough + _ROWS_AROUND)):
        if enough and abs(best.bits_per_key - enough) > _ROWS_AROUND:
            continue  # all of them would push the answer out of the window
        mark = "  <- enough" if best.bits_per_key == enough else ""
        print(f"{best.bits_per_key:>12} {best.num_hashes:>7}  {best.error_rate:>10.3g}{mark}")
    return OK


def _planned(capacity: int, rate: float, layout: Layout) -> dict[str, Any]:
    """Return the figures of a filter in a layout, or the error of one that cannot be."""
    try:
        params = plan_for(capacity, rate, layout=layout)
    except ValueError as error:
        return {"error": str(error)}
    return {
        "bits_per_key": round(params.bits_per_key, 3),
        "num_hashes": params.num_hashes,
        "blocks_per_key": params.blocks_per_key,
        "file_bytes": HEADER_BYTES + params.num_bytes,
    }
