"""What users write, for type checkers: every key that runs is accepted, at every call.

A test runs it and has mypy check it; `basedpyright` checks it where lint runs. `# type: ignore`
marks what must be refused: the checkers complain of one that is not needed.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt
import polars as pl

import mmbloom
from mmbloom import BloomFilter, CountingBloomFilter, Filter, GrowingFilter, Key, Keys, Sieve


class Column:
    """An Arrow column as a library offers it; its methods have an option of their own."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise NotImplementedError

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        raise NotImplementedError


def seen_before(seen: BloomFilter, key: Key) -> bool:
    """Wrap a call of one key."""
    return not seen.add(key)


def new_ones(seen: BloomFilter, keys: Keys) -> npt.NDArray[np.bool_]:
    """Wrap a call of several keys."""
    return seen.add_many(keys, nulls="skip")


def some_keys() -> Iterator[str | None]:
    """Yield keys, with a null among them."""
    yield from ("x", None, "y")


def open_seen(path: Path) -> Filter:
    """Open or create what is annotated as any filter."""
    return mmbloom.open_or_create(path, 1000, 1e-9, on_full="raise", lock_timeout=None)


async def claim_in_task(seen: BloomFilter) -> None:
    """Claim as a task of asyncio does."""
    async with seen.claim(["t"]) as new:
        assert assert_type(new, npt.NDArray[np.bool_]).all()


def main(folder: Path) -> None:
    """Pass every kind of key to every kind of call."""
    with BloomFilter.create(folder / "seen.bloom", 1000, 1e-9, seed=1) as seen:
        assert not seen_before(seen, "a")
        assert not any(
            [
                seen_before(seen, b"b"),
                seen_before(seen, bytearray(b"c")),
                seen_before(seen, memoryview(b"d")),
                seen_before(seen, 5),
                seen_before(seen, np.int64(6)),
                seen_before(seen, np.uint8(7)),
            ]
        )
        assert not seen_before(seen, ("a", 1, b"c", np.int8(2)))
        assert new_ones(seen, [("x", 1), "q", ("z",)]).all()
        assert new_ones(seen, mmbloom.columns(["a", "b"], np.array([1, 2]))).all()
        assert "a" in seen
        assert np.int16(5) in seen
        assert bytearray(b"b") in seen
        assert new_ones(seen, ["e", None]).tolist() == [True, False]
        assert new_ones(seen, some_keys()).tolist() == [True, False, True]
        assert new_ones(seen, pl.Series(["z", None])).tolist() == [True, False]
        assert new_ones(seen, {b"f", "g"}).all()
        assert new_ones(seen, range(100, 110)).all()
        assert new_ones(seen, np.arange(200, 210)).all()
        assert new_ones(seen, [np.int64(1), 2, "h", b"i", bytearray(b"j")]).all()
        assert seen.contains_many(["e", None], nulls="skip").any()
        assert seen.update((1, 2, None), nulls="skip") == 0
        asyncio.run(claim_in_task(seen))
        with seen.claim(["k", memoryview(b"l")]) as new:
            assert assert_type(new, npt.NDArray[np.bool_]).all()
        seen.exclusions.update([np.int64(1), "h"])
        assert assert_type(seen.capacity, int) == assert_type(seen.info().capacity, int) == 1000
        assert assert_type(seen.error_rate, float) == 1e-9

    for _ in range(2):  # the first time a file, the second time a folder
        with mmbloom.open_or_create(folder / "shared", 1000, 1e-9) as shared:
            assert_type(shared, BloomFilter | GrowingFilter)
            assert_type(shared.add_many(["a"]), npt.NDArray[np.bool_])
            assert shared.info().keys_added == 1
        assert assert_type(mmbloom.grow(folder / "shared"), float) < 1e-8
    with open_seen(folder / "shared") as grown, grown.claim(["b"]) as new:
        assert new.all()

    with CountingBloomFilter.create(folder / "counting.bloom", 1000) as counting:
        counting.add(bytearray(b"m"))
        counting.remove(memoryview(b"m"))
        assert not counting.remove_many(["n", None], nulls="skip").any()

    with BloomFilter.create(folder / "urls.bloom", 1000) as seen:
        urls: Sieve[str] = Sieve(seen)
        assert urls.push("/")
        url: str = urls.pop()
        assert url == "/"
        numbers: Sieve[np.int64] = Sieve(seen)
        assert numbers.push_many([np.int64(1), np.int64(2)]).all()

    mmbloom.verify(folder / "seen.bloom", keys=["a", b"b", np.int64(6)])


def refused(seen: BloomFilter, column: Column) -> None:
    """Never called: what checkers must refuse, and a column, which they must not."""
    new_ones(seen, column)
    seen.add(None)  # type: ignore[arg-type]
    seen.add(1.5)  # type: ignore[arg-type]
    seen.add(("a", None))  # type: ignore[arg-type]
    seen.add(("a", ("b",)))  # type: ignore[arg-type]
    seen.add_many([1.5])  # type: ignore[list-item]
    seen.add_many(5)  # type: ignore[arg-type]
    seen.add_many(["a"], nulls="drop")  # type: ignore[arg-type]
    mmbloom.open_or_create("seen", 1000, on_full="rise")  # type: ignore[arg-type]
    mmbloom.open_or_create("seen", 1000, mode="r")  # type: ignore[call-arg]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
