"""How much memory is free, and how much of a file may be changed in it before a writer waits.

From Linux's /proc and /sys. Where the kernel does not say, the answers are those of a machine on
which nothing is kept in shared memory: no limit, no room, no boot.

Maps of files, and the pages that they consist of; the only importer of mmap.

Shared memory comes in pages of 4 KiB unless a process asks for huge ones. A processor remembers
where some thousand pages are, so that in an array of gigabytes each key waits for the page table
as well. Any process may ask for huge pages (``MADV_COLLAPSE``, Linux 6.1), unless the administrator
has set shared memory to ``deny``. They are mapped as such only where address and offset agree
modulo their size, which mmap does not see to: hence `extent`.
"""

import math
import mmap
import os
from contextlib import suppress
from functools import cache

import numpy as np

from mmbloom._system.forks import fill_streams
from mmbloom.errors import FileChangedError

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


_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23  # of Linux 5.14; mmap has no names for them
_MADV_COLLAPSE = 25

Map = mmap.mmap

# Fewer would make a file much larger: the last one is whole, and one more is for `extent`.
_FEWEST = 16

# How often a map is made anew where it should be: other threads map as well, and there are gaps.
_TRIES = 8


def extent(size: int) -> int:
    """Give the size of a file in shared memory that has room for that many bytes in huge pages.

    The last one is whole. One more, never touched, lets `map_aligned` choose how long a map is.
    """
    huge = huge_page_bytes()
    if not huge or size < _FEWEST * huge:
        return size
    return (-(-size // huge) + 1) * huge


def reserve(fd: int, size: int, path: str) -> None:
    """Take the memory for a new file in shared memory: in huge pages as far as there are any.

    Raises
    ------
    OSError
        If there is no room for it (ENOSPC).
    """
    full = extent(size)
    os.ftruncate(fd, full)
    if full > size:
        with suppress(OSError):  # what is not huge is made as small pages below
            _make_huge(fd, size, path)
    os.posix_fallocate(fd, 0, size)  # or a full tmpfs would be a signal that kills


def _make_huge(fd: int, size: int, path: str) -> None:
    huge = huge_page_bytes()
    with map_aligned(fd, size, path, writable=True) as mapped:
        for start in range(0, size, huge):
            os.pwrite(fd, b"\0", start + huge - 1)  # no page at all is not made a huge one
            mapped.madvise(_MADV_COLLAPSE, start, huge)


def map_file(fd: int, size: int, path: str, *, writable: bool) -> Map:
    """Map the first bytes of a file.

    Raises
    ------
    FileChangedError
        If it has fewer.
    OSError
        If the system has no room for the map.
    """
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    # Never np.memmap: in r+ mode it extends a short file, and pickles by copying.
    fill_streams()  # a map has a descriptor of its own
    try:
        return mmap.mmap(fd, size, access=access)
    except ValueError:  # shorter than a moment ago
        raise FileChangedError(path, "truncated") from None
    except OSError as error:
        raise OSError(error.errno, f"cannot map {size} bytes: {error.strerror}", path) from error


def map_aligned(fd: int, size: int, path: str, *, writable: bool) -> Map:
    """Map a file where its huge pages can be mapped as such, if its size is its `extent`.

    The map may be longer than was asked for.
    """
    full, huge = min(extent(size), os.fstat(fd).st_size), huge_page_bytes()
    mapped = map_file(fd, max(size, full), path, writable=writable)
    astray = list[Map]()
    while full > size and len(astray) < _TRIES and (begin := _address(mapped)) % huge:
        # The next map ends where this one begins, as the kernel fills the addresses from above;
        # or in a gap above, which is then filled, too: closed first, this one would be followed
        # by a map that goes to a gap where this one did not fit, and so on for ever.
        try:
            another = map_file(fd, full - (full - begin) % huge, path, writable=writable)
        except OSError:  # no room for two: small pages serve
            break
        astray.append(mapped)
        mapped = another
    for one in astray:
        one.close()
    return mapped


def _address(mapped: Map) -> int:
    return int(np.frombuffer(mapped, np.uint8, 1).__array_interface__["data"][0])


def populate(mapped: Map, size: int, *, writable: bool) -> bool:
    """Read and map the pages of the first bytes; False where the kernel cannot.

    For reading only, unless they are in memory anyway: to populate for writing makes every
    page of a file one to write back.
    """
    advice = _MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ
    try:
        mapped.madvise(advice, 0, size)
    except (AttributeError, OSError):  # Linux before 5.14, and other systems
        return False
    return True


def expect_random(mapped: Map) -> None:
    """Let the kernel read only the pages that are asked for."""
    _advise(mapped, mmap.MADV_RANDOM)


def expect_neighbours(mapped: Map) -> None:
    """Let the kernel read around the pages that are asked for."""
    _advise(mapped, mmap.MADV_NORMAL)


def _advise(mapped: Map, advice: int) -> None:
    with suppress(OSError, ValueError, AttributeError):  # advice only; or it was closed
        mapped.madvise(advice)
