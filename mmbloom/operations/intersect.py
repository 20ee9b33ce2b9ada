"""Filters with equal parameters, intersected: a key that all of them have is in the result.

The result is always a new file: readers take no lock, because the bits of a living filter only go
from 0 to 1, and an intersection in place would clear some.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from mmbloom._storage.atomic import OWNER_ONLY, Target
from mmbloom._storage.opening import absolute
from mmbloom._typing import Path
from mmbloom._warn import warn_if_past_plan
from mmbloom.operations.combine import combine, require_files, source_paths, warn_of_rules
from mmbloom.sizing.params import FilterParams

_WHY_FILES = "a key may be in file 1 of one folder and in file 2 of another, and would be lost; \
check the lines in one folder, and what is printed in the other"


def intersect(
    destination: Path,
    sources: Iterable[Path],
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Make a filter that finds a key exactly if each of the others finds it.

    So it has every key that all of them have, and more false positives than a filter made of
    those keys alone: see the notes.

    Parameters
    ----------
    destination, permissions, allow_network
        As for `merge`.
    sources : iterable of str or path-like
        Filters of one file each, else as for `merge`.

    Raises
    ------
    FormatError
        If a source is a folder.
    IncompatibleFiltersError, OSError, ValueError, TypeError
        As for `merge`, and whatever else it raises.

    Notes
    -----
    The array is the AND of all arrays. A key of one source only is found as often as the others
    have a false positive. For a key of none, with c common keys and a and b keys of one source
    only, the share of set bits is f = 1 - C + C (1 - A) (1 - B), where C = e^(-k c/m) and A
    and B likewise, and the rate f^k (standard layout; in the blocked one about so): more than
    the (1 - C)^k of the common keys alone, and no more than that of any source.

    Bits that coincide by chance look like keys: "keys added" and `approx_count` of the result
    come from its set bits and are too high, the more so the fuller the sources are: after the
    result is there, a `CapacityWarning` tells of those with more keys than planned.
    `BloomFilter.common_count` estimates how many keys two filters share.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter, intersect
    >>> one, two, both = (os.path.join(tempfile.mkdtemp(), name) for name in ("1", "2", "both"))
    >>> with BloomFilter.create(one, capacity=1000) as a, BloomFilter.create(two, like=a) as b:
    ...     a.update(["x", "y"]), b.update(["y", "z"])
    (2, 2)
    >>> intersect(both, [one, two])
    >>> with BloomFilter.open(both) as common:
    ...     print("x" in common, "y" in common, "z" in common)
    False True False
    """
    target = Target(absolute(destination), permissions, allow_network)
    paths = source_paths(sources)
    require_files(paths, _WHY_FILES)
    common = combine(target, paths, np.bitwise_and, _most_keys)
    warn_of_rules(target.path, common.key_rules)
    warn_if_past_plan(*common.sources)


def _most_keys(keys_added: Sequence[int], positions_set: int, params: FilterParams) -> int:
    """Estimate the keys that such bits can be those of: no more than any source has."""
    return min(*keys_added, round(params.estimated_count(positions_set)))
