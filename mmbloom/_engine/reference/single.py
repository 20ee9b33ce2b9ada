"""Keys asked and added one or a few at a time: by definition each call looks at the file.

Crawlers, web workers and task queues ask one key at a time, where a look at the file takes many
times as long as the key itself. The compiled engine trusts a look for a moment, and takes a key
from the interpreter's slot to the bits with no bytecode in between.
"""

from functools import update_wrapper
from typing import Any, NamedTuple, TypeVar

C = TypeVar("C", bound=type)


class Grounds(NamedTuple):
    """What a look at the file has found, on which the next keys may go without one.

    Attributes
    ----------
    one : OneKey
        The array, for a key at a time.
    lock : LockState
        Of its write lock.
    file : (bytes, int, int, int)
        The path, and what is there: device, inode, size. A batch looks whether it still is.
    named, expected : memoryview of one uint64, int
        Where the file says which array counts, and what it says as long as this one does.
    listed, edition : memoryview of one uint64, int
        How often the exclusions have changed, and had then.
    listed_until : float
        When somebody is to look whether they have, by the monotonic clock.
    news, known : memoryview of one uint64, int
        Whether the last look is still good, and was.
    plain : bool
        Whether no key is excluded.
    full_at : float
        Up to how many set positions keys may be added.
    """

    one: Any
    lock: Any
    file: tuple[bytes, int, int, int]
    named: memoryview
    expected: int
    listed: memoryview
    edition: int
    listed_until: float
    news: memoryview
    known: int
    plain: bool
    full_at: float


class SingleKeys:
    """The base of a filter whose methods look at the file, and stand behind it.

    A subclass looks at the file, and gives the `Grounds` for more keys, or None:
    ``_grounds(gone, more)``, with the numbers of keys that went by the last ones, and that may.
    """

    def _look_again(self) -> None:
        """Look at the file before the next key."""


def described(cls: C) -> C:
    """Let a subclass say of the methods of its `SingleKeys` what those behind them say."""
    (base,) = (base for base in cls.__bases__ if base.__name__ == SingleKeys.__name__)
    for name in {"add", "add_many", "contains_many"} & vars(base).keys():
        behind = getattr(super(base, cls), name)
        update_wrapper(getattr(base, name), behind, assigned=("__doc__",), updated=())
    return cls
