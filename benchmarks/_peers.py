"""The filters that users would pick instead, each by its fastest documented calls.

All are made for a number of keys and an error rate, add a list of `bytes` and count the hits
in one. A peer that is not installed raises ImportError when it is made.
"""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import mmh3


class Peer:
    """What the peers have in common; made from a folder, a capacity and an error rate."""

    name: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    mapped: ClassVar[bool] = False
    share: ClassVar[int] = 1  # it gets one key of so many: figures are per key
    loads: ClassVar[bool] = False
    takes_text: ClassVar[bool] = True  # keys that are `str`, too
    bloom: Any

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:
        raise NotImplementedError

    def add(self, keys: list[bytes]) -> None:
        """Add a list of keys."""
        self.bloom.update(keys)

    def hits(self, keys: Iterable[bytes]) -> int:
        """Count the keys that are in; `map` keeps the loop in C."""
        return sum(map(self.bloom.__contains__, keys))

    def save(self, path: str) -> None:
        """Write it to a file."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: str) -> Self:
        """Read it back from a file."""
        loaded = cls.__new__(cls)
        loaded.bloom = cls._load(path)
        return loaded

    @classmethod
    def _load(cls, path: str) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of memory and file."""
        del self.bloom


class Abloom(Peer):
    """In C, in memory; Python's own hash, so that it cannot be saved."""

    name, package, module = "abloom", "abloom", "abloom"
    serializable = False

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:  # noqa: ARG002
        from abloom import BloomFilter  # noqa: PLC0415

        self.bloom = BloomFilter(capacity, rate, serializable=self.serializable)


class AbloomSerializable(Abloom):
    """The same with a hash of its own, saved through one `bytes` object."""

    name, serializable, loads = "abloom, serializable", True, True

    def save(self, path: str) -> None:
        """Write it to a file."""
        with open(path, "wb") as file:
            file.write(self.bloom.to_bytes())

    @classmethod
    def _load(cls, path: str) -> Any:
        from abloom import BloomFilter  # noqa: PLC0415

        with open(path, "rb") as file:
            return BloomFilter.from_bytes(file.read())


class Fastbloom(Peer):
    """In Rust, in memory, by its batch calls."""

    name, package, module, loads = "fastbloom-rs", "fastbloom-rs", "fastbloom_rs", True

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:  # noqa: ARG002
        from fastbloom_rs import BloomFilter  # noqa: PLC0415

        self.bloom = BloomFilter(capacity, rate)

    def add(self, keys: list[bytes]) -> None:
        """Add a list of keys."""
        self.bloom.add_bytes_batch(keys)

    def hits(self, keys: Iterable[bytes]) -> int:
        """Count the keys that are in."""
        return sum(self.bloom.contains_bytes_batch(keys))

    def save(self, path: str) -> None:
        """Write it to a file."""
        self.bloom.save_to_file_with_hashes(path)

    @classmethod
    def _load(cls, path: str) -> Any:
        from fastbloom_rs import BloomFilter  # noqa: PLC0415

        return BloomFilter.from_file_with_hashes(path)


class SketchOxide(Peer):
    """In Rust, in memory, by its batch calls; saved through one `bytes` object."""

    name, package, module, loads = "sketch-oxide", "sketch-oxide", "sketch_oxide", True
    takes_text = False

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:  # noqa: ARG002
        from sketch_oxide import BloomFilter  # noqa: PLC0415

        self.bloom = BloomFilter(capacity, rate)

    def add(self, keys: list[bytes]) -> None:
        """Add a list of keys."""
        self.bloom.insert_batch(keys)

    def hits(self, keys: Iterable[bytes]) -> int:
        """Count the keys that are in."""
        return sum(self.bloom.contains_batch(keys))

    def save(self, path: str) -> None:
        """Write it to a file."""
        with open(path, "wb") as file:
            file.write(self.bloom.to_bytes())

    @classmethod
    def _load(cls, path: str) -> Any:
        from sketch_oxide import BloomFilter  # noqa: PLC0415

        with open(path, "rb") as file:
            return BloomFilter.from_bytes(file.read())


