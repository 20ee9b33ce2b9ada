"""`filter.exclusions`: an excluded key is never seen, whichever way it is asked for or added."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import forms
import numpy as np
import pyarrow as pa
import pytest
from chains import Rotating, files_of
from excluding import EXACT, Kind, Make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operations import Collect

from mmbloom import BloomFilter, CountingBloomFilter, Sieve
from mmbloom._engine.key_batch import DictionaryKeys, IntegerKeys, SpelledKeys
from mmbloom._keys.coerce import coerce
from mmbloom.logs.dedup import dedup
from mmbloom.logs.lines import read_chunks


def test_never_seen(make: Make) -> None:
    """Every way to ask says no of an excluded key, and yes of the others; adding says new."""
    seen = make()
    keys = ["a", "b", "c"]
    seen.add_many(keys)
    assert seen.exclusions.add("b")
    assert [key in seen for key in keys] == [True, False, True]
    assert seen.contains_many(keys).tolist() == [True, False, True]
    assert [seen.add(key) for key in keys] == [False, True, False]
    assert seen.add_many(["b", "a", "b", "new", "new"]).tolist() == [True, False, True, True, False]
    assert seen.update(iter(["b", "a", "other"])) == 2
    with seen.claim(["a", "b", "b", "last"]) as new:
        assert new.tolist() == [False, True, True, True]
    with seen.locked():
        assert seen.add("b")
    assert "last" in seen
    assert seen.exclusions.discard("b")
    assert [key in seen for key in keys] == [True] * 3
    assert not seen.add("b")


def test_counting_filter(path: str) -> None:
    """The same of a filter that counts; to remove goes by its counters, as merging goes by bits."""
    keys = ["a", "b", "c"]
    with CountingBloomFilter.create(path, **EXACT) as seen:
        seen.add_many(keys)
        seen.exclusions.add("b")
        assert seen.contains_many(keys).tolist() == [True, False, True]
        assert [key in seen for key in keys] == [True, False, True]
        assert seen.add_many(keys).tolist() == [False, True, False]
        with seen.claim(keys) as new:
            assert new.tolist() == [False, True, False]
        assert seen.remove_many(keys).all()
    with CountingBloomFilter.open(path, "r") as seen:
        assert seen.contains_many(keys).tolist() == [True, False, True]
        assert seen.info().exclusions == 1


def test_counters_go_by_bits(create: Callable[..., BloomFilter]) -> None:
    """To add what is there already is counted as it was: nothing is set, and no key is new."""
    seen = create(**EXACT)
    seen.add_many(["a", "b"])
    before = seen.info()
    seen.exclusions.update(["a", "absent"])
    seen.add("a")
    seen.add_many(["a", "b", "a"])
    with seen.claim(["a"]):
        pass
    after = seen.info()
    assert (after.exclusions, before.exclusions) == (2, 0)
    assert after.as_dict() == {**before.as_dict(), "exclusions": 2}
    seen.add("absent")  # whose bits were not set: they are now
    assert seen.info().keys_added == before.keys_added + 1
    assert "absent" not in seen
    assert seen.add("absent")
    assert seen.info().keys_added == before.keys_added + 1


def test_claim_marks_what_it_would(make: Make) -> None:
    """A claim of excluded keys sets their bits, so that without the exclusion they are found."""
    seen = make()
    seen.exclusions.update(["a", "b"])
    with seen.claim(["a", "c", "a"]) as new:
        assert new.all()
    seen.exclusions.difference_update(["a", "b"])
    assert seen.contains_many(["a", "b", "c"]).tolist() == [True, False, True]


COLUMN = ["exempt", "b", "a key that is longer than twelve bytes", "exempt"]
FORMS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: [text.encode() for text in COLUMN],
    "str": lambda: COLUMN,
    "mixed": lambda: ["exempt", bytearray(b"b"), memoryview(b"c"), 7, np.int8(-1), "é"],
    "ints": lambda: [7, -1, 2**63, 0],
    "int32 strided": lambda: np.arange(40, dtype=">i4")[::-3],
    "uint64": lambda: np.array([2**64 - 1, 5], np.uint64),
    "S": lambda: np.array(COLUMN, "S"),
    "U": lambda: np.array(["é", "日本", "a"], ">U5"),
    "rows": lambda: np.frombuffer(b"abcdefabc", np.uint8).reshape(3, 3),
    "string": lambda: pa.array(COLUMN),
    "large_binary": lambda: pa.array([text.encode() for text in COLUMN], pa.large_binary()),
    "view": lambda: pa.array(COLUMN, pa.string_view()),
    "dictionary": lambda: pa.array(COLUMN).dictionary_encode(),
    "dictionary of ints": lambda: pa.array([7, 9, 7]).dictionary_encode(),
    "chunked": lambda: pa.chunked_array([COLUMN[:1], COLUMN[1:]]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_keys(make: Make, form: str) -> None:
    """In a batch of any form just the excluded key is told apart, wherever it stands in it."""
    seen = make()
    keys = FORMS[form]()
    items = keys.to_pylist() if isinstance(keys, (pa.Array, pa.ChunkedArray)) else list(keys)
    plain = [key.tobytes() if isinstance(key, np.ndarray) else key for key in items]
    seen.add_many(keys)
    for exclusions in plain:
        seen.exclusions.add(exclusions)
        same = [key != exclusions for key in plain]
        assert seen.contains_many(keys).tolist() == same
        assert seen.add_many(keys).tolist() == [not one for one in same]
        with seen.claim(keys) as new:
            assert new.tolist() == [not one for one in same]
        assert [key in seen for key in plain] == same
        seen.exclusions.discard(exclusions)
    assert seen.contains_many(keys).all()


def test_forms_are_met() -> None:
    """The table above has every form of a batch."""
    kinds = {type(part) for make in FORMS.values() for part in coerce(make()).parts}
    assert kinds == {*get_args(SpelledKeys), IntegerKeys, DictionaryKeys}


def test_nulls(make: Make) -> None:
    seen = make()
    keys = pa.array([None, "a", None, "b"])
    seen.add_many(keys, nulls="skip")
    seen.exclusions.add("a")
    assert seen.contains_many(keys, nulls="skip").tolist() == [False, False, False, True]
    assert seen.add_many(keys, nulls="skip").tolist() == [False, True, False, False]
    with seen.claim(keys, nulls="skip") as new:
        assert new.tolist() == [False, True, False, False]


@pytest.mark.parametrize("threads", [1, 2])
def test_large_batches(make: Make, threads: int) -> None:
    """Over many chunks and on threads, the answers of many exclusions stand at their places."""
    seen = make(threads=threads)
    keys = np.arange(66_000)  # threads take four chunks, 65,536
    seen.add_many(keys)
    exclusions = [0, 16_383, 16_384, 65_535, 65_536, 65_999, *range(40_000, 41_000)]
    seen.exclusions.update(exclusions)
    expected = np.ones(len(keys), np.bool_)
    expected[exclusions] = False
    np.testing.assert_array_equal(seen.contains_many(keys), expected)
    np.testing.assert_array_equal(seen.add_many(keys), ~expected)
    with seen.claim(keys) as new:
        np.testing.assert_array_equal(new, ~expected)
    assert not seen.contains_many(keys + len(keys)).any()


def test_equal_hashes_are_told_apart(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are compared byte for byte: whoever makes two of one hash gains nothing."""
    seen = make()
    one, other = b"one key", b"other k"
    hashed = [forms.hashed([key], forms.SIPHASH)[0] for key in (one, other)]
    monkeypatch.setattr(
        "mmbloom._engine.hash_keys",
        lambda piece, *_: tuple(  # every key has the first one's hash
            np.full(len(piece), half, np.uint64) for half in hashed[0]
        ),
    )
    assert hashed[0] != hashed[1]
    seen.add_many([one])
    seen.exclusions.add(one)
    assert seen.contains_many([one, other, one]).tolist() == [False, True, False]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, data: st.DataObject
) -> None:
    """Against two sets of Python: any order of adding, excluding and asking, in any batches."""
    path = tmp_path_factory.mktemp("model") / "seen"
    added: set[int] = set()
    exclusions: set[int] = set()

    def is_new(key: int) -> bool:
        new = key not in added or key in exclusions
        added.add(key)
        return new

    batch = st.lists(st.integers(0, 6), max_size=8)
    with kind.create(path) as seen:
        for _ in range(data.draw(st.integers(1, 8))):
            keys = data.draw(batch)
            what = data.draw(st.sampled_from(["add", "many", "claim", "exclude", "discard"]))
            if what == "add":
                assert [seen.add(key) for key in keys] == [is_new(key) for key in keys]
            elif what == "many":
                assert seen.add_many(keys).tolist() == [is_new(key) for key in keys]
            elif what == "claim":
                with seen.claim(keys) as new:
                    assert new.tolist() == [is_new(key) for key in keys]
            elif what == "exclude":
                assert seen.exclusions.update(keys) == len({*keys} - exclusions)
                exclusions |= {*keys}
            else:
                assert seen.exclusions.difference_update(keys) == len({*keys} & exclusions)
                exclusions -= {*keys}
            expected = [key in added - exclusions for key in range(7)]
            assert seen.contains_many(range(7)).tolist() == expected
            assert [key in seen for key in range(7)] == expected
            assert len(seen.exclusions) == len(exclusions)


