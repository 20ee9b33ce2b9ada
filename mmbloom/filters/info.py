"""What filters say of themselves: frozen records, ready for people and for JSON."""

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
        What its positions are: "bits", or "counters" of a `CountingBloomFilter`.
    uuid : str
        Identity of the filter, 32 hexadecimal digits.
    created_ns, flushed_ns : int
        Unix times in nanoseconds; 0 if never flushed.
    file_bytes : int
        Size of the file.
    capacity, error_rate, layout, num_bits, num_hashes, blocks_per_key, hash, seed
        As in `FilterParams`: the seed of "siphash" is a secret key, which neither the repr nor
        `as_dict` has.
    keys_added : int
        Keys that were new when they were added, those that were removed later included.
    positions_set : int
        Bits that are 1, or counters that are not 0.
    fill_ratio : float
        positions_set / num_bits.
    approx_count : int
        Estimated number of distinct keys, from the set bits.
    current_error_rate : float
        False-positive rate to expect now.
    past_plan : bool
        Whether it has more keys than it was planned for: that rate is above the planned one.
    unfinished_batches : int
        Batches begun and not done: writers at work, or killed. The filter is valid all the
        same; counters may lag until `BloomFilter.recount`.
    resident : bool
        Whether the array lies in shared memory now; the file is then as of its last flush.
    read_only : str
        Why this object cannot write, "" if it can.
    sealed : bool
        Whether the file is sealed: read-only for ever, with checksums.
    exclusions : int
        Keys that are answered as not seen, whatever their bits; for a file opened as part of a
        folder, the folder's.
    key_rule : str or None
        How lines became its keys: see `Filter.key_rule`.
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
        """Return the same as a dict of JSON-ready values; `seed` is None where it is secret."""
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
