"""Where is the cliff? Filters larger than the kernel's dirty-page limit, mapped and in memory.

Question: nanoseconds per key to add, from the first batch on, to filters of one capacity at two
error rates: at 1 %, where all of the file can be dirty, and at 1e-6, in shared memory and mapped.
Also how long `create`, `flush`, `close` and the first answer after it take, and how much of the
machine's memory is dirty meanwhile. Then the same at 1e-6 by size, from a fortieth of this
capacity to twice as much.

Method: the filters are made one after another. Keys are random int64, in batches; only the call of
`add_many` is timed. A slow filter is stopped after `seconds`, and in the runs by size after a
sixth of that. `flush` is compared with `dd` of as many bytes in the same folder, forced to the
disk. Before the file is opened again its pages are dropped from the page cache; the first answer
is that of a new reader, for one key. By size, the steady state is the median of the second half of
the batches.

The "mapped" file is made as on systems without shared memory: no zeros are written in advance.
"Zeros written" writes them, as `create` does for small files and once did for all. "Default"
is the file of a `create` without options.

Limits: the disk and its writeback are shared with all other work on the machine.
"""

import argparse
import os
import subprocess
import tempfile
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
_TMPFS = "/dev/shm"
COMES, TMPFS = "default", "file on tmpfs"
FILTERS: dict[str, dict[str, Any]] = {
    SMALL: {"error_rate": 1e-2, "resident": False},
    RESIDENT: {"error_rate": 1e-6, "resident": True},
    MAPPED: {"error_rate": 1e-6, "resident": False},
    ZEROS: {"error_rate": 1e-6, "resident": False},
}
BY_SIZE: dict[str, dict[str, Any]] = {
    "zeros written": {"resident": False},
    "mapped": {"resident": False},
    "shared memory": {"resident": True},
    COMES: {},
    TMPFS: {},
}
SIZES = (1 / 40, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
"""Shares of the capacity of the first filters."""


class Run(NamedTuple):
    """What was measured of one filter."""

    bytes: int
    ns: list[float]  # a key, batch by batch
    dirty: float  # most bytes
    create: float
    flush: float
    close: float
    again: float

    @property
    def steady(self) -> float:
        """The median of the later half of the batches."""
        return float(np.median(self.ns[len(self.ns) // 2 :]))


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


def measure(path: str, plan: dict[str, Any], args: argparse.Namespace, *, zeros: bool) -> Run:
    """Fill one filter with some batches, and bring it to the disk."""
    chance, ns, dirty = np.random.default_rng(7), list[float](), 0
    begun = time.perf_counter()
    seen = BloomFilter.create(path, **plan)
    if zeros:
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
    return Run(size, ns, dirty, create, flush, close, again)


def dd(path: str, size: int) -> float:
    """Write as many zeros to a file and force them to the disk; gives the seconds."""
    blocks = f"count={max(1, size >> 20)}"
    command = ["dd", "if=/dev/zero", f"of={path}", "bs=1M", blocks, "conv=fsync", "status=none"]
    try:
        return seconds(lambda: subprocess.run(command, check=True))
    finally:
        os.unlink(path)


def one_size(args: argparse.Namespace, folder: str) -> tuple[str, Rows]:
    """Measure filters for as many keys; a table, and its figures."""
    path = os.path.join(folder, "seen.bloom")
    header = ["", "GB", "ns a key", "first batch", "slowest", "GB dirty"]
    header += ["create, s", "flush, s", "dd, s", "close, s", "first answer, ms"]
    cells, rows, written = list[list[str]](), Rows(), dict[str, float]()
    for name, plan in FILTERS.items():
        run = measure(path, {"capacity": args.capacity, **plan}, args, zeros=name == ZEROS)
        written[name] = dd(path, run.bytes)
        rows[name] = {"add": run.ns, "flush": [run.flush]}
        times = (run.create, run.flush, written[name], run.close)
        cells.append(
            [
                name,
                f"{run.bytes / 1e9:.2f}",
                spread(run.ns),
                f"{run.ns[0]:.0f}",
                f"{max(run.ns):.0f}",
                f"{run.dirty / 1e9:.1f}",
                *(f"{value:.1f}" for value in times),
                f"{1000 * run.again:.0f}",
            ]
        )
    small, large = np.median(rows[SMALL]["add"]), np.median(rows[RESIDENT]["add"])
    said = (
        f"In shared memory a key takes {large / small:.1f} times as long as at 1 %; the slowest "
        f"batch {max(rows[RESIDENT]['add']) / large:.1f} times as long as the median; `flush` "
        f"{rows[RESIDENT]['flush'][0] / written[RESIDENT]:.2f} times as long as `dd`."
    )
    title = f"{args.batch:,} keys a batch, filters for {args.capacity:,}"
    return f"### {title}\n\n{table(header, cells)}\n\n{said}", rows


def by_size(args: argparse.Namespace, folder: str) -> tuple[str, Rows]:
    """Measure filters of several sizes at 1e-6; a table, and its figures."""
    few = argparse.Namespace(**{**vars(args), "seconds": args.seconds / 6})
    cells, rows = list[list[str]](), Rows()
    with tempfile.TemporaryDirectory(dir=_TMPFS) as memory:
        for share in SIZES:
            for name, how in BY_SIZE.items():
                plan = {"capacity": int(share * args.capacity), "error_rate": 1e-6, **how}
                where = memory if name == TMPFS else folder
                path = os.path.join(where, "seen.bloom")
                run = measure(path, plan, few, zeros=name == "zeros written")
                size = f"{run.bytes / 1e9:.3g}"
                rows.setdefault(name, {})[size] = [run.steady]
                times = f"{run.create:.1f}", f"{run.flush:.1f}", f"{1000 * run.again:.0f}"
                cells.append([size, name, f"{run.ns[0]:,.0f}", f"{run.steady:,.0f}", *times])
    header = ["GB", "", "first batch, ns a key", "steady, ns a key"]
    header += ["create, s", "flush, s", "first answer, ms"]
    return f"### By size, at 1e-6\n\n{table(header, cells)}", rows


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure all of them."""
    (said, rows), (more, sizes) = one_size(args, folder), by_size(args, folder)
    return Report(f"{said}\n\n{more}", Figures(cliff=rows, sizes=sizes))


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of the filters"),
            "batch": (250_000, "keys a batch"),
            "batches": (80, "batches"),
            "seconds": (60, "seconds after which a filter is left"),
        },
        ("numpy",),
    )
