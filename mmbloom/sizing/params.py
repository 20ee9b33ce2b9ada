"""The parameters that decide which bits a key sets, within the limits of the file format."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict, get_args

from mmbloom._system.typing import HashName, Layout
from mmbloom.sizing.formulas import (
    BLOCK_BITS,
    MAX_BLOCKS_PER_KEY,
    PAGE_BITS,
    distinct_positions,
    estimate_count,
    false_positive_rate,
    standard_rate,
)


def require_capacity(capacity: int) -> None:
    """Raise `TypeError` unless a number of keys is an int."""
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise TypeError(
            f"capacity is {capacity!r}, expected an int; write 1_000_000_000 or int(1e9)"
        )


def require_error_rate(error_rate: float) -> float:
    """Return a rate of any numeric type as a float.

    Raise `TypeError` if it is no number, `ValueError` if it is not between 0 and 1.
    """
    if not hasattr(error_rate, "__float__"):
        raise TypeError(f"error_rate is {error_rate!r}, expected a number; write 0.01 or 1e-6")
    if not 0 < error_rate < 1:
        raise ValueError(f"error_rate is {error_rate!r}, expected between 0 and 1")
    return float(error_rate)


def require_seed(name: HashName, seed: int) -> None:
    """Raise `TypeError` or `ValueError` if a hash cannot have this seed, or has another name."""
    bits = traits_of(name).seed_bits
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"seed is {seed!r}, expected an int")
    if not 0 <= seed < 1 << bits:
        raise ValueError(f"seed is {seed}, expected 0 to 2**{bits} - 1 for {name}")


class HashTraits(NamedTuple):
    """What sets a hash apart from the others; the engines have its function.

    Attributes
    ----------
    title : str
        Its name, for people.
    number : int
        Its id in the header of a file.
    field : str
        The field of the header that has its seed, and is 0 with any other hash.
    seed_bits : int
        Size of the seed.
    secret : bool
        Whether the seed is a key, which nothing that is printed may show.
    """

    title: str
    number: int
    field: str
    seed_bits: int
    secret: bool


HASHES: dict[HashName, HashTraits] = {
    "siphash": HashTraits("SipHash-1-3", 2, "hash_key", 128, secret=True),
    "murmur3": HashTraits("MurmurHash3_x64_128", 1, "seed", 32, secret=False),
}
DEFAULT_HASH: HashName = "siphash"


def traits_of(name: HashName) -> HashTraits:
    """Return the record of a hash; raise `ValueError` if no hash has this name."""
    if name not in get_args(HashName):
        raise ValueError(f"hash is {name!r}, expected {' or '.join(map(repr, HASHES))}")
    return HASHES[name]


class KeyHash(NamedTuple):
    """The hash function of a filter: which one, and its seed."""

    name: HashName
    seed: int

    @property
    def spelled_seed(self) -> str:
        """The seed, for people: of a secret one only a fingerprint, to compare two."""
        traits = HASHES[self.name]
        if not traits.secret:
            return str(self.seed)
        import hashlib  # noqa: PLC0415  it takes 2 ms, and only errors and reports need it

        digest = hashlib.sha256(self.seed.to_bytes(traits.seed_bits // 8, "little")).hexdigest()
        return f"secret (fingerprint {digest[:8]})"


def spelled(made_with: "HasHash", name: str) -> str:
    """Return a parameter as text for people, without a secret seed."""
    return made_with.key_hash.spelled_seed if name == "seed" else str(getattr(made_with, name))


class HasHash:
    """The hash and seed that a filter, or a folder of them, was made with."""

    __slots__ = ()

    hash: HashName
    seed: int

    @property
    def key_hash(self) -> KeyHash:
        """The hash function."""
        return KeyHash(self.hash, self.seed)


MAX_HASHES = 64
MIN_BITS, MAX_BITS = 64, 2**43
MAX_BLOCKS = 2**31


def sizes_of(layout: Layout, blocks_per_key: int) -> tuple[int, int]:
    """Return the unit and the most of the number of bits, which is a multiple of the unit.

    Several blocks a key are chosen within a page, so that the array is whole pages.
    """
    if layout == "standard":
        return MIN_BITS, MAX_BITS
    if blocks_per_key == 1:
        return BLOCK_BITS, MAX_BLOCKS * BLOCK_BITS
    return PAGE_BITS, MAX_BITS


class Shape(TypedDict):
    """The arguments of the formulas other than sizes."""

    layout: Layout
    blocks_per_key: int


@dataclass(frozen=True, slots=True)
class FilterParams(HasHash):
    """The parameters that decide which bits a key sets; filters with equal ones can be merged.

    Attributes
    ----------
    capacity : int
        Number of keys the filter is for.
    error_rate : float
        False-positive rate at capacity, between 0 and 1.
    layout : {"blocked", "standard"}
        Where a key's positions lie: in a few blocks of 512 bits, or in the whole array.
    num_bits : int
        Size of the array in bits.
    num_hashes : int
        Number of positions per key, 1 to 64.
    seed : int
        Seed of the hash. For "siphash" it is the 128-bit key as a little-endian number, which is
        secret and not shown in the repr; for "murmur3", 0 to 2**32 - 1.
    hash : {"siphash", "murmur3"}
        SipHash-1-3 with 128 bits of output, or MurmurHash3_x64_128.
    blocks_per_key : int, default 1
        In the blocked layout, the number of blocks that hold a key's bits, 1 to 8; several blocks
        are all in one page of 4096 bytes. `num_hashes` is a multiple of it. Always 1 in the
        standard layout.

    Raises
    ------
    ValueError
        If a value is out of range; the message names the field, its value and the range.

    Examples
    --------
    >>> from mmbloom.sizing import plan
    >>> plan(1_000_000, 0.01, layout="standard")
    FilterParams(capacity=1000000, error_rate=0.01, layout='standard', num_bits=9585088, \
num_hashes=7, hash='siphash', blocks_per_key=1)
    """

    capacity: int
    error_rate: float
    layout: Layout
    num_bits: int
    num_hashes: int
    seed: int = field(default=0, repr=False)
    hash: HashName = DEFAULT_HASH
    blocks_per_key: int = 1

    def __post_init__(self) -> None:
        for name in ("capacity", "num_bits", "num_hashes", "blocks_per_key"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}, expected an int")
        bits, blocks = self.num_bits, self.blocks_per_key
        step, largest = sizes_of(self.layout, blocks)
        most = MAX_BLOCKS_PER_KEY if self.layout == "blocked" else 1
        few = f"1 to {MAX_BLOCKS_PER_KEY} in the blocked layout, otherwise 1"
        whole = MIN_BITS <= bits <= largest and bits % step == 0
        for name, ok, expected in (
            ("capacity", 1 <= self.capacity < 2**64, "1 to 2**64 - 1"),
            ("error_rate", 0 < self.error_rate < 1, "between 0 and 1"),
            ("layout", self.layout in get_args(Layout), "'blocked' or 'standard'"),
            ("num_hashes", 1 <= self.num_hashes <= MAX_HASHES, "1 to 64"),
            ("blocks_per_key", 1 <= blocks <= most, few),
            ("num_bits", whole, f"a multiple of {step} from {step} to {largest}"),
        ):
            if not ok:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected {expected}")
        if self.num_hashes % blocks:
            raise ValueError(
                f"num_hashes is {self.num_hashes}, expected a multiple of blocks_per_key, {blocks}"
            )
        require_seed(self.hash, self.seed)

    @property
    def num_bytes(self) -> int:
        """Size of the bit array in bytes; the file is 4096 bytes larger."""
        return self.num_bits // 8

    @property
    def bits_per_key(self) -> float:
        """Bits of the array divided by the capacity."""
        return self.num_bits / self.capacity

    def estimated_count(self, positions_set: int) -> float:
        """Estimate the number of distinct keys from the set bits, as `estimate_count` does."""
        return estimate_count(positions_set, self.num_bits, self.num_hashes, **self._shape)

    def expected_error_rate(self, positions_set: int) -> float:
        """Compute the false-positive rate to expect with that many bits set.

        In the standard layout, it is (X/m)^k for X set bits, plus the effect of double hashing for
        the number of keys that `estimate_count` returns. In the blocked layout, it is the
        `false_positive_rate` for that number of keys, because blocks are not equally full.

        Parameters
        ----------
        positions_set : int
            Number of bits that are 1.

        Returns
        -------
        float
            Between 0 and 1.
        """
        count = self.estimated_count(positions_set)
        if self.layout == "standard":
            fill = positions_set / self.num_bits
            return standard_rate(count, self.num_bits, self.num_hashes, fill)
        return self.rate_with(count)

    def expected_positions_set(self, num_keys: float) -> float:
        """Compute how many bits a number of keys sets: the inverse of `estimate_count`."""
        drawn = distinct_positions(self.num_hashes, self.layout, self.blocks_per_key)
        return self.num_bits * -math.expm1(-drawn * num_keys / self.num_bits)

    def rate_with(self, num_keys: float) -> float:
        """Compute the `false_positive_rate` of this filter with a number of keys."""
        return false_positive_rate(num_keys, self.num_bits, self.num_hashes, **self._shape)

    @property
    def _shape(self) -> Shape:
        return {"layout": self.layout, "blocks_per_key": self.blocks_per_key}
