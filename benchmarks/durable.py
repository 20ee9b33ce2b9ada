"""What does safety from power cuts cost? mmbloom dedup with --durable and without.

Question: megabytes of input per second when each piece of output is forced to the disk before its
lines are marked, against once at the end (`-o`), and never (a plain stdout).

Method: whole commands, restarted each round, take turns; the log is in the page cache, and the
filter is made again each time, before the clock starts. Pending writes reach the disk before the
next command starts. Output and filter are on one disk.

Limits: with --durable the result depends on how long the disk takes to store a few hundred
kilobytes: these figures are for one disk. About 8,000 lines reach the disk at a time here. Lines
that arrive one by one, as from `tail -f`, reach it one by one.
"""

import argparse
import os
import subprocess
import sys
import time

from _measure import Report, Rows, apart, benchmark, ratio, spread, table
from make_log import write_log

from mmbloom.cli.main import main

PLAIN, FORCED, DURABLE = "stdout to a file", "-o", "-o --durable"
TWO, TWO_DURABLE = "--output-dir -j 2", "--output-dir -j 2 --durable"


def commands(folder: str, log: str, halves: list[str]) -> dict[str, list[str]]:
    """Name the commands; each reads the whole log."""
    output, outputs = os.path.join(folder, "output"), os.path.join(folder, "outputs")
    several = [*halves, "--output-dir", outputs, "-j", "2"]
    return {
        PLAIN: [log],
        FORCED: [log, "-o", output],
        DURABLE: [log, "-o", output, "--durable"],
        TWO: several,
        TWO_DURABLE: [*several, "--durable"],
    }


def once(options: list[str], folder: str, lines: int) -> float:
    """Run one command to its end; wall seconds. Its outputs are removed."""
    run = [sys.executable, "-P", "-m", "mmbloom"]
    seen, output = os.path.join(folder, "seen.bloom"), os.path.join(folder, "output")
    assert main(["create", seen, "-n", str(lines)]) == 0
    os.sync()
    with open(output, "ab") as stdout:
        start = time.perf_counter()
        subprocess.run([*run, "dedup", seen, *options, "--no-progress"], stdout=stdout, check=True)
        elapsed = time.perf_counter() - start
    outputs = os.path.join(folder, "outputs")
    made = [os.path.join(outputs, name) for name in os.listdir(outputs)]
    for path in (seen, output, *made):
        os.unlink(path)
    return elapsed


def halve(log: str) -> list[str]:
    """Write the log's lines to two files, one half each."""
    with open(log, "rb") as file:
        lines = file.readlines()
    names = [f"{log}.1", f"{log}.2"]
    for name, part in zip(names, (lines[: len(lines) // 2], lines[len(lines) // 2 :]), strict=True):
        with open(name, "wb") as file:
            file.writelines(part)
    return names


def run(args: argparse.Namespace, folder: str) -> Report:
    """Run all commands by turns."""
    log = os.path.join(folder, "access.log")
    apart(write_log, log, args.lines)
    os.mkdir(os.path.join(folder, "outputs"))
    named = commands(folder, log, halve(log))
    megabytes = os.path.getsize(log) / 1e6
    rows: Rows = {name: {"wall": [], "MB/s": []} for name in named}
    for _ in range(args.rounds):
        for name, options in named.items():
            seconds = once(options, folder, args.lines)
            rows[name]["wall"].append(seconds)
            rows[name]["MB/s"].append(megabytes / seconds)
    cells = [
        [
            name,
            spread(row["wall"], 2),
            spread(row["MB/s"]),
            ratio(row["wall"], rows[FORCED]["wall"]),
        ]
        for name, row in rows.items()
    ]
    title = f"### {args.lines:,} lines, {megabytes:,.0f} MB; 70 % of them distinct\n\n"
    header = ["", "wall seconds", "MB/s", "time of -o"]
    return Report(title + table(header, cells), {"durable": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {"lines": (2_000_000, "lines of the log"), "rounds": (7, "runs of each command")},
    )
