"""BloomFilter as a whole: a set that never forgets, on disk, whoever asks and however."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import hypothesis
import numpy as np
import pytest
from checks import check_holds, check_same_filter, check_settled
from hypothesis import strategies as st

from mmbloom import BloomFilter, KeyTypeError
from mmbloom.sizing import Layout

Create = Callable[..., BloomFilter]
LAYOUTS = get_args(Layout)
KEY = st.one_of(
    st.binary(max_size=12), st.text(max_size=6), st.integers(-(2**63), 2**64 - 1), st.integers(0, 9)
)
with_files = hypothesis.settings(max_examples=40)


@contextmanager
def two_alike(folder: Path, **options: Any) -> Iterator[tuple[BloomFilter, BloomFilter]]:
    """Two empty filters of one seed, in a new folder that goes afterwards."""
    options = {"capacity": 500, "error_rate": 0.3, "seed": 99, **options}
    with (
        BloomFilter.create(folder / "one", **options) as one,
        BloomFilter.create(folder / "two", **options) as two,
    ):
        yield one, two
    shutil.rmtree(folder)


def as_bytes(key: bytes | str | int) -> bytes:
    """What a key is, by the format's text."""
    if isinstance(key, int):
        return key.to_bytes(8, "little", signed=key < 0)
    return key.encode() if isinstance(key, str) else key


@with_files
@hypothesis.given(st.lists(st.lists(KEY, max_size=60), max_size=5), st.sampled_from(LAYOUTS))
def test_like_a_set(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Any]], layout: Layout
) -> None:
    """Beside a set: never a false negative; what it calls new is new; reopened it is the same."""
    with two_alike(tmp_path_factory.mktemp("f"), layout=layout) as (seen, _):
        model: set[bytes] = set()
        for batch in batches:
            for key, new in zip(batch, seen.add_many(batch).tolist(), strict=True):
                assert not (new and as_bytes(key) in model), "called new twice"
                model.add(as_bytes(key))
            check_holds(seen, model)
        check_settled(seen.path)
        with BloomFilter.open(seen.path, "r") as again:
            check_holds(again, model)


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": lambda keys: (key for key in keys),
    "bytes": lambda keys: [as_bytes(key) for key in keys],
    "mixed": lambda keys: [as_bytes(key) if i % 2 else key for i, key in enumerate(keys)],
}


@with_files
@hypothesis.given(
    st.lists(KEY, max_size=120),
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(LAYOUTS),
)
def test_any_batches_are_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    keys: list[Any],
    sizes: list[int],
    form: str,
    layout: Layout,
) -> None:
    """However keys are cut into batches and given, answers and bits are those of single adds."""
    with two_alike(tmp_path_factory.mktemp("f"), layout=layout) as (one, two):
        answers: list[bool] = []
        rest = keys
        for size in [*sizes, len(keys)]:
            answers += one.add_many(FORMS[form](rest[:size])).tolist()
            rest = rest[size:]
        assert answers == [two.add(key) for key in keys]
        check_same_filter(one.path, two.path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_batch_is_short_batches(create: Create, path: str, seed: int, layout: Layout) -> None:
    """A batch of several chunks, with repeats near and far, answers as batches of 1,000."""
    keys = np.random.default_rng(seed).integers(0, 40_000, 60_000)
    one = create(40_000, 0.3, layout=layout, seed=4)
    two = create(40_000, 0.3, layout=layout, seed=4, name="two")
    three = create(40_000, 0.3, layout=layout, seed=4, name="three")
    answers = one.add_many(keys)
    pieces = [two.add_many(keys[start : start + 1000]) for start in range(0, len(keys), 1000)]
    assert (np.concatenate(pieces) == answers).all()
    assert three.update(iter(keys.tolist())) == answers.sum()
    assert 0 < answers.sum() < len(set(keys.tolist()))  # some are false positives
    for other in (two, three):
        check_same_filter(one.path, other.path)
    assert one.contains_many(keys).all()


def test_wrong_key_in_a_generator(create: Create) -> None:
    """Update of a generator keeps the chunks before the wrong key, and names its place."""
    seen = create(100_000, 1e-9)
    keys: list[Any] = [*range(20_000), None]
    with pytest.raises(KeyTypeError) as caught:
        seen.update(key for key in keys)
    assert caught.value.position == 20_000
    found = seen.contains_many(np.arange(20_000))
    assert found[:16_384].all()
    assert not found[16_384:].any()


def test_repr(create: Create, path: str) -> None:
    """The repr tells path, plan and mode."""
    seen = create(1000, 0.02)
    assert repr(seen) == f"<BloomFilter {path!r} capacity=1000, error_rate=0.02 mode='r+'>"
