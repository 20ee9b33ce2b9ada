"""Maps of files, and the pages that they consist of; the only importer of mmap.

Shared memory comes in pages of 4 KiB unless a process asks for huge ones. A processor remembers
where some thousand pages are, so that in an array of gigabytes each key waits for the page table
as well. Any process may ask for huge pages (``MADV_COLLAPSE``, Linux 6.1), unless the administrator
has set shared memory to ``deny``. They are mapped as such only where address and offset agree
modulo their size, which mmap does not see to: hence `extent`.
"""

import mmap
import os
from contextlib import suppress

import numpy as np

from mmbloom._machine import memory
from mmbloom._machine.descriptors import fill_streams
from mmbloom.errors import FileChangedError

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
    huge = memory.huge_page_bytes()
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
    huge = memory.huge_page_bytes()
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
    full, huge = min(extent(size), os.fstat(fd).st_size), memory.huge_page_bytes()
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
