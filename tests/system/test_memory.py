"""How much memory the machine has, read from files that the tests make."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmbloom._system import memory

MEMINFO = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   10000000 kB\n"
AVAILABLE = 10_000_000 << 10


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a machine with 10 GB of memory available, and no limit; nothing of it is kept."""
    monkeypatch.setattr(memory, "_VM", str(tmp_path / "vm"))
    monkeypatch.setattr(memory, "_CGROUPS", str(tmp_path / "cgroup"))
    read = memory._read

    def read_here(path: str) -> str:
        return read(path if path.startswith(str(tmp_path)) else f"{tmp_path}{path}")

    monkeypatch.setattr(memory, "_read", read_here)
    write(tmp_path, **{"proc/meminfo": MEMINFO})
    memory.boot_id.cache_clear()
    yield tmp_path
    memory.boot_id.cache_clear()


def write(folder: Path, **files: object) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")


def test_nothing_is_known(machine: Path) -> None:
    """Where there is no /proc, there is no room, no limit and no boot."""
    (machine / "proc/meminfo").unlink()
    assert memory.available_bytes() == 0
    assert memory.dirty_bytes() == math.inf
    assert memory.boot_id() == b""


def test_boot_id(machine: Path) -> None:
    """The kernel's text is 16 bytes; any other text is none."""
    boot = "proc/sys/kernel/random/boot_id"
    write(machine, **{boot: "5d9068f2-5845-0c98-d866-c004ba3726ff"})
    assert memory.boot_id.__wrapped__() == bytes.fromhex("5d9068f258450c98d866c004ba3726ff")
    for text in ("", "5d9068f2", "x" * 32, "0" * 32):
        write(machine, **{boot: text})
        assert memory.boot_id.__wrapped__() == b""


def test_boot_id_of_this_machine() -> None:
    assert len(memory.boot_id()) in (0, 16)


def test_dirty_bytes(machine: Path) -> None:
    """Half way between the limits: shares of the memory that is available, or bytes."""
    write(machine, **{"vm/dirty_ratio": 20, "vm/dirty_background_ratio": 10})
    assert memory.dirty_bytes() == pytest.approx(0.15 * AVAILABLE)
    write(machine, **{"vm/dirty_bytes": 3000, "vm/dirty_background_bytes": 1000})
    assert memory.dirty_bytes() == 2000
    write(machine, **{"vm/dirty_bytes": 0, "vm/dirty_background_bytes": "nonsense"})
    assert memory.dirty_bytes() == math.inf


@pytest.mark.parametrize(
    ("line", "most", "now", "cache"),
    [
        ("0::/a/b", "a/memory.max", "a/memory.current", "file"),
        (
            "4:cpu,memory:/a/b",
            "memory/a/memory.limit_in_bytes",
            "memory/a/memory.usage_in_bytes",
            "cache",
        ),
    ],
)
def test_container(machine: Path, line: str, most: str, now: str, cache: str) -> None:
    """A limit of any cgroup around the process counts; the page cache counts as free."""
    write(machine, **{"proc/self/cgroup": f"1:name=systemd:/\n{line}"})
    assert memory.available_bytes() == AVAILABLE
    statistics = f"{os.path.dirname(most)}/memory.stat"
    write(machine / "cgroup", **{most: 1_000_000, now: 700_000})
    assert memory.available_bytes() == 300_000
    write(machine / "cgroup", **{statistics: f"anon 5\n{cache} 500000\nshmem 100000"})
    assert memory.available_bytes() == 700_000
    write(machine / "cgroup", **{now: 2_000_000})
    assert memory.available_bytes() == 0
    write(machine / "cgroup", **{most: "max"})
    assert memory.available_bytes() == AVAILABLE


def test_too_large_to_be_dirty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is too large from two thirds of the limit on; for small files nothing is read."""
    monkeypatch.setattr(memory, "dirty_bytes", lambda: 300 << 20)
    assert not memory.too_large_to_be_dirty(200 << 20)
    assert memory.too_large_to_be_dirty((200 << 20) + 1)
    monkeypatch.setattr(memory, "dirty_bytes", None)
    assert not memory.too_large_to_be_dirty(64 << 20)


def test_shared_bytes(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room is that of its file system and of memory; 0 without shared memory."""
    there = os.statvfs(machine)
    monkeypatch.setattr(memory, "SHARED", str(machine))
    free = there.f_bavail * there.f_frsize
    assert memory.shared_bytes() == pytest.approx(min(free, AVAILABLE), rel=0.05)
    write(machine, **{"proc/meminfo": "MemAvailable: 1 kB"})
    assert memory.shared_bytes() == 1024
    monkeypatch.setattr(memory, "SHARED", str(machine / "nowhere"))
    assert memory.shared_bytes() == 0
