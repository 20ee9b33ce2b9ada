"""How long does it take to start? Whole commands that have almost nothing to do.

Question: milliseconds of `mmbloom` commands and of imports, from the start of the process to its
end, against Python alone and numpy's import, which is part of every command with a filter.

Method: whole commands, restarted each time, take turns. A first round, which is not counted,
brings files into the page cache and compiles bytecode. All three lines to deduplicate are new to
the filter that the command creates, and known to the filter that already exists.

Limits: wall time includes the machine's other work; CPU time includes less of it. A Python with
many packages installed takes longer to find each of them.
"""

import argparse
import os
import sys
import sysconfig

from _measure import Report, Rows, benchmark, layout, whole

from mmbloom import BloomFilter

PYTHON, NUMPY = "python -c pass", 'python -c "import numpy"'
IMPORT = 'python -c "import mmbloom"'
IMPORT_FILTER = 'python -c "from mmbloom import BloomFilter"'
VERSION, HELP = "mmbloom --version", "mmbloom --help"
NEW, EXISTING = "mmbloom dedup, 3 lines, new filter", "mmbloom dedup, 3 lines, existing filter"
AWK = "awk '!s[$0]++', 3 lines"
WALL, CPU = "wall ms", "CPU ms"
_LINES = b"a line\nanother line\na third line\n"


def program() -> list[str]:
    """Give the command that users have; `python -m mmbloom` where it is not installed."""
    path = os.path.join(sysconfig.get_path("scripts"), "mmbloom")
    return [path] if os.path.exists(path) else [sys.executable, "-P", "-m", "mmbloom"]


def commands(folder: str, lines: str, capacity: int) -> dict[str, list[str]]:
    """Name the commands; all that read lines read the same file."""
    python, mmbloom = [sys.executable, "-P", "-c"], program()
    dedup = [*mmbloom, "dedup"]
    return {
        PYTHON: [*python, "pass"],
        NUMPY: [*python, "import numpy"],
        IMPORT: [*python, "import mmbloom"],
        IMPORT_FILTER: [*python, "from mmbloom import BloomFilter"],
        VERSION: [*mmbloom, "--version"],
        HELP: [*mmbloom, "--help"],
        NEW: [*dedup, os.path.join(folder, "new.bloom"), lines, "-n", str(capacity)],
        EXISTING: [*dedup, os.path.join(folder, "existing.bloom"), lines],
        AWK: ["awk", "!s[$0]++", lines],
    }


def run(args: argparse.Namespace, folder: str) -> Report:
    """Run all commands by turns."""
    lines, output = os.path.join(folder, "lines"), os.path.join(folder, "output")
    with open(lines, "wb") as file:
        file.write(_LINES)
    named = commands(folder, lines, args.capacity)
    BloomFilter.create(os.path.join(folder, "existing.bloom"), args.capacity).close()
    expected = {NEW: _LINES, EXISTING: b"", AWK: _LINES}
    rows: Rows = {name: {WALL: [], CPU: []} for name in named}
    for number in range(args.rounds + 1):
        for name, command in named.items():
            found = whole(command, lines, output)
            if name == NEW:
                os.unlink(os.path.join(folder, "new.bloom"))
            if not number:
                continue
            rows[name][WALL].append(1000 * found["wall"])
            rows[name][CPU].append(1000 * found["cpu"])
            with open(output, "rb") as file:
                assert name not in expected or file.read() == expected[name], name
    title = f"### {args.rounds} runs of each, a filter for {args.capacity:,} keys\n\n"
    return Report(title + layout("", rows, 1), {"start_up": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "rounds": (21, "runs of each command that are counted"),
            "capacity": (1000, "capacity of the filters"),
        },
    )
