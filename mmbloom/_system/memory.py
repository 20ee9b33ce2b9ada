"""Memory of the machine and of files: how much is free, how much may be dirty, and maps of files.

What the machine has is read from Linux's /proc and /sys. Where the kernel does not say, the answers
are those of a machine that keeps nothing in shared memory: no dirty limit, no room, no boot id.

This is the only module that imports mmap. Shared memory is mapped in huge pages: a processor caches
the places of a few thousand pages, so in an array of gigabytes of 4 KiB pages each key waits for
the page table as well. Any process may ask for huge pages (``MADV_COLLAPSE``, Linux 6.1) unless the
administrator has set shared memory to ``deny``. The kernel maps them as huge only where address and
file offset agree modulo their size, which mmap does not arrange: `extent` and `map_aligned` do.
"""

import math
import mmap
import os
from contextlib import suppress
from functools import cache

import numpy as np

from mmbloom._system import disk
from mmbloom._system.descriptors import fill_streams
from mmbloom.errors import FileChangedError

Map = mmap.mmap

SHARED = "/dev/shm"  # noqa: S108  where POSIX shared memory is: each name in it is proved

# Any machine may have so much dirty. Asking it reads a dozen files and takes as long as opening a
# filter.
_SMALL = 64 << 20

# Smaller files stay in small pages: rounding up to whole huge pages, and one more for `extent`,
# would make them much larger.
_FEWEST_HUGE = 16

# How often a map is made again at another address: other threads map too, and there are gaps.
_TRIES = 8

_VM = "/proc/sys/vm"
_CGROUPS = "/sys/fs/cgroup"
_CGROUPS_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_HUGE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"

# The mmap module has no names for these.
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23  # Linux 5.14
_MADV_COLLAPSE = 25


@cache
def boot_id() -> bytes:
    """Return 16 bytes that differ for each boot of the kernel; b"" where they are unknown."""
    text = _read("/proc/sys/kernel/random/boot_id").strip().replace("-", "")
    with suppress(ValueError):
        boot = bytes.fromhex(text)
        if len(boot) == 16 and any(boot):
            return boot
    return b""


def available_bytes() -> int:
    """Return how much memory this machine, and its container, can use without swapping."""
    free = _fields(_read("/proc/meminfo")).get("MemAvailable:", 0) << 10
    return max(0, min([free, *_left_in_cgroups()]))


def shared_bytes() -> int:
    """Return how much more shared memory fits, in its file system and in memory."""
    try:
        status = os.statvfs(SHARED)
    except OSError:
        return 0
    return min(status.f_bavail * status.f_frsize, available_bytes())


@cache
def huge_page_bytes() -> int:
    """Return the size of the kernel's huge pages; 0 if it has none."""
    with suppress(ValueError):
        return int(_read(_HUGE))
    return 0


def dirty_bytes() -> float:
    """Return how many bytes of memory may be dirty before the kernel makes a writer wait.

    That is half way between the limit at which it begins to write in the background and the limit
    that it never passes (`balance_dirty_pages`); infinite where it is unknown.
    """
    limits = [_limit("dirty_background"), _limit("dirty")]
    return sum(limits) / 2


def too_large_to_be_dirty(size: int) -> bool:
    """Return whether a file of this size, changed all over, makes its writer wait.

    The threshold is two thirds of the limit, as other files of the machine are dirty as well.
    """
    return size > _SMALL and size > 2 / 3 * dirty_bytes()


def _limit(name: str) -> float:
    with suppress(ValueError):
        if octets := int(_read(f"{_VM}/{name}_bytes") or 0):
            return octets
        return int(_read(f"{_VM}/{name}_ratio")) / 100 * available_bytes()
    return math.inf


def _left_in_cgroups() -> list[int]:
    """Return what the memory limits of this process's cgroup and of its parents leave."""
    left = []
    for line in _read("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:  # cgroups version 2
            folder, most, now = f"{_CGROUPS}{path}", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):  # cgroups version 1
            folder, most, now = f"{_CGROUPS}/memory{path}", *_CGROUPS_V1
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


def _fields(text: str) -> dict[str, int]:
    """Parse lines of a name and a number."""
    words = (line.split() for line in text.splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def extent(size: int) -> int:
    """Return the size of a file in shared memory with room for that many bytes in huge pages.

    The last page is whole. One more, never touched, lets `map_aligned` choose how long a map is.
    """
    huge = huge_page_bytes()
    if not huge or size < _FEWEST_HUGE * huge:
        return size
    return (-(-size // huge) + 1) * huge


def reserve(fd: int, size: int, path: str) -> None:
    """Allocate the memory of a new file in shared memory, in huge pages as far as there are any.

    Raises
    ------
    OSError
        If there is no room for it (ENOSPC).
    """
    full = extent(size)
    os.ftruncate(fd, full)
    if full > size:
        with suppress(OSError):  # the rest is allocated in small pages below
            _make_huge(fd, size, path)
    disk.allocate(fd, size)  # otherwise a full tmpfs ends the process by SIGBUS


def _make_huge(fd: int, size: int, path: str) -> None:
    huge = huge_page_bytes()
    with map_aligned(fd, size, path, writable=True) as mapped:
        for start in range(0, size, huge):
            os.pwrite(fd, b"\0", start + huge - 1)  # a page that does not exist is not collapsed
            mapped.madvise(_MADV_COLLAPSE, start, huge)


def map_file(fd: int, size: int, path: str, *, writable: bool) -> Map:
    """Map the first bytes of a file.

    Raises
    ------
    FileChangedError
        If the file is shorter.
    OSError
        If the system has no room for the map.
    """
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    # Never np.memmap: in r+ mode it extends a short file, and pickles by copying.
    fill_streams()  # a map duplicates the descriptor
    try:
        return mmap.mmap(fd, size, access=access)
    except ValueError:  # it was truncated a moment ago
        raise FileChangedError(path, "truncated") from None
    except OSError as error:
        raise OSError(error.errno, f"cannot map {size} bytes: {error.strerror}", path) from error


def map_aligned(fd: int, size: int, path: str, *, writable: bool) -> Map:
    """Map a file at an address where its huge pages are mapped as such, if its size is `extent`.

    The map may be longer than was asked for.
    """
    full, huge = min(extent(size), os.fstat(fd).st_size), huge_page_bytes()
    mapped = map_file(fd, max(size, full), path, writable=writable)
    astray = list[Map]()
    while full > size and len(astray) < _TRIES and (begin := _address(mapped)) % huge:
        # The kernel fills addresses from above: the next map ends where this one begins, or it
        # lands in a gap above, and fills that. So this one stays open until the end: if it were
        # closed first, the next could land in its place, and this would never end.
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
    """Read and map the pages of the first bytes; return False where the kernel cannot.

    Populate for writing only what is in memory anyway: it makes every page dirty, and a file's
    pages are then all written back.
    """
    advice = _MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ
    try:
        mapped.madvise(advice, 0, size)
    except (AttributeError, OSError):  # Linux before 5.14, and other systems
        return False
    return True


def expect_random(mapped: Map) -> None:
    """Advise the kernel to read only the pages that are touched."""
    _advise(mapped, mmap.MADV_RANDOM)


def expect_neighbours(mapped: Map) -> None:
    """Advise the kernel to read ahead around the pages that are touched."""
    _advise(mapped, mmap.MADV_NORMAL)


def _advise(mapped: Map, advice: int) -> None:
    with suppress(OSError, ValueError, AttributeError):  # it is only advice; or the map was closed
        mapped.madvise(advice)
