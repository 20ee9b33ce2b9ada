"""`filter.exceptions`: the few keys that a filter must not know, though their bits are set.

Every change reads the file anew, changes that and replaces it, all under the filter's write
lock (law 7): of two processes that add exceptions at once, neither loses any.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from mmbloom._batch import bytes_of
from mmbloom._excepted import Excepted
from mmbloom._excepted_file import MOST_BYTES, read_listed, replace_listed
from mmbloom._keys import Key, Keys, batches, coerce_one


class ExceptedKeys(AbstractSet[Any]):
    """The exceptions of one open filter: keys that it answers as not seen, always.

    What `exceptions` of every filter gives: a set of bytes, in the order in which they were
    added, kept in a file that people can read and edit: beside the filter (PATH.exceptions), or
    in it if it is a folder (PATH/exceptions). It is for false positives that somebody has
    noticed, or that must not happen: some hundreds, of 1 MiB together at most.

    An excepted key is never seen: `in` and `contains_many` are False of it, `add`, `add_many`
    and `claim` answer True each time, so that `dedup` passes its every line. Its bits are as
    they are: who wants the key found again discards the exception.

    Notes
    -----
    Threads and processes: any number may read and change the set, and no change is lost. A
    change is on the disk when its call returns; this object goes by it at once, others that
    have the filter open, in any process, within a millisecond. A process killed in a change
    leaves the file as it was, or as it was to be.

    Reads raise `FormatError` if the file is damaged, naming the line, or is no regular file,
    `OSError` if it cannot be read, and what other questions to the filter raise.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> path = os.path.join(tempfile.mkdtemp(), "spam.bloom")
    >>> with BloomFilter.create(path, capacity=1000) as spam:
    ...     print(spam.add("aunt@example.org"), spam.exceptions.add("aunt@example.org"))
    ...     print("aunt@example.org" in spam, list(spam.exceptions))
    ...     print(spam.exceptions.discard("aunt@example.org"), "aunt@example.org" in spam)
    True True
    False [b'aunt@example.org']
    True True
    """

    def __init__(
        self,
        of: str,  # path of the filter
        excepted: Excepted,
        check: Callable[[], object],  # raises if the filter is closed, or not the same any more
        section: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._of, self._excepted, self._check, self._section = of, excepted, check, section

    @property
    def path(self) -> str:
        """Absolute path of the file; it is there only while there are exceptions."""
        return self._excepted.path

    def __contains__(self, key: Any) -> bool:
        """Tell whether a key, of any type that a key may have, is an exception."""
        return coerce_one(key) in self._now()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __repr__(self) -> str:
        return f"<ExceptedKeys of {self._of!r}>"

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> AbstractSet[Any]:
        return frozenset(keys)  # what &, | and - give: a set of no file

    def add(self, key: Key) -> bool:
        """Except one key; True if it was not before. Raises what `update` raises."""
        return self.update([key]) > 0

    def update(self, keys: Keys) -> int:
        """Except keys, all of them or, if that fails, none.

        Parameters
        ----------
        keys : iterable, ndarray or Arrow column
            As for `BloomFilter.update`.

        Returns
        -------
        int
            How many were no exceptions before.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a key cannot be one; names its position.
        ValueError
            If the file would take more than 1 MiB.
        LockTimeout, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written: one that is sealed, or open in mode "r", gives its
            exceptions to read only.
        FormatError
            If the file is damaged: it is left as it is.
        OSError
            If there is no space, or as the system says. Only if it was the very last step that
            failed, forcing the folder to the disk, is the change made all the same.
        """
        return self._change(keys, lambda listed, given: {**listed, **given})

    def discard(self, key: Key) -> bool:
        """Take one key out; True if it was in. Raises what `update` raises."""
        return self.difference_update([key]) > 0

    def difference_update(self, keys: Keys) -> int:
        """Take keys out, all of them or, if that fails, none; how many were in.

        Takes and raises what `update` does.
        """
        return self._change(
            keys, lambda listed, given: {key: None for key in listed if key not in given}
        )

    def _now(self) -> dict[bytes, None]:
        self._check()
        self._excepted.refresh()
        return self._excepted.keys

    def _change(
        self,
        keys: Keys,
        change: Callable[[dict[bytes, None], dict[bytes, None]], dict[bytes, None]],
    ) -> int:
        path = self.path
        given = _few(keys, path)
        with self._section():
            self._check()  # of a folder, a section within `locked` does not
            listed = read_listed(path).keys
            wanted = change(listed, given)
            if wanted != listed:
                replace_listed(path, wanted, os.stat(self._of))
                self._excepted.refresh()
        return abs(len(wanted) - len(listed))


def _few(keys: Keys, path: str) -> dict[bytes, None]:
    given: dict[bytes, None] = {}
    room = (
        MOST_BYTES  # for whatever iterable (law 17); a key takes its bytes and a newline at least
    )
    for batch in batches(keys):
        for part in batch.parts:
            before = len(given)
            given |= dict.fromkeys(bytes_of(part))
            room -= sum(map(len, islice(given, before, None))) + len(given) - before
            if room < 0:
                raise ValueError(
                    f"{path}: more keys than exceptions may be, {MOST_BYTES} bytes of them: where "
                    "so many are needed, make a filter with a lower error rate"
                )
    return given
