"""A filter that is a folder of files: how it is created.

The files are a `Chain` (``chain.py``), whose class decides which key goes to which of them. This
file touches no bit, no byte and no lock itself.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Self

from mmbloom._storage.atomic import Target, require_reserve
from mmbloom._storage.folder import file_name, make_member, new_filter_folder
from mmbloom.errors import (
    ParameterMismatchError,
)
from mmbloom.filters.base import Filter
from mmbloom.filters.chain import Chain
from mmbloom.filters.info import FolderInfo
from mmbloom.filters.options import EXIST_OK, OpenOptions, require_field
from mmbloom.format.folder import FolderPlan


class FolderFilter(Filter):
    """A filter made of several files; the base of `GrowingFilter` and `RotatingFilter`."""

    _shelf: Chain

    @classmethod
    def _created(
        cls,
        path: str,
        plan: FolderPlan,
        first: int,
        arguments: tuple[OpenOptions, *tuple[object, ...]],
        *,
        permissions: int,
        exist_ok: bool,
        free: frozenset[str],
    ) -> Self:
        """Make a folder with its first file and open it, or one that is there and as asked for."""
        make_folder(
            path,
            plan,
            first,
            permissions=permissions,
            allow_network=arguments[0].allow_network,
            exist_ok=exist_ok,
        )
        made = cls._opened(path, *arguments)
        try:
            _require_same(made._shelf.plan, plan, path, free=free)  # noqa: SLF001  of this class
        except ParameterMismatchError:
            made.close()
            raise
        return made

    def info(self) -> FolderInfo:
        """Read everything that the folder says of itself."""
        info: FolderInfo = super().info()
        return info

    def __repr__(self) -> str:
        name, mode = type(self).__name__, self._options.mode
        return f"<{name} {self.path!r} {'closed' if self.closed else f'mode={mode!r}'}>"


def make_folder(
    path: str,
    plan: FolderPlan,
    number: int,
    *,
    permissions: int,
    allow_network: bool,
    exist_ok: bool,
) -> None:
    """Make a folder with its first file, unless `exist_ok` and something is there.

    Raises as `plan` of sizes, `new_folder` and `create_file`.
    """
    require_reserve(plan.reserve)
    plan.params(number)  # before anything is made: it says what is out of range
    try:
        with new_filter_folder(Target(path, permissions, allow_network), plan) as place:
            make_member(place(number, file_name(number)), plan, number)
    except FileExistsError as error:
        if not exist_ok:
            error.add_note(EXIST_OK)
            raise


def _require_same(found: FolderPlan, asked: FolderPlan, path: str, *, free: frozenset[str]) -> None:
    """Raise `ParameterMismatchError` naming the first setting that differs.

    How the disk is reserved, and what is `free`, may.
    """
    for name in (each.name for each in fields(asked) if each.name not in free | {"reserve"}):
        require_field(found, asked, path, name)
