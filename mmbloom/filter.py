"""BloomFilter: the public face of one filter file.

This file says what each call means; it never touches a bit, a byte or a lock itself.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._choose import choose_params, require_equal
from mmbloom._create import create_file
from mmbloom._header import KIND_BITS
from mmbloom._keys import Key, KeyBatch, Keys, batches, coerce, coerce_one
from mmbloom._lock import WriteLock
from mmbloom._storage import Storage
from mmbloom._writer import Writer
from mmbloom.claim import Claim
from mmbloom.errors import FileChangedError, FormatError, ParameterMismatch
from mmbloom.reader import FilterReader, chunks
from mmbloom.sizing import Layout

Path = str | os.PathLike[str]
Mode = Literal["r", "r+"]
Bools = npt.NDArray[np.bool_]


class BloomFilter(FilterReader):
    """A Bloom filter in a memory-mapped file, shared by any number of processes.

    Made by `create` or `open`; a context manager, which closes it.

    Notes
    -----
    Keys are bytes (or bytearray, memoryview); str stands for its UTF-8, an int (and any numpy
    integer) for its 8-byte little-endian two's complement: -1 and 2**64 - 1 are one key. A
    key that was added is always found; one that was not, at the rate that `create` plans for.

    Threads and processes: every method may be called from any thread, and any number of
    processes may have the file open. Writes exclude each other; readers take no lock, and
    can at worst miss a key whose add has not returned. The object survives a fork and
    pickles to its path and identity. A process crash loses no key whose add returned; a
    power cut loses no key whose add returned before a successful `flush`, on a local file
    system that honours fsync.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1_000_000, error_rate=0.01) as seen:
    ...     print(seen.add_many(["a", "b", "a"]), seen.add("b"), "c" in seen)
    [ True  True False] False False
    >>> with BloomFilter.open(path) as seen:
    ...     print(seen.contains_many(["a", "c"]), seen.approx_count)
    [ True False] 2
    """

    def __init__(
        self, path: str, mode: Mode, lock_timeout: float | None, allow_network: bool
    ) -> None:
        if mode not in ("r", "r+"):
            raise ValueError(f"mode is {mode!r}, expected 'r' or 'r+'")
        self._mode, self._allow_network = mode, allow_network
        storage = Storage(path, writable=mode == "r+", allow_network=allow_network)
        if storage.header.kind != KIND_BITS:
            storage.close()
            raise FormatError(path, "kind", "2 (counters)", "1 (bits), a Bloom filter")
        super().__init__(storage)
        self._lock = WriteLock(path, storage.identity, lock_timeout)
        self._writer = Writer(storage, self._lock)

    @classmethod
    def create(
        cls,
        path: Path,
        capacity: int | None = None,
        error_rate: float | None = None,
        *,
        layout: Layout | None = None,
        seed: int | None = None,
        like: "BloomFilter | None" = None,
        permissions: int = 0o600,
        exist_ok: bool = False,
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
    ) -> "BloomFilter":
        """Make a new filter file, with its disk space reserved, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to make it. The file appears complete or not at all.
        capacity : int
            Number of distinct keys to plan for. Required unless `like` is given.
        error_rate : float, default 0.01
            False-positive rate at capacity.
        layout : {"blocked", "standard"}, default "blocked"
            One cache line a key, or 3 to 14 % fewer bits.
        seed : int, optional
            Of the hash, 0 to 2**32 - 1; random by default: with a known seed an attacker
            crafts false positives.
        like : BloomFilter, optional
            Copy all of the above from this filter.
        permissions : int, default 0o600
            Mode bits of the file.
        exist_ok : bool, default False
            Open the file if it exists already with these parameters (any seed, by default).
        lock_timeout, allow_network
            As in `open`.

        Raises
        ------
        FileExistsError
            If the path exists and `exist_ok` is not set.
        ParameterMismatch
            If the existing file was made with other parameters.
        OSError
            If the disk space cannot be reserved (ENOSPC), or as the system says.
        ValueError, TypeError
            If a parameter is out of range, or missing.
        """
        params = choose_params(capacity, error_rate, layout, seed, like.params if like else None)
        absolute = os.path.abspath(os.fspath(path))
        try:
            create_file(absolute, params, permissions=permissions, allow_network=allow_network)
        except FileExistsError:
            if not exist_ok:
                raise
        made = cls(absolute, "r+", lock_timeout, allow_network)
        try:
            same = {"copied": like is not None, "any_seed": seed is None}
            require_equal(made.params, params, absolute, **same)
        except ParameterMismatch:
            made.close()
            raise
        return made

    @classmethod
    def open(
        cls,
        path: Path,
        mode: Mode = "r+",
        *,
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
    ) -> "BloomFilter":
        """Open an existing filter file; its header says all about it.

        Parameters
        ----------
        path : str or path-like
            The file. Opening changes nothing in it.
        mode : {"r+", "r"}, default "r+"
            "r" takes no lock, and works on a read-only file system. A sealed file is
            read-only in both.
        lock_timeout : float or None, default 60.0
            Seconds that a write waits for others before `LockTimeout`; None waits for ever.
        allow_network : bool, default False
            Allow writing on a network file system, which is safe from one host only.

        Raises
        ------
        FormatError
            If the file is not a valid filter.
        OSError
            If it cannot be opened.
        """
        return cls(os.path.abspath(os.fspath(path)), mode, lock_timeout, allow_network)

    def add(self, key: Key) -> bool:
        """Add one key; True if it was new. Raises what `add_many` raises."""
        new = self._writer.add_one(*_engine.hash_one(coerce_one(key), self.params.seed))
        self._writer.warn_when_full()
        return new

    def add_many(self, keys: Keys) -> Bools:
        """Add a batch of keys; answers what adding them one by one would.

        Parameters
        ----------
        keys : iterable of bytes, str or int; or ndarray of integers, S or U, shape (n,)
            Types may be mixed. All are checked before any is added.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was not there before; of equal keys only the first is.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a key cannot be one; names its position, and nothing is added.
        LockTimeout, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the file cannot be written. Of the chunks of 16,384 keys, each under the lock,
            those before the error stay added.
        """
        self._storage.check_writable()
        new = self._add_batch(coerce(keys))
        self._writer.warn_when_full()
        return new

    def update(self, keys: Keys) -> int:
        """Add keys from an iterable of any length in bounded memory.

        Parameters
        ----------
        keys : iterable of bytes, str or int; or ndarray of integers, S or U, shape (n,)
            A wrong key raises when it is reached; keys of earlier chunks stay added.

        Returns
        -------
        int
            How many were new.
        """
        self._storage.check_writable()
        new_keys = sum(int(self._add_batch(batch).sum()) for batch in batches(keys))
        self._writer.warn_when_full()
        return new_keys

    def claim(self, keys: Keys) -> Claim:
        """Learn which keys are new, and mark them only if the block that follows succeeds.

        The write lock is kept for the whole block; a block that raises, or a process that
        dies in it, leaves the keys unmarked. Memory is in proportion to the keys given.

        Parameters
        ----------
        keys : iterable of bytes, str or int; or ndarray of integers, S or U, shape (n,)
            As for `add_many`; entering the claim gives the bool array that it would.
        """
        return Claim(self._writer, coerce(keys), self.params, self._lock.timeout)

    @contextmanager
    def locked(self, timeout: float | Literal["default"] | None = "default") -> Iterator[None]:
        """Keep the write lock over several calls of this thread.

        Parameters
        ----------
        timeout : float or None, optional
            Seconds to wait for it, None for ever; by default the `lock_timeout` of `open`.
        """
        with self._writer.section(self._lock.timeout if timeout == "default" else timeout):
            yield

    def flush(self) -> None:
        """Force all keys added so far to the disk; does nothing on a read-only filter.

        Waits for this object's other threads. A failure raises `DurabilityError` and is final
        for this object: open the file again, and add again what came after the last success.
        """
        self._storage.check_open()
        if not self._storage.read_only_reason:
            self._writer.flush()

    def recount(self) -> int:
        """Count the set bits anew, to mend the counters after killed writers; O(m)."""
        return self._writer.recount()

    def close(self) -> None:
        """Unmap the file and release everything; twice is fine. Does not flush."""
        with self._lock.closing():
            self._storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self._mode!r}"
        planned = f"capacity={self.params.capacity}, error_rate={self.params.error_rate:g}"
        return f"<BloomFilter {self.path!r} {planned} {state}>"

    def __reduce__(self) -> tuple[object, ...]:
        # Path and identity only: pickling the array would make a copy that is never shared.
        self._storage.check_unchanged()
        settings = (self._mode, self._lock.timeout, self._allow_network)
        return _reopen, (self.path, *settings, self._storage.header.uuid)

    def _add_batch(self, batch: KeyBatch) -> Bools:
        new = np.empty(len(batch), dtype=np.bool_)
        for part in chunks(len(batch)):
            hashes = _engine.hash_keys(batch[part], self.params.seed)
            new[part] = self._writer.add_chunk(hashes)
        return new


def _reopen(
    path: str, mode: Mode, lock_timeout: float | None, allow_network: bool, uuid: bytes
) -> BloomFilter:
    reopened = BloomFilter(path, mode, lock_timeout, allow_network)
    if reopened._storage.header.uuid != uuid:  # noqa: SLF001  of the class above
        reopened.close()
        raise FileChangedError(path, "replaced by another filter")
    return reopened
