"""What the kernel is told about a filter's pages: preloading, advice, and zeros at creation."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import has
import pytest
from checks import soon
from maps import map_of, replace_map
from steps import calls_of

from mmbloom import BloomFilter
from mmbloom._storage import build, moving
from mmbloom._system.disk import IN_MEMORY, file_system_type

Create = Callable[..., BloomFilter]
KEYS = list(range(20_000))


def mapping(path: str) -> dict[str, str]:
    """What /proc says of the map of a file: "Rss" in kB, "VmFlags", and so on."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("this system has no /proc/self/smaps, which shows maps")
    found: dict[str, str] = {}
    for line in smaps.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if "-" in name.split(" ")[0]:
            inside = line.endswith(path)
        elif inside:
            found[name] = value.strip()
    return found


def reads_single_pages(path: str) -> bool:
    return "rr" in mapping(path)["VmFlags"].split()


def test_few_keys_read_single_pages_and_many_read_around(create: Create, path: str) -> None:
    create(1_000_000).close()
    with BloomFilter.open(path, "r") as seen:
        assert reads_single_pages(path)
        seen.contains_many(KEYS[:100])
        assert reads_single_pages(path)
        seen.contains_many(KEYS)
        assert not reads_single_pages(path)
        seen.contains_many(KEYS[:100])
        assert not reads_single_pages(path)


TOUCHES: dict[str, Callable[[BloomFilter], object]] = {
    "in": lambda seen: [key in seen for key in KEYS[:12_000]],
    "add": lambda seen: [seen.add(key) for key in KEYS[:12_000]],  # one in a thousand tells
    "add_many": lambda seen: seen.add_many(KEYS[:10_000]),
    "claim": lambda seen: seen.claim(KEYS[:10_000]).__enter__(),
}


@pytest.mark.parametrize("how", TOUCHES)
def test_every_way_to_touch_keys_counts(create: Create, path: str, how: str) -> None:
    """Single keys add up to many, whichever way they come."""
    seen = create(1_000_000)
    assert reads_single_pages(path)
    TOUCHES[how](seen)
    assert not reads_single_pages(path)


def test_single_keys_within_locked_count_too(
    create: Create, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adds within `locked` are counted by the time that they take."""
    monkeypatch.setattr(moving, "_FEW_KEYS", 60)
    seen = create(100_000)
    with seen.locked():
        for key in KEYS[:5]:
            soon()  # as long as a page from a slow disk takes
            seen.add(key)
    assert not reads_single_pages(path)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_preload_maps_the_whole_file_and_changes_nothing(
    create: Create, path: str, mode: str
) -> None:
    """With preload=True every page is mapped before the first key, and none becomes dirty."""
    create(1_000_000).close()
    with open(path, "rb") as file:
        os.fsync(file)  # its zeros; what is dirty later is preload's doing
    before = os.stat(path)
    with BloomFilter.open(path, mode, preload=True) as seen:  # type: ignore[arg-type]
        assert not reads_single_pages(path)
        there = mapping(path)
        assert int(there["Rss"].split()[0]) * 1024 >= before.st_size
        if file_system_type(path) not in IN_MEMORY:  # where every page is, always
            assert there["Private_Dirty"] == "0 kB"
        assert "a" not in seen
    after = os.stat(path)
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


def test_preload_where_the_kernel_cannot_populate(
    create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older system reads the file instead: all of it, in bounded pieces."""
    seen = create(20_000_000)  # three pieces

    class OldMap:
        def madvise(self, *_: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

        def close(self) -> None:
            the_map.close()

    the_map, calls = map_of(seen._storage), calls_of(monkeypatch, os, "pread")
    replace_map(seen._storage, OldMap())
    seen._storage.array.preload()
    size = os.path.getsize(seen.path)
    read = [min(asked, size - start) for _, asked, start in calls]
    assert sum(read) == size
    assert max(read) <= 8 << 20 < sum(read)


def test_zeros_are_written_in_aligned_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece but the last ends at a multiple of 8 MiB: only so the kernel keeps it whole."""
    monkeypatch.setattr("mmbloom._system.disk.IN_MEMORY", frozenset())  # which needs no zeros
    calls = calls_of(monkeypatch, os, "pwrite")
    BloomFilter.create(tmp_path / "a", 20_000_000).close()
    size = os.path.getsize(tmp_path / "a")
    zeros = [(start, start + len(data)) for _, data, start in calls]
    assert zeros.pop(0 if has.FALLOCATE else -1) == (0, 4096)  # the header
    first = 4096 if has.FALLOCATE else 0
    assert [start for start, _ in zeros] == [first, *(end for _, end in zeros[:-1])]
    assert zeros[-1][1] == size
    assert len(zeros) > 2
    assert all(end % (8 << 20) == 0 for _, end in zeros[:-1])


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"reserve": "zero"}, "reserve is 'zero', expected 'zeros' or 'fallocate'"),
        ({"lock_timeout": float("nan")}, "lock_timeout is nan"),
        ({"lock_timeout": "5"}, "lock_timeout is '5', expected seconds or None"),
        ({"threads": 0}, "threads is 0, expected 1 or more"),
        ({"threads": -1}, "threads is -1, expected 1 or more"),
    ],
)
def test_wrong_options(path: str, option: dict[str, Any], said: str) -> None:
    error = TypeError if "'5'" in said else ValueError
    with pytest.raises(error, match=said):
        BloomFilter.create(path, 1000, **option)
    assert not os.path.exists(path)


@pytest.mark.skipif(not has.FALLOCATE, reason="this system reserves no disk space unwritten")
def test_zeros_of_a_file_too_large_to_be_dirty(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are reserved, and not written: the kernel would write them with each key near by."""
    monkeypatch.setattr("mmbloom._system.disk.IN_MEMORY", frozenset())
    written = calls_of(monkeypatch, build, "write_zeros")
    monkeypatch.setattr("mmbloom._system.memory._SMALL", 0)
    for limit in (100_000, 10_000):  # bytes that may be dirty; the array has 12 KiB
        monkeypatch.setattr("mmbloom._system.memory.dirty_bytes", lambda limit=limit: limit)
        with BloomFilter.create(f"{path}.{limit}", 10_000, resident=False) as seen:
            assert seen.add("a")
            assert os.stat(seen.path).st_blocks * 512 >= 12 << 10
    assert len(written) == 1
