"""What every filter that is a folder of files can be asked and told.

The files form a chain (``chain.py``); which key goes to which of them is the matter of a
writer, one for each class. This file never touches a bit, a byte or a lock itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, Protocol, Self

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import KeyBatch
from mmbloom._keys.batch import Batch, map_pieces
from mmbloom._keys.coerce import Keys, batches, coerce, coerce_one
from mmbloom._storage.atomic import new_folder, require_reserve
from mmbloom._storage.folder import file_name, first_manifest, make_member
from mmbloom._threads import usable_cores
from mmbloom._typing import Bools, HashHalves, Key, Nulls
from mmbloom.errors import FileChangedError, FormatError, ParameterMismatchError
from mmbloom.filters.claim import Claim, Marker
from mmbloom.filters.exclusion_list import Exclusions
from mmbloom.filters.options import OpenOptions, require_same
from mmbloom.folders.chain import Chain, ChainState, Hashed, found_in
from mmbloom.folders.info import FolderInfo, read_folder_info
from mmbloom.folders.member import Member, contains_one
from mmbloom.format.manifest import FolderPlan


class FolderWriter(Marker, Protocol):
    """How keys get into a chain."""

    def asked(self, now: ChainState) -> Sequence[Member]:
        """Name the files that a query asks, oldest first."""

    def prepare(self, hashes: HashHalves) -> Hashed:
        """Do what can be done without the lock."""

    def add_chunk(self, keys: Hashed, timeout: float | None) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""

    def add_one(self, key: bytes, timeout: float | None) -> bool:
        """Add one key in a section of its own; True if it was new."""


class FolderFilter:
    """A filter made of several files; the base of `GrowingFilter` and `RotatingFilter`."""

    def __init__(self, chain: Chain, writer: FolderWriter) -> None:
        self._chain, self._writer, self._exclusions = chain, writer, chain.exclusions
        self._timeout = chain.settings.lock_timeout
        self._threads = chain.settings.threads or usable_cores()

    def __contains__(self, key: Key) -> bool:
        """Tell whether one key was added (or is a false positive), and is not excluded."""
        octets = coerce_one(key)

        def has(now: ChainState) -> bool:
            return contains_one(self._writer.asked(now), octets)

        return self._chain.ask(has) and not self._exclusions.holds_now(octets)

    def contains_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Tell for each key whether it was added (or is a false positive), and is not excluded.

        Parameters
        ----------
        keys, nulls
            As for `BloomFilter.contains_many`.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a key cannot be one; names its position.
        FileChangedError, FormatError, ClosedFilterError
            If a file cannot be read any more, or a newer one cannot be read.
        FormatError, OSError
            If a key is found, and the file of the exclusions is damaged or cannot be read.
        """
        self._chain.look()
        batch = coerce(keys, nulls)
        found = map_pieces(self._find, batch, self._threads)
        return batch.answers(np.concatenate([np.zeros(0, np.bool_), *found]))

    def _find(self, piece: KeyBatch) -> Bools:
        hashes = self._hash(piece)
        found = self._chain.ask(lambda now: found_in(self._writer.asked(now), hashes))
        return self._exclusions.correct_now(found, piece, hashes)

    def _hash(self, piece: KeyBatch) -> HashHalves:
        return _engine.hash_keys(piece, self._chain.plan.seed)

    def add(self, key: Key) -> bool:
        """Add one key; True if it was new, or is excluded. Raises what `add_many` raises."""
        octets = coerce_one(key)
        new = self._writer.add_one(octets, self._timeout)
        self._writer.warn_when_full()
        return new or self._exclusions.holds(octets)

    def add_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Add a batch of keys; answers what adding them one by one would.

        Parameters
        ----------
        keys, nulls
            As for `BloomFilter.add_many`.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was not there before; of equal keys only for the first. An
            excluded key is never there: True each time.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key cannot be one, or a column is damaged; nothing is added.
        OSError
            If a further file is needed, and cannot be made (a full disk).
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the folder cannot be written.
        FormatError, OSError
            If the file of the exclusions is damaged or cannot be read.

        Notes
        -----
        Of the chunks of 16,384 keys, each under the lock, those before an error stay added.
        """
        self._chain.check_writable()
        new = self._add_batch(coerce(keys, nulls))
        self._writer.warn_when_full()
        return new

    def update(self, keys: Keys, *, nulls: Nulls = "error") -> int:
        """Add keys from an iterable of any length in bounded memory; the number of new ones.

        Takes and raises what `add_many` does. A wrong key of an iterator raises when it is
        reached; keys of earlier chunks stay added.
        """
        self._chain.check_writable()
        new_keys = sum(int(self._add_batch(batch).sum()) for batch in batches(keys, nulls))
        self._writer.warn_when_full()
        return new_keys

    def _add_batch(self, batch: Batch) -> Bools:
        # Hashed and tested in the files that do not change, ahead of the lock.
        ready = map_pieces(self._prepare, batch, self._threads, busy=True)
        answers = [np.zeros(0, np.bool_)]
        for piece, keys in zip(batch.pieces(_engine.CHUNK_KEYS), ready, strict=True):
            new = self._writer.add_chunk(keys, self._timeout)
            answers.append(self._exclusions.correct_new(new, [piece], keys.hashes))
        return batch.answers(np.concatenate(answers))

    def _prepare(self, piece: KeyBatch) -> Hashed:
        return self._writer.prepare(self._hash(piece))

    def claim(self, keys: Keys, *, nulls: Nulls = "error") -> Claim:
        """Learn which keys are new, and mark them only if the block that follows succeeds.

        As `BloomFilter.claim`: the write lock is kept for the whole block; a block that
        raises, or a process that dies in it, leaves the keys unmarked.

        Parameters
        ----------
        keys, nulls
            As for `add_many`; entering the claim gives the bool array that it would. If the
            keys need a further file, it is made then, so that a full disk is told of before
            the block has begun.
        """
        batch = coerce(keys, nulls)
        halves = [(np.zeros(0, np.uint64),) * 2, *map_pieces(self._hash, batch, self._threads)]
        h1, h2 = map(np.concatenate, zip(*halves, strict=True))
        answers = partial(self._exclusions.answers_of_new, batch, (h1, h2))
        return Claim(self._writer, answers, self._writer.prepare((h1, h2)), self._timeout)

    @property
    def exclusions(self) -> Exclusions:
        """The keys that are answered as not seen, whatever their bits; a small set in a file."""
        section = partial(self._writer.section, self._timeout)
        return Exclusions(self.path, self._exclusions, self._chain.look, section)

    @contextmanager
    def locked(self, timeout: float | Literal["default"] | None = "default") -> Iterator[None]:
        """Keep the write lock of the folder over several calls of this thread.

        Parameters
        ----------
        timeout : float or None, optional
            Seconds to wait for it, None for ever; by default the `lock_timeout` of `open`.
        """
        with self._writer.section(self._timeout if timeout == "default" else timeout):
            yield

    def flush(self) -> None:
        """Force all keys added so far to the disk; does nothing on a read-only filter.

        A failure raises `DurabilityError` and is final for this object: open the folder again,
        and add again what came after the last success.
        """
        self._chain.flush()

    def recount(self) -> int:
        """Count the set bits of all files anew, to mend the counters after killed writers."""
        self._chain.check_writable()
        return self._chain.ask(lambda now: sum(one.writer.recount() for one in now.members))

    def _require(self, plan: FolderPlan, *, any_seed: bool) -> None:
        """Make sure that a folder has the settings asked for; closes it if not."""
        try:
            require_same(self._chain.plan, plan, self.path, any_seed=any_seed)
        except ParameterMismatchError:
            self.close()
            raise

    @property
    def path(self) -> str:
        """Absolute path of the folder."""
        return self._chain.folder

    @property
    def closed(self) -> bool:
        """Whether the filter was closed."""
        return self._chain.closed

    @property
    def approx_count(self) -> int:
        """Estimated number of keys: the sum over the files."""
        return self.info().approx_count

    @property
    def fill_ratio(self) -> float:
        """Set bits over all bits, 0 to 1."""
        return self.info().fill_ratio

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect of all files together, at the present fill."""
        return self.info().current_error_rate

    def info(self) -> FolderInfo:
        """Everything that the folder says of itself."""

        def read(now: ChainState) -> FolderInfo:
            asked = self._writer.asked(now)
            for member in asked:
                member.storage.check_unchanged()
            self._exclusions.refresh()
            manifest = now.file.manifest
            return read_folder_info(self.path, manifest, now.members, asked, self._exclusions)

        return self._chain.ask(read)

    def close(self) -> None:
        """Unmap the files and release everything; twice is fine. Does not flush."""
        self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name, mode = type(self).__name__, self._chain.settings.mode
        return f"<{name} {self.path!r} {'closed' if self.closed else f'mode={mode!r}'}>"


