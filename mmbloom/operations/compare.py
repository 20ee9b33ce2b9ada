"""How many keys two filters share, estimated from the bits that both, either or one of them set.

Both files are read from end to end, without a lock or a map, segment by segment.
"""

from dataclasses import dataclass

import numpy as np

from mmbloom._engine import count_set
from mmbloom._storage.opening import absolute
from mmbloom._typing import Path
from mmbloom._warn import Counted, warn_if_past_plan
from mmbloom.operations.combine import FilterAt, combined, open_alike, require_files

_WHY_FILES = "a key may be in file 1 of one folder and in file 2 of the other, and would not be \
counted; contains_many (check -c) finds the keys that a folder has"


@dataclass(frozen=True, slots=True)
class Similarity:
    """What two filters have in common: estimated numbers of distinct keys.

    Attributes
    ----------
    first_count, second_count : int
        Keys of each filter.
    common_count : int
        Keys that both have: at most as many as either has.
    union_count : int
        Keys that one of them has, or both.
    jaccard : float
        common / union, from 0 to 1 (of two filters without a key: 1, they are equal).

    Examples
    --------
    >>> found = Similarity(300, 300, 100, 500, 0.2)
    >>> found.common_count / found.first_count  # the share of the first that the second has
    0.3333333333333333
    """

    first_count: int
    second_count: int
    common_count: int
    union_count: int
    jaccard: float


def compare(one: Path, other: Path) -> Similarity:
    """Estimate how many keys two filters share.

    Parameters
    ----------
    one, other : str or path-like
        Filters of one file each, with equal parameters, hash and seed
        (`BloomFilter.create(..., like=other)`).

    Returns
    -------
    Similarity

    Raises
    ------
    IncompatibleFiltersError
        If a parameter differs; names every one that does.
    FormatError
        If one is a folder.
    FormatError, FileChangedError, OSError
        As each call that reads filters: see `mmbloom.errors`.

    Notes
    -----
    With n(X) the estimate for X set bits (`sizing.estimate_count`), the common keys of A and B
    are n(A) + n(B) - n(A | B), between 0 and the lesser of n(A) and n(B) (Swamidass and Baldi,
    "Mathematical Correction for Fingerprint Similarity Measures to Improve Chemical Retrieval",
    2007). The standard error of each term is about sqrt(m (e^x - 1 - x)) / k with x = k n/m. That
    of the common keys, of filters at capacity and planned at 1 %, was measured as sqrt(n) / 4 keys
    where at least half are common, and sqrt(n) / 2 where none are: A | B is overfull then. Few
    common keys of large filters drown in that, and full filters say nothing: a `CapacityWarning`
    tells of those that are past their plan.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter, compare
    >>> one, two = (os.path.join(tempfile.mkdtemp(), name) for name in ("one", "two"))
    >>> with BloomFilter.create(one, 100_000, seed=1) as a, BloomFilter.create(two, like=a) as b:
    ...     a.update(range(300)), b.update(range(200, 500))
    (300, 300)
    >>> found = compare(one, two)
    >>> 90 < found.common_count < 110, 0.15 < found.jaccard < 0.25
    (True, True)
    """
    paths = absolute(one), absolute(other)
    require_files(paths, _WHY_FILES)
    found, counted = _compare(*map(FilterAt, paths))
    warn_if_past_plan(*dict.fromkeys(counted))
    return found


def compare_sources(one: FilterAt, other: FilterAt) -> Similarity:
    """Compare two files as `compare` does; a `FilterAt` also says which filter must be there."""
    return _compare(one, other)[0]


def _compare(one: FilterAt, other: FilterAt) -> tuple[Similarity, tuple[Counted, Counted]]:
    """Compare two files; tells of each how full it is, too."""
    first = second = either = 0
    with open_alike((one, other)) as (left, right):
        for ours, theirs in zip(left.segments(), right.segments(), strict=True):
            first += count_set(ours)
            second += count_set(theirs)
            either += count_set(ours | theirs)
        left.check_same()
        right.check_same()
        params = left.header.params
    counts = [params.estimated_count(bits) for bits in (first, second, either)]
    common = min(max(0.0, counts[0] + counts[1] - counts[2]), counts[0], counts[1])
    union = counts[0] + counts[1] - common
    found = Similarity(
        first_count=round(counts[0]),
        second_count=round(counts[1]),
        common_count=round(common),
        union_count=round(union),
        jaccard=common / union if union else 1.0,
    )
    return found, (Counted(one.path, params, first), Counted(other.path, params, second))


def disjoint_sources(one: FilterAt, other: FilterAt) -> bool:
    """Tell whether two filters have no bit in common, up to the first that they have."""
    with open_alike((one, other)) as inputs:
        return not any(segment.any() for segment in combined(inputs, np.bitwise_and))
