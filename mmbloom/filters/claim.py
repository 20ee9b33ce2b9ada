"""Answer now, mark later: the context manager behind `Filter.claim`.

A process that is killed between the answer and the mark has marked nothing: its work is done
again, and never left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from mmbloom._typing import Bools
from mmbloom.errors import FilterFullError


class Marker(Protocol):
    """What a claim asks of a writer: of one file, as `Writer`, or of a folder."""

    def section(self, timeout: float | None, /) -> AbstractContextManager[None]:
        """Hold the write lock."""

    def claim(self, hashes: Any, /) -> Any:
        """Find which keys are new; gives what has them as its attribute `new`.

        Raises `FilterFullError`, for `tell`, if they go past the plan.
        """

    def mark(self, claimed: Any, hashes: Any, /) -> None:
        """Set the bits of what was claimed."""

    def tell(self, full: FilterFullError, /) -> None:
        """Raise the error, or warn once instead, once the lock is released."""


class Claim:
    """Keys that are new, and stay claimed by this block until it ends.

    Made by `BloomFilter.claim`, which checks and hashes the keys; the write lock is taken
    when the block is entered and kept until it is left. When the block succeeds the keys
    are marked as seen; when it raises, nothing is marked.

    Notes
    -----
    Not to be shared between threads; used once. A child process forked within the block
    leaves it without marking anything: the claim is the parent's.

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
        answers: Callable[[Bools], Bools],
        hashes: Any,
        timeout: float | None,
    ) -> None:
        self._writer, self._answers = writer, answers
        self._hashes, self._timeout = hashes, timeout
        self._section: AbstractContextManager[None] | None = None
        self._claimed: Any = None
        self._pid = 0  # of the process that entered

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
        self._timeout = timeout
        return self

    def __enter__(self) -> Bools:
        """Take the lock and answer: bool array of shape (n,), True for each new key."""
        if self._pid:
            raise RuntimeError("a claim is used once: call claim() again")
        try:
            self._claim()
        except FilterFullError as full:
            self._writer.tell(full)
            self._claim()  # told: the next one goes on
        return self._answers(self._claimed.new)

    def _claim(self) -> None:
        section = self._section = self._writer.section(self._timeout)
        section.__enter__()
        self._pid = os.getpid()
        try:
            self._claimed = self._writer.claim(self._hashes)
        except BaseException as error:
            section.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Mark the keys unless the block raised, and release the lock."""
        assert self._section is not None  # noqa: S101  for the type checker: it was entered
        try:
            if kind is None and self._claimed is not None and self._pid == os.getpid():
                self._writer.mark(self._claimed, self._hashes)
        finally:
            self._section.__exit__(kind, error, traceback)
