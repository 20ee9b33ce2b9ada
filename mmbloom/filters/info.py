"""What a filter file says of itself: one frozen record, ready for people and for JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any

from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import kind_of
from mmbloom._system.typing import HashName, Layout
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.sizing.params import HASHES
from mmbloom.sizing.planning import Fill


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
