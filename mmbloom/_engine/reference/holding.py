"""Which thread and task hold a write lock: noted so that a signal handler may run at any moment.

A thread that has the lock can ask for it again in three ways.

- Within a block of the caller's (`BLOCK`), in the same task: that is free.
- In another task of its event loop, while the first one waits for something: that is answered as
  if another process had asked, or is a `ReentryError`.
- Out of a signal handler, a ``__del__`` or a weakref callback that interrupts a call of ours
  (`CALL`): that is a `ReentryError`. The lock is taken and released under `CALL`, also for a
  block, so that nothing else ever comes between the system call and the note of it.

A handler can also end the call that it interrupts with an exception. So what is taken is released
by one method, which may be called twice.

In the compiled engine no handler runs while the lock is taken, and an exception out of one leaves
nothing held. Here two moments remain: before the first line of ``__exit__``, and where a handler
raises twice while the lock is released. Then the lock stays held until this thread wants it
again.
"""

import weakref
from collections.abc import Callable
from os import getpid
from threading import get_ident
from types import TracebackType
from typing import Any, Self

from mmbloom._system.sections import (
    BLOCK,
    CALL,
    IN_A_CALL,
    IN_ANOTHER_TASK,
    Descriptor,
    RLock,
    running_task,
)
from mmbloom.errors import ReentryError


def _nobody() -> None:
    return None


class LockState:
    """One write lock as this process has it: its thread, its task, how many times taken.

    Parameters
    ----------
    path : str
        Of the filter, for messages.
    open_file : callable or None
        Opens the file when its lock is first needed, and sets `descriptor`, before another thread
        can fork. None: there is nothing to lock but this process's threads.
    wait : callable
        Waits until a hold that did not get the lock at once has it.

    Attributes
    ----------
    threads : RLock
        Keeps the other threads out.
    depth : int
        How many holds there are, all of one thread.
    task : object
        The task of the outermost of them, if that is a block.
    inner : Hold or None
        Released with the outermost: the lock of a folder's newest file.
    turns : dict
        The tasks that wait, by the identity of their event loop.
    """

    def __init__(
        self,
        path: str,
        open_file: "Callable[[], object] | None",
        wait: "Callable[[Hold], object]",
    ) -> None:
        self.path, self.open_file, self.wait = path, open_file, wait
        self.forget()

    def forget(self) -> None:
        """Reset the state, as in a forked child: not held, nothing open."""
        self.pid, self.threads = getpid(), RLock()
        self.depth = self.owner = self.kind = 0
        self.holder: Callable[[], Hold | None] = _nobody
        self.task: object = None
        self.inner: Hold | None = None
        self.descriptor: Descriptor | None = None
        self.turns: dict[int, Any] = {}

    def mine(self) -> bool:
        """Return whether the calling thread of this process holds the lock."""
        return self.depth > 0 and self.owner == get_ident() and self.pid == getpid()

    def in_a_call(self) -> bool:
        """Return whether this thread is in a call that holds the lock, and not in a block."""
        return self.mine() and self.kind == CALL and self.holder() is not None

    def around(self) -> bool:
        """Return whether the running task is in a block that holds the lock, and in no call."""
        return self.depth > 0 and self.kind == BLOCK and self.of_this_task()

    def of_this_task(self) -> bool:
        """Return whether the running task holds the lock."""
        return self.mine() and self.task is running_task()

    def mend(self) -> None:
        """Release what blocks of this thread that were never left still hold."""
        if self.depth and self.holder() is None:
            for _ in range(self.depth):
                self.threads.release()
            self.depth = self.kind = 0
            if self.inner is not None:
                self.inner.leave()
            if self.descriptor is not None:
                self.descriptor.release()
            self.inner = self.task = None

    def swap(self, inner: "Hold") -> None:
        """Release the lock of one file now, and that of `inner` with the outermost hold."""
        before, self.inner = self.inner, inner
        if before is not None:
            before.leave()


