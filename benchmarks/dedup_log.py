"""How long does a log take? mmbloom dedup against awk, sort, Python loops, and a limit in C.

Question: wall and CPU seconds and peak memory to deduplicate an access log, output to a file.

Method: whole commands, started afresh each round, taking turns; the log is in the page
cache. All Bloom filters are made anew each time, planned at 0.01 % for the number of lines.
Lines of output are counted: a Bloom filter may drop a line that it takes for a repeat. The
C limit is `dedup_limit.c`: the same work with MurmurHash3 and a filter in plain memory, in one
thread.

Limits: peak memory is the maximum resident set, at least that of this script; for mmbloom
the mapped filter is in it, so its size is given beside.
"""

import argparse
import os
import subprocess
import sys
import time

from _measure import Report, Rows, apart, benchmark, compile_c, ratio, spread, table
from _peers import installed, missing
from make_log import write_log

from mmbloom.sizing import plan

OURS = "mmbloom dedup"
AWK, SORT = "awk '!s[$0]++'", "LC_ALL=C sort -u"
SET, RBLOOM, LIMIT = "Python loop over a set", "Python loop over rbloom", "the C limit"
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


def commands(folder: str, log: str, filter_path: str, lines: int) -> dict[str, list[str]]:
    """Name the commands; each reads the log and writes to stdout."""
    dedup = [sys.executable, "-P", "-m", "mmbloom", "dedup", filter_path, log]
    named = {
        OURS: [*dedup, "-n", str(lines), "-p", str(RATE), "--no-progress"],
        AWK: ["awk", "!s[$0]++", log],
        SORT: ["env", "LC_ALL=C", "sort", "-u", log],
        SET: [sys.executable, "-c", _LOOP.format(make="seen = set()")],
    }
    if installed("rbloom"):
        make = f"from rbloom import Bloom; seen = Bloom({lines}, {RATE})"
        named[RBLOOM] = [sys.executable, "-c", _LOOP.format(make=make)]
    program = compile_c("dedup_limit.c", folder)
    if program:
        params = plan(lines, RATE)
        named[LIMIT] = [program, str(params.num_bytes), str(params.num_hashes)]
    return named


def once(command: list[str], log: str, output: str) -> dict[str, float]:
    """Run one command to its end."""
    with open(log, "rb") as stdin, open(output, "wb") as stdout:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} failed with {process.returncode}")
    with open(output, "rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    cpu = usage.ru_utime + usage.ru_stime
    return {"wall": elapsed, "cpu": cpu, "peak": usage.ru_maxrss / 1024, "lines": float(lines)}


def run(args: argparse.Namespace, folder: str) -> Report:
    """Run all commands by turns."""
    log, bloom = os.path.join(folder, "access.log"), os.path.join(folder, "seen.bloom")
    # In a process of its own: a child's peak memory starts from that of its parent.
    apart(write_log, log, args.lines)
    named = commands(folder, log, bloom, args.lines)
    rows: Rows = {name: {"wall": [], "cpu": [], "peak": [], "lines": []} for name in named}
    mebibytes = 0.0
    for _ in range(args.rounds):
        for name, command in named.items():
            for column, value in once(command, log, os.path.join(folder, "output")).items():
                rows[name][column].append(value)
            if name == OURS:
                mebibytes = os.path.getsize(bloom) / 2**20
                os.unlink(bloom)
    cells = [
        [
            name,
            spread(row["wall"], 2),
            ratio(row["wall"], rows[OURS]["wall"]),
            spread(row["cpu"], 2),
            spread(row["peak"][:1]),
            spread(row["lines"][:1]),
        ]
        for name, row in rows.items()
    ]
    size = os.path.getsize(log) / 1e6
    title = f"### {args.lines:,} lines, {size:,.0f} MB; the filter is {mebibytes:.0f} MiB\n\n"
    header = ["", "wall seconds", "mmbloom is", "CPU seconds", "peak MiB", "lines out"]
    return Report(title + table(header, cells) + missing(["rbloom"]), {"dedup": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {"lines": (5_000_000, "lines of the log"), "rounds": (5, "runs of each command")},
        ("numpy", "mmh3", "rbloom"),
    )
