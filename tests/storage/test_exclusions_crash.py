"""Changes of the exclusions at once, beside readers, killed, and with calls that fail."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from checks import check_folder
from excluding import EXACT, Kind, SoonFull, Ticking, tree
from faults import Hook, at_call, fail_with, ignore, kill_self, names_of_calls, os_calls
from workers import ChildDiedError, in_child, together

from mmbloom import BloomFilter, copy
from mmbloom._system.sections import outlast

Make = Callable[..., BloomFilter]


def test_no_exclusion_is_lost(create: Make, path: str, seed: int) -> None:
    """Several processes add and take out at once: none undoes what another did (law 7)."""
    create(**EXACT).close()
    rounds = 60

    def work(number: int) -> None:
        with BloomFilter.open(path) as mine:
            for n in range(rounds):
                mine.exclusions.add(f"{seed} {number} {n}")
                if n % 3 == 0:
                    mine.exclusions.discard(f"{seed} {number} {n}")

    together([partial(work, number) for number in range(3)])
    expected = {f"{seed} {i} {n}".encode() for i in range(3) for n in range(rounds) if n % 3}
    with BloomFilter.open(path, "r") as reader:
        assert set(reader.exclusions) == expected
    check_folder(Path(path).parent, "seen.bloom", "seen.bloom.exclusions")


@pytest.mark.parametrize("kind", [SoonFull(), Ticking()], ids=type)
def test_no_exclusion_is_lost_where_files_change_over(kind: Kind, path: str, seed: int) -> None:
    """The lock of a folder goes from file to file, and each change is made under it."""
    kind.create(path).close()

    def work(number: int) -> None:
        with kind.open(path) as mine:
            for n in range(40):
                mine.exclusions.add(f"{seed} {number} {n}")
                mine.update(f"{seed} {number} {n} {i}" for i in range(3 * n))
                with mine.locked():  # in which a file may begin
                    mine.add(f"{seed} {number} {n}")
                    mine.exclusions.discard(f"{seed} {number} {n - 1}")
                assert f"{seed} {number} {n}" not in mine

    together([partial(work, number) for number in range(3)])
    expected = {f"{seed} {i} 39".encode() for i in range(3)}
    with kind.open(path, "r") as reader:
        assert set(reader.exclusions) == expected
        assert not reader.contains_many([*expected]).any()
        assert reader.contains_many([f"{seed} {i} 38" for i in range(3)]).all()
    files = [name for name in tree(path) if name not in ("manifest.json", "exclusions")]
    assert len(files) > 4
    assert all(name.endswith(".bloom") for name in files), "no temporary file stays"


def test_copy_of_a_folder_has_them_or_is_not_there(path: str) -> None:
    """Whichever call fails: no copy appears that would find what is excluded."""
    kind = SoonFull()
    with kind.create(path) as made:
        made.add_many(["a", "b"])
        made.exclusions.add("a")

    def copied(hook: Hook) -> str:
        with os_calls(hook):
            try:
                copy(path, path + "2")
            except OSError as error:
                return str(error)
        return ""

    calls = names_of_calls(copied)
    assert calls.count("replace") == 2, "of the manifest, and of the exclusions"
    for number in range(calls.index("replace"), len(calls)):  # those before are tested elsewhere
        shutil.rmtree(path + "2", ignore_errors=True)
        said = in_child(partial(copied, at_call(number, fail_with(errno.EIO))))
        if os.path.exists(path + "2"):
            with kind.open(path + "2", "r") as seen:
                assert seen.contains_many(["a", "b"]).tolist() == [False, True]
        else:
            assert said
            check_folder(Path(path).parent, "seen.bloom")


def test_readers_see_the_old_file_or_the_new(create: Make, path: str) -> None:
    """Beside a writer no reader meets a file that is cut off, or none at all."""
    made = create(**EXACT)
    made.add("x")
    many = [f"{n} {'y' * 500}" for n in range(200)]
    made.exclusions.update(["x", *many])

    def write() -> None:
        with BloomFilter.open(path) as mine:
            for n in range(100):
                (mine.exclusions.update if n % 2 else mine.exclusions.difference_update)(many)

    def read() -> None:
        with BloomFilter.open(path, "r") as mine:
            sizes = {len(mine.exclusions) for _ in range(2000)}
            assert sizes <= {1, 201}
            assert not any("x" in mine for _ in range(2000))

    together([write, read])


@contextmanager
def calls_of_one_change(path: str, hook: Callable[[str], object]) -> Iterator[BloomFilter]:
    with BloomFilter.open(path) as mine:
        with os_calls():  # under it, the lock's calls are seen
            mine.exclusions.add("warm")  # the lock's own descriptor is open from here on
        outlast()  # so that the change looks at all anew, each time
        with os_calls(hook):
            yield mine


def change(path: str, hook: Hook = ignore) -> None:
    with calls_of_one_change(path, hook) as mine:
        mine.exclusions.update(["b", "c"])


def calls_made(path: str) -> list[str]:
    return names_of_calls(partial(change, path))


def test_on_the_disk(create: Make, path: str) -> None:
    """The new file is forced to the disk before it is in place, and the folder after."""
    create(**EXACT).close()
    expected = ["flock", "write", "fsync", "replace", "fsync", "unlock"]
    assert [name for name in calls_made(path) if name in expected] == expected


def test_killed_at_every_call(create: Make, path: str) -> None:
    """A process killed in a change leaves the old file or the new; the next change goes on."""
    create(**EXACT).close()
    found = []
    for number in range(len(calls_made(path))):
        Path(path + ".exclusions").unlink(missing_ok=True)
        with pytest.raises(ChildDiedError):
            in_child(partial(change, path, at_call(number, kill_self)))
        raw = Path(path + ".exclusions").read_bytes()
        assert raw in (b"warm\n", b"warm\nb\nc\n"), number
        found.append(raw)
        with BloomFilter.open(path, lock_timeout=10) as mine:
            assert mine.exclusions.add("d")
        assert Path(path + ".exclusions").read_bytes() == raw + b"d\n"
        check_folder(Path(path).parent, "seen.bloom", "seen.bloom.exclusions")
    assert len(set(found)) == 2, "some kills were before the change, some after it"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_failure_of_every_call(create: Make, path: str, code: int) -> None:
    """A call that fails is an error, and the file the old one or the new; no other file stays."""
    create(**EXACT).close()
    for number in range(len(calls_made(path))):
        Path(path + ".exclusions").unlink(missing_ok=True)

        def fail(number: int = number) -> str:
            try:
                change(path, at_call(number, fail_with(code)))
            except OSError as error:
                return f"{error}"
            return ""

        said = in_child(fail)
        raw = Path(path + ".exclusions").read_bytes()
        assert raw in (b"warm\n", b"warm\nb\nc\n")
        assert said or raw != b"warm\n", f"call {number} failed without a word"
        check_folder(Path(path).parent, "seen.bloom", "seen.bloom.exclusions")
