"""Filter: what every open filter can be asked and told, a file or a folder of files.

A query changes nothing. Bits only go from 0 to 1, so a reader needs no lock while others write: at
worst it misses a key whose add has not returned. (Counters go down as well: see ``counting.py``.)
Every change goes to the shelf of its files, which holds the write lock around it. A batch is
coerced, cut into chunks that are each hashed ahead and added under the lock, and corrected by the
exclusions. This file touches no bit, no byte and no lock itself.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from inspect import Signature
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeVar

from mmbloom import _engine
from mmbloom._engine import Grounds
from mmbloom._engine.key_batch import HashedKeys, KeyBatch
from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import batches, checked_hashes, coerce, coerce_one, listed
from mmbloom._storage.opening import absolute
from mmbloom._system.sections import CALL
from mmbloom._system.threads import usable_cores
from mmbloom._system.typing import (
    Bools,
    HashHalves,
    Key,
    Keys,
    Mode,
    Nulls,
    OnFull,
    Path,
    Resident,
    Words,
)
from mmbloom.errors import FileChangedError, FilterFullError
from mmbloom.filters.claim import Claim
from mmbloom.filters.exclusions import Exclusions
from mmbloom.filters.file import File
from mmbloom.filters.full import Absent
from mmbloom.filters.options import EXIST_OK, OpenOptions
from mmbloom.filters.shelf import Shelf, key_rule_of

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def shared(function: F) -> F:
    """Leave the base class, which users do not know, out of the name in Python's own errors."""
    function.__qualname__ = function.__name__
    return function


def _instead(name: str, way: str) -> Any:
    """Return a method that sets have and a filter cannot have: its error says what to do."""

    def refuse(self: Filter, *_: object) -> NoReturn:
        raise TypeError(f"{self.path}: {way}")

    refuse.__name__, refuse.__doc__ = name, f"Raise `TypeError`: {way}."
    return refuse


