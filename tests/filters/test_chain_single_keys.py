"""Keys one or a few at a time in folders: from the call to the bits, and the files that there are.

With the compiled engine a look at the files is trusted for a moment, but for which there are: a
key may have been added to one that is newer. Everything that may change meanwhile changes here amid
a run of keys. With numpy's engine each key looks.
"""

import gc
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checks import in_thread, run_threads
from single_folders import Folder, Make, both, compiled, growing, long_ways, rotating
from workers import Child, end, in_child, together

import mmbloom
from mmbloom import (
    ClosedFilterError,
    FileChangedError,
    GrowingFilter,
    KeyTypeError,
    LockTimeoutError,
    ReadOnlyError,
    ReentryError,
    RotatingFilter,
)
from mmbloom._engine import Grounds
from mmbloom._storage.folder import ManifestFile
from mmbloom.filters.chain import Chain, ChainState
from mmbloom.filters.file import BitFile
from mmbloom.format.folder import MANIFEST


@pytest.fixture(name="long_ways")
def _long_ways() -> Iterator[list[int]]:
    """Count the calls that look which files there are in Python."""
    with long_ways() as found:
        yield found


@compiled
@both
@pytest.mark.parametrize("what", ["in", "absent", "add", "there", "locked", "few", "add few"])
def test_few_go_the_long_way(make: Make, tmp_path: Path, what: str, long_ways: list[int]) -> None:
    """Of thousands of keys in a row some dozens do, as the clock goes on."""
    keys = [b"%d" % number for number in range(5000)]
    with make(tmp_path / "seen") as seen:
        if what in ("in", "there", "few"):
            seen.add_many(keys)
        long_ways.clear()
        begun = time.monotonic()
        if what in ("in", "absent"):
            assert all((key in seen) == (what == "in") for key in keys)
        elif what == "locked":
            with seen.locked():
                assert all(seen.add(key) for key in keys)
        elif what in ("add", "there"):
            assert all(seen.add(key) == (what == "add") for key in keys)
        elif what == "few":
            assert all(seen.contains_many(keys[at : at + 10]).all() for at in range(0, 5000, 10))
        else:
            assert all(seen.add_many(keys[at : at + 10]).all() for at in range(0, 5000, 10))
        moments = (time.monotonic() - begun) * 1000
        assert len(long_ways) <= 20 + 5 * (moments + 5000 / 500)


