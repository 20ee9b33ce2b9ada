"""The exclusions of a filter: answers corrected by them, and the set that users change.

Asked only about hits. `refresh` reads the file where it has changed, and may raise; `correct` and
`holds` go by what was read, and cannot: between adding a key and saying so nothing fails.
Every change reads the file again, changes that and replaces it, all under the filter's write
lock: of two processes that add exclusions at once, neither loses any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import ByteKeys, KeyBatch
from mmbloom._keys.coerce import batches, coerce_one
from mmbloom._storage.exclusions import (
    MOST_BYTES,
    NOTHING,
    Listed,
    own_listed,
    read_listed,
    replace_listed,
    signature_of,
)
from mmbloom._storage.warnings import warn
from mmbloom._system.sections import MOMENT
from mmbloom._system.typing import Array, Bools, HashHalves, Key, Keys, Words
from mmbloom.errors import MmbloomWarning
from mmbloom.format.exclusions import exclusions_path_in, grown_from
from mmbloom.sizing.params import KeyHash

# Of the hits that are no exclusions, one in this many is looked up among the hashes, the others
# are told by one byte.
_MARKS_A_KEY = 64


class _Table(NamedTuple):
    """The exclusions, arranged for looking up batches of hits.

    Attributes
    ----------
    listed : Listed
        What the file held.
    hashes : ndarray of uint64, shape (n,)
        First hash halves of the keys, sorted.
    marks : ndarray of bool, shape (a power of two,)
        True at the low bits of each of these: small enough for the processor's cache.
    """

    listed: Listed
    hashes: Words
    marks: Bools

    def suspects(self, seen: Bools, h1: Words) -> Array[np.intp]:
        """Find those of the keys seen that have the hash of an exclusion."""
        low = (h1 & np.uint64(len(self.marks) - 1)).view(np.int64)
        places = np.flatnonzero(self.marks[low] & seen)
        if len(places):
            wanted = h1[places]
            at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
            places = places[self.hashes[at] == wanted]
        return places


def _arrange(listed: Listed, key_hash: KeyHash) -> _Table:
    h1, _ = _engine.hash_keys(ByteKeys.of(list(listed.keys)), key_hash)
    marks = np.zeros(1 << (_MARKS_A_KEY * len(h1)).bit_length(), np.bool_)
    marks[(h1 & np.uint64(len(marks) - 1)).view(np.int64)] = True
    return _Table(listed, np.sort(h1), marks)


_NONE = _Table(NOTHING, np.zeros(0, np.uint64), np.zeros(1, np.bool_))


def _is_there(path: str) -> bool:
    """Return whether a file of exclusions can be reached: a link is there, wherever it leads.

    A stat of what is not there raises, which takes four times as long. It is checked for the
    effective user: the real one may not be allowed to look into the folder.
    """
    return os.access(path, os.F_OK, effective_ids=True, follow_symlinks=False)


class ExclusionList:
    """The exclusions of one open filter, as far as they are known.

    Parameters
    ----------
    path : str
        Their file.
    key_hash : KeyHash
        The filter's.

    Attributes
    ----------
    empty : bool
        Whether none is known.
    edition : memoryview of one uint64
        How often something was learnt.
    refresh_at : float
        When the file is to be checked again, by the monotonic clock: before, `refresh` does
        nothing, and a caller that counts its nanoseconds need not call it.

    Notes
    -----
    Safe to use from any thread: what is known is replaced as a whole.
    """

    def __init__(self, path: str, key_hash: KeyHash) -> None:
        self.path = path
        self._key_hash = key_hash
        self.edition = memoryview(bytearray(8)).cast("Q")
        self._learn(_NONE)
        self.refresh_at = 0.0

    def move(self, path: str) -> None:
        """Take the file by another path, which it has by now."""
        self.path, self.refresh_at = path, 0.0

    @property
    def keys(self) -> dict[bytes, None]:
        """The exclusions known, in the order of the file; not to be changed."""
        return self._table.listed.keys

    def refresh(self) -> None:
        """Learn of changes of the file, at most a millisecond late; raises if it is unreadable."""
        now = monotonic()
        if now > self.refresh_at:
            self.reread()
            self.refresh_at = now + MOMENT

    def reread(self) -> None:
        """Learn of changes of the file at once; raises what `refresh` raises."""
        table, path = self._table, self.path
        # A link that cannot be followed is no reason to find excluded keys.
        if table is _NONE and not _is_there(path):
            return
        try:
            if table.listed.signature == signature_of(os.stat(path)):
                return
        except (FileNotFoundError, NotADirectoryError):
            # If the filter has grown during a question they are in the folder: see `move`.
            if not _is_there(exclusions_path_in(grown_from(path))):
                self._learn(_NONE)
            return
        except OSError:  # a link that cannot be followed: whose it is, is to be seen first
            pass
        listed = read_listed(path, table.listed)
        if listed.keys is not table.listed.keys:
            self._learn(_arrange(listed, self._key_hash))
        else:
            self._learn(_Table(listed, table.hashes, table.marks))
        if listed.passed_over and listed.passed_over != table.listed.passed_over:
            warn(listed.passed_over, MmbloomWarning)

    def _learn(self, table: _Table) -> None:
        self._table, self.empty = table, not table.listed.keys
        self.edition[0] += 1  # last: a reader that sees the new edition sees the new table

    def holds(self, key: Key) -> bool:
        """Return whether a key is one of the exclusions known."""
        return not self.empty and coerce_one(key) in self._table.listed.keys

    def correct(self, seen: Bools, parts: Iterable[KeyBatch], hashes: HashHalves) -> Bools:
        """Clear the hits of excluded keys, by the exclusions known: in place, and give the same.

        The parts have the keys, of which `hashes` are the hash halves.
        """
        table = self._table
        if not table.listed.keys:
            return seen
        suspects = table.suspects(seen, hashes[0])
        if len(suspects):
            chosen = np.zeros(len(seen), np.bool_)
            chosen[suspects] = True
            # Byte for byte: with a known seed, keys of equal hashes can be made.
            start, excluded = 0, []
            for part in parts:
                here = chosen[start : start + len(part)]
                start += len(part)
                excluded += [key in table.listed.keys for key in _engine.bytes_of(part[here])]
            seen[suspects] = np.logical_not(excluded)
        return seen

    def correct_new(self, new: Bools, parts: Iterable[KeyBatch], hashes: HashHalves) -> Bools:
        """Set the answers of excluded keys, where True means new; changes no array."""
        return new if self.empty else ~self.correct(~new, parts, hashes)


class Exclusions(AbstractSet[Any]):
    """The exclusions of one open filter: keys that it always reports as not seen.

    Every filter has this set as its `exclusions`. Its items are bytes, in the order in which they
    were added, and are stored in a text file that people can read and edit. The file is beside the
    filter (PATH.exclusions), or inside it if the filter is a folder (PATH/exclusions). Use it for
    false positives that were noticed or must not happen: a few hundred keys, at most 1 MiB.

    The filter never reports an excluded key as seen: `in` and `contains_many` return False, and
    `add`, `add_many` and `claim` return True every time, so `dedup` prints each of its lines. The
    key's bits stay set: if you discard the exclusion, the key is found again.

    Notes
    -----
    Any number of threads and processes may read and change the set, and no change is lost. A change
    is on the disk when the call returns. It takes effect at once in this object, and within a
    millisecond in others that have the filter open, in any process (for calls of a single key,
    within a step of the kernel's coarse clock, 4 ms on most systems). A process killed during a
    change leaves the old file or the new one.

    Reads raise `FormatError` if the file is damaged, naming the line, or is not a regular file, and
    `OSError` if it cannot be read. They also raise the same errors as other queries of the filter.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> path = os.path.join(tempfile.mkdtemp(), "spam.bloom")
    >>> with BloomFilter.create(path, capacity=1000) as spam:
    ...     print(spam.add("aunt@example.org"), spam.exclusions.add("aunt@example.org"))
    ...     print("aunt@example.org" in spam, list(spam.exclusions))
    ...     print(spam.exclusions.discard("aunt@example.org"), "aunt@example.org" in spam)
    True True
    False [b'aunt@example.org']
    True True
    """

    def __init__(
        self,
        of: str,  # path of the filter
        exclusions: ExclusionList,
        check: Callable[[], object],  # raises if the filter is closed, or not the same any more
        section: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._of, self._exclusions, self._check, self._section = of, exclusions, check, section

    @property
    def path(self) -> str:
        """Absolute path of the file; it exists only while there are exclusions."""
        return self._exclusions.path

    def __contains__(self, key: Any) -> bool:
        """Return whether a key, of any type that a key may have, is an exclusion."""
        return coerce_one(key) in self._now()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __repr__(self) -> str:
        return f"<Exclusions of {self._of!r}>"

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> AbstractSet[Any]:
        return frozenset(keys)  # what &, | and - give: a set of no file

    def add(self, key: Key) -> bool:
        """Add one key; True if it was not excluded before. Raises the same errors as `update`."""
        return self.update([coerce_one(key)]) > 0

    def update(self, keys: Keys) -> int:
        """Add keys to the exclusions: either all of them or, on an error, none.

        Parameters
        ----------
        keys : iterable, ndarray or Arrow column
            Same as for `BloomFilter.update`.

        Returns
        -------
        int
            How many of them were not excluded before.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a key is invalid; the error names its position.
        ValueError
            If the file would become larger than 1 MiB.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        FormatError
            If the file is damaged; it is left unchanged.
        PermissionError
            If the file belongs to a user that the filter does not trust, or if the filter belongs
            to another user, who would not trust a file of this process.
        OSError
            If the disk is full, or on any other system error. The set is then unchanged,
            unless only the very last step failed: forcing the folder to the disk.
        """
        return self._change(keys, lambda listed, given: {**listed, **given})

    def discard(self, key: Key) -> bool:
        """Remove one key; True if it was excluded. Raises the same errors as `update`."""
        return self.difference_update([coerce_one(key)]) > 0

    def difference_update(self, keys: Keys) -> int:
        """Remove all of these keys or none, and return how many; raises the errors of `update`."""
        return self._change(
            keys, lambda listed, given: {key: None for key in listed if key not in given}
        )

    def _now(self) -> dict[bytes, None]:
        self._check()
        self._exclusions.reread()
        return self._exclusions.keys

    def _change(
        self,
        keys: Keys,
        change: Callable[[dict[bytes, None], dict[bytes, None]], dict[bytes, None]],
    ) -> int:
        given = _few(keys, self.path)
        with self._section():
            self._check()  # of a folder, a section within `locked` does not
            path = self.path  # another one if the filter has grown
            listed = own_listed(path)
            wanted = change(listed, given)
            if wanted != listed:
                replace_listed(path, wanted, os.stat(self._of))
                self._exclusions.reread()
        return abs(len(wanted) - len(listed))


def _few(keys: Keys, path: str) -> dict[bytes, None]:
    given: dict[bytes, None] = {}
    room = MOST_BYTES  # so memory is bounded; a key takes its bytes and a newline at least
    for batch in batches(keys):
        for part in batch.parts:
            before = len(given)
            given |= dict.fromkeys(_engine.bytes_of(part))
            room -= sum(map(len, islice(given, before, None))) + len(given) - before
            if room < 0:
                raise ValueError(
                    f"{path}: more keys than exclusions can hold, at most {MOST_BYTES} bytes; "
                    "instead of so many exclusions, make a filter with a lower error rate"
                )
    return given
