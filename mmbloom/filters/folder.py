"""What a folder of filters says of itself: one frozen record, ready for people and for JSON.

What every filter that is a folder of files can be asked and told.

The files form a chain (``chain.py``); which key goes to which of them is the matter of a
writer, one for each class. This file never touches a bit, a byte or a lock itself.
"""

from __future__ import annotations

import math
import os
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import ClassVar, NamedTuple, Self, TypeVar

from mmbloom._engine import Grounds, Hold
from mmbloom._keys.coerce import coerce_one
from mmbloom._storage.atomic import new_folder, require_reserve
from mmbloom._storage.folder import file_name, first_manifest, make_member
from mmbloom._storage.opening import absolute
from mmbloom._system.reentry import BLOCK
from mmbloom._system.typing import Bools, HashHalves, Indices, Key, Mode, OnFull, Path, Resident
from mmbloom.errors import (
    ClosedFilterError,
    FilterFullError,
    OtherKindError,
    ParameterMismatchError,
)
from mmbloom.filters.base import Filter, shared
from mmbloom.filters.chain import (
    Chain,
    ChainState,
    Hashed,
    Member,
    contains_one,
    found_in,
    hashed,
    key_rule_of,
)
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.info import FilterInfo, read_info, without_secret
from mmbloom.filters.options import EXIST_OK, OpenOptions, require_field
from mmbloom.filters.writer import FilterWriter
from mmbloom.format.folder import MANIFEST, FolderPlan, GrowthPlan, Manifest, PeriodPlan
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


def read_folder_info(
    path: str,
    manifest: Manifest,
    members: Sequence[Member],
    asked: Sequence[Member],
    exclusions: ExclusionList,
) -> FolderInfo:
    """Gather everything into one record: of all files, and of those of them that are asked."""
    infos = [read_info(member.storage, exclusions) for member in asked]
    num_bits = sum(info.num_bits for info in infos)
    return FolderInfo(
        path=path,
        kind=manifest.plan.kind,
        uuid=manifest.uuid.hex(),
        settings=asdict(manifest.plan),
        file_bytes=sum(member.storage.header.file_bytes for member in members),
        past_files=len(members) - len(asked),
        keys_added=sum(info.keys_added for info in infos),
        approx_count=sum(info.approx_count for info in infos),
        fill_ratio=sum(info.positions_set for info in infos) / num_bits if infos else 0.0,
        capacity=sum(info.capacity for info in infos),
        error_rate=manifest.plan.error_rate,
        current_error_rate=rate_of_any(info.current_error_rate for info in infos),
        past_plan=any(info.past_plan for info in infos),
        read_only=members[-1].storage.read_only_reason,
        exclusions=len(exclusions.keys),
        key_rule=key_rule_of(members),
        files=infos,
    )


# To look at more files takes longer than the moment for which the look is good.
_MOST_TRUSTED = 128


class Lasting(NamedTuple):
    """Which files are asked, newest first, from when to when by the Unix clock."""

    asked: Sequence[Member]
    since: float
    ends: float
    capacity: float  # most keys in the newest file


class FolderWriter(FilterWriter):
    """How keys get into a chain; the base of a writer for each class."""

    def __init__(self, chain: Chain) -> None:
        self._chain, self.path = chain, chain.folder
        self.timeout = chain.settings.lock_timeout
        self.strict = chain.settings.on_full == "raise"

    @abstractmethod
    def asked(self, now: ChainState) -> Sequence[Member]:
        """Name the files that a query asks, oldest first."""

    renews: ClassVar[bool]
    """Whether a key that an older file has is added to the newest all the same."""

    @abstractmethod
    def lasting(self, now: ChainState) -> Lasting | None:
        """Say for how long which files are asked, and the newest added to; None if unknown."""

    def older(self, now: ChainState) -> list[Member]:
        """Name those of them that do not change any more."""
        newest = now.newest
        return [one for one in self.asked(now) if one is not newest]

    def section(self, timeout: float | None, kind: int = BLOCK) -> Hold:
        """Hold the write lock of the newest file, and with it that of the folder."""
        chain = self._chain
        return Hold(chain.state, timeout, kind, chain.check_writable, chain.lock_newest)

    def prepare(self, hashes: HashHalves) -> Hashed:
        """Test keys in all files but the newest, without the lock."""
        return self._chain.ask(lambda now: hashed(hashes, self.older(now)))

    # Of the newest file, which alone changes.

    def chunk_keys(self, num_keys: int) -> int:  # noqa: D102
        return self._chain.current.newest.writer.chunk_keys(num_keys)

    def forget_claim(self) -> None:  # noqa: D102
        if not self._chain.closed:  # in the block of the claim
            self._chain.current.newest.writer.forget_claim()

    def may_pass(self, keys: int) -> bool:  # noqa: D102
        return self._chain.current.newest.writer.may_pass(keys)

    def absent(self, hashes: HashHalves) -> Bools:  # noqa: D102
        return self._chain.current.newest.writer.absent(hashes)

    def require_room(self, new: Indices) -> None:  # noqa: D102
        self._chain.current.newest.writer.require_room(new)

    def tell(self, full: FilterFullError) -> None:  # noqa: D102
        self._chain.current.newest.writer.tell(full)