@pytest.mark.parametrize("how", ["in", "few", "add", "add few"])
def test_a_newer_file_is_asked_at_once(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that another adds to a file that it makes is found by the next question.

    The other's manifest is named right after this one has looked, and no disk is waited for, so
    that the look is still good by the clock.
    """
    install, changes = ManifestFile.install, 0
    looking = list[GrowingFilter]()

    def name(draft: ManifestFile) -> None:
        nonlocal changes
        for seen in looking:
            changes += 1
            assert "none" not in seen
            assert "none" not in seen
        install(draft)

    monkeypatch.setattr(ManifestFile, "install", name)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for turn in range(5):
        path = tmp_path / str(turn)
        with GrowingFilter.create(path, 5, 1e-6) as seen, GrowingFilter.open(path) as other:
            looking = [seen]
            for number in range(150):
                key = f"key {number}"
                assert other.add(key)
                if how == "in":
                    assert key in seen
                elif how == "few":
                    assert seen.contains_many([key, "none"]).tolist() == [True, False]
                elif how == "add":
                    assert not seen.add(key)
                else:
                    assert seen.add_many([key, key]).tolist() == [False, False]
            looking = []
    assert changes == 5 * 4


def test_files_and_manifest_are_of_one_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may load newer files between any two steps of a check.

    Here it does so whenever the check has read which files there are.
    """
    manifest, old, new = tmp_path / "seen" / MANIFEST, tmp_path / "old", tmp_path / "new"
    with GrowingFilter.create(tmp_path / "seen", 10, 1e-9, seed=1) as seen:
        seen.add_many(range(9))
        chain = seen._shelf
        before = chain.current
        old.hardlink_to(manifest)
        with GrowingFilter.open(tmp_path / "seen") as other:
            assert other.add_many(["a", "b", "c"]).all()
        after = chain.refresh()
        chain._snapshot = before
        manifest.rename(new)
        old.rename(manifest)
        checking = False

        def current(
            chain: Chain, real: Callable[[Chain], ChainState] = Chain.__dict__["current"].fget
        ) -> ChainState:
            found = real(chain)
            if checking and new.exists():
                new.rename(manifest)
                chain._snapshot = after
            return found

        def grounds(*arguments: Any, real: Callable[..., Any] = Chain.grounds) -> Any:
            nonlocal checking
            checking = True
            try:
                return real(*arguments)
            finally:
                checking = False

        monkeypatch.setattr(Chain, "current", property(current))
        monkeypatch.setattr(Chain, "grounds", grounds)
        assert "none" not in seen
        assert new.exists() == (mmbloom.engine == "numpy")  # which makes no such check
        if new.exists():
            new.rename(manifest)
        assert "b" in seen
        assert not seen.add("c")
        assert [file.keys_added for file in seen.info().files] == [10, 2]


@pytest.mark.parametrize("size", [1, 7])
def test_each_file_has_its_keys_and_no_more(tmp_path: Path, size: int) -> None:
    """One after the other, or a few at a time: a file gives way when it is full, not later."""
    keys = [f"key {number}" for number in range(1400)]
    with GrowingFilter.create(tmp_path / "seen", 100, 1e-9, seed=1) as seen:
        for at in range(0, 1400, size):
            if size == 1:
                assert seen.add(keys[at])
            else:
                assert seen.add_many(keys[at : at + size]).all()
            assert keys[at // 2] in seen
        for at in range(0, 1400, size):
            assert seen.contains_many([*keys[at : at + size], "none"]).tolist() == [
                *[True] * size,
                False,
            ]
        added = [one.keys_added for one in seen.info().files]
    assert added == [100, 200, 400, 700]


@both
def test_exclusions(make: Make, tmp_path: Path) -> None:
    """A key that is excluded is not found from then on, one that is no more is again."""
    with make(tmp_path / "seen") as seen:
        for key in ("a", "b", "c"):
            seen.add(key)
            assert key in seen
            seen.exclusions.add(key)
            assert key not in seen
            assert not seen.contains_many([key]).any()
            seen.exclusions.discard(key)
            assert key in seen


@both
def test_what_is_raised(make: Make, tmp_path: Path) -> None:
    """Amid trust, a key of the wrong type, a reader, a lock that is taken, a close."""
    path = tmp_path / "seen"
    with make(path) as seen:
        assert seen.add("a")
        assert "a" in seen
        bad: Any = 1.5
        with pytest.raises(KeyTypeError):
            seen.add(bad)
        with pytest.raises(KeyTypeError):
            bad in seen  # noqa: B015
        with type(seen).open(path, "r") as reader:
            assert "a" in reader
            with pytest.raises(ReadOnlyError):
                reader.add("b")
        with type(seen).open(path, lock_timeout=0.01) as other:
            assert not other.add("a")
            assert not other.add("a")
            with seen.locked(), pytest.raises(LockTimeoutError):
                other.add("b")
            with seen.locked():  # by this thread
                assert in_thread(lambda: _is_kept_out(seen))
        assert not seen.add("a")
        assert "a" in seen
    with pytest.raises(ClosedFilterError):
        "a" in seen  # noqa: B015
    with pytest.raises(ClosedFilterError):
        seen.add("a")


def _is_kept_out(seen: Folder) -> bool:
    try:
        assert "a" in seen  # trusted from here on
        seen.add("b")
    except LockTimeoutError:
        return True
    return False


@both
@pytest.mark.parametrize("how", ["removed", "moved", "another"])
def test_the_folder_is_another_at_once(make: Make, tmp_path: Path, how: str) -> None:
    """A folder that is gone, or in whose place there is another, is noticed by the next key."""
    path = tmp_path / "seen"
    with make(path) as seen:
        for _ in range(3):
            seen.add("a")
            assert "a" in seen
        if how == "removed":
            shutil.rmtree(path)
        else:
            path.rename(tmp_path / "elsewhere")
        if how == "another":
            make(path).close()
        for ask in (seen.__contains__, seen.add):
            with pytest.raises(FileChangedError):
                ask("a")


@both
def test_a_file_that_is_cut(make: Make, tmp_path: Path) -> None:
    """It is noticed within a moment, and is no fatal signal then."""
    path = tmp_path / "seen"

    def work() -> None:
        with make(path) as seen:
            seen.add("a")
            (file,) = path.glob("*.bloom")
            os.truncate(file, 0)
            time.sleep(0.05)
            with pytest.raises(FileChangedError):
                "a" in seen  # noqa: B015

    in_child(work)


@both
def test_within_a_block_and_in_a_child(make: Make, tmp_path: Path) -> None:
    """Keys added in a block, and by a child forked amid trust, are there; no lock is left."""
    with make(tmp_path / "seen") as seen:
        with seen.locked():
            assert [seen.add(key) for key in ("a", "b", "a")] == [True, True, False]
            assert seen.add_many(["b", "c"]).tolist() == [False, True]
        assert in_child(lambda: seen.add("d") and "a" in seen and not seen.add("d"))
        assert "d" in seen
        assert [seen.add(key) for key in ("c", "d", "e")] == [False, False, True]


@pytest.mark.parametrize("writers", ["threads", "processes"])
def test_each_key_is_new_once(tmp_path: Path, writers: str, seed: int) -> None:
    """Four that add the same keys one by one, through change-overs, while all of them ask."""
    path = tmp_path / "seen"
    shared = GrowingFilter.create(path, 50, 1e-9, seed=1)

    def add(me: int) -> list[int]:
        keys = random.Random(seed + me).sample(range(2000), 2000)
        seen = shared if writers == "threads" else GrowingFilter.open(path)
        new = list[int]()
        for key in keys:
            if seen.add(key):
                new.append(key)
            assert key in seen
        if seen is not shared:
            seen.close()
        return new

    told = list[list[int]]()
    if writers == "threads":
        run_threads(*(lambda me=me: told.append(add(me)) for me in range(4)))
    else:
        told = together([partial(add, me) for me in range(4)])
    with shared:
        assert sorted(key for one in told for key in one) == list(range(2000))
        assert [one.keys_added for one in shared.info().files[:-1]] == [50, 100, 200, 400, 800]


@pytest.mark.parametrize("make", [growing, rotating])
def test_a_handler_amid_a_wait_for_a_block(make: Make, tmp_path: Path) -> None:
    """What a signal handler adds while its thread waits to enter a block waits for the lock."""
    path = tmp_path / "seen"
    refused = list[bool]()
    with make(path) as seen, type(seen).open(path, lock_timeout=0.1) as other:
        other.add("there")

        def handle(*_: object) -> None:
            assert "there" in other  # trusted from here on
            try:
                other.add("new")
            except (LockTimeoutError, ReentryError):
                refused.append(True)

        before = signal.signal(signal.SIGALRM, handle)
        try:
            with seen.locked():
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(LockTimeoutError):
                    other.locked().__enter__()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert refused == [True]
        assert "new" not in seen
        assert other.add("new")


@pytest.mark.parametrize("how", ["update", "claim", "add_many", "contains_many"])
def test_a_dropped_file_is_let_go_of(tmp_path: Path, how: str) -> None:
    """A file that another has dropped is unmapped by the next batch: its disk is free."""
    path = tmp_path / "seen"
    batch = [f"key {number}" for number in range(1000)]
    with rotating(path, keep="1d", every="1d") as seen:
        for key in ("a", "b"):
            seen.add(key)
            assert key in seen
        (old,) = path.glob("*.bloom")
        ahead = time.time() + 5 * 86400
        with RotatingFilter.open(path, clock=lambda: ahead) as other:
            other.add("c")
        assert not old.exists()
        if how == "claim":
            with seen.claim(batch):
                pass
        else:
            getattr(seen, how)(batch)
        gc.collect()
        assert f"{old} (deleted)" not in Path("/proc/self/maps").read_text()


@compiled
@both
def test_closed_amid_the_look(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is in, and whose filter another thread closes then, is no error of its add."""

    def close(*_: object) -> None:
        monkeypatch.undo()
        seen.close()
        raise ClosedFilterError("seen")

    seen = make(tmp_path / "seen")
    monkeypatch.setattr(BitFile, "leave_room", close)
    assert seen.add("a")
    assert seen.closed


def test_a_reader_amid_writers(tmp_path: Path) -> None:
    """One process asks while another makes file after file: what it was told of is found."""
    path = tmp_path / "seen"
    GrowingFilter.create(path, 20, 1e-6).close()
    told = tmp_path / "told"
    told.write_bytes(b"")

    def write() -> None:
        with GrowingFilter.open(path) as seen, told.open("ab", buffering=0) as log:
            for number in range(1500):
                assert seen.add(number)
                log.write(b".")

    writer, asked, alive = Child(write), 0, True
    try:
        with GrowingFilter.open(path, "r") as seen:
            while alive:
                alive = writer.alive()  # once more when it has ended: it may have before this began
                asked = told.stat().st_size
                assert asked == 0 or asked - 1 in seen
        writer.result()
    finally:
        end(writer)
    assert asked == 1500


@both
@pytest.mark.parametrize("year", [1969, 1901, 2300, 2600])
def test_manifest_of_any_time(
    make: Make, tmp_path: Path, year: int, request: pytest.FixtureRequest
) -> None:
    """Whatever the time of the list of files: each key is answered, and new once."""
    folder = tmp_path / "folder"
    if os.path.isdir("/dev/shm"):  # where every time can be
        folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        request.addfinalizer(lambda: shutil.rmtree(folder))
    with make(folder / "seen") as seen:
        day = int((year - 1970) * 365.2425 * 86400)
        os.utime(folder / "seen" / "manifest.json", (day, day))
        if int(os.stat(folder / "seen" / "manifest.json").st_mtime) != day:
            pytest.skip("this file system has no such time")
        for turn in range(3):
            assert [seen.add(number) for number in range(50)] == [not turn] * 50
            assert list(seen.add_many([-1, -2])) == [not turn] * 2
            assert all(number in seen for number in range(50))
            assert seen.contains_many([1, 2, -1]).all()


@compiled
def test_grounds_that_cannot_be_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no grounds costs no answer that is known: the next key looks for itself."""
    with growing(tmp_path / "seen") as seen:
        for strange in (("of", "another"), 1, Grounds):

            def grounds(*_: Any, strange: Any = strange) -> Any:
                return strange

            monkeypatch.setattr(type(seen), "_grounds", grounds)
            for key in range(30):
                assert seen.add(f"{strange} {key}")
                assert f"{strange} {key}" in seen
                assert not seen.add_many([f"{strange} {key}"]).any()


@compiled
@pytest.mark.parametrize(
    "wrong",
    [
        {"arrays": []},
        {"arrays": [1]},
        {"arrays": [None]},
        {"words": [1]},
        {"words": [(memoryview(b"12345678"), 0)]},
        {"lock": None},
        {"section": 1},
        {"file": (b"", 0, 0, -1, 0)},
        {"file": (b"", 0, 0, 0, None)},
        {"ends": "never"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_grounds_of_another_type(
    tmp_path: Path, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused as they are made: nothing is read where it may not be."""
    made = list[dict[str, Any]]()

    def note(**fields: Any) -> Grounds:
        made.append(fields)
        return Grounds(**fields)

    monkeypatch.setattr("mmbloom.filters.shelf.Grounds", note)
    with growing(tmp_path / "seen") as seen:
        assert seen.add("x")
        for form in (made[-1], made[-1] | {"ends": 1e300}):
            assert Grounds(**form)
        with pytest.raises((TypeError, ValueError, OverflowError)):
            Grounds(**made[-1] | wrong)
