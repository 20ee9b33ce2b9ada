"""A filter that is a folder of files: how it is created and opened, and what it says of itself.

The files are a `Chain` (``chain.py``), whose class decides which key goes to which of them. This
file touches no bit, no byte and no lock itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Self

from mmbloom._storage.atomic import new_folder, require_reserve
from mmbloom._storage.folder import file_name, first_manifest, make_member
from mmbloom.errors import (
    ParameterMismatchError,
)
from mmbloom.filters.base import Filter
from mmbloom.filters.chain import Chain
from mmbloom.filters.info import FilterInfo, read_info, without_secret
from mmbloom.filters.options import EXIST_OK, OpenOptions, require_field
from mmbloom.filters.shelf import File, Shelf, key_rule_of
from mmbloom.format.folder import FolderPlan
from mmbloom.sizing.formulas import rate_of_any


@dataclass(frozen=True, slots=True)
class FolderInfo:
    """A reading of a folder's manifest and of its files' headers, taken without a lock.

    Attributes
    ----------
    path : str
        The folder.
    kind : str
        "growing" or "rotating".
    uuid : str
        Identity of the folder, 32 hexadecimal digits.
    settings : dict
        What it was created with; with the seed, which `as_dict` has only if it is not secret.
    file_bytes : int
        Size of all files, those past their time as well.
    past_files : int
        Files of a rotating filter that are past their time: the first key of the next period
        drops them. They count for `file_bytes` only.
    keys_added : int
        Keys that were new to their file when they were added.
    approx_count : int
        Estimated number of keys: the sum over the files.
    fill_ratio : float
        Set bits over all bits, 0 to 1.
    capacity : int
        Keys that the files are planned for: the sum.
    error_rate : float
        False-positive rate that all files together are planned for.
    current_error_rate : float
        False-positive rate to expect of all files together.
    past_plan : bool
        Whether a file has more keys than it was planned for.
    read_only : str
        Why this object cannot write, "" if it can.
    exclusions : int
        Keys that are answered as not seen, by the file in the folder.
    key_rule : str or None
        How lines became its keys: see `Filter.key_rule`.
    files : list of FilterInfo
        Each file, oldest first; of a rotating filter those that a query asks.
    """

    path: str
    kind: str
    uuid: str
    settings: dict[str, object] = field(repr=False)  # has SipHash's key
    file_bytes: int
    past_files: int
    keys_added: int
    approx_count: int
    fill_ratio: float
    capacity: int
    error_rate: float
    current_error_rate: float
    past_plan: bool
    read_only: str
    exclusions: int
    key_rule: str | None
    files: list[FilterInfo]

    def as_dict(self) -> dict[str, object]:
        """Return the same as a dict of JSON-ready values."""
        files = [file.as_dict() for file in self.files]
        return {**asdict(self), "settings": without_secret(self.settings), "files": files}


def read_folder_info(chain: Chain, members: Sequence[File], asked: Sequence[File]) -> FolderInfo:
    """Gather everything into one record: of all files, and of those of them that are asked."""
    infos = [read_info(member.storage, chain.exclusions) for member in asked]
    num_bits = sum(info.num_bits for info in infos)
    return FolderInfo(
        path=chain.path,
        kind=chain.plan.kind,
        uuid=chain.uuid.hex(),
        settings=asdict(chain.plan),
        file_bytes=sum(member.storage.header.file_bytes for member in members),
        past_files=len(members) - len(asked),
        keys_added=sum(info.keys_added for info in infos),
        approx_count=sum(info.approx_count for info in infos),
        fill_ratio=sum(info.positions_set for info in infos) / num_bits if infos else 0.0,
        capacity=sum(info.capacity for info in infos),
        error_rate=chain.plan.error_rate,
        current_error_rate=rate_of_any(info.current_error_rate for info in infos),
        past_plan=any(info.past_plan for info in infos),
        read_only=members[-1].storage.read_only_reason,
        exclusions=len(chain.exclusions.keys),
        key_rule=key_rule_of(members),
        files=infos,
    )


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

    def _begin(self, shelf: Shelf) -> None:
        super()._begin(shelf)
        trusting = weakref.ref(self)  # the chain must not keep the filter

        def on_change() -> None:
            if (seen := trusting()) is not None:
                seen._look_again()  # noqa: SLF001  of this very class

        self._shelf.on_change = on_change

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect at the present fill, of all its files together."""
        return self.info().current_error_rate

    def info(self) -> FolderInfo:
        """Read everything that the folder says of itself."""

        def read(members: Sequence[File]) -> FolderInfo:
            asked = self._shelf.asked(members)
            for member in asked:
                member.check_unchanged()
            self._exclusions.reread()
            return read_folder_info(self._shelf, members, asked)

        return self._shelf.ask(read)

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
        with new_folder(path, permissions) as folder:
            first = make_member(
                folder,
                file_name(number),
                plan,
                number,
                permissions=permissions,
                allow_network=allow_network,
            )
            first_manifest(folder, plan, [first], permissions)
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
