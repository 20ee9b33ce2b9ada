"""The periods of a rotating filter: which there are, and how long each is kept; arithmetic only.

Period i is the time from i times `every` up to the next, in Unix time (days of "1d" begin at
midnight UTC). A file holds the keys of one period. It is asked until `keep` after the end of
its period: so a key that was added at time t is found until t + keep at least, and until
t + keep + every at most. The error rate is that of all files together: there are never more
than ceil(keep / every) + 1, and each is planned for its share.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from mmbloom._typing import Duration, HashName, Layout, Reserve
from mmbloom.sizing.params import DEFAULT_HASH, FilterParams, KeyHash, require_error_rate
from mmbloom.sizing.planning import plan, to_plan_for

MAX_FILES = 1000  # each is asked for every key that is not found
_MOST_SECONDS = 2**53  # whole ones in a float
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,12})([smhdw])", re.ASCII)


def seconds_of(duration: Duration) -> int:
    """Read a duration: "90s", "30m", "12h", "7d", "2w", whole seconds, or a timedelta.

    Raises
    ------
    ValueError, TypeError
        If it is none, or not a positive number of whole seconds.

    Examples
    --------
    >>> seconds_of("12h"), seconds_of(90), seconds_of(timedelta(days=7))
    (43200, 90, 604800)
    """
    if isinstance(duration, str):
        parts = _DURATION.fullmatch(duration)
        if parts is None:
            raise ValueError(f"duration is {duration!r}, expected like '90s', '30m', '12h' or '7d'")
        seconds: float = int(parts[1]) * _UNITS[parts[2]]
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        seconds = duration
    else:
        raise TypeError(f"duration is {duration!r}, expected a str, seconds or a timedelta")
    if not 1 <= seconds < _MOST_SECONDS or seconds != int(seconds):
        raise ValueError(
            f"duration is {duration!r}, expected 1 to {_MOST_SECONDS - 1} seconds, whole ones"
        )
    return int(seconds)


@dataclass(frozen=True, slots=True)
class PeriodPlan:
    """All that decides which files a rotating filter has.

    Attributes
    ----------
    keep_seconds : int
        How long a key is found at least.
    every_seconds : int
        Length of a period.
    capacity_per_period : int
        Keys that each file is planned for.
    error_rate : float
        False-positive rate of all files together.
    layout, reserve
        Of every file, as for `BloomFilter.create`.
    seed, hash
        Of every file, as in `FilterParams`: a key is hashed once for all of them.

    Raises
    ------
    ValueError
        If there would be too many files.
    """

    kind: ClassVar[str] = "rotating"

    keep_seconds: int
    every_seconds: int
    capacity_per_period: int
    error_rate: float
    layout: Layout
    seed: int = field(repr=False)  # SipHash's is secret
    reserve: Reserve
    hash: HashName = DEFAULT_HASH

    def __post_init__(self) -> None:
        # Of the whole: that of each file is less. A float, for the manifest has no other.
        object.__setattr__(self, "error_rate", require_error_rate(self.error_rate))
        if self.max_files > MAX_FILES:
            raise ValueError(
                f"keep is {self.keep_seconds} s and every {self.every_seconds} s: "
                f"{self.max_files} files, at most {MAX_FILES} are possible"
            )

    @property
    def max_files(self) -> int:
        """The most files that are asked at one time, of which one is not of the past."""
        return -(-self.keep_seconds // self.every_seconds) + 1

    def sizes(self, number: int) -> tuple[int, float]:
        """Give capacity and error rate of a file: all have the same."""
        del number
        rate = to_plan_for(self.error_rate, self.layout) / self.max_files
        return self.capacity_per_period, rate

    def is_past(self, number: int, newest: int) -> bool:
        """Tell whether a period was asked no more when the newest one began."""
        return self.expired(number, self.start(newest))

    def params(self, number: int) -> FilterParams:
        """Plan a file."""
        return plan(*self.sizes(number), layout=self.layout, seed=self.seed, hash=self.hash)

    @property
    def key_hash(self) -> KeyHash:
        """The hash function."""
        return KeyHash(self.hash, self.seed)

    def period(self, now: float) -> int:
        """Name the period of a time."""
        return max(0, int(now // self.every_seconds))

    def start(self, number: int) -> int:
        """Give the time at which a period begins."""
        return number * self.every_seconds

    def end(self, number: int) -> int:
        """Give the time at which a period ends."""
        return self.start(number + 1)

    def expires(self, number: int) -> int:
        """Give the time from which on a period is asked no more."""
        return self.end(number) + self.keep_seconds

    def expired(self, number: int, now: float) -> bool:
        """Tell whether a period is asked no more."""
        return self.expires(number) <= now
