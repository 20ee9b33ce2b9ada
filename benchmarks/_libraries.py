"""The libraries of the feature table, each by its own calls; no probe and no cell lives here."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _library import Library, lacking
from _peers import stable_hash


class Mmbloom(Library):
    """A mapped file under a lock, in batches."""

    package = module = "mmbloom"
    windows = "no"
    locks = True

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:
        from mmbloom import BloomFilter  # noqa: PLC0415

        return BloomFilter.create(path, capacity, rate)

    def create_like(self, bloom: Any, path: str) -> Any:
        from mmbloom import BloomFilter  # noqa: PLC0415

        return BloomFilter.create(path, like=bloom)

    def open(self, path: str) -> Any:
        from mmbloom import BloomFilter  # noqa: PLC0415

        return BloomFilter.open(path)

    def open_read_only(self, path: str) -> Any:
        from mmbloom import BloomFilter  # noqa: PLC0415

        return BloomFilter.open(path, mode="r")

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.add_many(keys)

    def add_batch_tells(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:
        return list(bloom.add_many(keys).tolist())

    def query_batch(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:
        return list(bloom.contains_many(keys).tolist())

    def union(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        one |= other
        return one

    def intersection(self, one: Any, other: Any, path: str) -> Any:
        from mmbloom import intersect  # noqa: PLC0415

        intersect(path, [one.path, other.path])
        return self.open(path)

    def removing(self, path: str) -> tuple[Any, Callable[[bytes], object]]:
        from mmbloom import CountingBloomFilter  # noqa: PLC0415

        bloom: Any = CountingBloomFilter.create(path, 1000)
        return bloom, bloom.remove

    def expiring(self, path: str) -> None:
        from mmbloom import RotatingFilter  # noqa: PLC0415

        bloom: Any = RotatingFilter.create(
            path, keep="2s", every="1s", capacity_per_period=1000, error_rate=1e-9
        )
        with bloom:
            bloom.add(b"old")
            assert b"old" in bloom
            time.sleep(4)  # by the clock that users have, not by one that a test moves
            bloom.add(b"young")
            assert b"young" in bloom
            assert b"old" not in bloom

    def excluding(self, path: str, key: bytes) -> None:
        with self.create(path, 1000) as bloom:
            bloom.add(key)
            assert key in bloom
            bloom.exclusions.add(key)
            assert key not in bloom
        with self.open(path) as bloom:
            assert key not in bloom

    def growing(self, path: str, capacity: int) -> Any:
        from mmbloom import GrowingFilter  # noqa: PLC0415

        return GrowingFilter.create(path, capacity)

    def sealed(self, bloom: Any, path: str) -> None:
        from mmbloom import copy  # noqa: PLC0415

        copy(bloom.path, path, seal=True)


class Rbloom(Library):
    """In memory; a file is written and read whole."""

    package = module = "rbloom"
    windows = "yes"

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:  # noqa: ARG002
        from rbloom import Bloom  # noqa: PLC0415

        return Bloom(capacity, rate, stable_hash)

    def create_simply(self, path: str, capacity: int) -> Any:  # noqa: ARG002
        from rbloom import Bloom  # noqa: PLC0415

        return Bloom(capacity, 0.01)

    def settle(self, bloom: Any, path: str) -> None:
        bloom.save(path)

    def open(self, path: str) -> Any:
        from rbloom import Bloom  # noqa: PLC0415

        return Bloom.load(path, stable_hash)

    def open_read_only(self, path: str) -> Any:
        return self.open(path)  # into memory, where changes stay

    def add_tells(self, bloom: Any, key: bytes) -> bool:  # noqa: ARG002
        lacking()

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.update(keys)


class Pybloomfilter(Library):
    """A mapped file, no lock."""

    package, module = "pybloomfiltermmap3", "pybloomfilter"
    windows = "no"

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:
        from pybloomfilter import BloomFilter  # noqa: PLC0415

        return BloomFilter(capacity, rate, path)

    def create_like(self, bloom: Any, path: str) -> Any:
        return bloom.copy_template(path)

    def open(self, path: str) -> Any:
        from pybloomfilter import BloomFilter  # noqa: PLC0415

        return BloomFilter.open(path)

    def open_read_only(self, path: str) -> Any:
        from pybloomfilter import BloomFilter  # noqa: PLC0415

        return BloomFilter.open(path, "r")

    def add_tells(self, bloom: Any, key: bytes) -> bool:
        return not bloom.add(key)  # it tells whether the key was there

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.update(keys)


class Bloomsieve(Library):
    """A mapped file under a lock."""

    package = module = "bloomsieve"
    windows = "one writer"
    locks = True
    hosts = "with Redis"  # BloomFilterService: a filter on each host, in step through Redis

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:
        from bloomsieve import BloomFilter  # noqa: PLC0415

        return BloomFilter(capacity, rate, filepath=path)

    def open(self, path: str) -> Any:
        return self.create(path, 1)  # the file's own parameters win

    def open_read_only(self, path: str) -> Any:
        return self.open(path)

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.add_many(keys)

    def union(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        one.merge_bytes(other.to_bytes())
        return one

    def intersection(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        lacking()


class Pyprobables(Library):
    """In Python, with a mapped file for the plain filter; the others are in memory."""

    package, module = "pyprobables", "probables"
    windows = "yes"

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:
        from probables import BloomFilterOnDisk  # noqa: PLC0415

        return BloomFilterOnDisk(path, capacity, rate)

    def open(self, path: str) -> Any:
        from probables import BloomFilterOnDisk  # noqa: PLC0415

        return BloomFilterOnDisk(path)

    def open_read_only(self, path: str) -> Any:
        from probables import BloomFilter  # noqa: PLC0415

        return BloomFilter(filepath=path)  # into memory, where changes stay

    def add_tells(self, bloom: Any, key: bytes) -> bool:  # noqa: ARG002
        lacking()

    def removing(self, path: str) -> tuple[Any, Callable[[bytes], object]]:  # noqa: ARG002
        from probables import CountingBloomFilter  # noqa: PLC0415

        bloom = CountingBloomFilter(1000, 0.01)
        return bloom, bloom.remove

    def growing(self, path: str, capacity: int) -> Any:  # noqa: ARG002
        from probables import ExpandingBloomFilter  # noqa: PLC0415

        return ExpandingBloomFilter(capacity, 0.01)

    def expiring(self, path: str) -> None:  # noqa: ARG002
        from probables import RotatingBloomFilter  # noqa: PLC0415

        bloom = RotatingBloomFilter(100, 1e-6, max_queue_size=2)
        for number in range(1000):
            bloom.add(str(number))
        assert "999" in bloom
        assert "0" not in bloom
        lacking("by key count")  # of keys, not by time


class SketchOxide(Library):
    """In memory, in batches of `bytes`; a file is the filter's bytes, written and read whole."""

    package, module = "sketch-oxide", "sketch_oxide"
    windows = "yes"

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:  # noqa: ARG002
        from sketch_oxide import BloomFilter  # noqa: PLC0415

        return BloomFilter(capacity, rate)

    def settle(self, bloom: Any, path: str) -> None:
        Path(path).write_bytes(bloom.to_bytes())

    def open(self, path: str) -> Any:
        from sketch_oxide import BloomFilter  # noqa: PLC0415

        return BloomFilter.from_bytes(Path(path).read_bytes())

    def open_read_only(self, path: str) -> Any:
        return self.open(path)  # into memory, where changes stay

    def adding(self, bloom: Any) -> Callable[[bytes], object]:
        call: Callable[[bytes], object] = bloom.insert
        return call

    def add_tells(self, bloom: Any, key: bytes) -> bool:  # noqa: ARG002
        lacking()

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.insert_batch(keys)

    def query_batch(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:
        return list(bloom.contains_batch(keys))

    def union(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        one.merge(other)
        return one

    def intersection(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        lacking()

    def removing(self, path: str) -> tuple[Any, Callable[[bytes], object]]:  # noqa: ARG002
        from sketch_oxide import CountingBloomFilter  # noqa: PLC0415

        bloom = CountingBloomFilter(1000, 0.01)
        return bloom, bloom.remove

    def expiring(self, path: str) -> None:  # noqa: ARG002
        from sketch_oxide import StableBloomFilter  # noqa: PLC0415

        bloom = StableBloomFilter(100, 1e-6)
        for number in range(10_000):
            bloom.insert(b"%d" % number)
        assert b"9999" in bloom
        assert b"0" not in bloom
        lacking("at random")  # a key that is added wears others out, not time


class Hazy(Library):
    """In memory; a file is written and read whole, under a checksum."""

    package = module = "hazy"
    windows = "yes"

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:  # noqa: ARG002
        from hazy import BloomFilter  # noqa: PLC0415

        return BloomFilter(capacity, rate)

    def settle(self, bloom: Any, path: str) -> None:
        bloom.save(path)

    def open(self, path: str) -> Any:
        from hazy import BloomFilter  # noqa: PLC0415

        return BloomFilter.load(path)

    def open_read_only(self, path: str) -> Any:
        return self.open(path)  # into memory, where changes stay

    def add_tells(self, bloom: Any, key: bytes) -> bool:  # noqa: ARG002
        lacking()

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.update_many(keys)

    def query_batch(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:
        return list(bloom.query_many(keys))

    def union(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        return one | other

    def removing(self, path: str) -> tuple[Any, Callable[[bytes], object]]:  # noqa: ARG002
        from hazy import CountingBloomFilter  # noqa: PLC0415

        bloom = CountingBloomFilter(1000, 0.01)
        return bloom, bloom.remove

    def growing(self, path: str, capacity: int) -> Any:  # noqa: ARG002
        from hazy import ScalableBloomFilter  # noqa: PLC0415

        return ScalableBloomFilter(capacity, 0.01)


class Zpds(Library):
    """In memory, with no way into a file; NumPy in and out."""

    package = module = "zpds"
    windows = "yes"

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:  # noqa: ARG002
        from zpds import BloomFilter  # noqa: PLC0415

        return BloomFilter(capacity, rate)

    def settle(self, bloom: Any, path: str) -> None:  # noqa: ARG002
        lacking("no file")

    def add_batch(self, bloom: Any, keys: Any) -> object:
        return bloom.add_many(keys)

    def query_batch(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:
        return list(bloom.contains_many(keys))

    def union(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        lacking()

    def intersection(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        lacking()

    def removing(self, path: str) -> tuple[Any, Callable[[bytes], object]]:  # noqa: ARG002
        from zpds import CuckooFilter  # noqa: PLC0415

        bloom = CuckooFilter(1000)
        return bloom, bloom.remove


LIBRARIES: list[Library] = [
    Mmbloom(),
    Rbloom(),
    Pybloomfilter(),
    Bloomsieve(),
    Pyprobables(),
    SketchOxide(),
    Hazy(),
    Zpds(),
]
