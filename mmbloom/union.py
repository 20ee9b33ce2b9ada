"""Filters with equal parameters, united: a key of any of them is in the result.

The way to scale writers without a lock: each fills a file of its own, made like the others,
and the files are merged. Inputs are read without a lock, never mapped, and left as they are.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from mmbloom._capacity import full_at, warn_past_capacity
from mmbloom._combine import combine
from mmbloom._opening import Path
from mmbloom.sizing import FilterParams


def merge(
    destination: Path,
    sources: Iterable[Path],
    *,
    permissions: int = 0o600,
    allow_network: bool = False,
) -> None:
    """Make a filter that holds the keys of all others given.

    Parameters
    ----------
    destination : str or path-like
        Where it is made; it appears complete and forced to the disk, or not at all.
    sources : iterable of str or path-like
        Filters with equal parameters and seed (`BloomFilter.create(..., like=other)`), at
        least one; sealed ones are checked on the way. Memory depends neither on their sizes
        nor on how many there are.
    permissions : int, default 0o600
        Mode bits of the new file.
    allow_network : bool, default False
        Allow making it on a network file system.

    Raises
    ------
    IncompatibleFilters
        If a parameter differs; names every one that does, of the first two that differ.
    FormatError
        If a source is no filter, or a sealed one that is damaged.
    FileExistsError
        If the destination exists.
    OSError
        EMFILE if there are more sources than files may be open: merge in steps.

    Notes
    -----
    "Keys added" of the result is an estimate, as nobody knows which keys the sources share. If
    they are more than the filter was planned for, that is a `CapacityWarning`, when the result
    is there.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter, merge
    >>> one, two, both = (os.path.join(tempfile.mkdtemp(), name) for name in ("1", "2", "both"))
    >>> with BloomFilter.create(one, capacity=1000) as a, BloomFilter.create(two, like=a) as b:
    ...     a.add("x"), b.add("y")
    (True, True)
    >>> merge(both, [one, two])
    >>> with BloomFilter.open(both) as seen:
    ...     print("x" in seen, "y" in seen, "z" in seen)
    True True False
    """
    united = combine(
        destination,
        sources,
        np.bitwise_or,
        united_count,
        permissions=permissions,
        allow_network=allow_network,
    )
    if united.positions_set > full_at(united.params):  # said last: it may raise
        warn_past_capacity(*united)


def united_count(keys_added: Sequence[int], positions_set: int, params: FilterParams) -> int:
    """Estimate the keys of a union: no fewer than of one part, no more than of all together."""
    estimate = round(params.estimated_count(positions_set))
    # Counters are not proved: a damaged one must not exceed what the bits can hold.
    return min(positions_set, max(*keys_added, min(sum(keys_added), estimate)))
