"""Keys asked and added one or a few at a time: by definition each call checks the file.

Crawlers, web workers and task queues ask one key at a time, where a check of the file takes many
times as long as the key itself. The compiled engine trusts a check for a moment, and takes a key
from the interpreter's slot to the bits with no bytecode in between.
"""

import math
from collections.abc import Sequence
from functools import update_wrapper
from typing import Any, NamedTuple, TypeVar

C = TypeVar("C", bound=type)


class Grounds(NamedTuple):
    """Result of a check of the file, or files, which the next keys need not repeat.

    Attributes
    ----------
    arrays : sequence of OneKey
        Of the files, newest first: keys are asked for in all, and added to the first.
    words : sequence of (memoryview of one uint64, int)
        Numbers that say that all this still holds, and what they were: which array of a file
        counts, whether its last check is good, how often the exclusions have changed.
    lock : LockState
        Of the write lock of the first.
    section : LockState
        What a block of the filter holds around its calls; of a single file the lock itself.
    file : (bytes, int, int, int, int)
        The path of the file, or of the list of the files, and what is there: device, inode, size,
        time of change in nanoseconds. A batch checks whether it still is.
    listed_until : float
        When the exclusions must be checked again, by the monotonic clock.
    plain : bool
        Whether no key is excluded.
    full_at : float
        Up to how many set positions of the first keys may be added.
    capacity : float
        Up to how many keys may be added to it.
    since, ends : float
        From when to when these are the files, by the Unix clock.
    renews : bool
        Whether a key that another file has is added to the first all the same.
    each : bool
        Whether each key looks as well: for a list of files.
    kept : object
        What prevents that another file gets the identity of that one, as long as it lives.
    """

    arrays: Sequence[Any]
    words: Sequence[tuple[memoryview, int]]
    lock: Any
    section: Any
    file: tuple[bytes, int, int, int, int]
    listed_until: float
    plain: bool
    full_at: float
    capacity: float = math.inf
    since: float = 0.0
    ends: float = math.inf
    renews: bool = False
    each: bool = False
    kept: object = None


class SingleKeys:
    """The base of a filter that has methods of the same names, which check the file.

    A subclass has ``_grounds(gone, more)``, which checks the file and returns `Grounds` for more
    keys, or None; `gone` keys went by the last grounds, and `more` may.
    """

    def _look_again(self) -> None:
        """Check the file before the next key."""


def described(cls: C) -> C:
    """Let a subclass say of the methods of its `SingleKeys` what those behind them say."""
    (base,) = (base for base in cls.__bases__ if base.__name__ == SingleKeys.__name__)
    for name in {"add", "add_many", "contains_many"} & vars(base).keys():
        behind = getattr(super(base, cls), name)
        update_wrapper(getattr(base, name), behind, assigned=("__doc__",), updated=())
    return cls
