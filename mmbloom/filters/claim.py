"""Answer now, mark later: the context manager behind `Filter.claim`.

A process that is killed between the answer and the mark has marked nothing: its work is done
again, and never left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mmbloom._engine import Held, Hold
from mmbloom._storage.lock import TaskHold
from mmbloom._typing import Bools, HashHalves
from mmbloom.errors import FilterFullError, ReentryError

_CLAIMED = (
    "a claim around this one has found a key of it to be new: leave that key to the outer claim, "
    "which marks it when its block succeeds"
)


class Marker(Protocol):
    """What a claim asks of a writer: of one file, as `Writer`, or of a folder."""

    @property
    def claims(self) -> Claims:
        """The claims under way."""

    @property
    def timeout(self) -> float | None:
        """Seconds to wait for the write lock; None for ever."""

    def section(self, timeout: float | None, /) -> Hold:
        """Hold the write lock."""

    def amid(self) -> Hold:
        """Let no signal handler's call come amid what is done in a section."""

    def claim(self, prepared: Any, /) -> Any:
        """Find which keys are new; gives what has them as its attribute `new`.

        Raises `FilterFullError`, for `tell`, if they go past the plan.
        """

    def mark(self, claimed: Any, prepared: Any, /) -> None:
        """Set the bits of what was claimed."""

    def tell(self, full: FilterFullError, /) -> None:
        """Raise the error, or warn once instead, once the lock is released."""


class Claims:
    """The claims whose blocks are under way, one within the other: their keys are taken.

    Parameters
    ----------
    path : str
        Of the filter.

    Notes
    -----
    A key is the same as another if their two hash halves are: that is 1 in 2**128, whatever the
    error rate of the filter. Used under the write lock only.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._under_way: list[Claim] = []

    def begin(self, claim: Claim) -> None:
        """Note a claim, unless a key that is new to it is taken: then raise `ReentryError`."""
        if claim.hold.first:  # what is left of others was never ended
            self._under_way = []
        elif self._under_way:
            h1, h2 = claim.taken()
            for outer in self._under_way:
                theirs = outer.taken()
                if (np.isin(h1, theirs[0]) & np.isin(h2, theirs[1])).any():
                    raise ReentryError(self._path, _CLAIMED)
        self._under_way.append(claim)

    def end(self, claim: Claim) -> None:
        """Forget a claim."""
        self._under_way = [one for one in self._under_way if one is not claim]


class Claim(Held):
    """Keys that are new, and stay claimed by this block until it ends.

    Made by `BloomFilter.claim`, which checks and hashes the keys, and says what the lock costs;
    the lock is taken when the block is entered and kept until it is left. When the block succeeds
    the keys are marked as seen; when it raises, nothing is marked.

    In a task of asyncio enter it with ``async with``: other tasks go on while it waits for the
    lock, and in its block. Until the block ends, the lock is the task's: others that use
    ``async with`` wait, and what they call without it raises `ReentryError`.

    Notes
    -----
    Not to be shared between threads or tasks; used once. Within the block, other keys may be
    added and claimed; a claim of a key that is new to this one raises `ReentryError`. A child
    process forked within the block leaves it without marking anything: the claim is the
    parent's.

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

    def __init__(
        self,
        writer: Marker,
        prepared: Any,
        *,
        hashes: HashHalves,
        answers: Callable[[Bools], Bools],
        excluded: Callable[[], Bools],
    ) -> None:
        super().__init__(writer.section(writer.timeout))
        self._writer, self._answers, self._excluded = writer, answers, excluded
        self._prepared, self._hashes = prepared, hashes
        self._claimed: Any = None
        self._pid = 0  # of the process that entered
        self._task_hold: TaskHold | None = None

    if TYPE_CHECKING:  # of `Held`, where any block may give anything

        def __enter__(self) -> Bools:
            """Take the lock, and answer."""

    def within(self, timeout: float | None) -> Claim:
        """Wait for the lock for another time than the filter's own.

        A claim that could not be entered in time may be entered again.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever. Entering the claim raises `LockTimeoutError` after it.

        Returns
        -------
        Claim
            This one.
        """
        self.hold.timeout = timeout
        return self

    def taken(self) -> HashHalves:
        """Give the hash halves of the keys that are new to this claim, and not excluded."""
        mine = self._claimed.new & ~self._excluded()
        return self._hashes[0][mine], self._hashes[1][mine]

    def _check_unused(self) -> None:
        if self._pid:
            raise RuntimeError("a claim is used once: call claim() again")

    def _begin(self) -> Bools:
        """Answer: bool array of shape (n,), True for each new key."""
        self._pid = os.getpid()
        with self._writer.amid():
            self._claimed = self._writer.claim(self._prepared)
            self._writer.claims.begin(self)
        return self._answers(self._claimed.new)

    def _again(self, error: Exception) -> bool:
        if not isinstance(error, FilterFullError):
            return False
        self._writer.tell(error)
        return True  # told: the next one goes on

    def _end(self, kind: type[BaseException] | None) -> None:
        """Mark the keys unless the block raised."""
        if self._pid != os.getpid():  # a forked child: the claim is the parent's
            return
        self._writer.claims.end(self)
        if kind is None:
            with self._writer.amid():
                self._writer.mark(self._claimed, self._prepared)

    async def __aenter__(self) -> Bools:
        """Do what ``with`` does, while other tasks go on."""
        self._check_unused()
        try:
            return await self._enter_in_task()
        except FilterFullError as full:
            self._writer.tell(full)
            return await self._enter_in_task()

    async def _enter_in_task(self) -> Bools:
        self._task_hold = TaskHold(self.hold)
        try:
            await self._task_hold.take()
            return self._begin()
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
