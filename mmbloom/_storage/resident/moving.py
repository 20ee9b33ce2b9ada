"""An array that moves: from its file to shared memory, and back when the last writer leaves.

Everything that a move needs, and nothing that each call needs: `MappedFilter` looks whether the
array is still where it was, and calls this if not.

This file takes no lock: where the write lock is needed, it says so.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from mmbloom._machine import pages
from mmbloom._machine.descriptors import OpenFile
from mmbloom._machine.moments import MOMENT
from mmbloom._reentry import AMID
from mmbloom._storage.kinds import BITS, Kind, possible_count
from mmbloom._storage.place import Place, Views, map_array
from mmbloom._storage.resident.share import Share, in_use
from mmbloom._storage.resident.working_copy import (
    NO_COPY,
    WorkingCopy,
    has_copies,
    is_named,
    named_by,
    say_lost,
    say_why_mapped,
    sweep,
)
from mmbloom.errors import (
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    LockTimeoutError,
    ReentryError,
)
from mmbloom.format.header import Header

# When to look again whether a part of it is to be written, if there was nothing to write.
_LOOK_SECONDS = 1.0

T = TypeVar("T")


class MovingArray(ABC):
    """An open file, and where its array is.

    Parameters
    ----------
    path : str
        Absolute path of the file.
    kind : Kind
        What its positions are.

    Attributes
    ----------
    header : Header
        The immutable block.
    identity : (int, int)
        Device and inode of the file.
    read_only_reason : str
        Why the map cannot be written, "" if it can.
    closed : bool
        Whether `close` was called.
    news : memoryview of one uint64
        Changed where a look at the file is good no longer.
    on_share : callable
        Called with this as soon as it has a share in a copy.
    """

    header: Header
    identity: tuple[int, int]
    read_only_reason: str
    _file: OpenFile
    _size: int

    def __init__(self, path: str, kind: Kind) -> None:
        self.path, self._kind = path, kind
        self._failure = ""
        self.news = memoryview(bytearray(8)).cast("Q")
        self.closed = False
        self.on_share: Callable[[Any], object] = _nothing
        self._attend_at = 0.0  # when it is time to
        self._wanted, self._move_at = False, 0  # whether it is to be moved; at how many keys
        self._flushing = 0  # in which process
        self._place: Place | None = None
        self._pid, self._moving = os.getpid(), threading.RLock()

    @abstractmethod
    def counter(self, name: str) -> int:
        """Read one of `MUTABLE_FIELDS`."""

    @abstractmethod
    def set_counter(self, name: str, value: int) -> None:
        """Write one of `MUTABLE_FIELDS`."""

    @abstractmethod
    def close(self) -> None:
        """Unmap and close."""

    @property
    def _fd(self) -> int:
        """The descriptor of the file, for a caller that `close` waits for."""
        return self._file.fd

    @contextmanager
    def _using(self) -> Iterator[int]:
        """Give the descriptor to a caller that `close` does not wait for: a query."""
        with self._file.used() as fd:
            if fd < 0:
                raise ClosedFilterError(self.path)
            yield fd

    def _find_array(self) -> Place:
        """Map the array where it lies now, and the counters, which are in the file."""
        with self._using() as fd:
            return self._found_from(fd)

    def _found_from(self, fd: int) -> Place:
        while True:
            with self._one_at_a_time():
                before = self._place
                named_before = NO_COPY if before is None else before.named
                if before is not None and before.share is not None and before.share.held:
                    if before.is_named():  # another thread, or a signal handler, was faster
                        return before
                    # While it has a share no other process gives the copy up, or names another.
                    if not before.share.gives_up:
                        what = "overwritten where it says where the array lies"
                        raise FileChangedError(self.path, what)
                found = self._found(fd)
                if self._place is before:
                    self._place, self._attend_at = found, 0.0
                    break
            closers = found.closers()  # a handler has found it meanwhile
            del found
            for close in closers:
                close()
        if self.closed:  # by another thread
            self.close()
            raise ClosedFilterError(self.path)
        if found.share is not None:
            self.on_share(self)
        if found.copy is None and is_named(found.named) and found.named != named_before:
            say_lost(self.path)
        return found

    def _one_at_a_time(self) -> threading.RLock:
        """Let one thread at a time find the array, and its signal handlers amid that."""
        if self._pid != os.getpid():  # it may have been another thread's of the parent
            self._pid, self._moving = os.getpid(), threading.RLock()
        return self._moving

    def _found(self, fd: int) -> Place:
        writable = not self.read_only_reason
        while True:
            named, copy = WorkingCopy.find(fd, self.header, self.path, writable=writable)
            share = Share(fd, self.path) if copy is not None and writable else None
            if share is None or named_by(fd) == named:
                return self._map(fd, named, copy, share)
            share.close()  # the copy was given up meanwhile

    def _map(self, fd: int, named: bytes, copy: WorkingCopy | None, share: Share | None) -> Place:
        return map_array(
            fd,
            self.path,
            self.header,
            kind=self._kind,
            named=named,
            copy=copy,
            share=share,
            writable=not self.read_only_reason,
        )

    @property
    def _there(self) -> Place:
        place = self._place
        if place is None:
            raise ClosedFilterError(self.path)
        return place

    @property
    def wants_memory(self) -> bool:
        """Whether the array is to be moved to shared memory, sooner or later."""
        return self._wanted and self._there.copy is None

    @property
    def resident(self) -> bool:
        """Whether the array lies in shared memory."""
        return self._follow().copy is not None

    def _follow(self) -> Place:
        """Map the array where it lies now, should that be elsewhere than what is mapped."""
        place = self._there
        if not place.is_named() or (not place.is_plain and self._is_astray(place)):
            return self._find_array()
        return place

    def _is_astray(self, place: Place) -> bool:
        """Tell whether this process has no share in what it has mapped, or another has one."""
        if place.share is not None:
            return not place.share.held
        if place.copy is not None or not is_named(place.named):
            return False
        with self._using() as fd:
            return in_use(fd)

    def _attended(self, place: Place) -> Views:
        """Do what is to be done with an array that may lie in shared memory; give the map."""
        if place.copy is None and place.named != NO_COPY:
            place = self._forget_lost()
        if time.monotonic() > self._attend_at:
            place = self._attend(place)
        return place.views

    def _forget_lost(self) -> Place:
        """Let the header name no copy that is lost: not to be said again by who opens it next."""
        place = self._find_array()  # it may have been found meanwhile
        if place.copy is None:
            place.name(NO_COPY)
            place = self._find_array()
        return place

    def _attend(self, place: Place) -> Place:
        if place.copy is not None and place.share is not None:
            self._attend_at = time.monotonic() + _LOOK_SECONDS
            if place.copy.is_written(self.counter("batches_begun")):
                place.copy.begin_round()
                return place
            with suppress(LockTimeoutError), place.share.writing(0.0):  # or another writes it all
                write = partial(place.copy.write_due, self._fd, self.path)
                self._attend_at = self._to_disk(write)
        elif self._wanted and self.counter("keys_added") >= self._move_at:
            return self._move(place, empty=False)
        return place

    def move_to_memory(self) -> None:
        """Move the array of a file that was just made to shared memory, if that is wanted.

        Call it within a section of the write lock that nothing interrupts.

        Warns
        -----
        ReservationWarning
            If it cannot be done: then the file is changed itself.
        """
        place = self._follow()
        if self._wanted and place.is_plain:
            # Others may have opened the new file, and added to it, before this one had its lock.
            self._move(place, empty=not self.counter("batches_begun"))

    def _move(self, before: Place, *, empty: bool) -> Place:
        """Move the array to shared memory; nothing is read if no bit is set."""
        self._wanted = False  # it is tried once
        share = copy = None
        try:
            share = Share(self._fd, self.path)
            copy, found = WorkingCopy.make(self._fd, self.header, self.path, empty=empty)
            place = self._map(self._fd, copy.named, copy, share)
            self.settle(found)
            copy.set_written(self.counter("batches_begun"))
            # Else each page is mapped at its first key, which takes 1 us.
            pages.populate(place.array, copy.size, writable=True)
            with self._one_at_a_time():
                if self._place is not before:
                    raise FileChangedError(self.path, "moved meanwhile")
                place.name(copy.named)
                self._place, self._attend_at = place, 0.0
        except BaseException as error:
            if copy is not None and self._there.copy is not copy:
                if named_by(self._fd) == copy.named:
                    before.name(NO_COPY)
                copy.remove()
            if self._there.share is not share:
                for made in (copy, share):
                    if made is not None:
                        made.close()
            if not isinstance(error, OSError):  # an interrupt, or no memory for it now
                self._wanted = True
                raise
            say_why_mapped(self.path, error)
            return before
        self._wanted = True
        self.on_share(self)
        time.sleep(2 * MOMENT)  # until every reader has looked, nothing is added
        return place

    def settle(self, positions_set: int) -> None:
        """Let the counters say what was counted anew, for the holder of the write lock.

        What was killed, or lost with the power, may have been counted and never set.
        """
        self.set_counter("positions_set", positions_set)
        if self._kind is BITS:  # of counters those of keys that were removed are not set any more
            keys_added = possible_count(self.header, self.counter("keys_added"), positions_set)
            self.set_counter("keys_added", keys_added)
        self.set_counter("batches_done", self.counter("batches_begun"))

    @property
    def open_path(self) -> str:
        """A path of the file as long as it is open, whatever became of its name."""
        return f"/proc/self/fd/{self._fd}"

    def check_idle(self) -> None:
        """Raise `ReentryError` amid a `flush` of this thread, from which the file may not go."""
        if self._flushing and self._flushing == os.getpid():
            raise ReentryError(self.path, AMID)

    def drop_share(self) -> bool:
        """Cease to use the copy for writing; tell whether nobody else does, and it is to be saved.

        Then take part again, for `give_back` or until `close`.

        Raises
        ------
        FileChangedError
            If the file was cut or extended: the copy stays, with all keys.
        """
        place = self._there
        if place.share is None:
            return False
        size = os.fstat(self._fd).st_size
        if size != self._size and not self.is_removed():
            place.share.drop()
            found = f"resized from {self._size} to {size} bytes, its array kept in shared memory,"
            raise FileChangedError(self.path, found)
        if not place.share.held:  # a parent's, which may be gone
            place = self._follow()
        share = place.share
        if share is None or share.drop() or self._failure:
            return False
        share.take()
        if place.is_named() or self.is_removed():
            return True
        if place.copy is not None:  # another filter was written over the file: nobody finds it
            place.copy.remove()
        return False

    def has_company(self) -> bool:
        """Tell whether other writers have a share in the copy."""
        share = self._there.share
        return share is not None and share.has_company()

    def may_have_left_copies(self) -> bool:
        """Tell whether a process that was killed while it made a copy may have left it behind."""
        if self._kind is not BITS or self.read_only_reason:
            return False
        # Which are there comes first: for most filters that is all, and costs no look at the file.
        return has_copies(*self.identity) and named_by(self._fd) == NO_COPY

    def remove_left_copies(self) -> None:
        """Remove copies that no header names; call it within a section of the write lock."""
        if named_by(self._fd) == NO_COPY:
            sweep(self._fd)

    def is_removed(self) -> bool:
        """Tell whether the file has no name any more: nothing is saved in it."""
        return not os.fstat(self._fd).st_nlink

    def give_back(self) -> bool:
        """Let the file be the filter again, and remove the copy, if nobody else uses it.

        Call it within a section of the write lock, after `flush`, and before `close`.

        Returns
        -------
        bool
            False if the file lacks what others have added since.
        """
        place = self._there
        share = place.share
        if share is None or place.copy is None:
            return True
        with share.alone() as alone:
            if not alone:  # a writer that is there now will do it
                return share.has_company() or place.copy.is_written(self.counter("batches_begun"))
            if not self.is_removed():
                if not place.is_named():  # done by who came and went
                    return True
                if not place.copy.is_written(self.counter("batches_begun")):
                    return False
                if not place.copy.can_be_removed():  # it is left to its owner
                    return True
                share.gives_up = True
                place.name(NO_COPY)
            share.drop()  # before it is not alone any more: the copy is never taken up again
        place.copy.remove()
        time.sleep(2 * MOMENT)  # as when it was made
        return True

    def _to_disk(self, write: Callable[[], T]) -> T:
        try:
            return write()
        except OSError as error:
            self._failure = error.strerror or str(error)
            self.news[0] += 1
            raise DurabilityError(self.path, self._failure) from error

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
            under way, though some may never have been done, as their process was killed.
        locked : bool, default False
            Whether the caller has the write lock all the time.

        Raises
        ------
        DurabilityError
            If the system reports an error; from then on `check_writable` raises it, for
            a second flush would report success with nothing written.
        LockTimeoutError
            If the other process takes longer.
        FileChangedError
            If the file was cut: even to look at its header is then a signal that kills.
        """
        if os.fstat(self._fd).st_size != self._size:
            raise FileChangedError(self.path, "truncated")
        try:
            try:
                self._flushing = os.getpid()
                place = self._follow()
                if place.copy is not None and place.share is not None:
                    with place.share.writing(timeout, locked=locked):
                        self._write_all(place.copy, begun)
                    return
                self._to_disk(place.array.flush)
                self._to_disk(partial(os.fsync, self._fd))
            finally:
                self._flushing = 0
        finally:  # an exception out of a handler has kept it from its end
            self._flushing = 0

    def _write_all(self, copy: WorkingCopy, begun: int | None) -> None:
        if begun is None and self.counter("batches_begun") == self.counter("batches_done"):
            begun = self.counter("batches_done")
        if copy.is_written(self.counter("batches_begun")):
            begun = self.counter("batches_begun")
        else:
            self._to_disk(partial(copy.write_to, self._fd, self.path))
        copy.set_written(None)  # unless it gets to the disk: the system says only once that not
        self._to_disk(partial(os.fsync, self._fd))
        copy.set_written(begun)


def _nothing(_: object) -> None:
    return None
