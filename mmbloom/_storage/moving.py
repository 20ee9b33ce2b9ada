"""The array of an open filter: mapped from its file or from shared memory, and moved between them.

- The array is in its file, or in shared memory once a writer has moved it there. The header of the
  file shows which, and each call follows: it maps the array again if the header names another
  place. The header itself, with the counters, is always mapped from the file.
- A writer moves the array to shared memory under the write lock, and takes a share in the copy.
  While any writer has a share, the copy is the filter.
- The last writer that leaves writes the copy to the file, and removes its name from the header
  (`MovingArray.leave`).
- A failed flush is final: a second one would report success with nothing written.

Of the methods only `leave` takes the write lock. Others that need it say so.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mmbloom._engine import OneKey
from mmbloom._keys.coerce import coerce_one
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.opening import BITS, Counters, kind_of, possible_count
from mmbloom._storage.share import Share, in_use
from mmbloom._storage.warnings import warn
from mmbloom._storage.working_copy import (
    NO_COPY,
    WORD_OF_NAME,
    WorkingCopy,
    has_copies,
    is_named,
    is_wanted,
    named_by,
    sweep,
)
from mmbloom._system import disk, memory
from mmbloom._system.descriptors import OpenFile, ThreadLock, path_of
from mmbloom._system.sections import CALL, IN_A_CALL, outlast
from mmbloom._system.typing import Array, Resident
from mmbloom.errors import (
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    LockTimeoutError,
    MmbloomWarning,
    ReentryError,
    ReservationWarning,
)
from mmbloom.format.header import (
    COPY_BYTES,
    COPY_OFFSET,
    HEADER_BYTES,
    MUTABLE_FIELDS,
    MUTABLE_OFFSET,
    Header,
)


class Views(NamedTuple):
    """Three views of the map; they never leave the package."""

    words: Array[np.uint64]  # the array
    counters: Counters  # in the header of the file
    one: Any  # the array, for single keys: `OneKey`; None for a filter that counts


class Place(NamedTuple):
    """A mapped array. It never changes: a thread goes on with the one with which it began.

    Attributes
    ----------
    copy : WorkingCopy or None
        The copy, if that is mapped and not the file.
    share : Share or None
        The share of a writer in the copy.
    named : bytes
        Which copy the header named when this was mapped.
    word, word_now : int, memoryview
        One word of that name, and the same word in the header now. Each call compares the two: to
        compare whole names takes three times as long.
    head, array : mmap
        The map of the header; the map of the array, in the file or the copy.
    """

    copy: WorkingCopy | None
    share: Share | None
    named: bytes
    word: int
    word_now: memoryview
    head: memory.Map
    array: memory.Map
    views: Views

    def is_named(self) -> bool:
        """Return whether the header names what is mapped here."""
        return self.word_now[0] == self.word

    @property
    def is_plain(self) -> bool:
        """Whether this is the file, and the header names no copy."""
        return self.copy is None and self.named == NO_COPY

    def name(self, named: bytes) -> None:
        """Write the name of a copy, or of none, to the header.

        All processes compare one word of it, which is written by one store of eight bytes; the rest
        is written while that word is 0. So a process killed here has named the copy, or has not.
        """
        self.word_now[0] = 0
        fields = np.frombuffer(self.head, np.uint8, COPY_BYTES, COPY_OFFSET)
        fields[:16] = np.frombuffer(named, np.uint8, 16)
        fields[24:] = np.frombuffer(named, np.uint8, 8, 24)
        if named != NO_COPY:
            self.word_now[0] = word_of(named)

    def closers(self) -> list[Callable[[], object]]:
        """Return the functions that unmap and close it; drop this object and its views first.

        A thread that still reads keeps the map until it is done.
        """
        others = [other.close for other in (self.copy, self.share) if other is not None]
        return [*(partial(_unmap, mapped) for mapped in {self.array, self.head}), *others]


def _unmap(mapped: memory.Map) -> None:
    with suppress(BufferError):
        mapped.close()


def word_of(named: bytes) -> int:
    """Return the word of a name that processes compare."""
    return int.from_bytes(named[WORD_OF_NAME], sys.byteorder)


# When to try again, if another writer was writing the array to the file.
_LOOK_SECONDS = 1.0

# After how many keys the kernel may read around the pages that they need. 1,000 keys of a cold file
# took 0.07 s with single pages and 0.6 s with reading around, 2 million keys 12.7 s and 1.1 s; the
# two are equal at about 15,000. In memory there is no difference.
_FEW_KEYS = 10_000

# After how many new keys an existing file is moved: to read gigabytes into shared memory takes
# seconds, which a few keys are not worth.
_FEW_CHANGES = 50_000

_READ_AT_A_TIME = 8 << 20

# To leave, the lock is needed for some milliseconds.
_LEAVE_SECONDS = 10.0

# What a killed process left is not worth a longer wait: the next writer that closes removes it.
_SWEEP_SECONDS = 0.1

T = TypeVar("T")


class MovingArray:
    """The array of one open filter file.

    Parameters
    ----------
    file : OpenFile
        The file, open for writing if `writable`; `close` closes it.
    path : str
        Of the file.
    identity : (int, int)
        Its device and inode.
    size : int
        Of the file.
    header : Header
        Its header.
    writable : bool
        Whether to map it for writing.
    resident : bool or "auto"
        Whether to move it to shared memory once keys are added: "auto" moves it if the file is too
        large for its pages to be dirty. A copy that other processes made is used in any case.

    Attributes
    ----------
    mapped : Place or None
        What is mapped; None after `close`.
    wanted : bool
        Whether it should be moved to shared memory, sooner or later.
    few_left : int
        After how many more keys the kernel may read around the pages that they need.
    closed : bool
        Whether `close` was called.
    failure : str
        Why a flush has failed, "" if none has.
    news : memoryview of one uint64
        Changed when an earlier check of the file is no longer valid.
    """

    def __init__(
        self,
        file: OpenFile,
        path: str,
        identity: tuple[int, int],
        size: int,
        header: Header,
        *,
        writable: bool,
        resident: Resident,
    ) -> None:
        self.path, self.identity, self._size = path, identity, size
        self._file, self._header = file, header
        self._writable = writable
        self.closed, self.failure = False, ""
        self.news = memoryview(bytearray(8)).cast("Q")
        self.few_left = _FEW_KEYS
        self._attend_at = 0.0  # when to move it, or to write pieces of it
        self._flushing = 0  # the process that is in `flush`
        self.mapped: Place | None = None
        self._moving = ThreadLock()
        place = self._find_array()
        # Whether it should be moved, and at how many keys.
        possible = writable and kind_of(header) is BITS
        self.wanted = possible and is_wanted(resident, header.array_bytes, path)
        few = place.views.counters["keys_added"] + _FEW_CHANGES
        self._move_at = few if resident == "auto" else 0

    @property
    def _fd(self) -> int:
        """The descriptor of the file, for a caller for which `close` waits."""
        return self._file.fd

    @contextmanager
    def _using(self) -> Iterator[int]:
        """Hold the descriptor for a caller for which `close` does not wait: a query."""
        with self._file.used() as fd:
            if fd < 0:
                raise ClosedFilterError(self.path)
            yield fd

    def _find_array(self) -> Place:
        """Map the array where it is now, and the header of the file."""
        while True:
            with self._using() as fd, self._moving.here():
                before = self.steady()
                if before is not None:  # another thread, or a signal handler, was faster
                    return before
                before = self.mapped
                named_before = NO_COPY if before is None else before.named
                share = None if before is None else before.share
                # While it has a share, no other process removes the copy or names another.
                if share is not None and share.held and not share.gives_up:
                    what = "overwritten in the part of the header that locates its array"
                    raise FileChangedError(self.path, what)
                found = self._found(fd)
                if self.mapped is before:
                    self.mapped, self._attend_at = found, 0.0
                    break
            closers = found.closers()  # a signal handler was faster
            del found
            for close in closers:
                close()
        if self.closed:  # by another thread
            self.close()
            raise ClosedFilterError(self.path)
        if found.share is not None:
            self._leave_when_worker_ends()
        if found.copy is None and is_named(found.named) and found.named != named_before:
            warn(
                f"{self.path}: its array was in shared memory, in a copy that is gone or belongs "
                "to the file this one was copied from; the file is used as of its last flush",
                MmbloomWarning,
            )
        return found

    def _found(self, fd: int) -> Place:
        while True:
            named, copy = WorkingCopy.find(fd, self._header, self.path, writable=self._writable)
            share = Share(fd, self.path) if copy is not None and self._writable else None
            if share is None or named_by(fd) == named:
                return self._map(fd, named, copy, share)
            share.close()  # the copy was removed in between

    def _map(self, fd: int, named: bytes, copy: WorkingCopy | None, share: Share | None) -> Place:
        """Map the array from its copy, or from the file if there is none."""
        header, writable = self._header, self._writable
        size = header.file_bytes if copy is None else HEADER_BYTES
        array = head = memory.map_file(fd, size, self.path, writable=writable)
        if copy is not None:
            array = memory.map_aligned(copy.fd, copy.size, self.path, writable=writable)
        words = np.frombuffer(array, "<u8", header.array_bytes // 8, HEADER_BYTES)
        counters = np.frombuffer(head, "<u8", len(MUTABLE_FIELDS), MUTABLE_OFFSET)
        one = None
        if kind_of(header) is BITS:
            one = OneKey(words, counters, header.params, coerce_one)
        if self.few_left > 0:
            memory.expect_random(array)
        word_now = memoryview(head)[COPY_OFFSET:][WORD_OF_NAME].cast("Q")
        views = Views(words, Counters(counters), one)
        return Place(copy, share, named, word_of(named), word_now, head, array, views)

    @property
    def place(self) -> Place:
        """What is mapped, without a check whether the array is still there."""
        place = self.mapped
        if place is None:
            raise ClosedFilterError(self.path)
        return place

    @property
    def wants_memory(self) -> bool:
        """Whether the array should be moved to shared memory, sooner or later."""
        return self.wanted and self.place.copy is None

    @property
    def resident(self) -> bool:
        """Whether the array is in shared memory."""
        return self.follow().copy is not None

    def follow(self) -> Place:
        """Return the map of the array; map it again if it is elsewhere now."""
        place = self.place
        if not place.is_named() or (not place.is_plain and self._is_astray(place)):
            return self._find_array()
        return place

    def steady(self) -> Place | None:
        """Return what is mapped, or None if `follow` or `attend` must come first."""
        place = self.mapped
        if place is None or not place.is_named():
            return None
        # The name of a lost copy must go before a key is added.
        if not place.is_plain and (place.copy is None or self._is_astray(place)):
            return None
        return place

    def _is_astray(self, place: Place) -> bool:
        """Return whether the share is a parent's, or the file is mapped while others use a copy."""
        if place.share is not None:  # dropped by a thread that leaves, it stays dropped
            return place.share.inherited
        if place.copy is not None or not is_named(place.named):
            return False
        with self._using() as fd:
            return in_use(fd)

    def attend(self) -> None:
        """Follow the array; if it is time, move it or write a part of it to the file.

        Call it within a section of the write lock, so that no signal handler adds.
        """
        place = self.follow()
        if place.copy is None and place.named != NO_COPY:
            place = self._forget_lost()
        if (self.wanted or place.copy is not None) and time.monotonic() > self._attend_at:
            self._attend(place)

    def _forget_lost(self) -> Place:
        """Remove the name of a lost copy, so that the next process does not warn again."""
        place = self._find_array()  # the copy may be there by now
        if place.copy is None:
            place.name(NO_COPY)
            place = self._find_array()
        return place

    def _attend(self, place: Place) -> None:
        if place.copy is not None and place.share is not None:
            self._attend_at = time.monotonic() + _LOOK_SECONDS
            begun = place.views.counters["batches_begun"]
            with suppress(LockTimeoutError), place.share.writing(0.0):  # or another flushes it
                write = partial(place.copy.write_due, self._fd, self.path, begun)
                self._attend_at = self._to_disk(write)
        elif self.wanted and place.views.counters["keys_added"] >= self._move_at:
            self._move(place, empty=False)

    def move_to_memory(self) -> None:
        """Move the array of a file that was just made to shared memory, if wanted.

        Call it within a section of the write lock that no signal handler interrupts.

        Warns
        -----
        ReservationWarning
            If it cannot be done: then the file is changed itself.
        """
        place = self.follow()
        if self.wanted and place.is_plain:
            # Others may have opened the new file and added keys before this process had its lock.
            self._move(place, empty=not place.views.counters["batches_begun"])

    def _move(self, before: Place, *, empty: bool) -> None:
        """Move the array to shared memory; nothing is read if no bit is set."""
        self.wanted = False  # it is tried only once
        share = copy = None
        try:
            if not memory.boot_id():
                raise OSError(errno.ENOTSUP, "only Linux with /proc can do that")
            share = Share(self._fd, self.path)
            copy, found = WorkingCopy.make(self._fd, self._header, self.path, empty=empty)
            place = self._map(self._fd, copy.named, copy, share)
            self.settle(found)
            copy.set_written(before.views.counters["batches_begun"])
            # Else each page is mapped at its first key, which costs 1 us.
            memory.populate(place.array, copy.size, writable=True)
            with self._moving.here():
                if self.mapped is not before:
                    raise FileChangedError(self.path, "moved")
                place.name(copy.named)
                self.mapped, self._attend_at = place, 0.0
        except BaseException as error:
            if copy is not None and self.place.copy is not copy:
                if named_by(self._fd) == copy.named:
                    before.name(NO_COPY)
                copy.remove()
            if self.place.share is not share:
                for made in (copy, share):
                    if made is not None:
                        made.close()
            if not isinstance(error, OSError):  # an interrupt, or no memory now
                self.wanted = True
                raise
            warn(
                f"{self.path}: not kept in shared memory: {error.strerror}; keys are added in its "
                "file, and wait for the disk when more of that is dirty than the kernel allows",
                ReservationWarning,
            )
            return
        self.wanted = True
        self._leave_when_worker_ends()
        outlast()  # nothing is added until every reader has checked again

    def settle(self, positions_set: int) -> None:
        """Correct the counters by a new count of the bits; the caller holds the write lock.

        After a kill or a power cut, keys may have been counted whose bits were never set.
        """
        counters = self.place.views.counters
        counters["positions_set"] = positions_set
        # In a filter that counts, removed keys have no positions that are set.
        if kind_of(self._header) is BITS:
            added = counters["keys_added"]
            counters["keys_added"] = possible_count(self._header, added, positions_set)
        counters["batches_done"] = counters["batches_begun"]

    def check_idle(self) -> None:
        """Raise `ReentryError` if this thread is in `flush`, which needs the file open."""
        if self._flushing and self._flushing == os.getpid():
            raise ReentryError(self.path, IN_A_CALL)

    def _drop_share(self) -> bool:
        """Drop the share in the copy; True if it was the last one and the copy must be saved.

        Then the share is taken again, for `give_back` or until `close`.

        Raises
        ------
        FileChangedError
            If the file was cut or extended: the copy stays, with all keys.
        """
        place = self.place
        if place.share is None:
            return False
        size = os.fstat(self._fd).st_size
        if size != self._size and not self._is_removed():
            place.share.drop()
            found = f"resized from {self._size} to {size} bytes (its array stays in shared memory)"
            raise FileChangedError(self.path, found)
        if place.share.inherited:  # and the parent may be gone
            place = self.follow()
        share = place.share
        if share is None or share.drop() or self.failure:
            return False
        share.take()
        if place.is_named() or self._is_removed():
            return True
        if place.copy is not None:  # no header names it: another filter overwrote the file
            place.copy.remove()
        return False

    def _is_removed(self) -> bool:
        """Return whether the file has no name any more: then nothing is saved in it."""
        return not os.fstat(self._fd).st_nlink

    def give_back(self) -> bool:
        """Make the file the filter again and remove the copy, if no other writer has a share.

        Call it within a section of the write lock, after `flush`, and before `close`.

        Returns
        -------
        bool
            False if the file does not have what others have added since.
        """
        place = self.place
        share = place.share
        if share is None or place.copy is None:
            return True
        with share.alone() as alone:
            if not alone:  # another writer will do it
                return share.has_company() or self._is_written(place.copy)
            if not self._is_removed():
                if not place.is_named():  # a writer that came and left has done it
                    return True
                if not self._is_written(place.copy):
                    return False
                if not place.copy.can_be_removed():  # its owner has to do it
                    return True
                share.gives_up = True
                place.name(NO_COPY)
            share.drop()  # while it is alone: nobody takes a share in the copy again
        place.copy.remove()
        outlast()  # as in `_move`
        return True

    def _is_written(self, copy: WorkingCopy) -> bool:
        return copy.is_written(self.place.views.counters["batches_begun"])

    def _to_disk(self, write: Callable[[], T]) -> T:
        try:
            return write()
        except OSError as error:
            self.failure = error.strerror or str(error)
            self.news[0] += 1
            raise DurabilityError(self.path, self.failure) from error

    def flush(
        self, timeout: float | None = None, begun: int | None = None, *, locked: bool = False
    ) -> None:
        """Force every change to the disk.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for another process that writes the same array to the file.
        begun : int, optional
            How many batches had begun when this process had the write lock: none of them is
            running, but some may never have ended, as their process was killed.
        locked : bool, default False
            Whether the caller holds the write lock all the time.

        Raises
        ------
        DurabilityError
            If the system reports an error; `failure` keeps it from then on.
        LockTimeoutError
            If the other process takes longer.
        FileChangedError
            If the file was cut: even reading its header is then a signal that kills.
        """
        if os.fstat(self._fd).st_size != self._size:
            raise FileChangedError(self.path, "truncated")
        try:
            try:
                self._flushing = os.getpid()
                place = self.follow()
                if place.copy is not None and place.share is not None:
                    with place.share.writing(timeout, locked=locked):
                        self._write_all(place.copy, begun)
                    return
                self._to_disk(place.array.flush)
                self._to_disk(partial(disk.sync, self._fd))
            finally:
                self._flushing = 0
        finally:  # again, if a signal handler's exception interrupted the one above
            self._flushing = 0

    def _write_all(self, copy: WorkingCopy, begun: int | None) -> None:
        counters = self.place.views.counters
        # Each is read once: a batch that begins between two reads would count as written.
        done, now = counters["batches_done"], counters["batches_begun"]
        if begun is None and now == done:
            begun = done
        if copy.is_written(now):
            begun = now
        else:
            self._to_disk(partial(copy.write_to, self._fd, self.path))
        copy.set_written(None)  # until it is on the disk: the system reports a failure only once
        self._to_disk(partial(disk.sync, self._fd))
        copy.set_written(begun)

    def leave(self, lock: WriteLock | None = None) -> None:
        """Bring the file up to date and remove its copy, if no other process uses the copy.

        Also remove copies of processes that were killed while they made them. What is not done,
        as the process was killed, the next one does that opens the filter for writing and closes
        it.

        Parameters
        ----------
        lock : WriteLock, optional
            That of the filter, which is closed next, and which no other thread uses. If it is
            closed already, nothing is done.

        Raises
        ------
        DurabilityError
            If the file cannot be written; the copy then stays.
        FileChangedError
            If the file was cut or extended; the copy then stays, too.

        Warns
        -----
        MmbloomWarning
            If the file is not brought up to date, and no other process will do it.
        """
        if self.closed:
            return
        if self._drop_share():
            with self._lock_to_leave(lock) as free:
                self._save(free)
        # Copies are checked before the name: most filters have none, and their file is not read.
        elif (
            self._writable
            and kind_of(self._header) is BITS
            and has_copies(*self.identity)
            and named_by(self._fd) == NO_COPY
        ):
            # If that cannot be done now, the next writer does it.
            with (
                suppress(LockTimeoutError, ReentryError, FileChangedError, OSError),
                self._lock_to_leave(lock) as free,
                free.held(_SWEEP_SECONDS, CALL),
            ):
                if named_by(self._fd) == NO_COPY:
                    sweep(self._fd)

    def _leave_when_worker_ends(self) -> None:
        """Call `leave` at the end of a multiprocessing worker, where no weakref finalizers run."""
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            from multiprocessing.util import Finalize  # noqa: PLC0415  the worker has it

            Finalize(self, _leave_if_there, (weakref.ref(self),), exitpriority=0)

    @contextmanager
    def _lock_to_leave(self, lock: WriteLock | None) -> Iterator[WriteLock]:
        path = path_of(self._fd)  # whatever became of its name
        # With the filter's own, a signal handler that adds is refused at once.
        free = lock or WriteLock(path, self.identity, _LEAVE_SECONDS)
        try:
            free.open_at(path)
            yield free
        finally:
            if lock is None:
                with free.closing():
                    pass

    def _save(self, lock: WriteLock) -> None:
        """Flush the copy and give it back, while others may come."""
        try:
            for _ in range(2):
                with lock.held(_LEAVE_SECONDS, CALL):
                    begun = self.place.views.counters["batches_begun"]
                try:
                    self._flush_unless_removed(begun)
                except LockTimeoutError:  # it is tried under the write lock below
                    break
                with lock.held(_LEAVE_SECONDS, CALL):
                    if self.give_back():
                        return
            with lock.held(_LEAVE_SECONDS, CALL):  # others came, added and left, each time
                begun = self.place.views.counters["batches_begun"]
                self._flush_unless_removed(begun, locked=True)
                self.give_back()
        except (LockTimeoutError, ReentryError) as error:
            share = self.place.share
            if share is None or not share.has_company():  # another writer would do it later
                warn(
                    f"{self.path}: the file was not brought up to date ({error}); its keys are in "
                    "shared memory until the machine restarts: to save them, open the filter for "
                    "writing and close it again",
                    MmbloomWarning,
                )

    def _flush_unless_removed(self, begun: int, *, locked: bool = False) -> None:
        if not self._is_removed():
            self.flush(_LEAVE_SECONDS, begun, locked=locked)

    def preload(self) -> None:
        """Read the whole file into memory, and map it; changes nothing."""
        place = self.follow()
        self.few_left = 0
        memory.expect_neighbours(place.array)
        if place.copy is None and not memory.populate(place.array, self._size, writable=False):
            for start in range(0, self._size, _READ_AT_A_TIME):
                os.pread(self._fd, _READ_AT_A_TIME, start)

    def close(self) -> None:
        """Unmap and close."""
        self.closed = True
        place, self.mapped = self.mapped, None
        closers = [] if place is None else place.closers()
        del place
        for close in closers:
            close()
        self._file.close()


def _leave_if_there(array: weakref.ref[MovingArray]) -> None:
    if there := array():
        there.leave()
