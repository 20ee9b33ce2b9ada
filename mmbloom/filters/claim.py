"""Answer now, mark later: the context manager behind `BloomFilter.claim` (law 6)."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mmbloom._keys.coerce import Keys
from mmbloom._typing import Bools, Key


class Marker(Protocol):
    """What a claim asks of a writer: of one file, as `Writer`, or of a folder."""

    def section(self, timeout: float | None, /) -> AbstractContextManager[None]:
        """Hold the write lock."""

    def claim(self, hashes: Any, /) -> Any:
        """Find which keys are new; gives what has them as its attribute `new`."""

    def mark(self, claimed: Any, hashes: Any, /) -> None:
        """Set the bits of what was claimed."""

    def warn_when_full(self) -> None:
        """Warn, if that is due, once the lock is released."""


class Claiming(Protocol):
    """A filter that claims: of one file or of a folder of them."""

    @property
    def path(self) -> str:
        """Absolute path of it."""

    def __contains__(self, key: Key, /) -> bool:
        """Tell whether one key was added."""

    def contains_many(self, keys: Keys, /) -> npt.NDArray[np.bool_]:
        """Tell for each key whether it was added."""

    def claim(self, keys: Keys, /) -> "Claim":
        """Learn which keys are new, and mark them only if the block that follows succeeds."""

    def locked(self, timeout: float | None = ..., /) -> AbstractContextManager[None]:
        """Keep the write lock."""


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
        self._hashes = hashes
        self._section = writer.section(timeout)
        self._claimed: Any = None
        self._pid: int | None = None  # of the process that entered

    def __enter__(self) -> npt.NDArray[np.bool_]:
        """Take the lock and answer: bool array of shape (n,), True for each new key."""
        if self._pid is not None:
            raise RuntimeError("a claim is used once: call claim() again")
        self._section.__enter__()
        self._pid = os.getpid()
        try:
            self._claimed = self._writer.claim(self._hashes)
        except BaseException as error:
            self._section.__exit__(type(error), error, error.__traceback__)
            raise
        return self._answers(self._claimed.new)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Mark the keys unless the block raised, and release the lock."""
        try:
            if kind is None and self._claimed is not None and self._pid == os.getpid():
                self._writer.mark(self._claimed, self._hashes)
        finally:
            self._section.__exit__(kind, error, traceback)
        if kind is None:
            self._writer.warn_when_full()
