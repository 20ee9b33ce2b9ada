"""A filter that is a folder of files: how it is created.

The files are a `Chain` (``chain.py``), whose class decides which key goes to which of them. This
file touches no bit, no byte and no lock itself.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from mmbloom._storage.atomic import Target, require_reserve
from mmbloom._storage.folder import file_name, make_member, new_filter_folder
from mmbloom.filters.base import Filter
from mmbloom.filters.chain import Chain
from mmbloom.filters.info import FolderInfo
from mmbloom.filters.options import OpenOptions, require_field
from mmbloom.format.folder import FolderPlan


class FolderFilter(Filter):
    """A filter made of several files; the base of `GrowingFilter` and `RotatingFilter`."""

    _shelf: Chain

    @classmethod
    def _planned(
        cls,
        path: str,
        plan: FolderPlan,
        first: int,
        arguments: tuple[OpenOptions, *tuple[Any, ...]],
        *,
        permissions: int,
        exist_ok: bool,
        free: frozenset[str],
    ) -> Self:
        """Make a folder with its first file and open it, or one that is there and as asked for."""
        require_reserve(plan.reserve)
        plan.params(first)  # before anything is made: it says what is out of range

        def make() -> None:
            target = Target(path, permissions, arguments[0].allow_network)
            with new_filter_folder(target, plan) as place:
                make_member(place(first, file_name(first)), plan, first)

        def check(made: Self, _is_new: bool) -> None:
            # How the disk is reserved may differ, and what was not asked for.
            for name in (each.name for each in fields(plan) if each.name not in free | {"reserve"}):
                require_field(made._shelf.plan, plan, path, name)

        return cls._created(path, make, arguments, exist_ok=exist_ok, check=check)

    def info(self) -> FolderInfo:
        """Read everything the folder records about itself."""
        info: FolderInfo = super().info()
        return info

    def __repr__(self) -> str:
        name, mode = type(self).__name__, self._options.mode
        return f"<{name} {self.path!r} {'closed' if self.closed else f'mode={mode!r}'}>"