@pytest.mark.parametrize("block", [b"a\nb\na\nb\n", b"b\na\nb\na"])
def test_dedup_passes_every_line(make: Make, block: bytes) -> None:
    """A line that is excluded goes through each time it comes, whatever was seen before."""
    seen = make()
    seen.add_many(["a", "b"])
    seen.exclusions.add("b")
    sink, repeats = Collect(), Collect()
    tally = dedup(seen, read_chunks(io.BytesIO(block)), sink)
    assert sink.octets.replace(b"|", b"").split() == [b"b", b"b"]
    assert (tally.unique, tally.repeated) == (2, 2)
    dedup(seen, read_chunks(io.BytesIO(block)), repeats, repeats=True)
    assert repeats.octets.replace(b"|", b"").split() == [b"a", b"a"]


def test_sieve_takes_it_each_time(make: Make) -> None:
    """As documented: an exclusions URL waits as often as it is pushed."""
    seen = make()
    seen.exclusions.add("/a")
    urls = Sieve[str](seen)
    assert [urls.push("/a"), urls.push("/b"), urls.push("/a"), urls.push("/b")] == [
        *(True, True, True, False)
    ]


def test_outlives_its_period(tmp_path: Path) -> None:
    """What a rotating filter has forgotten is excluded still, and is so when it comes again."""
    kind = Rotating(20)
    with kind.create(tmp_path / "seen") as seen:
        seen.add_many(["a", "b"])
        seen.exclusions.add("a")
        kind.pass_time(100)
        assert seen.add_many(["a", "b", "a", "b"]).tolist() == [True, True, True, False]
        assert len(files_of(tmp_path / "seen")) == 1
        assert seen.contains_many(["a", "b"]).tolist() == [False, True]
        assert list(seen.exclusions) == [b"a"]