class Hold:
    """One acquisition of a lock, released once, however often `leave` is called.

    Parameters
    ----------
    state : LockState
        Of the lock.
    timeout : float or None
        Seconds to wait for it; None for ever.
    kind : int
        What for: `BLOCK` or `CALL`.
    before : callable, optional
        Called before the lock is waited for, with nothing.
    ready : callable, optional
        Called with this and whether to wait, when the lock is taken; returns whether it stays so.

    Attributes
    ----------
    first : bool
        Whether it is the outermost.
    deadline : float or None
        When to stop waiting, by the monotonic clock; None until the wait begins.
    patience : float
        Seconds that each attempt waits for the other threads of this object; -1 for ever.
    """

    def __init__(
        self,
        state: LockState,
        timeout: float | None,
        kind: int,
        before: Callable[[], object] | None = None,
        ready: "Callable[[Hold, bool], bool] | None" = None,
    ) -> None:
        self.state, self.timeout, self.kind = state, timeout, kind
        self._before, self._ready = before, ready
        self.deadline: float | None = None
        self.patience = 0.0
        self.phase = 0  # 1: the other threads are out; 2: the lock is taken
        self.first = False

    def __enter__(self) -> Self:
        """Take the lock, waiting for it."""
        self._enter(wait=True)
        return self

    def try_once(self) -> bool:
        """Take the lock if this task can have it at once; return whether it did."""
        return self._enter(wait=False)

    def _enter(self, *, wait: bool) -> bool:
        if self.phase:
            raise RuntimeError("a block that is entered cannot be entered again")
        try:
            if self._before is not None:
                self._before()
            got = self.attempt(refuse=wait)
            if wait and not got:
                self.state.wait(self)
                got = True
            got = got and (self._ready is None or self._ready(self, wait))
            if got:
                self.state.kind = self.kind
            else:
                self.leave()
        except BaseException:
            self.leave()
            raise
        return got

    def attempt(self, *, refuse: bool = True) -> bool:
        """Take the lock if it is free; on False, other threads that are kept out stay out.

        If another task of this thread has it, raise `ReentryError` if `refuse`, or return False.
        """
        state = self.state
        if self.phase == 0:
            if state.pid != getpid():  # a fork that ran no Python handlers
                state.forget()
            if not state.threads.acquire(timeout=self.patience):
                return False
            self.phase, self._pid, self._threads = 1, state.pid, state.threads
            state.mend()
        if state.depth:
            if not self._may_enter(refuse=refuse):
                return False
            state.kind, self.first = CALL, False
            state.depth += 1
            self.phase = 2
            return True
        if state.descriptor is None and state.open_file is not None:
            state.open_file()
        descriptor = state.descriptor
        task = running_task() if self.kind == BLOCK else None
        holder, owner = weakref.ref(self), get_ident()
        # Noted before it is taken, and as a call: from here on a signal handler is refused. None
        # runs between these lines, as they call nothing; it would overwrite what they note.
        state.kind, self.first = CALL, True
        state.holder, state.owner, state.task = holder, owner, task
        state.depth = 1
        self.phase = 2
        if descriptor is None or descriptor.try_acquire():
            return True
        state.depth = 0
        self.phase = 1
        return False

    def _may_enter(self, *, refuse: bool) -> bool:
        state = self.state
        if state.kind == CALL:
            raise ReentryError(state.path, IN_A_CALL)
        if state.task is running_task():
            return True
        if refuse:
            raise ReentryError(state.path, IN_ANOTHER_TASK)
        return False

    def leave(self, *_: object) -> None:
        """Release what was taken; do nothing when called again, or in a forked child."""
        try:
            self._go_on_leaving()
        finally:  # an exception out of a handler has kept it from its end
            self._go_on_leaving()

    __exit__ = leave

    def _go_on_leaving(self) -> None:
        # Each step is noted when it is done, and may be made twice.
        state, self.patience = self.state, 0.0
        if self.phase and getpid() != self._pid:  # it is the parent's
            self.phase = 0
        if self.phase == 2:
            state.kind = CALL
            if state.depth == 1:
                if state.inner is not None:
                    state.inner.leave()
                if state.descriptor is not None:
                    state.descriptor.release()
                state.inner = state.task = None
            state.kind = BLOCK  # around a hold there is a block, or nothing
            state.depth -= 1
            self.phase = 1
        if self.phase == 1:
            self.phase = 0
            self._threads.release()


class Held:
    """A block under a lock that calls its subclass when it begins and when it ends."""

    __slots__ = ("hold",)

    def __init__(self, hold: Hold) -> None:
        self.hold = hold

    def __enter__(self) -> Any:
        """Take the lock, and begin; try again if `_again` returns True for the error."""
        self._check_unused()
        try:
            return self._enter()
        except Exception as error:
            if not self._again(error):
                raise
            return self._enter()

    def _enter(self) -> Any:
        try:
            self.hold.__enter__()
            return self._begin_as_call()
        except BaseException:
            self.hold.leave()
            raise

    def _begin_as_call(self) -> Any:
        """Begin, with the lock."""
        state = self.hold.state
        state.kind = CALL
        answer = self._begin()
        state.kind = BLOCK
        return answer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End, and release the lock."""
        try:
            try:
                self.hold.state.kind = CALL
                self._end(kind)
            finally:
                self.hold.leave()
        finally:
            self.hold.leave()

    def _check_unused(self) -> None:
        """Raise if it was entered before."""

    def _begin(self) -> Any:
        """Return what the `with` statement binds."""

    def _end(self, kind: type[BaseException] | None) -> None:
        """Do what is to be done under the lock."""

    def _again(self, error: Exception) -> bool:  # noqa: ARG002  that of a block that does
        """Return whether to begin again after an error; called without the lock."""
        return False
