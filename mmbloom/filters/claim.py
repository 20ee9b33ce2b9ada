"""Answer now, mark later: the context manager behind `Filter.claim`.

A process that is killed between the answer and the mark has marked nothing: its work is done
again, and never left out.
"""

from __future__ import annotations

import os
from collections import deque
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

    def claim_after(self, before: Any, prepared: Any, keys: int, /) -> Any:
        """Claim while what was claimed before, of so many new keys, is not marked yet.

        None if that cannot be: then these are to be claimed when those are marked.
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

    def alone(self, claim: Claim) -> bool:
        """Tell whether a claim is the only one under way."""
        return len(self._under_way) == 1 and self._under_way[0] is claim

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

    Attributes
    ----------
    marked : int
        How many claims of the block are marked by `mark_first`.

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
        self._unmarked: deque[Claim] = deque()  # of this block: this one, and what followed
        self.marked = 0
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

    def claim_next(self, other: Claim) -> Bools | None:
        """Claim what another claim has, within this block, before the keys of this are marked.

        So the work on the keys of one may overlap with the finding of the next.

        Parameters
        ----------
        other : Claim
            Of the same filter, and not entered. It is used then.

        Returns
        -------
        ndarray of bool, shape (n,), or None
            What entering the other would give after this block. The end of the block marks its
            keys, too. None if that cannot be, and nothing was done: enter it after this block.
            It can if the filter is one file of bits, all keys fit into its plan for sure, no other
            claim is around this one or within, and one at most of what was claimed is not marked.

        Raises
        ------
        RuntimeError
            If the other was used before.
        ValueError
            If it is of another filter.
        FileChangedError, ReadOnlyError, ClosedFilterError
            As entering it would.

        See Also
        --------
        mark_first : Mark what was claimed first.
        """
        other._check_unused()
        if other._writer is not self._writer:
            raise ValueError("the claim is of another filter: enter it by itself")
        if self._pid != os.getpid() or len(self._unmarked) != 1:
            return None
        if not self._writer.claims.alone(self):
            return None  # whose keys are taken is looked at when a block begins
        before = self._unmarked[0]._claimed  # noqa: SLF001  of this class
        with self._writer.amid():
            keys = int(np.count_nonzero(before.new))
            claimed = self._writer.claim_after(before, other._prepared, keys)
            if claimed is None:
                return None
            other._pid, other._claimed = self._pid, claimed
            self._unmarked.append(other)
        return other._answers(claimed.new)

    def mark_first(self) -> None:
        """Mark what was claimed first of what is not marked, as the work on it is done.

        It stays marked even if the block raises.

        Raises
        ------
        RuntimeError
            If there is nothing left, or the block is not entered.
        """
        if not self._unmarked:
            raise RuntimeError("nothing that was claimed in this block is left to mark")
        # Counted first: whatever comes in between, no more is marked than is counted.
        self.marked += 1
        one = self._unmarked.popleft()
        if self._pid == os.getpid():  # in a forked child the claim is the parent's
            with self._writer.amid():
                one._mark()  # noqa: SLF001  of this class

    def _mark(self) -> None:
        claimed, self._claimed = self._claimed, None
        self._writer.mark(claimed, self._prepared)

    def taken(self) -> HashHalves:
        """Give the hash halves of the keys that are new to this claim, and not excluded."""
        fresh = [one._fresh() for one in self._unmarked]  # noqa: SLF001  of this class
        none = np.zeros(0, np.uint64)
        return (
            np.concatenate([none, *(h1 for h1, _ in fresh)]),
            np.concatenate([none, *(h2 for _, h2 in fresh)]),
        )

    def _fresh(self) -> HashHalves:
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
            self._unmarked.append(self)
            try:
                self._writer.claims.begin(self)
            except BaseException:
                self._unmarked.clear()
                raise
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
        unmarked, self._unmarked = self._unmarked, deque()
        if kind is None and unmarked:
            with self._writer.amid():
                for one in unmarked:
                    one._mark()  # noqa: SLF001  of this class

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