class Filter(ABC):
    """An open Bloom filter of any kind; the base class of all filter classes.

    To get one, call ``create`` or ``open`` of `BloomFilter`, `CountingBloomFilter`,
    `GrowingFilter` or `RotatingFilter`. `mmbloom.open` chooses the class by what is at the path.
    A ``with`` block closes the filter.

    Notes
    -----
    A batch is split into chunks of up to a million keys, and each chunk takes the write lock once.
    An answer never depends on how large a batch is, on the engine or on the number of threads.
    """

    _shelf: Shelf
    _CAN_GROW: ClassVar[bool] = False

    __signature__ = Signature()  # none that help() should show: `create` and `open` make one

    def __init__(self, *_arguments: object, **_options: object) -> None:
        """Raise `TypeError`: `create` makes a filter, and `open` opens one."""
        name = type(self).__name__
        raise TypeError(f"use {name}.create(path, capacity) or {name}.open(path)")

    def _begin(self, shelf: Shelf) -> None:
        """Set what the methods below need; each class does so when it has opened its files."""
        self._shelf, self._exclusions, self._options = shelf, shelf.exclusions, shelf.options
        self._key_hash = shelf.plan.key_hash
        self._threads = shelf.options.threads or usable_cores()
        trusting = weakref.ref(self)  # the shelf must not keep the filter

        def on_change() -> None:
            if (seen := trusting()) is not None:
                seen._look_again()  # noqa: SLF001  of this very class

        shelf.on_change = on_change

    def _sum(self, figure: Callable[[File], int]) -> int:
        """Return the sum of a figure over the files that a query asks."""

        def add_up(members: Sequence[File]) -> int:
            asked = self._shelf.asked(members)
            for file in asked:
                file.storage.check_unchanged()
            return sum(map(figure, asked))

        return self._shelf.ask(add_up)

    @property
    def path(self) -> str:
        """Absolute path of the file or folder."""
        return self._shelf.path

    @property
    def closed(self) -> bool:
        """Whether the filter was closed."""
        return self._shelf.closed

    @property
    def capacity(self) -> int:
        """Number of distinct keys the filter is for, in all its files together."""
        return self._sum(lambda file: file.params.capacity)

    @property
    def error_rate(self) -> float:
        """Planned false-positive rate of all its files together."""
        return self._shelf.plan.error_rate

    @property
    def seed(self) -> int:
        """Seed of its hash; for "siphash" this is a secret key."""
        return self._shelf.plan.seed

    @property
    def keys_added(self) -> int:
        """Number of keys that were new when they were added; removing keys does not lower it."""
        return self._sum(lambda file: file.storage.counters["keys_added"])

    @property
    def approx_count(self) -> int:
        """Estimated number of distinct keys, from the set bits: the sum over its files."""
        return self._sum(lambda file: file.storage.approx_count)

    @property
    def fill_ratio(self) -> float:
        """Set bits divided by all bits, 0 to 1."""
        num_bits = self._sum(lambda file: file.params.num_bits)
        return self._sum(lambda file: file.storage.positions_set) / num_bits if num_bits else 0.0

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect at the current fill ratio, of all its files together."""
        return float(self.info().current_error_rate)

    @property
    def key_rule(self) -> str | None:
        """How keys are made from lines, as options of the commands; None if not recorded.

        For example "whole lines", or "-k 1,3 -t ,". It is recorded by the first command that adds
        lines, or by `mmbloom.logs.dedup.dedup`. Calls such as `add`
        take keys, not lines, and do not record it.
        """
        return self._shelf.ask(key_rule_of)

    def note_key_rule(self, rule: str) -> None:
        """Record how the keys of this filter are made from lines, unless it is already recorded.

        Parameters
        ----------
        rule : str
            The rule, spelled as in `mmbloom.logs.lines.KeyRule.rule`; 1 to 1532 bytes in UTF-8.

        Raises
        ------
        ValueError
            If the rule is empty or too long.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the file cannot be written.
        """
        self._shelf.check_writable()
        if self.key_rule is None:
            with self._shelf.section(self._shelf.timeout, CALL):
                if self.key_rule is None:  # another process may have noted its own
                    self._shelf.newest.storage.note_key_rule(rule)

    def info(self) -> Any:
        """Read everything the filter records about itself: a `FilterInfo` or `FolderInfo`."""

        def read(members: Sequence[File]) -> Any:
            return self._shelf.read_info(members)  # of the class that the shelf has by then

        return self._shelf.ask(read)

    def flush(self) -> None:
        """Force all keys added so far to the disk; do nothing on a read-only filter.

        It waits for other threads that use this object. A failed flush is final for this object:
        open the filter again, and add the keys since the last successful flush again.

        Raises
        ------
        DurabilityError
            If the system reports an error; every later write and flush also raises it.
        FileChangedError, ClosedFilterError
            If the filter can no longer be written.
        """
        self._shelf.flush()

    def recount(self) -> int:
        """Count the set bits again, to correct the counters after writers were killed.

        Returns
        -------
        int
            Number of positions set. Reads the whole array: about half a second per gigabyte.
        """
        return self._shelf.recount()

    def close(self) -> None:
        """Unmap the files and release everything; closing twice is fine.

        It does not flush, with one exception: if the array is in shared memory, the last writer to
        close the filter writes the array to the file, and forces the file to the disk.

        Raises
        ------
        DurabilityError, FileChangedError
            If that fails, or the file was resized. The array then stays in shared memory, and the
            next process that opens the file has all keys.
        ReentryError
            If another call in this thread is under way, for example when called from a signal
            handler; nothing is closed.
        """
        self._look_again()
        try:
            self._shelf.close()
        finally:
            self._look_again()  # another thread may have checked in between

    _listed = staticmethod(listed)

    def _look_again(self) -> None:  # noqa: B027  for filters whose engine checks for each key
        """Check the files before the next key, if a check was good for a moment."""

    def _grounds(self, gone: int, more: int) -> Grounds | None:
        """Check the files, and return what the next keys may take for granted."""
        return self._shelf.grounds(gone, more)

    def __contains__(self, key: Key) -> bool:
        """Return whether one key was added (or is a false positive), and is not excluded."""
        octets = coerce_one(key)
        if not self._shelf.has(octets):
            return False
        self._exclusions.refresh()
        return not self._exclusions.holds(octets)

    def _arguments(self) -> tuple[Any, ...]:
        """Return what `_attach` takes to open this filter again, in another process."""
        return self.path, self._options

    @abstractmethod
    def _attach(self, path: str, options: OpenOptions, /) -> None:
        """Open what is at the path, for this new object."""

    @classmethod
    @shared
    def open(
        cls,
        path: Path,
        mode: Mode = "r+",
        *,
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
        threads: int | None = None,
        preload: bool = False,
        verify_after_add: bool = False,
        on_full: OnFull = "warn",
        resident: Resident = "auto",
    ) -> Self:
        """Open an existing filter, with the parameters it was created with.

        Parameters
        ----------
        path : str or path-like
            The file or folder. Opening it changes nothing.
        mode : {"r+", "r"}, default "r+"
            "r" takes no lock, and works on a read-only file system. A sealed file, or a file of a
            growing or rotating folder, is read-only in both modes.
        lock_timeout : float or None, default 60.0
            Seconds that a write waits for other writers before it raises `LockTimeoutError`; None
            waits forever.
        allow_network : bool, default False
            Allow writing on a network file system; safe only if a single host writes to the filter.
        threads : int, optional
            Number of threads that a call may use, including the caller's; by default one for each
            core that the process may use, and at most 64. Each thread gets at least 32,768 keys, so
            a batch of fewer than 65,536 uses only the caller's thread; each chunk of an Arrow
            column counts separately. Threads share hashing and queries, and in large arrays also
            adding and removing (docs/large-filters.md). The numpy engine uses one thread. Answers
            do not depend on the number of threads.
        preload : bool, default False
            Read the whole file into memory first, so that no key waits for the disk.
        verify_after_add : bool, default False
            Test every key again before its add returns, and raise `LostBitsError` if a key is not
            found. This detects failing memory and programs that write to the file without the lock,
            at the cost of one query per added key.
        on_full : {"warn", "raise", "grow"}, default "warn"
            What to do when a batch would take the filter past its capacity, before any of its keys
            is added. "warn" gives a `CapacityWarning`, once, and continues. "raise" refuses the
            batch with `FilterFullError`; to be exact, it holds the lock for a whole batch. "grow"
            is only for a `BloomFilter`: its file becomes a folder of ever larger files, as with
            `grow`, even while other processes have it open. A `GrowingFilter` is never full; a
            `RotatingFilter` is full while its period has more keys than its capacity.
        resident : {"auto", True, False}, default "auto"
            Whether to keep the array in shared memory, where no key waits for the disk. `flush`
            and the last `close` write it to the file, and so do calls that add keys, piece by
            piece, about every five minutes. "auto" moves the array there after 50,000 new keys, for
            files so large that the kernel would make writers wait. Counting filters are never kept
            in shared memory, and neither is any filter outside Linux. See docs/large-filters.md.

        Returns
        -------
        the class that was called
            The open filter; close it with ``close`` or a ``with`` block.

        Raises
        ------
        FormatError
            If it is not a valid filter, or is one for another class; or if a file of a folder is
            missing, or is not the one that the folder's manifest names.
        OSError
            If it cannot be opened.
        """
        cls._require_growth(on_full)
        settings = OpenOptions(
            mode, lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
        )
        return cls._opened(absolute(path), settings)

    @classmethod
    def _require_growth(cls, on_full: OnFull) -> None:
        """Raise `ValueError` if a filter of this class is to grow, and cannot."""
        if on_full == "grow" and not cls._CAN_GROW:
            raise ValueError(
                f"a {cls.__name__} cannot grow: pass on_full='warn' or 'raise' (--when-full warn "
                "or stop)"
            )

    @classmethod
    def _opened(
        cls,
        path: str,
        options: OpenOptions,
        *more: Any,
        check: Callable[[Self], object] | None = None,
    ) -> Self:
        """Make an object of what `_attach` takes, and close it if the check raises."""
        made = cls.__new__(cls)
        try:
            made._attach(path, options, *more)  # noqa: SLF001  of this very class
        except FileNotFoundError as error:
            error.add_note("mmbloom.open_or_create creates a filter where there is none")
            raise
        if check is not None:
            try:
                check(made)
            except BaseException:
                made.close()
                raise
        return made

    @classmethod
    def _created(
        cls,
        path: str,
        make: Callable[[], object],
        arguments: tuple[OpenOptions, *tuple[Any, ...]],
        *,
        exist_ok: bool,
        check: Callable[[Self, bool], object],
    ) -> Self:
        """Make what `_attach` opens, or open what is there; check it, told whether it is new."""
        is_new = True
        try:
            make()
        except FileExistsError as error:
            if error.filename != path:
                raise
            if not exist_ok:
                error.add_note(EXIST_OK)
                raise
            is_new = False
        return cls._opened(path, *arguments, check=lambda made: check(made, is_new))

    def contains_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Return for each key whether it was added (or is a false positive) and is not excluded.

        Parameters
        ----------
        keys, nulls
            Same as for `add_many`; the answer for a null is False.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key is invalid, or a column is damaged; the error names the position.
        FileChangedError, FormatError, ClosedFilterError
            If the filter can no longer be read.
        FormatError, OSError
            If a key is found, but the exclusions file is damaged or cannot be read.
        """
        self._shelf.check_open()
        batch = coerce(keys, nulls)
        return batch.answers([self._find(chunk) for chunk in batch.cut()])

    def _find(self, keys: KeyBatch) -> Bools:
        exclusions = self._exclusions
        hashes = None if exclusions.empty else self._hash(keys)
        found = self._shelf.find(keys if hashes is None else HashedKeys(*hashes))
        if found.any():  # only a hit may be excluded
            exclusions.refresh()
            if not exclusions.empty:
                return exclusions.correct(found, [keys], hashes or self._hash(keys))
        return found

    def _hash(self, keys: KeyBatch) -> HashHalves:
        return _engine.hash_keys(keys, self._key_hash, self._threads)

    def add(self, key: Key) -> bool:
        """Add one key; True if it was new, or is excluded. Raises the same errors as `add_many`."""
        shelf = self._shelf
        if shelf.room < 1:
            octets = coerce_one(key)
            new = self._foreseen(coerce([octets]), lambda _: shelf.add_one(octets))
        else:
            new = shelf.add_one(key)
        return new or self._exclusions.holds(key)

    def add_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Add a batch of keys; the result is the same as adding them one by one.

        Parameters
        ----------
        keys : iterable of bytes, str, int or tuple; ndarray; or Arrow column
            An iterable may mix types. An array has shape (n,) and dtype integer (of any width), S
            or U; or it has shape (n, w) and dtype uint8, and each row is one key of w bytes. A
            column is any object with the Arrow PyCapsule interface (from pyarrow, polars, pandas)
            that holds strings, binaries, integers, UUIDs (16 bytes), JSON (text) or a dictionary of
            these. Arrays and columns are not copied; an iterable, an array of objects or a sparse
            column becomes a list.
        nulls : {"error", "skip"}, default "error"
            Whether a null is an error or is skipped: it then adds nothing, and its answer is False.
            Nulls are None, a masked item of an array and a null of a column; in lists and arrays of
            objects, also nan and pandas' NA and NaT.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was not there before; if a key is repeated, only the first is True.
            For an excluded key, always True.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key is invalid, or a column is damaged; the error names the position, and nothing
            is added.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written. Chunks before the error stay added.
        FilterFullError
            If the batch would take the filter past its capacity, and it was opened with
            ``on_full="raise"``: nothing is added. By default, a `CapacityWarning` is given
            instead, once, before anything is added.
        FormatError, OSError
            If the exclusions file is damaged or cannot be read, or if a folder needs another file
            that cannot be made: nothing is added.

        Examples
        --------
        >>> import tempfile, os
        >>> from mmbloom import BloomFilter
        >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
        >>> with BloomFilter.create(path, capacity=1000) as seen:
        ...     print(seen.add_many(["a", "b", "a"]))
        [ True  True False]
        """
        self._shelf.check_writable()
        return self._foreseen(coerce(keys, nulls), self._add_chunks)

    def update(self, keys: Keys, *, nulls: Nulls = "error") -> int:
        """Add keys from an iterable of any length in bounded memory.

        Parameters
        ----------
        keys, nulls
            Same as for `add_many`. An invalid key in an iterator raises when it is reached; keys
            of earlier chunks stay added.

        Returns
        -------
        int
            How many keys were new: the number of True answers of `add_many`.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError, OSError, MmbloomError
            Same as for `add_many`. An iterable is added in batches of 16,384 keys; a list, an array
            or a column is one batch.
        """
        self._shelf.check_writable()
        return sum(
            int(self._foreseen(batch, self._add_chunks).sum()) for batch in batches(keys, nulls)
        )

    def add_hashes(self, h1: Words, h2: Words) -> Bools:
        """Add keys by their hashes; the result is the same as `add_many` with the keys.

        Parameters
        ----------
        h1, h2 : ndarray of uint64, shape (n,)
            The result of `mmbloom.hash_many` for a filter with this hash and seed. Hashes made with
            another seed cannot be recognised: they count as hashes of other keys.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was not there before; if a key is repeated, only the first is True.

        Raises
        ------
        TypeError, ValueError
            If one is not a one-dimensional array of uint64, or the two differ in length; or if the
            filter has `exclusions`, which are compared by the keys themselves.
        FilterFullError, LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, \
