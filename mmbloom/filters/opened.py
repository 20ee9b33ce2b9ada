"""One opened file: its map, its lock and its writer, and how it is left.

What a filter of one file, each file of a folder, and `grow` have in common. A file that is dropped
without a close, or is open when the program ends, is left all the same.
"""

from __future__ import annotations

from functools import partial

from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.resident.leaving import leave, leave_when_dropped
from mmbloom._threads import usable_cores
from mmbloom._typing import OnFull
from mmbloom.errors import MmbloomError
from mmbloom.filters.brim import Brim
from mmbloom.filters.exclusion_list import ExclusionList
from mmbloom.filters.options import OpenOptions
from mmbloom.filters.writer import BitWriter, Writer


class OpenedFile:
    """A filter file, open for what its options allow.

    Parameters
    ----------
    storage : MappedFilter
        Its map, which this closes.
    exclusions : ExclusionList
        Those of its filter.
    options : OpenOptions
        How to open it.
    writer : type
        Of its kind of positions.
    path : str, optional
        Of the filter that it is a part of, for messages; by default its own.
    on_full : {"warn", "raise"}, optional
        What to do at the end of its plan; None for nothing, where another file takes the rest.
    """

    def __init__(
        self,
        storage: MappedFilter,
        exclusions: ExclusionList,
        options: OpenOptions,
        *,
        writer: type[Writer] = BitWriter,
        path: str | None = None,
        on_full: OnFull | None,
    ) -> None:
        self.storage = storage
        self.lock = WriteLock(storage.path, storage.identity, options.lock_timeout)
        brim = Brim(storage, path or storage.path, on_full)
        verify = options.verify_after_add
        threads = options.threads or usable_cores()
        self.writer = writer(
            storage, self.lock, exclusions, threads=threads, verify=verify, brim=brim
        )
        self._left = leave_when_dropped(self, storage.array)
        if options.preload:
            storage.array.preload()

    def close(self) -> None:
        """Leave the file, unmap it and release everything; closing twice is fine."""
        failures, array = [], self.storage.array
        with self.lock.closing():  # no other thread is within a call of this object
            array.check_idle()
            for step in (partial(leave, array, self.lock), array.close):
                try:
                    step()
                except (OSError, MmbloomError) as error:  # an interrupt leaves it open
                    failures.append(error)
        if failures:
            raise failures.pop(0)  # which must not be kept by what it keeps
        self._left.detach()