def open_chain(path: str, settings: OpenOptions, kind: str) -> Chain:
    """Open a folder that is to be of one kind; FormatError if it is of another."""
    chain = Chain(path, settings)
    if chain.plan.kind != kind:
        found = chain.plan.kind
        chain.close()
        raise FormatError(path, "kind", found, f"{kind}; open it with {found.title()}Filter")
    return chain


def require_identity(chain: Chain, uuid: bytes) -> None:
    """Make sure that a folder opened again is the one that was meant; closes it if not."""
    if chain.uuid != uuid:
        chain.close()
        raise FileChangedError(chain.folder, "replaced by another filter")


def make_folder(
    path: str,
    plan: FolderPlan,
    number: int,
    *,
    permissions: int,
    allow_network: bool,
    exist_ok: bool,
) -> None:
    """Make a folder with its first file, unless `exist_ok` and something is there.

    Raises as `plan` of sizes, `new_folder` and `create_file`.
    """
    require_reserve(plan.reserve)
    plan.params(number)  # before anything is made: it says what is out of range
    try:
        with new_folder(path, permissions) as folder:
            first = make_member(
                folder,
                file_name(number),
                plan,
                number,
                permissions=permissions,
                allow_network=allow_network,
            )
            first_manifest(folder, plan, [first], permissions)
    except FileExistsError:
        if not exist_ok:
            raise
