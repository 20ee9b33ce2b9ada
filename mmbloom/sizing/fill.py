"""How full a filter is: its keys against its plan, and the words in which that is said everywhere.

Past its plan a filter takes more and more new keys for seen: 95 % of them at 100 times its plan.
"""

import math
from typing import NamedTuple, Self

from mmbloom.sizing.params import FilterParams

# A filter that takes every other new key for seen is past all use, and so is a folder with it.
_USELESS_RATE = 0.5


def most_keys(capacity: float) -> float:
    """Give the estimated number of keys above which a filter is past its plan.

    Beyond capacity by more than the estimate's own spread, about sqrt(n)/4: a filter that has just
    what was planned for is not past its plan.
    """
    return capacity + math.sqrt(capacity)


def full_at(params: FilterParams) -> float:
    """Give the number of set positions above which a filter is past its plan."""
    return params.expected_positions_set(most_keys(params.capacity))


def share_of(error_rate: float) -> str:
    """Say which share of new keys a rate of false positives is.

    Examples
    --------
    >>> share_of(0.8512), share_of(1), share_of(0.000123)
    ('about 85 %', 'about 100 %', 'about 0.012 %')
    """
    percent = 100 * error_rate
    return f"about {percent:.0f} %" if percent >= 10 else f"about {percent:.2g} %"


class Fill(NamedTuple):
    """How full a filter is.

    Attributes
    ----------
    keys : float
        The estimated number of keys.
    capacity : int
        How many were planned.
    now : float
        The false-positive rate to expect at present.

    Examples
    --------
    >>> from mmbloom.sizing import plan
    >>> print(Fill.with_keys(plan(1000, 0.01), 2000).past_plan)
    past its plan: it holds about 2000 keys and was planned for 1000: about 9.6 % of new keys are \
now taken for seen
    """

    keys: float
    capacity: int
    now: float

    @classmethod
    def of(cls, params: FilterParams, positions_set: int) -> Self:
        """Tell it of a filter by how many positions are set."""
        keys, now = params.estimated_count(positions_set), params.expected_error_rate(positions_set)
        return cls(keys, params.capacity, now)

    @classmethod
    def with_keys(cls, params: FilterParams, keys: float) -> Self:
        """Tell it of a filter by the keys that it has, or would have."""
        return cls(keys, params.capacity, params.rate_with(keys))

    @property
    def is_past(self) -> bool:
        """Whether it has more keys than planned."""
        return self.keys > most_keys(self.capacity)

    @property
    def is_useless(self) -> bool:
        """Whether it takes every other new key for seen, or more."""
        return self.now >= _USELESS_RATE

    def __str__(self) -> str:
        return f"holds about {round(self.keys)} keys and was planned for {self.capacity}"

    def taken(self, noun: str = "keys") -> str:
        """Say what comes of it for new keys, or lines."""
        return f"{share_of(self.now)} of new {noun} are now taken for seen"

    @property
    def past_plan(self) -> str:
        """Say all of it, of a filter past its plan."""
        return f"past its plan: it {self}: {self.taken()}"
