"""Changes of the exceptions at once, beside readers, killed, and with calls that fail."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checks import check_folder
from faults import at_call, fail_with, kill_self, os_calls
from test_exceptions import EXACT, Make
from workers import ChildDied, in_child, together

from mmbloom import BloomFilter


def test_no_exception_is_lost(create: Make, path: str, seed: int) -> None:
    """Several processes add and take out at once: none undoes what another did (law 7)."""
    create(**EXACT).close()
    rounds = 60

    def work(number: int) -> Callable[[], int]:
        def run() -> int:
            with BloomFilter.open(path) as mine:
                for n in range(rounds):
                    mine.exceptions.add(f"{seed} {number} {n}")
                    if n % 3 == 0:
                        mine.exceptions.discard(f"{seed} {number} {n}")
            return rounds

        return run

    assert together([work(number) for number in range(3)]) == [rounds] * 3
    expected = {f"{seed} {i} {n}".encode() for i in range(3) for n in range(rounds) if n % 3}
    with BloomFilter.open(path, "r") as reader:
        assert set(reader.exceptions) == expected
    check_folder(Path(path).parent, "seen.bloom", "seen.bloom.exceptions")


def test_readers_see_the_old_file_or_the_new(create: Make, path: str) -> None:
    """Beside a writer no reader meets a file that is cut off, or none at all."""
    made = create(**EXACT)
    made.add("x")
    many = [f"{n} {'y' * 500}" for n in range(200)]
    made.exceptions.update(["x", *many])

    def write() -> int:
        with BloomFilter.open(path) as mine:
            for n in range(100):
                (mine.exceptions.update if n % 2 else mine.exceptions.difference_update)(many)
        return 0

    def read() -> int:
        with BloomFilter.open(path, "r") as mine:
            sizes = {len(mine.exceptions) for _ in range(2000)}
            assert sizes <= {1, 201}
            assert not any("x" in mine for _ in range(2000))
        return 0

    assert together([write, read]) == [0, 0]


@contextmanager
def calls_of_one_change(path: str, hook: Callable[[str], object]) -> Iterator[BloomFilter]:
    with BloomFilter.open(path) as mine:
        mine.exceptions.add("warm")  # the lock's own descriptor is open from here on
        with os_calls(hook):
            yield mine


def calls_made(path: str) -> list[str]:
    def change() -> list[str]:
        calls: list[str] = []
        with calls_of_one_change(path, calls.append) as mine:
            mine.exceptions.update(["b", "c"])
        return calls

    return in_child(change)


def test_on_the_disk(create: Make, path: str) -> None:
    """The new file is forced to the disk before it is in place, and the folder after."""
    create(**EXACT).close()
    calls = [
        name
        for name in calls_made(path)
        if name in ("flock", "write", "fsync", "replace", "unlock")
    ]
    assert calls == ["flock", "write", "fsync", "replace", "fsync", "unlock"]


def test_killed_at_every_call(create: Make, path: str) -> None:
    """A process killed in a change leaves the old file or the new; the next change goes on."""
    create(**EXACT).close()
    calls = len(calls_made(path))
    found = []
    for number in range(calls):
        Path(path + ".exceptions").unlink(missing_ok=True)

        def die(number: int = number) -> None:
            with calls_of_one_change(path, at_call(number, kill_self)) as mine:
                mine.exceptions.update(["b", "c"])

        with pytest.raises(ChildDied):
            in_child(die)
        raw = Path(path + ".exceptions").read_bytes()
        assert raw in (b"warm\n", b"warm\nb\nc\n"), number
        found.append(raw)
        with BloomFilter.open(path, lock_timeout=10) as mine:
            assert mine.exceptions.add("d")
        assert Path(path + ".exceptions").read_bytes() == raw + b"d\n"
        check_folder(Path(path).parent, "seen.bloom", "seen.bloom.exceptions")
    assert len(set(found)) == 2, "some kills were before the change, some after it"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_failure_of_every_call(create: Make, path: str, code: int) -> None:
    """A call that fails is an error, and the file the old one or the new; no other file stays."""
    create(**EXACT).close()
    for number in range(len(calls_made(path))):
        Path(path + ".exceptions").unlink(missing_ok=True)

        def fail(number: int = number) -> str:
            with calls_of_one_change(path, at_call(number, fail_with(code))) as mine:
                try:
                    mine.exceptions.update(["b", "c"])
                except OSError as error:
                    return f"{error}"
            return ""

        said = in_child(fail)
        raw = Path(path + ".exceptions").read_bytes()
        assert raw in (b"warm\n", b"warm\nb\nc\n")
        assert said or raw != b"warm\n", f"call {number} failed without a word"
        check_folder(Path(path).parent, "seen.bloom", "seen.bloom.exceptions")
