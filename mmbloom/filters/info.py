"""Descriptions of filters: frozen records, ready for people and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import kind_of
from mmbloom._system.typing import HashName, Layout
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import File
from mmbloom.sizing import Fill
from mmbloom.sizing.formulas import rate_of_any
from mmbloom.sizing.params import HASHES

if TYPE_CHECKING:  # which takes milliseconds, for filters of one file
    from mmbloom.format.folder import Manifest


@dataclass(frozen=True, slots=True)
class FilterInfo:
    """A reading of a filter's header, taken without a lock.

    Attributes
    ----------
    path : str
        The file.
    kind : str
        "bits", or "counters" for a `CountingBloomFilter`.
    uuid : str
        Identity of the filter, 32 hexadecimal digits.
    created_ns, flushed_ns : int
        Unix times in nanoseconds; the second is 0 if the filter was never flushed.
    file_bytes : int
        Size of the file.
    capacity, error_rate, layout, num_bits, num_hashes, blocks_per_key, hash, seed
        Same as in `FilterParams`. The seed of "siphash" is a secret key, so the repr and `as_dict`
        leave it out.
    keys_added : int
        Number of keys that were new when they were added, even if they were removed later.
    positions_set : int
        Number of bits that are 1, or of counters that are not 0.
    fill_ratio : float
        positions_set / num_bits.
    approx_count : int
        Estimated number of distinct keys, from the set bits.
    current_error_rate : float
        False-positive rate to expect now.
    past_plan : bool
        Whether the filter is past its capacity: its error rate is then above the planned one.
    unfinished_batches : int
        Batches begun and not done, because writers are at work or were killed. The filter is still
        valid; its counters may lag behind until `BloomFilter.recount`.
    resident : bool
        Whether the array is in shared memory now; the file then has the state of the last flush.
    read_only : str
        Why this object cannot write, "" if it can.
    sealed : bool
        Whether the file is sealed: permanently read-only, with checksums.
    exclusions : int
        Number of excluded keys; for a file opened as part of a folder, those of the folder.
    key_rule : str or None
        How keys were made from lines: see `Filter.key_rule`.
    """

    path: str
    kind: str
    uuid: str
    created_ns: int
    flushed_ns: int
    file_bytes: int
    capacity: int
    error_rate: float
    layout: Layout
    num_bits: int
    num_hashes: int
    blocks_per_key: int
    hash: HashName
    seed: int = field(repr=False)
    keys_added: int
    positions_set: int
    fill_ratio: float
    approx_count: int
    current_error_rate: float
    past_plan: bool
    unfinished_batches: int
    resident: bool
    read_only: str
    sealed: bool
    exclusions: int
    key_rule: str | None

    def as_dict(self) -> dict[str, object]:
        """Return the fields as a dict of JSON-ready values; `seed` is None if it is secret."""
        return without_secret(asdict(self))


def without_secret(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record that has `hash` and `seed` without the seed, if that is secret."""
    return {**record, "seed": None} if HASHES[record["hash"]].secret else record


def read_info(storage: MappedFilter, exclusions: ExclusionList) -> FilterInfo:
    """Gather everything into one record."""
    header, params = storage.header, storage.header.params
    exclusions.reread()
    counters, positions_set = storage.counters, storage.positions_set
    unfinished = counters["batches_begun"] - counters["batches_done"]
    fill = Fill.of(params, positions_set)
    return FilterInfo(
        path=storage.path,
        kind=kind_of(header).noun,
        uuid=header.uuid.hex(),
        created_ns=header.created_ns,
        flushed_ns=counters["flushed_ns"],
        file_bytes=header.file_bytes,
        **asdict(params),
        keys_added=counters["keys_added"],
        positions_set=positions_set,
        fill_ratio=positions_set / params.num_bits,
        approx_count=round(fill.keys),
        current_error_rate=fill.now,
        past_plan=fill.is_past,
        unfinished_batches=max(0, unfinished),
        resident=storage.array.resident,
        read_only=storage.read_only_reason,
        sealed=header.sealed,
        exclusions=len(exclusions.keys),
        key_rule=storage.key_rule,
    )


@dataclass(frozen=True, slots=True)
class FolderInfo:
    """A reading of a folder's manifest and the headers of its files, taken without a lock.

    Attributes
    ----------
    path : str
        The folder.
    kind : str
        "growing" or "rotating".
    uuid : str
        Identity of the folder, 32 hexadecimal digits.
    settings : dict
        The parameters it was created with, including the seed; `as_dict` leaves out a secret seed.
    file_bytes : int
        Size of all files, including expired ones.
    past_files : int
        Number of expired files of a rotating filter, which the first key of the next period drops.
        They count only towards `file_bytes`.
    keys_added : int
        Number of keys that were new to their file when they were added.
    approx_count : int
        Estimated number of keys: the sum over the files.
    fill_ratio : float
        Set bits divided by all bits, 0 to 1.
    capacity : int
        Sum of the files' capacities.
    error_rate : float
        Planned false-positive rate of all files together.
    current_error_rate : float
        False-positive rate to expect now from all files together.
    past_plan : bool
        Whether a file is past its capacity.
    read_only : str
        Why this object cannot write, "" if it can.
    exclusions : int
        Number of excluded keys.
    key_rule : str or None
        How keys were made from lines: see `Filter.key_rule`.
    files : list of FilterInfo
        The files, oldest first; for a rotating filter, those that queries read.
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
        """Return the fields as a dict of JSON-ready values."""
        files = [file.as_dict() for file in self.files]
        return {**asdict(self), "settings": without_secret(self.settings), "files": files}


def read_folder_info(
    path: str,
    manifest: Manifest,
    exclusions: ExclusionList,
    *,
    members: Sequence[File],
    asked: Sequence[File],
    key_rule: str | None,
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
        key_rule=key_rule,
        files=infos,
    )
