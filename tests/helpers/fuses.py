"""Workers that are killed, once, at a chosen step of a task; workers import this by its name."""

import os
import signal
from dataclasses import dataclass, fields
from typing import Any

from mmbloom._system.typing import Keys, Nulls
from mmbloom.cluster import Part, Run, Slice, SlicePlan


def blow(fuse: str) -> None:
    """Kill this process by SIGKILL, unless the fuse was blown before; its pid stays in the file."""
    try:
        fd = os.open(fuse, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.write(fd, str(os.getpid()).encode())
    os.close(fd)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DeadlyPlan(SlicePlan):
    """A plan whose partitioning kills the worker that meets a batch with the last key."""

    fuse: str = ""

    def partition(self, keys: Keys, *, nulls: Nulls = "error", threads: int = 1) -> list[Part]:
        if "/last" in keys.to_pylist():  # type: ignore[union-attr]
            blow(self.fuse)
        return super().partition(keys, nulls=nulls, threads=threads)


@dataclass(frozen=True)
class DeadlyRun(Run):
    """A run whose worker is killed right after it has written a slice, or half way before."""

    fuse: str = ""
    written: bool = True

    @classmethod
    def of(cls, run: Run, fuse: str, *, written: bool) -> "DeadlyRun":
        same: dict[str, Any] = {each.name: getattr(run, each.name) for each in fields(run)}
        return cls(**same, fuse=fuse, written=written)

    def write(self, part: Slice) -> None:
        if part.number == 3 and not self.written:
            blow(self.fuse)
        super().write(part)
        if part.number == 3:
            blow(self.fuse)
