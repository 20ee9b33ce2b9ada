"""`filter.exceptions` as a set: reading and changing it, who may, and who goes by it when."""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress

import forms
import numpy as np
import pytest
from excepting import Kind, Make, soon

from mmbloom import (
    ClosedFilterError,
    ExceptedKeys,
    FileChangedError,
    KeyEncodingError,
    KeyTypeError,
    ReadOnlyError,
)


def test_a_set(make: Make, path: str) -> None:
    """It is a set of bytes, in the order of adding; other sets can be made of it."""
    exceptions = make().exceptions
    assert isinstance(exceptions, ExceptedKeys)
    assert (len(exceptions), list(exceptions), bool(exceptions)) == (0, [], False)
    assert exceptions.update(["é", b"b", 5, "b"]) == 3
    assert exceptions.update(["a", 5]) == 1
    five = forms.int_bytes(5)
    assert list(exceptions) == ["é".encode(), b"b", five, b"a"]
    assert set(exceptions) == {b"a", b"b", five, "é".encode()}
    assert exceptions & {b"a", b"z"} == frozenset({b"a"})
    assert exceptions - {b"b", five} == {b"a", "é".encode()}
    assert exceptions >= {b"a"}
    assert all(key in exceptions for key in ("é", b"a", bytearray(b"b"), np.int16(5)))
    assert "z" not in exceptions
    assert not exceptions.add("a")
    assert not exceptions.discard("z")
    assert exceptions.difference_update([b"b", "a", "z"]) == 2
    assert list(exceptions) == ["é".encode(), five]
    assert repr(exceptions) == f"<ExceptedKeys of {path!r}>"
    with pytest.raises(TypeError):
        hash(exceptions)


def test_keys_that_cannot_be(make: Make) -> None:
    """A wrong key is an error with its place, and nothing is excepted."""
    exceptions = make().exceptions
    with pytest.raises(KeyTypeError, match="position 1"):
        exceptions.update(["a", None])  # type: ignore[list-item]
    with pytest.raises(KeyEncodingError, match="position 2"):
        exceptions.update(["a", "b", "\ud800"])
    for single in ("ab", b"ab", bytearray(b"ab")):
        with pytest.raises(KeyTypeError, match="a batch was expected"):
            exceptions.update(single)
    with pytest.raises(KeyTypeError):
        assert None in exceptions
    assert not exceptions
    assert not os.path.exists(exceptions.path)


def test_read_only(kind: Kind, make: Make, path: str) -> None:
    """In mode "r", and of a sealed copy, exceptions hold and cannot be changed."""
    seen = make()
    seen.add_many(["a", "b"])
    seen.exceptions.add("b")
    kind.copy(path, path + "2", seal=True)
    for where, mode in ((path, "r"), (path + "2", "r+")):
        with kind.open(where, mode) as opened:  # type: ignore[arg-type]
            assert opened.contains_many(["a", "b"]).tolist() == [True, False]
            assert "b" not in opened
            assert list(opened.exceptions) == [b"b"]
            for change in (opened.exceptions.add, opened.exceptions.discard):
                with pytest.raises(ReadOnlyError, match="cannot be written"):
                    change("b")
    assert list(seen.exceptions) == [b"b"]


def test_closed(make: Make) -> None:
    """After close they can be neither read nor changed."""
    seen = make()
    exceptions = seen.exceptions
    seen.close()
    calls: list[Callable[[], object]] = [
        lambda: len(exceptions),
        lambda: "a" in exceptions,
        lambda: exceptions.add("a"),
    ]
    for call in calls:
        with pytest.raises(ClosedFilterError):
            call()


def test_of_another_filter(kind: Kind, make: Make, path: str) -> None:
    """A filter that has come to the same path has exceptions of its own, within `locked` too."""
    seen = make()
    seen.exceptions.add("a")
    with seen.locked():
        os.rename(path, path + ".old")
        with suppress(FileNotFoundError):
            os.rename(path + ".exceptions", path + ".old.exceptions")
        kind.create(path).close()
        for change in (seen.exceptions.add, seen.exceptions.discard):
            with pytest.raises(FileChangedError, match="replaced by another"):
                change("a")
    with kind.open(path) as other, kind.open(path + ".old") as old:
        assert (list(other.exceptions), list(old.exceptions)) == ([], [b"a"])


def test_its_own_object_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who changes the exceptions need not wait for a look at the file."""
    seen = make()
    seen.add("a")
    assert "a" in seen
    monkeypatch.setattr(
        "mmbloom.filters.exception_list.monotonic", lambda: 0.0
    )  # no look is due any more
    seen.exceptions.add("a")
    assert "a" not in seen
    seen.exceptions.discard("a")
    assert seen.contains_many(["a"]).all()


def test_other_objects_follow(kind: Kind, make: Make, path: str) -> None:
    """What one object changes all go by within a millisecond, a pickled one and others alike."""
    seen = make()
    seen.add_many(["a", "b"])
    with kind.open(path, "r") as reader, pickle.loads(pickle.dumps(seen)) as writer:
        for n in range(100):  # quicker than the times of files tell apart
            excepted = "ab"[n % 2]
            seen.exceptions.update([excepted])
            seen.exceptions.discard("ba"[n % 2])
            soon()
            for one in (seen, reader, writer):
                assert [key in one for key in "ab"] == [key != excepted for key in "ab"]
                assert one.contains_many(["a", "b"]).tolist() == [n % 2 == 1, n % 2 == 0]
            assert [writer.add(key) for key in "ab"] == [key == excepted for key in "ab"]
            assert list(reader.exceptions) == [excepted.encode()]
        seen.exceptions.difference_update(["a", "b"])
        soon()
        assert reader.contains_many(["a", "b"]).all()
