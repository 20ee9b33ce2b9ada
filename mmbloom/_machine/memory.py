"""How much memory is free, and how much of a file may be changed in it before a writer waits.

From Linux's /proc and /sys. Where the kernel does not say, the answers are those of a machine on
which nothing is kept in shared memory: no limit, no room, no boot.
"""

import math
import os
from contextlib import suppress
from functools import cache

SHARED = "/dev/shm"  # noqa: S108  where POSIX shared memory is: each name in it is proved

# So much any machine may have dirty: to ask it, a dozen files, takes as long as to open a filter.
_SMALL = 64 << 20

_VM = "/proc/sys/vm"
_CGROUPS = "/sys/fs/cgroup"
_HUGE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"


@cache
def boot_id() -> bytes:
    """Tell this boot of the kernel from every other: 16 bytes; none where it cannot be told."""
    text = _read("/proc/sys/kernel/random/boot_id").strip().replace("-", "")
    with suppress(ValueError):
        boot = bytes.fromhex(text)
        if len(boot) == 16 and any(boot):
            return boot
    return b""


def available_bytes() -> int:
    """How much memory can be used without swapping, by this machine and by its container."""
    free = _fields(_read("/proc/meminfo")).get("MemAvailable:", 0) << 10
    return max(0, min([free, *_left_in_cgroups()]))


def shared_bytes() -> int:
    """How much more shared memory there can be: what its file system, and the memory, have left."""
    try:
        there = os.statvfs(SHARED)
    except OSError:
        return 0
    return min(there.f_bavail * there.f_frsize, available_bytes())


@cache
def huge_page_bytes() -> int:
    """Give the size of the kernel's huge pages; 0 if it has none."""
    with suppress(ValueError):
        return int(_read(_HUGE))
    return 0


def dirty_bytes() -> float:
    """Give how much memory may be dirty, in bytes, before the kernel makes a writer wait.

    That is half way from the limit at which it begins to write in the background to the limit
    that is never passed (`balance_dirty_pages`); infinite where it cannot be told.
    """
    limits = [_limit("dirty_background"), _limit("dirty")]
    return sum(limits) / 2


def too_large_to_be_dirty(size: int) -> bool:
    """Tell whether a file of this size, changed all over, makes its writer wait.

    From two thirds of the limit on: other files of the machine are dirty as well.
    """
    return size > _SMALL and size > 2 / 3 * dirty_bytes()


def _limit(name: str) -> float:
    with suppress(ValueError):
        if octets := int(_read(f"{_VM}/{name}_bytes") or 0):
            return octets
        return int(_read(f"{_VM}/{name}_ratio")) / 100 * available_bytes()
    return math.inf


def _left_in_cgroups() -> list[int]:
    """Tell what the memory limits of this process's cgroup, and of those around it, leave."""
    left = []
    for line in _read("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:  # of version 2
            folder, most, now = f"{_CGROUPS}{path}", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):  # of version 1
            folder, most, now = f"{_CGROUPS}/memory{path}", *_OLD
        else:
            continue
        while folder.startswith(_CGROUPS):
            with suppress(ValueError):  # "max", or no such file
                limit, used = int(_read(f"{folder}/{most}")), int(_read(f"{folder}/{now}"))
                statistics = _fields(_read(f"{folder}/memory.stat"))
                cache = statistics.get("file", statistics.get("cache", 0))
                left.append(limit - used + max(0, cache - statistics.get("shmem", 0)))
            folder = os.path.dirname(folder)
    return left


_OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _fields(text: str) -> dict[str, int]:
    """Read lines of a name and a number."""
    words = (line.split() for line in text.splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
