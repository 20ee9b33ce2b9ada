"""Filters with equal parameters, united: a key of any of them is in the result.

The way to scale writers without a lock: each fills a file of its own, made like the others,
and the files are merged. Inputs are read without a lock, never mapped, and left as they are.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields

import numpy as np

from mmbloom._build import Target, new_filter
from mmbloom._engine import Words
from mmbloom._opening import Path, absolute
from mmbloom._unmapped import UnmappedFilter
from mmbloom.errors import IncompatibleFilters
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
    "Keys added" of the result is an estimate, as nobody knows which keys the sources share.

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
    if isinstance(sources, (str, bytes)):
        raise TypeError(f"sources is {sources!r}, expected a list of paths")
    paths = [absolute(source) for source in sources]
    if not paths:
        raise ValueError("sources is empty: name one filter or more")
    target = Target(absolute(destination), permissions, allow_network)
    try:
        _merge(target, paths)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        reason = f"{error.strerror}; merge in steps, or allow more at once (ulimit -n)"
        raise OSError(error.errno, reason, error.filename) from error


def _merge(target: Target, paths: Sequence[str]) -> None:
    with ExitStack() as stack:
        inputs: list[UnmappedFilter] = []
        for path in paths:
            inputs.append(stack.enter_context(UnmappedFilter(path)))
            require_united(inputs[0].path, inputs[0].header.params, path, inputs[-1].header.params)
        counters = [each.counters() for each in inputs]
        params = inputs[0].header.params
        with new_filter(target, params) as united:
            for piece in _united(inputs):
                united.write(piece)
            for each in inputs:
                each.check_same()
            added = [each["keys_added"] for each in counters]
            keys = united_count(added, united.positions_set, params)
            united.finish(keys, batches=len(inputs))


def _united(inputs: Sequence[UnmappedFilter]) -> Iterator[Words]:
    first, *others = [each.whole_pieces() for each in inputs]
    for piece in first:
        united = piece.copy()
        for other in others:  # one at a time, however many there are (law 17)
            np.bitwise_or(united, next(other), out=united)
        yield united


def require_united(path: str, here: FilterParams, other: str, there: FilterParams) -> None:
    """Raise `IncompatibleFilters`, naming every parameter that differs."""
    names = [field.name for field in fields(FilterParams)]
    differences = tuple(
        (name, str(getattr(here, name)), str(getattr(there, name)))
        for name in names
        if getattr(here, name) != getattr(there, name)
    )
    if differences:
        raise IncompatibleFilters(path, other, differences)


def united_count(keys_added: Sequence[int], positions_set: int, params: FilterParams) -> int:
    """Estimate the keys of a union: no fewer than of one part, no more than of all together."""
    estimate = round(params.estimated_count(positions_set))
    # Counters are not proved: a damaged one must not exceed what the bits can hold.
    return min(positions_set, max(*keys_added, min(sum(keys_added), estimate)))
