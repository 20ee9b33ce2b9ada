"""The writer of a counting filter: what happens to counters between lock and unlock.

A writer killed in between leaves a valid filter (law 5): what an addition had counted harms
nothing, and a key half removed is not found, unless it would be when all is done (see
`_engine._numpy_counters`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mmbloom import _engine
from mmbloom._engine import HashHalves, OneCounted
from mmbloom._keys import Key
from mmbloom._writer import Bools, Writer


class Found(NamedTuple):
    """What `CountingWriter.claim` found."""

    new: Bools


class CountingWriter(Writer):
    """Locked, checked and counted writes to one `Storage` of counters."""

    def claim(self, hashes: HashHalves) -> Found:
        """Find which keys are new; call within `section`."""
        params = self._storage.header.params
        self._excepted.look()
        self._storage.expect(len(hashes[0]))
        return Found(_engine.counted_claim(self._storage.views.words, *hashes, params))

    def mark(self, claimed: Found, hashes: HashHalves) -> None:
        """Count all keys of the claim, new or not: see `Writer.mark`."""
        self._storage.check_writable()
        self._storage.check_unchanged()
        if len(claimed.new):
            self._add_counted(hashes)

    def remove_chunk(self, hashes: HashHalves) -> Bools:
        """Remove one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(self._lock.timeout):
            self._count("batches_begun", 1)
            self._storage.expect(len(hashes[0]))
            params = self._storage.header.params
            found, cleared = _engine.decrement(self._storage.views.words, *hashes, params)
            self._finish(0, -cleared)
        return found

    def remove_one(self, key: Key) -> bool:
        """Remove one key in a section of its own; True if it was there."""
        with self.section(self._lock.timeout):
            self._storage.expect(1)
            one = self._storage.views.one
            assert isinstance(one, OneCounted)  # noqa: S101  for the type checker: by its kind
            return one.remove(key)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Hold the lock on a file that is to be read as of one moment (law 4)."""
        with self._lock.held(self._lock.timeout):
            self._storage.check_unchanged()
            yield

    def _add(self, hashes: HashHalves) -> tuple[Bools, int]:
        return _engine.increment(self._storage.views.words, *hashes, self._storage.header.params)

    def _find(self, hashes: HashHalves) -> Bools:
        params = self._storage.header.params
        return _engine.counted_contains(self._storage.views.words, *hashes, params)
