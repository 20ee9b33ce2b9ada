"""Where is the cliff? Filters larger than what the kernel lets be dirty, mapped and in memory.

Question: nanoseconds per key to add, from the first batch on, in filters for as many keys at two
error rates: at 1 %, whose file is small enough to be dirty as a whole, and at 1e-6, in shared
memory and mapped. Also how long `create`, `flush`, `close` and the first answer after it take, and
how much of the machine's memory is dirty meanwhile.

Method: each filter is made anew, one after the other. Keys are random int64, in batches; only
the call of `add_many` is timed. A filter that is slow is left after `seconds`. `flush` is compared
with `dd` of as many bytes in the same folder, forced to the disk. Before the file is opened again
its pages are dropped from the page cache; the first answer is that of a new reader, for one key.

The mapped file is made as it is made where there is no shared memory: without zeros written in
advance. The last one has them, as small files do.

Limits: a disk and its writeback are shared with all other work on the machine.
"""

import argparse
import os
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _measure import Figures, Report, Rows, benchmark, seconds, spread, table

from mmbloom import BloomFilter

SMALL, RESIDENT, MAPPED = "1 %, mapped", "1e-6, in shared memory", "1e-6, mapped"
ZEROS = "1e-6, mapped, zeros written"
_HEADER, _PIECE = 4096, 2 << 20  # the kernel keeps such runs together
FILTERS: dict[str, dict[str, Any]] = {
    SMALL: {"error_rate": 1e-2, "resident": False},
    RESIDENT: {"error_rate": 1e-6, "resident": True},
    MAPPED: {"error_rate": 1e-6, "resident": False},
    ZEROS: {"error_rate": 1e-6, "resident": False},
}


class Run(NamedTuple):
    """What was measured of one filter."""

    bytes: int
    ns: list[float]  # a key, batch by batch
    dirty: float  # most bytes
    create: float
    flush: float
    dd: float
    close: float
    again: float


def dirty_bytes() -> int:
    """Read how much memory of the machine is dirty or on its way to the disk."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    wanted = [line.split()[1] for line in lines if line.startswith(("Dirty:", "Writeback:"))]
    return sum(map(int, wanted)) << 10


def write_zeros(path: str) -> None:
    """Write the zeros of an array in advance."""
    size = os.path.getsize(path)
    with open(path, "r+b", buffering=0) as file:
        for start in range(0, size, _PIECE):
            file.seek(max(start, _HEADER))
            file.write(bytes(min(start + _PIECE, size) - file.tell()))


def measure(path: str, args: argparse.Namespace, name: str) -> Run:
    """Fill one filter with some batches, and bring it to the disk."""
    chance, ns, dirty = np.random.default_rng(7), list[float](), 0
    begun = time.perf_counter()
    seen = BloomFilter.create(path, args.capacity, **FILTERS[name])
    if name == ZEROS:
        write_zeros(path)
    create = time.perf_counter() - begun
    with seen:
        deadline = time.perf_counter() + args.seconds
        for _ in range(args.batches):
            keys = chance.integers(0, 2**63, args.batch)
            ns.append(1e9 / args.batch * seconds(partial(seen.add_many, keys)))
            dirty = max(dirty, dirty_bytes())
            if time.perf_counter() > deadline:
                break
        flush = seconds(seen.flush)
        begun = time.perf_counter()
    close = time.perf_counter() - begun
    size = os.path.getsize(path)
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    begun = time.perf_counter()
    with BloomFilter.open(path, "r") as reader:
        assert reader.contains_many(keys[:1]).all()
    again = time.perf_counter() - begun
    os.unlink(path)
    return Run(size, ns, dirty, create, flush, dd(path, size), close, again)


def dd(path: str, size: int) -> float:
    """Write as many zeros to a file and force them to the disk; gives the seconds."""
    blocks = f"count={max(1, size >> 20)}"
    command = ["dd", "if=/dev/zero", f"of={path}", "bs=1M", blocks, "conv=fsync", "status=none"]
    try:
        return seconds(lambda: subprocess.run(command, check=True))
    finally:
        os.unlink(path)


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure all of them."""
    runs = {name: measure(os.path.join(folder, "seen.bloom"), args, name) for name in FILTERS}
    rows: Rows = {name: {"add": run.ns, "flush": [run.flush]} for name, run in runs.items()}
    header = ["", "GB", "ns a key", "first batch", "slowest", "GB dirty"]
    header += ["create, s", "flush, s", "dd, s", "close, s", "first answer, ms"]
    cells = [
        [
            name,
            f"{run.bytes / 1e9:.2f}",
            spread(run.ns),
            f"{run.ns[0]:.0f}",
            f"{max(run.ns):.0f}",
            f"{run.dirty / 1e9:.1f}",
            *(f"{value:.1f}" for value in (run.create, run.flush, run.dd, run.close)),
            f"{1000 * run.again:.0f}",
        ]
        for name, run in runs.items()
    ]
    small, large = runs[SMALL], runs[RESIDENT]
    middle = float(np.median(large.ns))
    said = (
        f"In shared memory a key takes {middle / float(np.median(small.ns)):.1f} times as long as "
        f"at 1 %; the slowest batch {max(large.ns) / middle:.1f} times as long as the median; "
        f"`flush` {large.flush / large.dd:.2f} times as long as `dd`."
    )
    title = f"{args.batch:,} keys a batch, filters for {args.capacity:,}"
    return Report(f"### {title}\n\n{table(header, cells)}\n\n{said}", Figures(cliff=rows))


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "what the filters are planned for"),
            "batch": (250_000, "keys a batch"),
            "batches": (80, "batches"),
            "seconds": (60, "seconds after which a filter is left"),
        },
        ("numpy",),
    )
