"""How long until the first answer? Opening a filter file and asking one question.

Question: milliseconds to create a filter, and to open it and query one key, in process.

Method: the median of many openings of one file, each a new object that is closed again;
the file's first page is in the page cache, as after any earlier use.
"""

import argparse
import os
import tempfile
from functools import partial

from _measure import environment, seconds, spread, table

from mmbloom import BloomFilter


def ask(path: str) -> None:
    """Open, query one key, close."""
    with BloomFilter.open(path) as seen:
        assert b"a key" in seen


def make(path: str, capacity: int) -> None:
    """Create a filter, close it."""
    BloomFilter.create(path, capacity).close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=int, default=1_000_000_000)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--folder", help="where filters are made (default: a temporary one)")
    args = parser.parse_args()
    print(environment("mmbloom", "numpy"), end="\n\n")
    created, opened = [], []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for number in range(5):
            path = os.path.join(folder, f"seen{number}")
            created.append(1000 * seconds(partial(make, path, args.capacity)))
            if number:
                os.unlink(path)
        path = os.path.join(folder, "seen0")
        with BloomFilter.open(path) as seen:
            seen.add(b"a key")
        opened = [1000 * seconds(partial(ask, path)) for _ in range(args.rounds)]
        size = os.path.getsize(path)
    rows = [["create", spread(created, 2)], ["open, query one key, close", spread(opened, 3)]]
    print(f"### A filter for {args.capacity:,} keys at 1 %: {size:,} bytes\n")
    print(table(["", "milliseconds"], rows))


if __name__ == "__main__":
    main()
