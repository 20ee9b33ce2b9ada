"""How long does a log take? mmbloom dedup against awk, sort, DuckDB, polars, loops, a limit in C.

Question: wall time, CPU time and peak memory to deduplicate an access log, with output to a file;
the same for a log of short lines (addresses), and for logs that are several times as large.

Method: whole commands, restarted each round, take turns; the log is in the page cache. All
Bloom filters are made again each time, with an error rate of 0.01 % and the number of lines as
their capacity. Output lines are counted: a Bloom filter may drop a new line that it reports as
seen, while all exact tools must print the same number. DuckDB and polars read a line as one
column, in the fastest way found, with their default threads and memory; polars keeps the order of
the lines, DuckDB and sort do not. The C limit is `dedup_limit.c`: one pass in one thread, which
keeps 64 bits of each line in a table in memory and discards it at the end. Only the tools that
take neither minutes nor most of the memory run on the large logs.

Limits: peak memory is the maximum resident set, and at least that of this script. For mmbloom it
includes the mapped filter, whose size is therefore listed too.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from _measure import Report, Rows, apart, benchmark, compile_c, ratio, spread, table, whole
from _peers import not_installed
from make_log import write_addresses, write_log

OURS = "mmbloom dedup"
AWK, SORT = "awk '!s[$0]++'", "LC_ALL=C sort -u"
SET, RBLOOM, LIMIT = "Python loop over a set", "Python loop over rbloom", "the C limit"
DUCKDB, POLARS = "DuckDB, select distinct", "polars, unique"
NEEDS = {RBLOOM: "rbloom", DUCKDB: "duckdb", POLARS: "polars"}
LARGE = (OURS, DUCKDB, SORT, LIMIT)
"""What the large logs are left to."""

EXACT = (AWK, SORT, DUCKDB, POLARS, SET)
RATE = 0.0001
_LOOP = """
import sys
{make}
add, write = seen.add, sys.stdout.buffer.write
for line in sys.stdin.buffer:
    if line not in seen:
        add(line)
        write(line)
"""
_DUCKDB = """
import sys, duckdb
duckdb.execute(f'''
copy (
    select distinct line from read_csv(
        '{sys.argv[1]}', columns={{'line': 'varchar'}},
        auto_detect=false, header=false, delim='', quote='', escape=''
    )
) to '{sys.argv[2]}' (header false, delimiter '\\x01', quote '', escape '')
''')
"""
_POLARS = """
import sys, polars
lines = polars.scan_lines(sys.argv[1]).unique(maintain_order=True)
lines.sink_csv(sys.argv[2], include_header=False, separator='\\x01', quote_style="never")
"""


def commands(folder: str, log: str, output: str, lines: int) -> dict[str, list[str]]:
    """Name the commands; each reads the log and writes to stdout, or to the same file itself."""
    filter_path = os.path.join(folder, "seen.bloom")
    dedup = [sys.executable, "-P", "-m", "mmbloom", "dedup", filter_path, log]
    python = [sys.executable, "-c"]
    named = {
        OURS: [*dedup, "-n", str(lines), "-p", str(RATE), "--no-progress"],
        AWK: ["awk", "!s[$0]++", log],
        SORT: ["env", "LC_ALL=C", "sort", "-u", log],
        DUCKDB: [*python, _DUCKDB, log, output],
        POLARS: [*python, _POLARS, log, output],
        SET: [*python, _LOOP.format(make="seen = set()")],
        RBLOOM: [
            *python,
            _LOOP.format(make=f"from rbloom import Bloom; seen = Bloom({lines}, {RATE})"),
        ],
    }
    for name in (name for name, package in NEEDS.items() if find_spec(package) is None):
        del named[name]
    if program := compile_c("dedup_limit.c", folder):
        named[LIMIT] = [program, str(lines)]
    return named


def once(command: list[str], log: str, output: str) -> dict[str, float]:
    """Run one command to its end, and count its lines."""
    found = whole(command, log, output)
    with open(output, "rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return {**found, "lines": float(lines)}


def by_turns(
    folder: str,
    lines: int,
    rounds: int,
    names: Sequence[str] = (),
    write: Callable[[str, int], None] = write_log,
) -> tuple[str, Rows]:
    """Run all commands, or some, on a log of a number of lines; give a table and its figures."""
    log, output = os.path.join(folder, "access.log"), os.path.join(folder, "output")
    bloom = os.path.join(folder, "seen.bloom")
    # In a process of its own: a child's peak memory starts from that of its parent.
    apart(write, log, lines)
    named = commands(folder, log, output, lines)
    rows: Rows = {name: {} for name in named if not names or name in names}
    mebibytes = 0.0
    for _ in range(rounds):
        for name, row in rows.items():
            for column, value in once(named[name], log, output).items():
                row.setdefault(column, []).append(value)
            if name == OURS:
                mebibytes = os.path.getsize(bloom) / 2**20
                os.unlink(bloom)
    exact = {name: rows[name]["lines"][0] for name in EXACT if name in rows}
    if len({*exact.values()}) > 1:
        raise RuntimeError(f"lines went lost, or were cut: {exact}")
    cells = [
        [
            name,
            spread(row["wall"], 2),
            ratio(row["wall"], rows[OURS]["wall"]),
            spread(row["cpu"], 2),
            spread(row["peak"]),
            spread(row["lines"][:1]),
        ]
        for name, row in rows.items()
    ]
    size = os.path.getsize(log) / 1e6
    os.unlink(log)
    os.unlink(output)
    kind = "addresses" if write is write_addresses else "lines"
    title = f"### {lines:,} {kind}, {size:,.0f} MB; the filter is {mebibytes:.0f} MiB\n\n"
    header = ["", "wall seconds", "times mmbloom's", "CPU seconds", "peak MiB", "lines out"]
    return title + table(header, cells), rows


def run(args: argparse.Namespace, folder: str) -> Report:
    """Run all commands on two logs, and some on large ones."""
    missing = not_installed(name for name in NEEDS.values() if find_spec(name) is None)
    sizes = {
        "": (args.lines, args.rounds, ()),
        "large ": (args.large_lines, args.large_rounds, LARGE),
    }
    said, figures = [], {}
    for size, (lines, rounds, names) in sizes.items():
        for kind, write in (("dedup", write_log), ("short", write_addresses)):
            text, rows = by_turns(folder, lines, rounds, names, write)
            said.append(text)
            figures[{"large dedup": "large"}.get(size + kind, size + kind)] = rows
    return Report("\n\n".join(said) + missing, figures)


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "lines": (5_000_000, "lines of the log"),
            "rounds": (5, "runs of each command"),
            "large-lines": (25_000_000, "lines of the large log"),
            "large-rounds": (3, "runs of each command on it"),
        },
        ("numpy", "mmh3", *NEEDS.values()),
    )
