"""How a growing filter grows: the sizes of its files, arithmetic only.

File i is planned for n * 2^i keys at the error rate p (1 - r) r^i with r = 1/2, n and p
being the first capacity and the error rate of the whole. A key that was never added is a
false positive if any file takes it for one: at most the sum of their rates, which stays
below p however many files there are (Almeida, Baquero, Preguica and Hutchison, "Scalable
Bloom Filters", 2007). In the standard layout p is 15/16 of what was asked for, to make up for
its whole k.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from mmbloom._typing import HashName, Layout, Reserve
from mmbloom.sizing.params import (
    DEFAULT_HASH,
    FilterParams,
    KeyHash,
    require_capacity,
    require_error_rate,
)
from mmbloom.sizing.planning import SMALL_BITS, plan, to_plan_for

_GROWTH = 2
_TIGHTENING = 0.5  # r: exact powers of two, which a header's double holds as they are


# The largest has 2^63 times the first capacity: more than there are keys.
MAX_FILES = 64


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """All that decides which files a growing filter has.

    Attributes
    ----------
    initial_capacity : int
        Keys that the first file is planned for.
    error_rate : float
        False-positive rate of all files together.
    layout, reserve
        Of every file, as for `BloomFilter.create`.
    seed, hash
        Of every file, as in `FilterParams`: a key is hashed once for all of them.

    Raises
    ------
    TypeError, ValueError
        If a value is out of range, or no such filter can be made.
    """

    kind: ClassVar[str] = "growing"
    max_files: ClassVar[int] = MAX_FILES

    initial_capacity: int
    error_rate: float
    layout: Layout
    seed: int = field(repr=False)  # SipHash's is secret
    reserve: Reserve
    hash: HashName = DEFAULT_HASH

    def __post_init__(self) -> None:
        require_capacity(self.initial_capacity)  # before it is multiplied
        # Of the whole: that of each file is less. A float, for the manifest has no other.
        object.__setattr__(self, "error_rate", require_error_rate(self.error_rate))
        if self.layout == "standard":
            # Small files may be many times the textbook's size, larger ones not: an error now, and
            # not when the folder is to grow.
            sizes = (self.params(number).num_bits for number in range(MAX_FILES))
            try:
                next(bits for bits in sizes if bits > SMALL_BITS)
            except ValueError as error:  # speaks of the sizes of one of its files
                raise ValueError(
                    f"no growing filter begins with {self.initial_capacity} keys at this error "
                    f"rate: for one of its files, {error}"
                ) from None

    @classmethod
    def beginning_with(cls, first: FilterParams, reserve: Reserve) -> "GrowthPlan":
        """Make the plan of a growing filter whose first file is one that is there.

        Parameters
        ----------
        first : FilterParams
            What that file was made with.
        reserve : {"zeros", "fallocate"}
            As for the others.

        Raises
        ------
        ValueError
            If there is no such plan.

        Examples
        --------
        >>> from mmbloom.sizing import plan
        >>> grown = GrowthPlan.beginning_with(plan(1000, 0.01), "zeros")
        >>> grown.error_rate, grown.sizes(0), grown.sizes(1)
        (0.02, (1000, 0.01), (2000, 0.005))
        """
        # A rate that was multiplied and rounded may need a neighbour to come out as it was.
        whole = first.error_rate / to_plan_for(1 - _TIGHTENING, first.layout)
        near = (whole, math.nextafter(whole, 0), math.nextafter(whole, 1))
        for rate in near:
            if not rate < 1:
                raise ValueError(
                    f"its error rate is {first.error_rate:g}, and that of the whole would be 1"
                )
            made = cls(first.capacity, rate, first.layout, first.seed, reserve, first.hash)
            if made.sizes(0)[1] == first.error_rate:
                made.params(1)
                return made
        raise ValueError(f"no plan has exactly its error rate, {first.error_rate!r}, at first")

    def sizes(self, number: int) -> tuple[int, float]:
        """Give capacity and error rate of a file, counted from 0."""
        share = (1 - _TIGHTENING) * _TIGHTENING**number
        rate = to_plan_for(self.error_rate, self.layout) * share
        return self.initial_capacity * _GROWTH**number, rate

    def is_past(self, number: int, newest: int) -> bool:
        """Tell whether a file is asked no more: none is ever dropped."""
        del number, newest
        return False

    def params(self, number: int) -> FilterParams:
        """Plan a file."""
        return plan(*self.sizes(number), layout=self.layout, seed=self.seed, hash=self.hash)

    @property
    def key_hash(self) -> KeyHash:
        """The hash function."""
        return KeyHash(self.hash, self.seed)