class FolderFilter(Filter):
    """A filter made of several files; the base of `GrowingFilter` and `RotatingFilter`."""

    _writer: FolderWriter

    @classmethod
    @shared
    def open(
        cls,
        path: Path,
        mode: Mode = "r+",
        *,
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
        threads: int | None = None,
        preload: bool = False,
        verify_after_add: bool = False,
        on_full: OnFull = "warn",
        resident: Resident = "auto",
    ) -> Self:
        """Open an existing folder; its manifest and headers say all about it.

        Parameters
        ----------
        path : str or path-like
            The folder. Opening changes nothing in it.
        mode, lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
            As for `BloomFilter.open`.

        Returns
        -------
        the class that was called
            Open, to be closed with ``close`` or by a ``with`` block.

        Raises
        ------
        FormatError
            If it is not a folder of this class, or a file of it is missing, damaged, or not the
            one that the manifest names.
        OSError
            If it cannot be opened.
        """
        options = OpenOptions(
            mode, lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
        )
        return cls._opened(absolute(path), options)

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
            found = made._chain.plan  # noqa: SLF001  of this very class
            _require_same(found, plan, path, free=free)
        except ParameterMismatchError:
            made.close()
            raise
        return made

    def _begin_chain(self, chain: Chain, writer: FolderWriter) -> None:
        self._chain, self._prepare = chain, writer.prepare
        trusting = weakref.ref(self)  # the chain must not keep the filter

        def on_change() -> None:
            if (seen := trusting()) is not None:
                seen._look_again()  # noqa: SLF001  of this very class

        chain.on_change = on_change
        self._manifest = os.fsencode(os.path.join(chain.folder, MANIFEST))
        self._begin(
            writer,
            chain.exclusions,
            chain.check_writable,
            plan=chain.plan,
            options=chain.settings,
        )

    def __contains__(self, key: Key) -> bool:
        """Tell whether one key was added (or is a false positive), and is not excluded."""
        octets = coerce_one(key)

        def has(now: ChainState) -> bool:
            return contains_one(self._writer.asked(now), octets)

        if not self._chain.ask(has):
            return False
        self._exclusions.refresh()
        return not self._exclusions.holds(octets)

    def _grounds(self, gone: int, more: int) -> Grounds | None:
        """Look at the files, and say what the next keys may take for granted."""
        try:
            return self._grounds_of(self._chain.current, gone, more)
        except ClosedFilterError:  # by another thread: the next key raises
            return None

    def _grounds_of(self, now: ChainState, gone: int, more: int) -> Grounds | None:
        exclusions = self._exclusions
        words = [(exclusions.edition, exclusions.edition[0])]
        lasting = self._writer.lasting(now)
        if lasting is None or len(lasting.asked) > _MOST_TRUSTED:
            return None
        arrays = []
        for member in lasting.asked:
            storage = member.storage
            words.append((storage.array.news, storage.array.news[0]))
            place = storage.trusted(gone)
            if place is None:
                return None
            words.append((place.word_now, place.word))
            arrays.append(place.views.one)
        newest = now.newest.writer
        newest.leave_room(more)
        writable = all(member.storage.is_writable for member in now.members)
        device, inode, mtime, size = now.file.stamp
        return Grounds(
            arrays=arrays,
            words=words,
            lock=now.newest.lock.state,
            section=self._chain.state,
            file=(self._manifest, device, inode, size, mtime),
            listed_until=exclusions.refresh_at,
            plain=exclusions.empty,
            full_at=newest.unquestioned if writable else -math.inf,
            capacity=lasting.capacity,
            since=lasting.since,
            ends=lasting.ends,
            renews=self._writer.renews,
            each=True,
            kept=now.file,
        )

    def _find(self, hashes: HashHalves) -> Bools:
        return self._chain.ask(lambda now: found_in(self._writer.asked(now), hashes))

    def _check_open(self) -> None:
        self._chain.refresh()

    _check_unchanged = _check_open

    def _identity(self) -> bytes:
        return self._chain.uuid

    @property
    def path(self) -> str:
        """Absolute path of the folder."""
        return self._chain.folder

    @property
    def closed(self) -> bool:
        """Whether the filter was closed."""
        return self._chain.closed

    @property
    def key_rule(self) -> str | None:  # noqa: D102  as in the base
        return self._chain.ask(lambda now: key_rule_of(now.members))

    def _set_key_rule(self, rule: str) -> None:
        self._chain.current.newest.storage.note_key_rule(rule)

    def info(self) -> FolderInfo:
        """Read everything that the folder says of itself."""

        def read(now: ChainState) -> FolderInfo:
            asked = self._writer.asked(now)
            for member in asked:
                member.storage.check_unchanged()
            self._exclusions.reread()
            manifest = now.file.manifest
            return read_folder_info(self.path, manifest, now.members, asked, self._exclusions)

        return self._chain.ask(read)

    def flush(self) -> None:  # noqa: D102  as in the base
        self._chain.flush()

    def recount(self) -> int:  # noqa: D102  as in the base
        self._chain.check_writable()
        return self._chain.ask(lambda now: sum(one.writer.recount() for one in now.members))

    def close(self) -> None:  # noqa: D102  as in the base
        self._look_again()
        try:
            self._chain.close()
        finally:
            self._look_again()  # another thread may have looked in between

    def _look_again(self) -> None:
        """Look at the files before the next key, if a look was good for a moment."""

    def __repr__(self) -> str:
        name, mode = type(self).__name__, self._options.mode
        return f"<{name} {self.path!r} {'closed' if self.closed else f'mode={mode!r}'}>"


P = TypeVar("P", GrowthPlan, PeriodPlan)


def open_chain(path: str, options: OpenOptions, plan: type[P]) -> tuple[Chain, P]:
    """Open the files of a folder, and give its plan; OtherKindError if that is of another kind."""
    chain = Chain(path, options)
    if isinstance(chain.plan, plan):
        return chain, chain.plan
    found = chain.plan.kind
    chain.close()
    raise OtherKindError(path, found, found, f"{plan.kind}; open it with {found.title()}Filter")


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
