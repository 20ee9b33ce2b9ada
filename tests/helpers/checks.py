"""Checks that several test files share; each states one guarantee of a filter or its file.

Files are read here with `struct` and Python ints, never with the code under test.
"""

import fcntl
import os
import pickle
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from reference import parse_key_rule, with_crc
from reference import seal as trailer_of
from workers import PATIENCE

from mmbloom import BloomFilter, CountingBloomFilter
from mmbloom._system import sections
from mmbloom.errors import MmbloomError

HEADER_BYTES = 4096
COUNTERS = ("keys_added", "positions_set", "batches_begun", "batches_done", "flushed_ns")

# Every call of the public API that reads, and every one that writes.
READS: dict[str, Callable[[BloomFilter], object]] = {
    "in": lambda seen: "a" in seen,
    "contains_many": lambda seen: seen.contains_many(["a"]),
    "approx_count": lambda seen: seen.approx_count,
    "fill_ratio": lambda seen: seen.fill_ratio,
    "current_error_rate": lambda seen: seen.current_error_rate,
    "info": lambda seen: seen.info(),
    "key_rule": lambda seen: seen.key_rule,
    "common_count": lambda seen: seen.common_count(seen),
    "jaccard": lambda seen: seen.jaccard(seen),
    "isdisjoint": lambda seen: seen.isdisjoint(seen),
    "issubset": lambda seen: seen.issubset(seen),
}


def claim(seen: Any, keys: Iterable[Any]) -> list[bool]:
    """Claim keys for an empty block, and list which of them are new."""
    with seen.claim(keys) as new:
        return list(map(bool, new))


def _enter_locked(seen: BloomFilter) -> None:
    with seen.locked():
        pass


WRITES: dict[str, Callable[[BloomFilter], object]] = {
    "add": lambda seen: seen.add("a"),
    "add_many": lambda seen: seen.add_many(["a"]),
    "update": lambda seen: seen.update(iter(["a"])),
    "claim": lambda seen: claim(seen, ["a"]),
    "locked": _enter_locked,
    "recount": lambda seen: seen.recount(),
}


def lasting(path: str | Path) -> tuple[int, ...]:
    """Return what reading a file does not change: all of its status but the time of that."""
    status = os.lstat(path)
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_mode, status.st_ino, status.st_nlink, status.st_size, *times


def contents(path: str | Path) -> dict[Path, bytes]:
    """Read every file of a path: itself, or all that are below a folder."""
    files = [Path(path)] if Path(path).is_file() else sorted(Path(path).rglob("*"))
    return {file: file.read_bytes() for file in files if file.is_file()}


def array_of(path: str) -> bytes:
    return Path(path).read_bytes()[HEADER_BYTES:]


def counters_of(path: str) -> dict[str, int]:
    """Return the five counters of a filter file, as they are on disk."""
    values = struct.unpack_from("<5Q", Path(path).read_bytes(), 2048)
    return dict(zip(COUNTERS, values, strict=True))


def set_counters(path: str, **values: int) -> None:
    """Damage counters of a filter file behind the package's back."""
    with open(path, "r+b") as file:
        for name, value in values.items():
            file.seek(2048 + 8 * COUNTERS.index(name))
            file.write(struct.pack("<Q", value))


def change_header(path: str, offset: int, code: str, value: float) -> None:
    """Forge a field of the immutable block, with a checksum that fits."""
    with open(path, "r+b") as file:
        raw = bytearray(file.read(512))
        struct.pack_into(code, raw, offset, value)
        file.seek(0)
        file.write(with_crc(bytes(raw)))


def seal(path: str) -> None:
    """Make a sealed file of a filter, by the format's text."""
    with open(path, "ab") as file:
        file.write(trailer_of(array_of(path)))
    change_header(path, 96, "<Q", 1)


def check_settled(path: str) -> None:
    """Check that the counters tell what the array holds, and the header's rest is zero."""
    raw = Path(path).read_bytes()
    counters = counters_of(path)
    set_bits = int.from_bytes(raw[HEADER_BYTES:], "little").bit_count()
    assert counters["positions_set"] == set_bits
    assert counters["batches_begun"] == counters["batches_done"]
    assert counters["keys_added"] <= set_bits  # a new key sets a bit at least
    assert (counters["keys_added"] > 0) == (set_bits > 0)
    assert not any(raw[512:2048]), "bytes 512 to 2047 are zero"
    assert not any(raw[2088:2560]), "bytes 2088 to 2559 are zero"
    assert not any(raw[2560:HEADER_BYTES]) or parse_key_rule(raw), "the key rule is whole"


def check_same_filter(one: str, other: str) -> None:
    """Check that two files hold the same keys, bit for bit and count for count."""
    assert array_of(one) == array_of(other)
    for name in ("keys_added", "positions_set"):
        assert counters_of(one)[name] == counters_of(other)[name]


def check_holds(seen: BloomFilter, keys: Iterable[bytes | str | int]) -> None:
    """Check that no key is a false negative, whichever way it is asked for."""
    keys = list(keys)
    assert seen.contains_many(keys).all()
    assert all(key in seen for key in keys[:100])


def let_others_in(folder: Path) -> None:
    """Let other users reach a folder of a test, however deep below the temporary one it is."""
    top = Path(tempfile.gettempdir())
    for each in (folder, *folder.parents):
        if each == top or top not in each.parents:
            break
        each.chmod(each.stat().st_mode | 0o055)


def soon() -> None:
    """Let the moment pass after which every object goes by a change of its files."""
    # A millisecond, and of the kernel's coarse clock, which goes on in steps, a step.
    coarse = sections._COARSE
    until = time.clock_gettime(coarse) + 0.001
    time.sleep(0.001)
    while time.clock_gettime(coarse) <= until:
        time.sleep(0.0005)


def check_raises(
    actions: dict[str, Callable[[Any], object]],
    seen: BloomFilter | CountingBloomFilter,
    error: type[MmbloomError],
    match: str | None = None,
) -> None:
    for action in actions.values():
        with pytest.raises(error, match=match) as caught:
            action(seen)
        assert caught.value.path == seen.path  # type: ignore[attr-defined]
        assert seen.path in str(caught.value)


def check_pickles(error: MmbloomError) -> None:
    """Check that an error comes out of a pickle the same, attributes included."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def check_folder(folder: str | Path, *names: str) -> None:
    """Check that a folder holds these files and nothing else, no temporary file either."""
    assert sorted(os.listdir(folder)) == sorted(names)


def in_turn(*actions: Callable[[Path], object]) -> Callable[[Path], object]:
    """Make one action on a path of several."""
    return lambda path: [action(path) for action in actions]


def run_threads(*actions: Callable[[], object]) -> None:
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread hangs"


def in_thread(action: Callable[[], object]) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    thread.join(PATIENCE)
    assert results, "the thread ended with an error, or hangs"
    return results[0]


def flock_is_free(path: str | Path) -> bool:
    """Ask the system, with nothing of mmbloom, whether the data file is locked."""
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