ClosedFilterError
            Same as for `add_many`.
        """
        self._shelf.check_writable()
        batch = coerce(HashedKeys(*checked_hashes(h1, h2)))
        self._require_no_exclusions()
        return self._foreseen(batch, self._add_hashed)

    def _add_hashed(self, batch: Batch) -> Bools:
        new = (self._shelf.add_chunk(self._hash(chunk)) for chunk in batch.cut())
        return batch.answers([*new])

    def contains_hashes(self, h1: Words, h2: Words) -> Bools:
        """Return for each hash whether its key was added (or is a false positive).

        Parameters
        ----------
        h1, h2
            Same as for `add_hashes`.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        TypeError, ValueError
            Same as for `add_hashes`.
        FileChangedError, FormatError, ClosedFilterError, OSError
            Same as for `contains_many`.
        """
        self._shelf.check_open()
        batch = coerce(HashedKeys(*checked_hashes(h1, h2)))
        self._require_no_exclusions()
        return batch.answers([self._shelf.find(chunk) for chunk in batch.cut()])

    def _require_no_exclusions(self) -> None:
        """Raise `ValueError` if keys are excluded: keys of equal hashes can be made."""
        self._exclusions.refresh()
        if not self._exclusions.empty:
            raise ValueError(
                f"{self.path}: has exclusions, which are compared by key, not by hash: pass the "
                "keys (add_many, contains_many), or discard the exclusions"
            )

    def _foreseen(self, batch: Batch, add: Callable[[Batch], R]) -> R:
        """Add a batch, and before that tell the caller if it goes past the plan."""
        shelf = self._shelf
        if batch.num_keys > shelf.room:
            try:
                with shelf.section(shelf.timeout):
                    self._require_room(batch)
                    if shelf.strict:  # none may fill it in between
                        return add(batch)
            except FilterFullError as full:
                shelf.newest.tell(full)
        return add(batch)

    def _require_room(self, batch: Batch) -> None:
        if batch.num_keys:  # no keys, no file
            self._shelf.turn()  # what goes to the next period is no matter of this one
        newest = self._shelf.newest
        if not newest.may_pass(batch.num_keys):
            return
        new = Absent()  # 16 bytes a key that is not there, while this is counted
        for chunk in batch.cut():
            hashes = self._hash(chunk)
            new.take(hashes, ~newest.find(HashedKeys(*hashes)))
        newest.require_room(new.first_places())

    def _add_chunks(self, batch: Batch) -> Bools:
        return batch.answers([self._add_chunk(chunk) for chunk in batch.cut()])

    def _add_chunk(self, keys: KeyBatch) -> Bools:
        hashes = self._hash(keys)
        new = self._shelf.add_chunk(hashes)
        if self._exclusions.empty:
            return new
        return self._exclusions.correct_new(new, [keys], hashes)

    def claim(self, keys: Keys, *, nulls: Nulls = "error") -> Claim:
        """Find out which keys are new, and add them only if the following block succeeds.

        If the block raises, or its process dies in it, the keys are not added. Memory is
        proportional to the number of keys.

        The write lock is held for the whole block, so only one block runs at a time, across all
        processes: twelve items of 0.1 seconds took 1.3 seconds both in one process and in
        four. The page "Long-running work" (docs/long-work.md) measures this, and shows two
        other ways, which took 0.4 seconds in four processes.

        Parameters
        ----------
        keys, nulls
            Same as for `add_many`. Entering the claim returns the bool array that `add_many` would
            return. If the keys need another file of a folder, it is made at that point, so a full
            disk is reported before the block begins.

        Returns
        -------
        Claim
            Enter it once, using ``with``, or ``async with`` in an asyncio task.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key is invalid, or a column is damaged; the error names the position. Entering the
            claim raises the other errors of `add_many`, and gives the same warnings.
        ReentryError
            On entering, if a claim of this filter is already open; or, with ``with`` in a task,
            while another task of the thread holds the lock.
        """
        batch = coerce(keys, nulls)
        hashes = batch.hashes(self._key_hash, self._threads)  # outside the lock
        prepared = self._shelf.prepare(hashes)  # as well

        def answers(new: Bools) -> Bools:
            return batch.answers([self._exclusions.correct_new(new, batch.parts, hashes)])

        return Claim(self._shelf, prepared, answers)

    @property
    def exclusions(self) -> Exclusions:
        """The keys that are always reported as not seen; a small set, stored in a file."""
        section = partial(self._shelf.section, self._shelf.timeout, CALL)
        return Exclusions(self.path, self._exclusions, self._shelf.check_unchanged, section)

    def locked(
        self, timeout: float | Literal["default"] | None = "default"
    ) -> AbstractContextManager[object]:
        """Hold the write lock during several calls of this thread or task.

        In an asyncio task, do not await anything that needs the filter while you hold the lock: if
        another task of the thread adds keys meanwhile, its call raises `ReentryError`.

        Parameters
        ----------
        timeout : float or None, optional
            Seconds to wait for the lock; None waits forever. By default the `lock_timeout` of
            `open`.

        Returns
        -------
        context manager
            The lock is held until its block is left.

        Raises
        ------
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            On entering, if the lock is not available in time, or the filter cannot be written.
        ReentryError
            On entering, if another task of the thread holds the lock.
        """
        return self._shelf.section(self._shelf.timeout if timeout == "default" else timeout)

    clear = _instead(
        "clear",
        "a filter cannot be emptied, because other processes may be using it: create a new one at "
        "another path and rename it over this one with os.replace()",
    )
    __or__ = _instead(
        "__or__",
        "a union is a new file, which needs a path: call mmbloom.merge(path, [one.path, "
        "other.path]), or add the keys of one BloomFilter to another: one |= other (a list or a "
        "set of keys: one.update(keys))",
    )
    __and__ = _instead(
        "__and__",
        "an intersection is a new file, which needs a path: call mmbloom.intersect(path, "
        "[one.path, other.path]), or BloomFilter.common_count to estimate how many keys are common",
    )
    __iter__ = _instead("__iter__", "keys are not stored and cannot be listed: keep them elsewhere")
    __len__ = _instead("__len__", "keys are not counted exactly: use keys_added or approx_count")

    def __bool__(self) -> bool:
        """Return True, even if the filter is empty: for its number of keys, see `keys_added`."""
        return True

    def __eq__(self, other: object) -> bool:
        """Return whether both are one object; raise `TypeError` if the other is another filter."""
        if not isinstance(other, Filter):
            return NotImplemented
        if self is other:
            return True
        raise TypeError(
            f"a {type(self).__name__} and a {type(other).__name__} cannot be compared: only two "
            "BloomFilters can be; to find out whether both are the same filter, compare .path"
        )

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        # Path and identity only: pickling the array would make a copy that is never shared.
        self._shelf.check_unchanged()
        return _reopen, (type(self), self._shelf.uuid, *self._arguments())


def _reopen(made: type[Filter], uuid: bytes, *arguments: Any) -> Filter:
    reopened = made._opened(*arguments)  # noqa: SLF001  of the class above
    if reopened._shelf.uuid != uuid:  # noqa: SLF001
        reopened.close()
        raise FileChangedError(reopened.path, "replaced by another filter")
    return reopened
