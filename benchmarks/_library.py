"""What the probes of the feature table ask of a library; the libraries are in `_libraries`.

A method of `Library` is something that a user may want to do. What a library has no call for
raises `LackingError`, with what it has instead, if anything, in a few words.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn


class LackingError(Exception):
    """The library has no call for this; the text says what it has instead."""


def lacking(instead: str = "no") -> NoReturn:
    raise LackingError(instead)


class Library:
    """What the probes ask for; a filter is whatever the library calls one."""

    package: ClassVar[str]
    module: ClassVar[str]
    windows: ClassVar[str]  # read: nothing here runs there
    hosts: ClassVar[str] = "no"
    locks: ClassVar[bool] = False  # read: who loses nothing in a race may have had luck

    def create(self, path: str, capacity: int, rate: float = 0.01) -> Any:
        """Make a filter that `settle` can leave in this file."""
        raise NotImplementedError

    def create_simply(self, path: str, capacity: int) -> Any:
        """Make it as most do, with the hash that the library chooses."""
        return self.create(path, capacity)

    def create_like(self, bloom: Any, path: str) -> Any:  # noqa: ARG002
        """Make an empty one that can be combined with it; all are for 1,000 keys at 1e-9."""
        return self.create(path, 1000, 1e-9)

    def settle(self, bloom: Any, path: str) -> None:  # noqa: ARG002
        """Let the file have all keys; the filter is not used afterwards."""
        bloom.close()

    def open(self, path: str) -> Any:
        """Open what was settled, to query and add."""
        raise NotImplementedError

    def open_read_only(self, path: str) -> Any:  # noqa: ARG002
        """Open a file that may only be read."""
        lacking()

    def adding(self, bloom: Any) -> Callable[[bytes], object]:
        """Give the call that adds one key."""
        call: Callable[[bytes], object] = bloom.add
        return call

    def add(self, bloom: Any, key: bytes) -> object:
        """Add one key."""
        return self.adding(bloom)(key)

    def add_tells(self, bloom: Any, key: bytes) -> bool:
        """Add one key; say whether it was new."""
        return bool(bloom.add(key))

    def add_batch(self, bloom: Any, keys: Any) -> object:  # noqa: ARG002
        """Add many keys by one call."""
        lacking()

    def add_all(self, bloom: Any, keys: Sequence[bytes]) -> None:
        """Add many keys by whatever call is the fastest."""
        try:
            self.add_batch(bloom, keys)
        except LackingError:
            for key in keys:
                self.add(bloom, key)

    def add_batch_tells(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:  # noqa: ARG002
        """Add many keys by one call; say of each whether it was new."""
        lacking()

    def query_batch(self, bloom: Any, keys: Sequence[bytes]) -> list[bool]:  # noqa: ARG002
        """Look many keys up by one call."""
        lacking()

    def union(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        """Give a filter with the keys of both; it may be one of them."""
        return one.union(other)

    def intersection(self, one: Any, other: Any, path: str) -> Any:  # noqa: ARG002
        """Give a filter with the keys that both have."""
        return one.intersection(other)

    def removing(self, path: str) -> tuple[Any, Callable[[bytes], object]]:  # noqa: ARG002
        """Make a filter that can forget a key, and give the call that does."""
        lacking()

    def growing(self, path: str, capacity: int) -> Any:  # noqa: ARG002
        """Make a filter that goes on when it has got all the keys that it was made for."""
        lacking()

    def expiring(self, path: str) -> None:  # noqa: ARG002
        """Show that what was added long ago is forgotten, and nothing else."""
        lacking()

    def excluding(self, path: str, key: bytes) -> None:  # noqa: ARG002
        """Show that a known false positive answers False from now on."""
        lacking()

    def sealed(self, bloom: Any, path: str) -> None:  # noqa: ARG002
        """Leave a copy in this file whose every bit is under a checksum."""
        lacking()
