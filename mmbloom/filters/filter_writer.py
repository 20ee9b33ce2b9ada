"""How keys get into a filter, of one file or of a folder: what `Filter` and `Claim` ask for.

All writing is in a section: the write lock is held, and what the file is now was looked at.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any

from mmbloom._engine import Hold
from mmbloom._reentry import BLOCK
from mmbloom._typing import Bools, HashHalves, Indices, Key
from mmbloom.errors import FilterFullError


class FilterWriter(ABC):
    """Adds keys within sections of the write lock.

    Attributes
    ----------
    path : str
        Of the filter.
    timeout : float or None
        Seconds to wait for the write lock; None for ever.
    strict : bool
        Whether what goes past the plan is refused.
    claimed : weak reference of a Claim, or None
        The one whose block is under way; read and changed within sections only.
    """

    path: str
    timeout: float | None
    strict: bool
    claimed: weakref.ref[Any] | None = None

    @property
    @abstractmethod
    def room(self) -> float:
        """How many keys fit into the plan for sure: a batch of more is to be foreseen."""

    @abstractmethod
    def section(self, timeout: float | None, kind: int = BLOCK) -> Hold:
        """Hold the write lock, for a block of the caller's or a call of one's own."""

    @abstractmethod
    def chunk_keys(self, num_keys: int) -> int:
        """Tell how many keys of a batch of this size are a chunk."""

    @abstractmethod
    def add_chunk(self, prepared: Any, /) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""

    @abstractmethod
    def add_one(self, key: Key) -> bool:
        """Add one key in a section of its own; True if it was new."""

    @abstractmethod
    def prepare(self, hashes: HashHalves) -> Any:
        """Do what a claim of keys needs, and needs no lock for."""

    @abstractmethod
    def claim(self, prepared: Any, /) -> Any:
        """Find which keys are new; call within `section`. Gives what has them as `new`.

        Raises
        ------
        FilterFullError
            If they go past the plan and the caller is to be told: leave the section, and `tell`.
        """

    @abstractmethod
    def mark(self, claimed: Any, prepared: Any, /) -> None:
        """Add what was claimed; call within the `section` of the claim.

        Before anything is marked the file is looked at again: it may have changed, or a flush have
        failed, in the block.
        """

    @abstractmethod
    def forget_claim(self) -> None:
        """Reserve no room for a claim any more: it was marked, or never will be."""

    @abstractmethod
    def may_pass(self, keys: int) -> bool:
        """Tell whether a number of keys goes past the plan if all of them are new."""

    @abstractmethod
    def absent(self, hashes: HashHalves) -> Bools:
        """Tell which keys are not in the file that they would be added to."""

    @abstractmethod
    def require_room(self, new: Indices) -> None:
        """Raise `FilterFullError`, for `tell`, if new keys go past the plan."""

    @abstractmethod
    def tell(self, full: FilterFullError) -> None:
        """Raise the error, or warn once instead; call unlocked, while nothing is marked."""
