"""How long does a log take? mmbloom dedup against awk, sort and a Python set.

Question: wall seconds and peak memory to deduplicate an access log, output to a file.

Method: whole commands, started afresh each round, taking turns; the log is in the page
cache. mmbloom makes its filter (planned at 0.01 % for the number of lines) each time.
Lines of output are counted: a Bloom filter may drop a line that it takes for a repeat.

Limits: peak memory is the maximum resident set; for mmbloom the mapped filter is in it, so
its size is given beside.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from _measure import environment, ratio, spread, table
from make_log import write_log

OURS = "mmbloom dedup"
_LOOP = """
import sys
seen, write = set(), sys.stdout.buffer.write
for line in sys.stdin.buffer:
    if line not in seen:
        seen.add(line)
        write(line)
"""


class Run(NamedTuple):
    """One command's wall seconds, peak resident MB, and lines of output."""

    seconds: float
    megabytes: float
    lines: int


def commands(log: str, filter_path: str, lines: int) -> dict[str, list[str]]:
    """Name the commands; each reads the log and writes to stdout."""
    dedup = [sys.executable, "-m", "mmbloom", "dedup", filter_path, log]
    return {
        OURS: [*dedup, "-n", str(lines), "-p", "0.0001", "--no-progress"],
        "awk '!s[$0]++'": ["awk", "!s[$0]++", log],
        "LC_ALL=C sort -u": ["env", "LC_ALL=C", "sort", "-u", log],
        "Python loop over a set": [sys.executable, "-c", _LOOP],
    }


def run(command: list[str], log: str, output: str) -> Run:
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
    return Run(elapsed, usage.ru_maxrss / 1024, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where files are made (default: a temporary one)")
    args = parser.parse_args()
    print(environment("mmbloom", "numpy", "mmh3"), end="\n\n")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        log, bloom = os.path.join(folder, "access.log"), os.path.join(folder, "seen.bloom")
        # In a process of its own: a child's peak memory starts from that of its parent.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(write_log, (log, args.lines))
        named = commands(log, bloom, args.lines)
        runs: dict[str, list[Run]] = {name: [] for name in named}
        filter_megabytes = 0.0
        for _ in range(args.rounds):
            for name, command in named.items():
                runs[name].append(run(command, log, os.path.join(folder, "output")))
                if name == OURS:
                    filter_megabytes = os.path.getsize(bloom) / 2**20
                    os.unlink(bloom)
        size = os.path.getsize(log) / 1e6
    print(f"### {args.lines:,} lines, {size:,.0f} MB; the filter is {filter_megabytes:.0f} MiB\n")
    ours = [one.seconds for one in runs[OURS]]
    rows = [
        [
            name,
            spread([one.seconds for one in some], 2),
            ratio([one.seconds for one in some], ours),
            f"{statistics.median(one.megabytes for one in some):,.0f}",
            f"{some[0].lines:,}",
        ]
        for name, some in runs.items()
    ]
    print(table(["", "wall seconds", "mmbloom is", "peak MiB", "lines out"], rows))


if __name__ == "__main__":
    main()
