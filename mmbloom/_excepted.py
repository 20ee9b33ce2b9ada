"""Answers corrected by a filter's exceptions: an excepted key is never seen.

Asked only about hits. `look` reads the file where it has changed, and may raise; `correct`
and `holds` go by what was read, and cannot: between adding a key and saying so nothing fails.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._batch import Batch, ByteKeys, KeyBatch, bytes_of
from mmbloom._excepted_file import NOTHING, Listed, read_listed, signature_of
from mmbloom._keys import Key, coerce_one

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

# The file is looked at once in so many seconds, not for every hit: a look takes 1 us.
_LOOK_SECONDS = 0.001

# Of the hits that are no exceptions, one in so many is looked up among the hashes, the others
# are told by one byte.
_MARKS_A_KEY = 64


@dataclass(frozen=True, slots=True)
class _Table:
    """The exceptions, arranged for looking up batches of hits.

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

    def suspects(self, seen: Bools, h1: Words) -> npt.NDArray[np.intp]:
        """Find those of the keys seen that have the hash of an exception."""
        low = (h1 & np.uint64(len(self.marks) - 1)).view(np.int64)
        places = np.flatnonzero(self.marks[low] & seen)
        if len(places):
            wanted = h1[places]
            at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
            places = places[self.hashes[at] == wanted]
        return places


def _arrange(listed: Listed, seed: int) -> _Table:
    h1, _ = _engine.hash_keys(ByteKeys(list(listed.keys)), seed)
    marks = np.zeros(1 << (_MARKS_A_KEY * len(h1)).bit_length(), np.bool_)
    marks[(h1 & np.uint64(len(marks) - 1)).view(np.int64)] = True
    return _Table(listed, np.sort(h1), marks)


_NONE = _Table(NOTHING, np.zeros(0, np.uint64), np.zeros(1, np.bool_))


class Excepted:
    """The exceptions of one open filter, as far as they are known.

    Parameters
    ----------
    path : str
        Their file.
    seed : int
        Of the filter's hash.

    Notes
    -----
    Safe to use from any thread: what is known is replaced as a whole.
    """

    def __init__(self, path: str, seed: int) -> None:
        self.path = path
        self._seed = seed
        self._table = _NONE
        self._look_at = 0.0

    @property
    def keys(self) -> dict[bytes, None]:
        """The exceptions known, in the order of the file; not to be changed."""
        return self._table.listed.keys

    def look(self) -> None:
        """Learn of changes of the file, at most a millisecond late.

        Raises
        ------
        FormatError, OSError
            If the file is there and cannot be read.
        """
        now = monotonic()
        if now > self._look_at:
            self.refresh()
            self._look_at = now + _LOOK_SECONDS

    def refresh(self) -> None:
        """Learn of changes of the file at once; raises what `look` raises."""
        table = self._table
        # A stat of what is not there raises, which takes four times as long. A link is there,
        # whatever it leads to: one that cannot be followed is no reason to find excepted keys.
        if table is _NONE and not os.access(self.path, os.F_OK, follow_symlinks=False):
            return
        try:
            if table.listed.signature == signature_of(os.stat(self.path)):
                return
        except (FileNotFoundError, NotADirectoryError):
            self._table = _NONE
            return
        listed = read_listed(self.path, table.listed)
        if listed.keys is not table.listed.keys:
            self._table = _arrange(listed, self._seed) if listed.keys else _NONE
        elif listed.keys:
            self._table = _Table(listed, table.hashes, table.marks)

    def holds(self, key: Key) -> bool:
        """Tell whether a key is one of the exceptions known."""
        table = self._table
        return table is not _NONE and coerce_one(key) in table.listed.keys

    def holds_now(self, key: Key) -> bool:
        """Do as `look` and then `holds`, which for a single key would take twice as long."""
        if monotonic() > self._look_at:
            self.look()
        table = self._table
        return table is not _NONE and coerce_one(key) in table.listed.keys

    def correct(self, seen: Bools, parts: Iterable[KeyBatch], hashes: _engine.HashHalves) -> Bools:
        """Clear the answers of excepted keys, by the exceptions known.

        Parameters
        ----------
        seen : ndarray of bool, shape (n,)
            True for each hit; changed in place.
        parts : iterable of KeyBatch
            The n keys.
        hashes : pair of ndarray of uint64, shape (n,)
            Their hash halves.

        Returns
        -------
        ndarray of bool, shape (n,)
            The same array.
        """
        table = self._table
        if table is _NONE:
            return seen
        suspects = table.suspects(seen, hashes[0])
        if len(suspects):
            chosen = np.zeros(len(seen), np.bool_)
            chosen[suspects] = True
            # Byte for byte, as whoever knows the seed can make keys of equal hashes.
            start, excepted = 0, []
            for part in parts:
                here = chosen[start : start + len(part)]
                start += len(part)
                excepted += [key in table.listed.keys for key in bytes_of(part[here])]
            seen[suspects] = np.logical_not(excepted)
        return seen

    def correct_now(self, found: Bools, piece: KeyBatch, hashes: _engine.HashHalves) -> Bools:
        """Do as `look` and then `correct`; neither, and raise nothing, if there are no hits."""
        if not np.count_nonzero(found):
            return found
        self.look()
        return self.correct(found, [piece], hashes)

    def correct_new(
        self, new: Bools, parts: Iterable[KeyBatch], hashes: _engine.HashHalves
    ) -> Bools:
        """Do as `correct` for answers that are True where a key is new; changes no array."""
        return new if self._table is _NONE else ~self.correct(~new, parts, hashes)

    def answers_of_new(self, batch: Batch, hashes: _engine.HashHalves, new: Bools) -> Bools:
        """Do as `correct_new` for all keys of a batch, and give the answers to its caller."""
        return batch.answers(self.correct_new(new, batch.parts, hashes))
