"""What every kind of filter promises: opened, closed, shared, refused and forked alike."""

import gc
import inspect
import itertools
import os
import pickle
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import (
    check_folder,
    check_holds,
    check_raises,
    contents,
    flock_is_free,
    in_thread,
    lasting,
    soon,
)
from descriptors import open_files
from kinds import (
    KINDS,
    Calls,
    Kind,
    check_refused,
    files_of,
    newest_of,
    reads_of,
    writes_of,
)
from workers import PATIENCE, Child, end, in_child

import mmbloom
from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    FileChangedError,
    FormatError,
    KeyEncodingError,
    KeyTypeError,
    LockTimeoutError,
    ParameterMismatchError,
    ReadOnlyError,
    hash_many,
)
from mmbloom.sizing import plan

each_mode = pytest.mark.parametrize("mode", ["r", "r+"])


@pytest.fixture(params=KINDS.values(), ids=[*KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Run a test with each kind of filter."""
    found: Kind = request.param
    return found


@pytest.fixture
def seen(kind: Kind, path: str) -> Iterator[Any]:
    """A filter that holds "old"."""
    with kind.create(path) as seen:
        seen.add("old")
        yield seen


# Calls that would have nothing to do.
IDLE: Calls = {
    "flush": lambda seen: seen.flush(),
    "add_many": lambda seen: seen.add_many([]),
    "update": lambda seen: seen.update([]),
    "contains_many": lambda seen: seen.contains_many([]),
}


@each_mode
def test_closed(kind: Kind, seen: Any, path: str, mode: str) -> None:
    """Every call is ClosedFilterError; closing again, path and repr still work."""
    with kind.open(path, mode) as other:
        assert "old" in other  # the file has been checked: closing ends that
        assert not other.closed
        assert not repr(other).endswith(" closed>")
        planned = other.error_rate, other.seed
    for _ in range(2):
        other.close()
        for calls in (reads_of(other), writes_of(other), IDLE):
            check_raises(calls, other, ClosedFilterError)
    assert (other.closed, other.path, repr(other).endswith(" closed>")) == (True, path, True)
    assert (other.error_rate, other.seed) == planned
    with pytest.raises(ClosedFilterError):
        pickle.dumps(other)
    assert "old" in seen


def test_a_block_that_raises_closes(kind: Kind, path: str) -> None:
    """The keys are in the file."""
    seen = kind.create(path)
    seen.add("a")
    with pytest.raises(KeyError), seen:
        raise KeyError
    assert seen.closed
    with kind.open(path) as again:
        assert "a" in again


def test_the_block_of_another_thread(kind: Kind, path: str) -> None:
    """An add of this thread waits for its end, though it had the lock before; so does a close."""
    entered, leave, added = threading.Event(), threading.Event(), []
    with kind.create(path, lock_timeout=0.05) as seen:

        def hold_and_add() -> None:
            with seen.locked():
                entered.set()
                leave.wait(PATIENCE)
                added.append(seen.add("theirs"))

        with seen.locked():
            seen.add("ours")
        holder, closer = threading.Thread(target=hold_and_add), threading.Thread(target=seen.close)
        holder.start()
        try:
            assert entered.wait(PATIENCE)
            with pytest.raises(LockTimeoutError):
                seen.add("late")
            closer.start()
            closer.join(0.05)
            assert closer.is_alive()
        finally:
            leave.set()
        for thread in (holder, closer):
            thread.join(PATIENCE)
        assert seen.closed
    assert added == [True]
    with kind.open(path) as again:
        assert again.contains_many(["ours", "theirs", "late"]).tolist() == [True, True, False]


@each_mode
def test_dropped_without_close(seen: Any, kind: Kind, path: str, mode: str) -> None:
    """A filter that nobody closed lets go of its descriptors with its last reference.

    Each unpickling opens one: a pool whose workers get a filter with every task would run out.
    """
    with kind.open(path, mode) as opened:
        raw = pickle.dumps(opened)
        before = len(open_files())
        for number in range(20):
            again = pickle.loads(raw)
            if mode == "r+":
                again.add(number)
            del again
        gc.collect()
        assert len(open_files()) == before


@pytest.mark.parametrize("options", [{}, {"capacity": 1000}])
def test_constructor_says_what_to_call(kind: Kind, options: dict[str, int]) -> None:
    name = kind.cls.__name__
    expected = rf"use {name}\.create\(path, capacity\) or {name}\.open\(path\)"
    with pytest.raises(TypeError, match=expected):
        kind.cls("seen.bloom", **options)


OWN = Kind(type("Own", (BloomFilter,), {}))


@pytest.mark.parametrize("name", ["create", "open"])
@pytest.mark.parametrize("kind", [*KINDS.values(), OWN])
def test_an_unexpected_argument(kind: Kind, name: str, tmp_path: Path) -> None:
    """Python's error names the call, and no base of the class; help names every option."""
    cls, method = kind.cls, getattr(kind.cls, name)
    with pytest.raises(
        TypeError, match=rf"^(({cls.__name__}\.)?open|create or open)\(\) got .*'fp'"
    ):
        getattr(kind, name)(tmp_path / "seen", fp=0.1)
    for option in ("lock_timeout", "resident"):
        assert option in inspect.signature(method).parameters or f"`{option}`" in method.__doc__
    assert not (tmp_path / "seen").exists()


WRONG_OPTIONS: list[tuple[dict[str, Any], Any, str]] = [
    ({"clok": 7}, TypeError, "clok"),
    ({"lock_timeout": "soon"}, TypeError, "lock_timeout is 'soon'"),
    *(
        ({"lock_timeout": seconds}, ValueError, "lock_timeout is .*, expected 0 or more seconds")
        for seconds in (-5, -0.001, float("nan"), float("-inf"))
    ),
    ({"on_full": "rise"}, ValueError, "on_full is 'rise', expected 'warn', 'raise' or"),
    ({"on_full": None}, ValueError, "on_full is None"),
    ({"threads": 0}, ValueError, "threads"),
]
WRONG_SIZES: list[tuple[dict[str, Any], Any, str]] = [
    ({"mode": "r"}, TypeError, "mode"),
    ({"capacity": 0}, ValueError, "capacity"),
    ({"capacity": 1.5}, TypeError, "capacity"),
    ({"capacity": 1e6}, TypeError, r"write 1_000_000_000 or int\(1e9\)"),
    ({"capacity": 10**13}, ValueError, "more than 8796093022208 bits; use fewer keys"),
    ({"capacity": True}, TypeError, "capacity"),
    ({"capacity": None}, TypeError, "capacity"),
    *(
        ({"error_rate": rate}, ValueError, rf"^error_rate is {rate!r}, expected between 0 and 1")
        for rate in (0, 0.0, 1, 1.0, 1.5, 3.0, float("nan"))
    ),
    ({"layout": "round"}, ValueError, "layout is 'round', expected 'blocked' or 'standard'"),
    ({"layout": ""}, ValueError, "layout is '', expected 'blocked' or 'standard'"),
    ({"seed": -1}, ValueError, "seed is -1, expected 0 to"),
    ({"seed": 1.5}, (TypeError, ValueError), "seed is 1.5"),
    ({"seed": 2**128}, ValueError, r"seed.* expected 0 to 2\*\*128 - 1 for siphash"),
    ({"seed": 2**32, "hash": "murmur3"}, ValueError, r"seed.* expected 0 to 2\*\*32 - 1 for"),
    ({"hash": "md5", "seed": 1}, ValueError, "hash is 'md5', expected"),
    ({"hash": "md5"}, ValueError, "hash is 'md5', expected 'siphash' or 'murmur3'"),
    ({"reserve": "maybe"}, ValueError, "reserve"),
]


@pytest.mark.parametrize(("wrong", "error", "said"), WRONG_OPTIONS + WRONG_SIZES, ids=str)
def test_wrong_options_make_nothing(
    kind: Kind, path: str, wrong: dict[str, Any], error: type[Exception], said: str
) -> None:
    """A wrong parameter is an error that names it, before anything is made."""
    with pytest.raises(error, match=said) as caught:
        kind.create(path, **wrong)
    assert not isinstance(caught.value, FormatError)
    check_folder(Path(path).parent)


@pytest.mark.parametrize(("wrong", "error", "said"), WRONG_OPTIONS, ids=str)
def test_wrong_options_open_nothing(
    seen: Any, kind: Kind, path: str, wrong: dict[str, Any], error: type[Exception], said: str
) -> None:
    for opened in (kind.open, mmbloom.open):
        with pytest.raises(error, match=said):
            opened(path, **wrong)


@pytest.mark.parametrize("mode", ["w", "rb", "", None])
def test_unknown_mode(seen: Any, kind: Kind, path: str, mode: Any) -> None:
    for opened in (kind.open, mmbloom.open):
        with pytest.raises(ValueError, match=r"mode is .*expected 'r' or 'r\+'"):
            opened(path, mode)


@pytest.mark.parametrize("asked", KINDS)
def test_another_class(seen: Any, kind: Kind, path: str, asked: str) -> None:
    """Law 13: it is refused, with the name of the class that opens it, or of what does."""
    other = KINDS[asked]
    if other is kind:
        return
    said = f"; open it with {kind.cls.__name__}.open, or mmbloom.open"
    if Path(path).is_dir() and other.capacity == "capacity":
        said = "file is a folder.*mmbloom.open opens a folder"
    elif not Path(path).is_dir() and other.capacity != "capacity":
        said = "not a folder.*mmbloom.open"
    elif Path(path).is_dir():
        said = f"open it with {kind.cls.__name__}"
    for opened in (other.open, partial(other.open, mode="r"), partial(other.create, exist_ok=True)):
        with pytest.raises(FormatError, match=said) as caught:
            opened(path)
        assert caught.value.path.startswith(path)


def test_create_refuses_what_exists(seen: Any, kind: Kind, path: str) -> None:
    before = contents(path)
    with pytest.raises(FileExistsError, match="choose another path") as caught:
        kind.create(path)
    assert caught.value.filename == path
    assert contents(path) == before
    check_folder(Path(path).parent, "seen.bloom")


@pytest.mark.parametrize("exist_ok", [False, True])
@pytest.mark.parametrize("there", ["file", "folder", "dangling link"])
def test_create_in_the_place_of_something_else(
    kind: Kind, path: str, there: str, *, exist_ok: bool
) -> None:
    """Nothing is replaced, not even an empty folder."""
    if there == "file":
        Path(path).write_bytes(b"precious")
    elif there == "folder":
        Path(path).mkdir()
    else:
        Path(path).symlink_to("nowhere")
    before = lasting(path)
    with pytest.raises((FileExistsError, FormatError, FileNotFoundError)):
        kind.create(path, exist_ok=exist_ok)
    assert lasting(path) == before
    assert there != "file" or Path(path).read_bytes() == b"precious"
    check_folder(Path(path).parent, "seen.bloom")


OTHER: dict[str, Any] = {
    "capacity": 1001,
    "error_rate": 0.02,
    "layout": "standard",
    "seed": 4,
    "hash": "murmur3",
}


def test_create_or_open(kind: Kind, path: str) -> None:
    """With exist_ok the filter is opened, keys and all, if its parameters are those asked for."""
    for number in range(3):
        with kind.create(path, error_rate=0.001, seed=3, exist_ok=True) as seen:
            assert seen.contains_many(range(3)).tolist() == [n < number for n in range(3)]
            seen.add(number)
    with kind.create(path, error_rate=0.001, exist_ok=True, reserve="fallocate") as seen:
        assert 2 in seen, "without a seed any will do, and however its space was reserved"
    before = contents(path)
    for name, value in OTHER.items():
        asked = {"error_rate": 0.001, "seed": 3, "exist_ok": True, name: value}
        with pytest.raises(ParameterMismatchError, match=f"exists with [a-z_]*{name}") as caught:
            kind.create(path, **asked)
        assert caught.value.field in (name, kind.capacity)
    assert contents(path) == before


@each_mode
def test_pickle(seen: Any, kind: Kind, path: str, mode: str) -> None:
    """A pickle is path and identity, under 1 KB; it opens the same filter, with its options."""
    with kind.open(path, mode, lock_timeout=1.5, threads=1) as opened:
        raw = pickle.dumps(opened)
        assert len(raw) < 1024
        with pickle.loads(raw) as again:
            assert type(again) is kind.cls
            assert repr(again) == repr(opened)
            assert again.info() == opened.info()
            assert "old" in again
            if mode == "r":
                check_raises(writes_of(again), again, ReadOnlyError)
            else:
                assert again.add("new")
                assert "new" in seen
                assert (again._shelf.timeout, again._threads) == (1.5, 1)


def test_gone_and_another_in_its_place(kind: Kind, path: str) -> None:
    """Every call of who has it open is FileChangedError; a pickle opens no other."""
    with kind.create(path) as seen, kind.open(path) as idle:  # whose lock was never taken
        seen.add("old")
        raw = pickle.dumps(seen)
        os.rename(path, f"{path}.moved")
        time.sleep(0.02)  # single keys go by the last check of the file for a moment
        for each in (seen, idle):
            check_raises(reads_of(each) | writes_of(each), each, FileChangedError)
        with pytest.raises(FileNotFoundError):
            pickle.loads(raw)
        with kind.create(path) as other:
            check_raises(reads_of(seen) | writes_of(seen), seen, FileChangedError)
            with pytest.raises(FileChangedError, match="replaced by another") as caught:
                pickle.loads(raw)
            assert caught.value.path == path
            assert other.info().keys_added == 0


def test_fork(seen: Any, path: str) -> None:
    """A filter works on both sides of a fork, and each side sees the other's keys."""

    def child() -> list[bool]:
        answers = [seen.add("old"), seen.add("child")]
        with seen.claim(["claimed"]) as new:
            answers += new.tolist()
        seen.close()
        return answers

    assert in_child(child) == [False, True, True]
    assert seen.add_many(["child", "claimed", "after"]).tolist() == [False, False, True]
    assert mmbloom.verify(path, keys=["old", "child", "claimed", "after"]).ok


def test_many_objects_of_one_filter(seen: Any, kind: Kind, path: str) -> None:
    others = [kind.open(path) for _ in range(5)]
    for number, other in enumerate(others):
        assert other.add(number)
        assert number in seen
        other.close()
    assert mmbloom.verify(path, keys=range(5)).ok


def test_read_mode(seen: Any, kind: Kind, path: str) -> None:
    """It answers all, sees each key as soon as its add has returned, and changes nothing."""
    with kind.open(path, "r") as reader:
        for key in ("a", 5, b"\0"):
            assert key not in reader
            seen.add(key)
            assert key in reader
            assert reader.contains_many([key]).all()
        assert reader.approx_count == seen.approx_count == 4
        for number in range(20):
            keys = [f"{number} {i}" for i in range(10)]
            assert not reader.contains_many(keys).any()
            assert seen.add_many(keys[1:]).all()
            assert seen.add(keys[0])
            assert keys[0] in reader
            assert reader.contains_many(keys).all()
        before = contents(path), [lasting(file) for file in files_of(path)]
        for asked in (reader, seen):
            for read in reads_of(asked).values():
                read(asked)
            asked.contains_many(range(10_000))
        check_raises(writes_of(reader), reader, ReadOnlyError, "opened with mode='r'")
        assert reader.info().read_only == "it was opened with mode='r'"
        reader.flush()  # nothing to flush is no error
    assert (contents(path), [lasting(file) for file in files_of(path)]) == before
    check_folder(Path(path).parent, "seen.bloom")


@each_mode
def test_sealed_copy(seen: Any, kind: Kind, path: str, mode: Any) -> None:
    """It answers, says how to go on where it cannot, and nothing of it changes."""
    sealed = f"{path}.sealed"
    mmbloom.copy(path, sealed, seal=True)
    before = contents(sealed)
    with mmbloom.open(sealed, mode) as kept:
        assert type(kept) is kind.cls
        assert kept.contains_many(["old", "a"]).tolist() == [True, False]
        assert "a" not in kept
        check_refused(
            writes_of(kept), kept, ReadOnlyError, "opened with mode='r'|sealed; make a copy"
        )
        info = kept.info()
        assert info.file_bytes == sum(file.stat().st_size for file in files_of(sealed, data=True))
        assert info.read_only
        assert mmbloom.verify(sealed).sealed_segments == len(files_of(sealed, data=True))
        kept.flush()  # nothing to flush is no error
    assert contents(sealed) == before


@pytest.mark.parametrize("block", ["locked", "claim"])
def test_lock_held_by_another_object(seen: Any, kind: Kind, path: str, block: str) -> None:
    """Writes time out and name the filter; reads go on in either mode, and take no lock."""
    with kind.open(path, lock_timeout=0.02) as other, kind.open(path, "r") as reader:
        holder = seen.locked() if block == "locked" else seen.claim(["claimed"])
        assert flock_is_free(newest_of(path))
        with holder:
            assert not flock_is_free(newest_of(path))
            assert "old" in other  # the file has been checked, but not the lock
            start = time.monotonic()
            check_refused(writes_of(other), other, LockTimeoutError, "held by others for 0.02 s")
            assert time.monotonic() - start >= 0.02 * len(writes_of(other))
            assert "a" not in seen
            with pytest.raises(LockTimeoutError) as caught, other.locked(timeout=0.001):
                pass
            assert (caught.value.path, caught.value.seconds) == (path, 0.001)
            hashes = hash_many(["old"], plan(10, seed=seen.seed))
            for asked in (seen, other, reader):
                for read in reads_of(asked).values():
                    read(asked)
                assert asked.contains_many(["old"] * 200_000).all()
                assert asked.contains_hashes(*hashes).all()
            assert seen.add("b"), "the holder writes meanwhile"
        assert not other.add("b")
        for read in reads_of(other).values():
            read(other)
            assert flock_is_free(newest_of(path))


def test_locked_nests(seen: Any, path: str) -> None:
    """Blocks of locked() nest with each other, with adds and claims; the outermost frees."""
    with seen.locked():
        with seen.locked(timeout=0), seen.claim(["a"]) as new:
            assert new.tolist() == [True]
            seen.add_many(["b", "c"])
        assert not flock_is_free(newest_of(path))
        seen.recount()
    assert flock_is_free(newest_of(path))
    check_holds(seen, "abc")


@pytest.mark.parametrize("where", [in_thread, in_child])
def test_a_block_is_its_threads(kind: Kind, path: str, where: Any) -> None:
    """Neither another thread nor a child that is forked within it has a share: both wait."""

    def add(seen: Any) -> str:
        assert not flock_is_free(newest_of(path))
        assert "old" in seen  # the file has been checked: the add needs no further look
        try:
            seen.add("theirs")
        except LockTimeoutError:
            return "waited"
        return "slipped in"

    with kind.create(path, lock_timeout=0.05) as seen:
        seen.add("old")
        for ours in ("a", "b"):  # the second time after a release
            with seen.locked():
                seen.add(ours)
                assert where(lambda: add(seen)) == "waited"
                with seen.locked():
                    assert where(lambda: add(seen)) == "waited"
                assert where(lambda: add(seen)) == "waited"
                assert "theirs" not in seen
                assert seen.add(f"{ours} after it")
        assert where(lambda: seen.add("theirs")) is True
        assert "theirs" in seen


def test_a_child_leaves_the_block(seen: Any, path: str) -> None:
    """The child was forked within it: the parent holds on, and the child's next add waits."""
    block = seen.locked()
    block.__enter__()

    def leave_and_add() -> bool:
        block.__exit__(None, None, None)
        return bool(seen.add("child's"))

    child = Child(leave_and_add)
    try:
        in_child(lambda: block.__exit__(None, None, None))
        assert not flock_is_free(newest_of(path))
        assert seen.add("a")
        assert "child's" not in seen
        block.__exit__(None, None, None)
        assert child.result()
    finally:
        end(child)
    assert flock_is_free(newest_of(path))
    assert "child's" in seen


SAME: list[tuple[Any, Any]] = [
    ("a", b"a"),
    ("ä", "ä".encode()),
    ("\N{GRINNING FACE}", "\N{GRINNING FACE}".encode()),
    (bytearray(b"ba"), b"ba"),
    (memoryview(b"mv"), b"mv"),
    (-2, 2**64 - 2),
    (11, np.int32(11)),
    (2**63, (2**63).to_bytes(8, "little")),
    ("", b""),
]


def test_keys_of_every_form(seen: Any) -> None:
    """What a key is does not depend on the way that it goes: alone, with few, or with many."""
    for one, same in SAME:
        assert one not in seen
        assert seen.add(one)
        assert same in seen
        assert not seen.add(same)
        assert seen.contains_many([one, same]).all()
    assert seen.add_many(["é", b"raw", 5, -1]).all()
    forms: list[list[Any]] = [
        ["é".encode(), "raw", np.uint8(5), 2**64 - 1],
        [bytearray("é".encode()), memoryview(b"raw"), (5).to_bytes(8, "little"), b"\xff" * 8],
    ]
    for keys in forms:
        check_holds(seen, keys)
    assert seen.contains_many(np.array([5, -1], dtype=np.int16)).all()
    assert seen.contains_many(np.array(["é", "raw"])).all()
    assert seen.contains_many(np.array([b"raw"])).all()
    assert not seen.contains_many(["e", b"RAW", 6, -3]).any()
    assert seen.add_many(np.arange(10)).tolist() == [n != 5 for n in range(10)]
    mixed: list[Any] = [b"c", "b", 10, None]
    assert seen.add_many(mixed, nulls="skip").tolist() == [True, True, True, False]
    assert seen.contains_many(mixed, nulls="skip").tolist() == [True, True, True, False]


def test_the_empty_key_and_no_key(seen: Any) -> None:
    """b"" and "" are one key; nothing at all is no key."""
    assert b"" not in seen
    assert seen.add("")
    assert not seen.add(b"")
    assert "" in seen
    assert seen.add_many([]).shape == seen.contains_many([]).shape == (0,)
    assert seen.update([]) == seen.update(iter(())) == 0
    with seen.claim([]) as new:
        assert (new.shape, new.dtype) == ((0,), np.bool_)
    assert seen.keys_added == 2


def test_update(seen: Any) -> None:
    """It counts the new keys of any iterable."""
    assert seen.update(key for key in ["a", "b", "a"]) == 2
    assert seen.update({"b": 1, "c": 2}) == 1
    assert seen.update(np.arange(10)) == 10
    assert type(seen.update(["d"])) is int


WRONG_KEYS = [
    (1.5, KeyTypeError),
    (True, KeyTypeError),
    (None, KeyTypeError),
    (2**64, KeyTypeError),
    ("\ud800", KeyEncodingError),
    ("\ud800" * 1000, KeyEncodingError),
]


@pytest.mark.parametrize(("wrong", "error"), WRONG_KEYS, ids=lambda one: ascii(one)[:20])
def test_what_is_no_key(seen: Any, path: str, wrong: Any, error: type[Exception]) -> None:
    """It is an error and not "absent", however many keys come with it; and nothing is added."""
    before = contents(path)
    batches = [seen.add_many, seen.contains_many, seen.update, seen.claim]
    single = [seen.add, seen.__contains__]
    if hasattr(seen, "remove"):
        batches, single = [*batches, seen.remove_many], [*single, seen.remove]
    for call, before_it in itertools.product(batches, (["a"], range(40_000))):
        keys: list[Any] = [*before_it, wrong]
        with pytest.raises(error, match=f"position {len(before_it)}: ") as caught:
            call(keys)
        assert caught.value.position == len(before_it)  # type: ignore[attr-defined]
    said = set()
    for alone, checks in itertools.product(single, (False, True)):
        assert "old" in seen  # the file need not be checked before the key, unless time passes
        if checks:
            soon()
        with pytest.raises(error) as caught:
            alone(wrong)
        said.add(str(caught.value))
    assert len(said) == 1
    assert contents(path) == before
    assert flock_is_free(newest_of(path))


def test_a_relative_path(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that was opened by one goes on working after a change of folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with kind.create("seen") as made, kind.open(Path("seen")) as seen:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert made.path == seen.path == str(tmp_path / "seen")
        assert made.add("a")
        assert "a" in seen
        with pickle.loads(pickle.dumps(seen)) as again:
            assert not again.add("a")
    check_folder(tmp_path, "elsewhere", "seen")
    check_folder(tmp_path / "elsewhere")


def test_permissions(kind: Kind, path: str) -> None:
    """The files are for their owner alone, or for whom was asked for, whatever the umask."""
    for asked, expected, folder in (({}, 0o600, 0o700), ({"permissions": 0o640}, 0o640, 0o750)):
        where = f"{path}.{expected:o}"
        umask = os.umask(0o027)
        try:
            kind.create(where, **asked).close()
        finally:
            os.umask(umask)
        found = {file.stat().st_mode & 0o777 for file in files_of(where)}
        assert found == {expected}
        assert not Path(where).is_dir() or Path(where).stat().st_mode & 0o777 == folder