class Rbloom(Peer):
    """In Rust, in memory; Python's own hash, so that it cannot be saved."""

    name, package, module = "rbloom", "rbloom", "rbloom"

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:  # noqa: ARG002
        from rbloom import Bloom  # noqa: PLC0415

        self.bloom = Bloom(capacity, rate)


def stable_hash(key: bytes) -> int:
    """Hash as rbloom asks for, in the fastest way known; its README's own takes 4x as long."""
    return mmh3.hash128(key, 0, True, True)  # x64arch, signed; keywords would cost 50 ns


class RbloomSaveable(Peer):
    """The same with a hash function that is the same in every process."""

    name, package, module, loads = "rbloom, saveable hash", "rbloom", "rbloom", True

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:  # noqa: ARG002
        from rbloom import Bloom  # noqa: PLC0415

        self.bloom = Bloom(capacity, rate, stable_hash)

    def save(self, path: str) -> None:
        """Write it to a file."""
        self.bloom.save(path)

    @classmethod
    def _load(cls, path: str) -> Any:
        from rbloom import Bloom  # noqa: PLC0415

        return Bloom.load(path, stable_hash)


class Pybloomfilter(Peer):
    """In C, a mapped file, no locks."""

    name, package, module = "pybloomfiltermmap3", "pybloomfiltermmap3", "pybloomfilter"
    mapped = True

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:
        from pybloomfilter import BloomFilter  # noqa: PLC0415

        self._path = os.path.join(folder, "pybloomfilter")
        self.bloom = BloomFilter(capacity, rate, self._path)

    def close(self) -> None:
        """Delete the file."""
        self.bloom.close()
        os.unlink(self._path)


class Bloomsieve(Peer):
    """In Python, a mapped file under a lock."""

    name, package, module, mapped, share = "bloomsieve", "bloomsieve", "bloomsieve", True, 10

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:
        from bloomsieve import BloomFilter  # noqa: PLC0415

        self._path = os.path.join(folder, "bloomsieve")
        self.bloom = BloomFilter(capacity, rate, filepath=self._path)

    def add(self, keys: list[bytes]) -> None:
        """Add a list of keys."""
        self.bloom.add_many(keys)

    def close(self) -> None:
        """Delete the file, before closing would flush it."""
        os.unlink(self._path)
        self.bloom.close()


class Exact(Peer):
    """Python's set, which keeps the keys."""

    name, package, module = "set", "", "builtins"

    def __init__(self, folder: str, capacity: int, rate: float = 0.01) -> None:  # noqa: ARG002
        self.bloom = set()


PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (
        AbloomSerializable,
        Abloom,
        Fastbloom,
        SketchOxide,
        Rbloom,
        RbloomSaveable,
        Pybloomfilter,
        Bloomsieve,
        Exact,
    )
}
PACKAGES = sorted({peer.package for peer in PEERS.values()} - {""})
IN_MEMORY = [name for name, peer in PEERS.items() if not peer.mapped and name != "set"]
MAPPED = [name for name, peer in PEERS.items() if peer.mapped]


def installed(name: str) -> bool:
    """Say whether a peer can be measured here."""
    return find_spec(PEERS[name].module) is not None


def missing(names: Iterable[str]) -> str:
    """Name those of these peers that cannot be measured here, as a sentence; or nothing."""
    return not_installed(PEERS[name].package for name in names if not installed(name))


def not_installed(packages: Iterable[str]) -> str:
    """Say that these packages are not there, and how they come; nothing if there are none."""
    absent = sorted({*packages})
    if not absent:
        return ""
    return f"\n\nNot installed: {', '.join(absent)} (`pip install 'mmbloom[bench]'`)"
