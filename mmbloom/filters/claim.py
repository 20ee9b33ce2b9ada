"""Answer now, mark later: the context manager behind `Filter.claim`.

A process that is killed between the answer and the mark has marked nothing: its work is done
again, and never left out.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mmbloom._engine import Held
from mmbloom._storage.lock import TaskHold
from mmbloom._system.typing import Bools
from mmbloom.errors import ClosedFilterError, FilterFullError, ReentryError
from mmbloom.filters.shelf import Hashed, Shelf

_CLAIMED = "a claim of this filter is already open: end its block first, or claim all keys at once"


class Claim(Held):
    """Keys that a block claims, and that are added to the filter if the block succeeds.

    `BloomFilter.claim` makes one: it checks and hashes the keys, and its description says what the
    lock costs. The write lock is taken when the block is entered, and held until it is left. If the
    block succeeds, the keys are added to the filter; if it raises, nothing is added.

    In an asyncio task, use ``async with``: other tasks continue while this one waits for the lock
    and while its block runs. The task holds the lock until the block ends: other tasks that use
    ``async with`` wait for it, and calls they make without it raise `ReentryError`.

    Notes
    -----
    Use a claim once, and do not share it between threads or tasks. Within the block, other keys may
    be added. Another claim of the same filter raises `ReentryError`, unless one of the two has no
    keys. A child process forked within the block adds nothing when it leaves the block: the claim
    belongs to the parent.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     with seen.claim(["a", "b", "a"]) as new:
    ...         print(new.tolist(), "a" in seen)
    ...     print("a" in seen)
    [True, True, False] False
    True
    """

    __slots__ = (
        "__weakref__",
        "_answers",
        "_claimed",
        "_num_keys",
        "_pid",
        "_prepared",
        "_shelf",
        "_task_hold",
    )

    def __init__(self, shelf: Shelf, prepared: Hashed, answers: Callable[[Bools], Bools]) -> None:
        super().__init__(shelf.section(shelf.timeout))
        self._shelf, self._prepared, self._answers = shelf, prepared, answers
        self._num_keys = prepared.num_keys  # without keys the claim only holds the lock
        self._claimed: Any = None
        self._pid = 0  # of the process that entered
        self._task_hold: TaskHold | None = None

    if TYPE_CHECKING:  # of `Held`, where any block may give anything

        def __enter__(self) -> Bools:
            """Take the lock, and answer."""

        def _begin_as_call(self) -> Bools:
            """Answer, with the lock."""

    def within(self, timeout: float | None) -> Claim:
        """Set how long to wait for the lock, instead of the filter's own `lock_timeout`.

        A claim that could not be entered in time may be entered again.

        Parameters
        ----------
        timeout : float or None
            Seconds until entering the claim raises `LockTimeoutError`; None waits forever.

        Returns
        -------
        Claim
            The same claim.
        """
        self.hold.timeout = timeout
        return self

    def _check_unused(self) -> None:
        if self._pid:
            raise RuntimeError("a claim can be used only once: call claim() again")

    def _begin(self) -> Bools:
        """Answer: bool array of shape (n,), True for each new key."""
        self._pid = os.getpid()
        if self._num_keys and self._is_within():
            raise ReentryError(self._shelf.path, _CLAIMED)
        self._claimed = self._shelf.claim(self._prepared)
        try:
            answers = self._answers(self._claimed.new)
        except BaseException:
            self._forget()
            raise
        if self._num_keys:  # last: a claim that raised above is not around others
            self._shelf.claimed = weakref.ref(self)
        return answers

    def _forget(self) -> None:
        """Reserve no room for its keys any more; one of no keys has none to give back."""
        if self._num_keys:
            with suppress(ClosedFilterError):  # in the block of the claim
                self._shelf.newest.forget_claim()

    def _is_within(self) -> bool:
        """Return whether another claim of the filter is around; call it with the lock."""
        if self.hold.first:  # what is left of others was never ended
            return False
        outer = self._shelf.claimed
        return outer is not None and outer() is not None

    def _again(self, error: Exception) -> bool:
        if not isinstance(error, FilterFullError):
            return False
        self._shelf.newest.tell(error)
        return True  # told: the next one goes on

    def _end(self, kind: type[BaseException] | None) -> None:
        """Mark the keys unless the block raised."""
        if self._pid != os.getpid():  # a forked child: the claim is the parent's
            return
        if self._num_keys:
            self._shelf.claimed = None
        if kind is None:
            self._shelf.mark(self._claimed, self._prepared)
        else:
            self._forget()

    async def __aenter__(self) -> Bools:
        """Do what ``with`` does, while other tasks go on."""
        self._check_unused()
        try:
            return await self._enter_in_task()
        except FilterFullError as full:
            self._shelf.newest.tell(full)
            return await self._enter_in_task()

    async def _enter_in_task(self) -> Bools:
        self._task_hold = TaskHold(self.hold)
        try:
            await self._task_hold.take()
            return self._begin_as_call()
        except BaseException:
            self._task_hold.leave()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Mark the keys unless the block raised or was cancelled, and release the lock."""
        assert self._task_hold is not None  # noqa: S101  for the type checker: it was entered
        try:
            self.__exit__(kind, error, traceback)
        finally:
            self._task_hold.leave()
