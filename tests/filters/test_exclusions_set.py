"""`filter.exclusions` as a set: reading and changing it, who may, and who goes by it when."""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress

import forms
import numpy as np
import pytest
from checks import soon
from excluding import Kind, Make

from mmbloom import (
    ClosedFilterError,
    Exclusions,
    FileChangedError,
    KeyEncodingError,
    KeyTypeError,
    ReadOnlyError,
    copy,
)


def test_a_set(make: Make, path: str) -> None:
    """It is a set of bytes, in the order of adding; other sets can be made of it."""
    exclusions = make().exclusions
    assert isinstance(exclusions, Exclusions)
    assert (len(exclusions), list(exclusions), bool(exclusions)) == (0, [], False)
    assert exclusions.update(["é", b"b", 5, "b"]) == 3
    assert exclusions.update(["a", 5]) == 1
    five = forms.int_bytes(5)
    assert list(exclusions) == ["é".encode(), b"b", five, b"a"]
    assert set(exclusions) == {b"a", b"b", five, "é".encode()}
    assert exclusions & {b"a", b"z"} == frozenset({b"a"})
    assert exclusions - {b"b", five} == {b"a", "é".encode()}
    assert exclusions >= {b"a"}
    assert all(key in exclusions for key in ("é", b"a", bytearray(b"b"), np.int16(5)))
    assert "z" not in exclusions
    assert not exclusions.add("a")
    assert not exclusions.discard("z")
    assert exclusions.difference_update([b"b", "a", "z"]) == 2
    assert list(exclusions) == ["é".encode(), five]
    assert repr(exclusions) == f"<Exclusions of {path!r}>"
    with pytest.raises(TypeError):
        hash(exclusions)


def test_keys_that_cannot_be(make: Make) -> None:
    """A wrong key is an error with its place, and nothing is excluded."""
    exclusions = make().exclusions
    with pytest.raises(KeyTypeError, match="position 1"):
        exclusions.update(["a", None])
    with pytest.raises(KeyEncodingError, match="position 2"):
        exclusions.update(["a", "b", "\ud800"])
    for single in ("ab", b"ab", bytearray(b"ab")):
        with pytest.raises(KeyTypeError, match="a batch was expected"):
            exclusions.update(single)
    with pytest.raises(KeyTypeError):
        assert None in exclusions
    assert not exclusions
    assert not os.path.exists(exclusions.path)


def test_read_only(kind: Kind, make: Make, path: str) -> None:
    """In mode "r", and of a sealed copy, exclusions hold and cannot be changed."""
    seen = make()
    seen.add_many(["a", "b"])
    seen.exclusions.add("b")
    copy(path, path + "2", seal=True)
    for where, mode in ((path, "r"), (path + "2", "r+")):
        with kind.open(where, mode) as opened:  # type: ignore[arg-type]
            assert opened.contains_many(["a", "b"]).tolist() == [True, False]
            assert "b" not in opened
            assert list(opened.exclusions) == [b"b"]
            for change in (opened.exclusions.add, opened.exclusions.discard):
                with pytest.raises(ReadOnlyError, match="is read-only, because"):
                    change("b")
    assert list(seen.exclusions) == [b"b"]


def test_closed(make: Make) -> None:
    """After close they can be neither read nor changed."""
    seen = make()
    exclusions = seen.exclusions
    seen.close()
    calls: list[Callable[[], object]] = [
        lambda: len(exclusions),
        lambda: "a" in exclusions,
        lambda: exclusions.add("a"),
    ]
    for call in calls:
        with pytest.raises(ClosedFilterError):
            call()


def test_of_another_filter(kind: Kind, make: Make, path: str) -> None:
    """A filter that has come to the same path has exclusions of its own, within `locked` too."""
    seen = make()
    seen.exclusions.add("a")
    with seen.locked():
        os.rename(path, path + ".old")
        with suppress(FileNotFoundError):
            os.rename(path + ".exclusions", path + ".old.exclusions")
        kind.create(path).close()
        for change in (seen.exclusions.add, seen.exclusions.discard):
            with pytest.raises(FileChangedError, match="replaced by another"):
                change("a")
    with kind.open(path) as other, kind.open(path + ".old") as old:
        assert (list(other.exclusions), list(old.exclusions)) == ([], [b"a"])


def test_its_own_object_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who changes the exclusions need not wait for a look at the file."""
    seen = make()
    seen.add("a")
    assert "a" in seen
    monkeypatch.setattr(
        "mmbloom.filters.exclusions.monotonic", lambda: 0.0
    )  # no look is due any more
    seen.exclusions.add("a")
    assert "a" not in seen
    seen.exclusions.discard("a")
    assert seen.contains_many(["a"]).all()


def test_other_objects_follow(kind: Kind, make: Make, path: str) -> None:
    """What one object changes all go by within a millisecond, a pickled one and others alike."""
    seen = make()
    seen.add_many(["a", "b"])
    with kind.open(path, "r") as reader, pickle.loads(pickle.dumps(seen)) as writer:
        for n in range(100):  # quicker than the times of files tell apart
            exclusions = "ab"[n % 2]
            seen.exclusions.update([exclusions])
            seen.exclusions.discard("ba"[n % 2])
            soon()
            for one in (seen, reader, writer):
                assert [key in one for key in "ab"] == [key != exclusions for key in "ab"]
                assert one.contains_many(["a", "b"]).tolist() == [n % 2 == 1, n % 2 == 0]
            assert [writer.add(key) for key in "ab"] == [key == exclusions for key in "ab"]
            assert list(reader.exclusions) == [exclusions.encode()]
        seen.exclusions.difference_update(["a", "b"])
        soon()
        assert reader.contains_many(["a", "b"]).all()
