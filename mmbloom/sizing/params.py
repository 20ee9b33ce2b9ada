"""What decides which bits a key sets, and the limits of the file format, all checked."""

from dataclasses import dataclass
from typing import get_args

from mmbloom._typing import Layout
from mmbloom.sizing.formulas import BLOCK_BITS, estimate_count, false_positive_rate


def require_capacity(capacity: int) -> None:
    """Raise `TypeError` if a number of keys is no int."""
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise TypeError(
            f"capacity is {capacity!r}, expected an int; write 1_000_000_000 or int(1e9)"
        )


def require_error_rate(error_rate: float) -> float:
    """Give a rate of any type of numbers as a float; `ValueError` if not between 0 and 1."""
    if not 0 < error_rate < 1:
        raise ValueError(f"error_rate is {error_rate!r}, expected between 0 and 1")
    return float(error_rate)


MAX_HASHES = 64


MIN_BITS, MAX_BITS = 64, 2**43


MAX_BLOCKS = 2**31


@dataclass(frozen=True, slots=True)
class FilterParams:
    """All that decides which bits a key sets: two filters with equal ones can be merged.

    Attributes
    ----------
    capacity : int
        Planned number of keys.
    error_rate : float
        Planned false-positive rate at capacity, between 0 and 1.
    layout : {"blocked", "standard"}
        How positions are spread: in one block of 512 bits per key, or over the whole array.
    num_bits : int
        Size of the array in bits.
    num_hashes : int
        Positions per key, 1 to 64.
    seed : int
        Seed of the hash, 0 to 2**32 - 1.

    Raises
    ------
    ValueError
        If a value is out of range; the message names the field, the value and the range.

    Examples
    --------
    >>> from mmbloom.sizing import plan
    >>> plan(1_000_000, 0.01, layout="standard")
    FilterParams(capacity=1000000, error_rate=0.01, layout='standard', num_bits=9585088, \
num_hashes=7, seed=0)
    """

    capacity: int
    error_rate: float
    layout: Layout
    num_bits: int
    num_hashes: int
    seed: int = 0

    def __post_init__(self) -> None:
        step = BLOCK_BITS if self.layout == "blocked" else 64
        largest = MAX_BLOCKS * BLOCK_BITS if self.layout == "blocked" else MAX_BITS
        for field in ("capacity", "num_bits", "num_hashes", "seed"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{field} is {value!r}, expected an int")
        for field, value, ok, expected in (
            ("capacity", self.capacity, 1 <= self.capacity < 2**64, "1 to 2**64 - 1"),
            ("error_rate", self.error_rate, 0 < self.error_rate < 1, "between 0 and 1"),
            ("layout", self.layout, self.layout in get_args(Layout), "'blocked' or 'standard'"),
            ("num_hashes", self.num_hashes, 1 <= self.num_hashes <= MAX_HASHES, "1 to 64"),
            (
                "num_bits",
                self.num_bits,
                MIN_BITS <= self.num_bits <= largest and self.num_bits % step == 0,
                f"a multiple of {step} from {max(MIN_BITS, step)} to {largest}",
            ),
            ("seed", self.seed, 0 <= self.seed < 2**32, "0 to 2**32 - 1"),
        ):
            if not ok:
                raise ValueError(f"{field} is {value!r}, expected {expected}")

    @property
    def num_bytes(self) -> int:
        """Size of the bit array in bytes; the file is 4096 bytes larger."""
        return self.num_bits // 8

    @property
    def bits_per_key(self) -> float:
        """Bits of the array per planned key."""
        return self.num_bits / self.capacity

    def estimated_count(self, positions_set: int) -> float:
        """Estimate the number of distinct keys from the set bits; see `estimate_count`."""
        return estimate_count(positions_set, self.num_bits, self.num_hashes, layout=self.layout)

    def expected_error_rate(self, positions_set: int) -> float:
        """Compute the false-positive rate to expect with so many bits set.

        Standard layout: (X/m)^k for X set bits. Blocked: `false_positive_rate` of the number of
        keys that `estimate_count` finds, for blocks are not equally full.

        Parameters
        ----------
        positions_set : int
            Number of bits that are 1.

        Returns
        -------
        float
            Between 0 and 1.
        """
        if self.layout == "standard":
            return float((positions_set / self.num_bits) ** self.num_hashes)
        count = self.estimated_count(positions_set)
        return false_positive_rate(count, self.num_bits, self.num_hashes, layout="blocked")
