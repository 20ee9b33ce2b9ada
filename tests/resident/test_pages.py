"""The pages of an array in shared memory: huge where the kernel has them, and room for all."""

import errno
import mmap
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import check_folder
from copies import copies, missing
from faults import mount_tmpfs
from tally import Count
from workers import in_child

from mmbloom import BloomFilter
from mmbloom._system import memory
from mmbloom._system.typing import Mode
from mmbloom.errors import ReservationWarning

MIB = 1 << 20
SHMEM = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
KEYS = np.arange(200_000)


def kernel_makes_huge_pages() -> bool:
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    return release >= (6, 1) and SHMEM.exists() and "[deny]" not in SHMEM.read_text()


def huge_bytes() -> int:
    found, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if " rw-s " in line or " r--s " in line:
            ours = f"{memory.SHARED}/mmbloom-" in line
        elif ours and line.startswith("ShmemPmdMapped:"):
            found += int(line.split()[1]) << 10
    return found


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setattr(memory, "SHARED", folder)
        yield


@pytest.mark.usefixtures("real")
@pytest.mark.skipif(not kernel_makes_huge_pages(), reason="this kernel makes no huge pages")
def test_all_processes_map_huge_pages(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The maker, a writer that comes later, one that was there before, and a reader do.

    Where the kernel has no such pages left just now, keys are found all the same.
    """
    make_huge, refused = memory._make_huge, list[OSError]()

    def ask(*given: Any) -> None:
        try:
            make_huge(*given)
        except OSError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(memory, "_make_huge", ask)
    BloomFilter.create(path, 10_000_000, 1e-6, resident=False).close()

    def seen_by(mode: Mode) -> tuple[int, int]:
        with BloomFilter.open(path, mode, resident=True) as other:
            lost = missing(other, KEYS)
            return huge_bytes() // MIB, lost

    with (
        BloomFilter.open(path, resident=False) as before,
        BloomFilter.open(path, resident=True) as seen,
    ):
        size = os.path.getsize(path) // MIB
        seen.add_many(KEYS)
        assert refused or huge_bytes() // MIB >= size
        seen.flush()
        assert before.contains_many(KEYS).all()
        assert refused or huge_bytes() // MIB >= 2 * size  # two maps of the same pages
        modes: tuple[Mode, ...] = ("r+", "r")
        for mode in modes:
            found, lost = in_child(partial(seen_by, mode))
            assert lost == 0
            assert refused or found > size / 2  # of what so many keys touched
    with BloomFilter.open(path, "r") as reader:
        assert missing(reader, KEYS) == 0
    if refused:
        pytest.skip(f"this kernel made no huge pages: {refused[0]}")


def refused_amid(patch: pytest.MonkeyPatch) -> None:
    real, calls = os.pwrite, list[int]()

    def pwrite(fd: int, data: bytes, start: int) -> int:
        if data == b"\0":
            calls.append(start)
            if len(calls) == 5:
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return real(fd, data, start)

    patch.setattr(os, "pwrite", pwrite)


WHY: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no system folder": lambda patch: patch.setattr(memory, "huge_page_bytes", lambda: 0),
    "refused": lambda patch: patch.setattr(memory, "_MADV_COLLAPSE", 9999),
    "refused amid": refused_amid,
    "mapped astray": lambda patch: patch.setattr(memory, "_TRIES", 0),
}


@pytest.mark.parametrize("why", WHY)
def test_small_pages_serve_as_well(path: str, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """All of the memory is taken before the first key, in whatever pages; who maps them differs."""
    with monkeypatch.context() as patch:
        WHY[why](patch)
        seen = BloomFilter.create(path, 10_000_000, 1e-6, resident=True)
        (copy,) = copies()
        assert copy.stat().st_blocks * 512 >= os.path.getsize(path)
    with seen:
        assert seen.add_many(KEYS).all()
        with BloomFilter.open(path) as other:
            assert missing(other, KEYS) == 0
            assert not other.add_many(KEYS).any()
        assert huge_bytes() <= 2 * copy.stat().st_size
    assert copies() == []
    with BloomFilter.open(path, "r") as reader:
        assert missing(reader, KEYS) == 0


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("extra", [0, 1, 4096, MIB, 2 * MIB - 1])
def test_map_begins_where_huge_pages_do(extra: int) -> None:
    """Of a file of its extent the map is aligned and long enough; of a shorter one it is whole."""
    huge = memory.huge_page_bytes() or 2 * MIB
    size, others = 20 * huge + extra, list[mmap.mmap]()
    with tempfile.TemporaryFile(dir=memory.SHARED) as file:
        os.ftruncate(file.fileno(), memory.extent(size))
        for writable in (True, False) * 4:
            with memory.map_aligned(file.fileno(), size, "file", writable=writable) as mapped:
                assert len(mapped) >= size
                if memory.huge_page_bytes():
                    assert memory._address(mapped) % huge == 0
            # The next one is where this was, less so much.
            others.append(mmap.mmap(-1, (7 << len(others)) * mmap.PAGESIZE))
        os.ftruncate(file.fileno(), size)
        with memory.map_aligned(file.fileno(), size, "file", writable=True) as mapped:
            assert len(mapped) == size


@pytest.mark.usefixtures("real")
@pytest.mark.skipif(not memory.huge_page_bytes(), reason="this kernel makes no huge pages")
def test_map_begins_where_huge_pages_do_whatever_gaps_there_are() -> None:
    """A gap that nearly holds a map is where the kernel puts one that is a little shorter."""
    huge = memory.huge_page_bytes()
    size, stray = 20 * huge, 0
    full = memory.extent(size)
    with tempfile.TemporaryFile(dir=memory.SHARED) as file, ExitStack() as stack:
        os.ftruncate(file.fileno(), 3 * full)  # of which no page is touched
        some = partial(mmap.mmap, file.fileno())  # not of no file, which the kernel aligns
        own = stack.enter_context(tempfile.TemporaryFile(dir=memory.SHARED)).fileno()
        os.ftruncate(own, full)
        for _ in range(50):  # into whatever gaps there are
            stack.enter_context(some(full))
        for i in range(32):
            gap = some(full - i * huge // 32 - mmap.PAGESIZE)
            with some(2 * full + (5 + i % 7 * 37) * mmap.PAGESIZE):  # which lies below the gap
                gap.close()
                with memory.map_file(own, full, "file", writable=True) as mapped:
                    stray += memory._address(mapped) % huge > 0
                with memory.map_aligned(own, size, "file", writable=True) as mapped:
                    assert len(mapped) >= size
                    assert memory._address(mapped) % huge == 0
    assert stray > 10  # or there was nothing to be done


@pytest.mark.usefixtures("real")
def test_map_where_there_is_room_for_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first map serves, wherever it begins; small pages are mapped then."""
    huge = 61 * MIB  # the heaps of threads, below which maps lie, begin at each 64
    monkeypatch.setattr(memory, "huge_page_bytes", lambda: huge)
    map_file, made = memory.map_file, list[mmap.mmap]()

    def map_one(*given: Any, **options: Any) -> mmap.mmap:
        if made:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        made.append(map_file(*given, **options))
        return made[0]

    monkeypatch.setattr(memory, "map_file", map_one)
    size = 20 * huge
    with tempfile.TemporaryFile(dir=memory.SHARED) as file:
        os.ftruncate(file.fileno(), memory.extent(size))
        with memory.map_aligned(file.fileno(), size, "file", writable=True) as mapped:
            assert mapped is made[0]
            assert len(mapped) == memory.extent(size)
            assert mapped[size - 1] == 0


@pytest.mark.laws("T8")
@pytest.mark.parametrize("free", [MIB, 64 * MIB])
def test_shared_memory_of_a_container(tmp_path: Path, free: int, tally: Count) -> None:
    """A small /dev/shm takes the filters that fit in it; of the others the files are changed."""

    def fill() -> str:
        if not mount_tmpfs(Path(memory.SHARED), free):
            return "not allowed"
        small, large_one = str(tmp_path / "small"), str(tmp_path / "large")
        with BloomFilter.create(small, 100_000, 1e-6, resident=True) as seen:
            assert seen.info().resident
            with pytest.warns(ReservationWarning, match=r"bytes of shared memory are needed"):
                other = BloomFilter.create(large_one, 20_000_000, 1e-6, resident=True)
            with other:
                assert not other.info().resident
                for each in (seen, other):
                    each.add_many(KEYS[:50_000])
                    assert missing(each, KEYS[:50_000]) == 0
        assert copies() == []
        return "done"

    if in_child(fill) == "not allowed":
        pytest.skip("this system allows no user namespaces")
    tally(files=2)
    check_folder(tmp_path, "large", "shared", "small")


@pytest.mark.laws("T8")
def test_shared_memory_that_fills_up_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Count
) -> None:
    """Wherever the room ends, it is a warning and never a signal: huge pages, then small ones."""

    with BloomFilter.create(tmp_path / "seen", 10_000_000, 1e-6, resident=False) as seen:
        size = seen.info().file_bytes

    def fill() -> list[int] | str:
        if not mount_tmpfs(Path(memory.SHARED), 64 * MIB):
            return "not allowed"
        monkeypatch.setattr(memory, "shared_bytes", lambda: 1 << 40)  # as it was a moment ago
        left = list[int]()
        for free in (0, 4096, 8192, 2 * MIB, 16 * MIB, size - 4096):
            there, path = os.statvfs(memory.SHARED), str(tmp_path / f"{free}")
            with open(f"{memory.SHARED}/other", "wb") as other:
                os.posix_fallocate(other.fileno(), 0, there.f_bavail * there.f_frsize - free or 1)
            with pytest.warns(ReservationWarning, match="No space left"):
                seen = BloomFilter.create(path, 10_000_000, 1e-6, resident=True)
            with seen:
                seen.add_many(KEYS)  # what has no memory would be a signal that kills
                assert missing(seen, KEYS) == 0
                assert not seen.info().resident
                left.append(len(copies()))
            os.unlink(f"{memory.SHARED}/other")
        with BloomFilter.open(path, resident=True) as seen:  # there is room again
            seen.add("x")
            assert seen.info().resident
            assert missing(seen, KEYS) == 0
        return left

    left = in_child(fill)
    if left == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert left == [0] * 6
    tally(files=6)
