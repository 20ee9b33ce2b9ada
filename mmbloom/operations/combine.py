"""Filters with equal parameters, read together: united, intersected, or compared.

Inputs are read segment by segment, without a lock or a map, and left as they are. One segment of
1 MiB of each is in memory, whatever their sizes.

`merge` makes a filter that has each key of any of them. With it writers need not share a lock:
each fills a filter of its own, made like the others. Folders of one plan are merged file by file:
by the plan, files of one number have equal parameters. A key whose add had returned when the merge
began is in one of the files that a manifest named then, and all of these are read.

`intersect` makes a filter of the keys that all of them have. The result is always a new file:
readers take no lock, because the bits of a live filter only go from 0 to 1, and an intersection in
place would clear some.

`compare` estimates how many keys two filters share, from the bits that are set in one of them, in
either and in both.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mmbloom._engine import count_set
from mmbloom._storage.atomic import OWNER_ONLY, Target
from mmbloom._storage.build import new_filter
from mmbloom._storage.opening import absolute, as_file_or_folder, is_folder
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._storage.warnings import Counted, warn, warn_if_any_past_plan, warn_if_past_plan
from mmbloom._system.typing import Path, Words
from mmbloom.errors import FormatError, IncompatibleFiltersError, MmbloomWarning
from mmbloom.sizing.params import FilterParams, spelled

if TYPE_CHECKING:
    from mmbloom._storage.folder import ManifestFile
    from mmbloom.format.folder import FolderPlan


# The number of keys of a result: from the keys added of all inputs, and its own set bits.
CountKeys = Callable[[Sequence[int], int, FilterParams], int]


# What a filter, or a folder of them, was made with.
Parameters: TypeAlias = "FilterParams | FolderPlan"


class FilterAt(NamedTuple):
    """A filter to read: an absolute path, and the uuid that it must have, if that is known."""

    path: str
    uuid: bytes | None = None


class Combined(NamedTuple):
    """A filter that was made from others."""

    file: Counted
    sources: tuple[Counted, ...]  # each once, with what its counters say
    key_rules: tuple[str, ...]  # of the sources, each once


def require_alike(path: str, here: Parameters, other: str, there: Parameters) -> None:
    """Raise `IncompatibleFiltersError`, naming every parameter that differs."""
    differences = tuple(
        (name, spelled(here, name), spelled(there, name))
        for name in (field.name for field in fields(here))
        if getattr(here, name) != getattr(there, name)
    )
    if differences:
        raise IncompatibleFiltersError(path, other, differences)


@contextmanager
def open_alike(sources: Iterable[FilterAt]) -> Iterator[list[UnmappedFilter]]:
    """Open filters that must have equal parameters."""
    with ExitStack() as stack:
        inputs: list[UnmappedFilter] = []
        for source in sources:
            inputs.append(stack.enter_context(UnmappedFilter(*source)))
            first, last = inputs[0], inputs[-1]
            require_alike(first.path, first.header.params, last.path, last.header.params)
        yield inputs


def combined(inputs: Sequence[UnmappedFilter], operation: Callable[..., object]) -> Iterator[Words]:
    """Read all arrays together, and yield each segment combined by OR, AND or the like.

    Raise `FileChangedError` if a file has changed by the end.
    """
    first, *others = [each.segments() for each in inputs]
    for segment in first:
        result = segment.copy()
        for other in others:  # no list of segments: many inputs would need much memory
            operation(result, next(other), out=result)
        yield result
    for other in others:
        next(other, None)  # runs it to its end, where it checks what it has read
    for each in inputs:
        each.check_same()


def combine(
    target: Target, paths: Iterable[str], operation: np.ufunc, count_keys: CountKeys
) -> Combined:
    """Make a filter from the arrays of others, for `merge` and `intersect`."""
    with in_steps_if_too_many(), open_alike(map(FilterAt, paths)) as inputs:
        return combine_opened(target, inputs, operation, count_keys)


def source_paths(sources: Iterable[Path]) -> list[str]:
    """Return the absolute paths of sources; raise unless it is a list of one or more."""
    if isinstance(sources, (str, bytes)):
        raise TypeError(f"sources is {sources!r}, expected a list of paths")
    paths = [absolute(source) for source in sources]
    if not paths:
        raise ValueError("sources is empty, expected at least one filter")
    return paths


def require_files(paths: Iterable[str], why: str) -> None:
    """Raise `FormatError` for the first folder; `why` is the reason and what to do instead."""
    for path in paths:
        if is_folder(path):
            raise FormatError(path, "file", "a folder", f"a single file: {why}")


def combine_opened(
    target: Target, inputs: Sequence[UnmappedFilter], operation: np.ufunc, count_keys: CountKeys
) -> Combined:
    """Make a filter from the arrays of open filters with equal parameters."""
    counters, params = [each.counters() for each in inputs], inputs[0].header.params
    added = [each["keys_added"] for each in counters]
    sources = dict.fromkeys(
        Counted(each.path, params, min(said["positions_set"], params.num_bits))
        for each, said in zip(inputs, counters, strict=True)
    )
    rules = different_rules(each.key_rule() for each in inputs)
    with new_filter(target, params, key_rule=next(iter(rules), None)) as made:
        for segment in combined(inputs, operation):
            made.write(segment)
        keys = count_keys(added, made.positions_set, params)
        made.finish(keys, batches=len(inputs))
    return Combined(Counted(target.path, params, made.positions_set), tuple(sources), rules)


def different_rules(rules: Iterable[str | None]) -> tuple[str, ...]:
    """Return each key rule once, in order; None is no rule."""
    return tuple(dict.fromkeys(rule for rule in rules if rule is not None))


def warn_of_rules(path: str, rules: Iterable[str | None]) -> None:
    """Warn if the keys of one filter were made of lines in different ways."""
    different = different_rules(rules)
    if len(different) > 1:
        warn(
            f"{path}: its keys were made from lines in different ways: {'; '.join(different)}; "
            "a line is found only by the rule it was added with, and only "
            f"{different[0]} is recorded: combine filters that were filled with the same options",
            MmbloomWarning,
        )


@contextmanager
def in_steps_if_too_many() -> Iterator[None]:
    """Add what to do to the error of too many open files."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        reason = f"{error.strerror}; do it in steps, or allow more open files (ulimit -n)"
        raise OSError(error.errno, reason, error.filename) from error


def united_count(keys_added: Sequence[int], positions_set: int, params: FilterParams) -> int:
    """Estimate the keys of a union: no fewer than of one part, no more than of all together."""
    estimate = round(params.estimated_count(positions_set))
    # Counters may be damaged: the result must not exceed what the bits can hold.
    return min(positions_set, max(*keys_added, min(sum(keys_added), estimate)))


def merge(
    destination: Path,
    sources: Iterable[Path],
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Make a filter that has all keys of the given filters.

    Parameters
    ----------
    destination : str or path-like
        Where to make the filter. It appears complete and on the disk, or not at all.
    sources : iterable of str or path-like
        At least one filter: either files of a `BloomFilter`, or folders of one kind; no counting
        filters. All must have equal parameters, hash and seed
        (`BloomFilter.create(..., like=other)`, `mmbloom create --like`).
        Others may write to them at the same time. Checksums of sealed sources are verified. Memory
        depends neither on their sizes nor on their number.
    permissions : int, default 0o600
        Mode bits of the new file; for a folder, of the files in it.
    allow_network : bool, default False
        Allow a destination on a network file system.

    Raises
    ------
    IncompatibleFiltersError
        If parameters differ, or if files and folders are mixed. The error names all differences
        between the first two sources that differ.
    OSError
        EMFILE if there are more files in total than may be open: merge in steps.
    ValueError, TypeError
        If `sources` is empty, or a single path.
    FormatError, FileChangedError, FileExistsError, NetworkFileSystemError
        Errors common to calls that read or make filters: see `mmbloom.errors`.

    Notes
    -----
    `keys_added` of the result is an estimate, because sources may share keys. After the result has
    been made, a `CapacityWarning` is given for files that are past their capacity, and a
    `MmbloomWarning` if the sources have different `key_rule`. The result then has the rule of the
    first source that has one, and a line is found only by the rule it was added with.

    File i of a growing filter is the union of the sources' files i. In a rotating filter, the file
    of a period is the union of the sources' files of that period; sources without one are skipped.
    Periods that had expired when the newest period of all sources began are also left out.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> one, two, both = (os.path.join(tempfile.mkdtemp(), name) for name in ("1", "2", "both"))
    >>> for path, keys in ((one, range(300)), (two, range(200, 500))):
    ...     with mmbloom.GrowingFilter.create(path, initial_capacity=1000, seed=1) as seen:
    ...         added = seen.update(keys)
    >>> mmbloom.merge(both, [one, two])
    >>> with mmbloom.open(both) as seen:
    ...     print(seen.contains_many(range(500)).all(), seen.add("more"))
    True True
    """
    target = Target(absolute(destination), permissions, allow_network)
    paths = source_paths(sources)
    folders = [is_folder(path) for path in paths]
    if any(folders) and not all(folders):
        folder, file = paths[folders.index(True)], paths[folders.index(False)]
        raise IncompatibleFiltersError(folder, file, (("kind", "a folder", "a file"),))
    as_file_or_folder(
        paths[0], lambda _: _merge_files(target, paths), lambda _: _merge_folders(target, paths)
    )


def _merge_files(target: Target, paths: Sequence[str]) -> None:
    united = combine(target, paths, np.bitwise_or, united_count)
    warn_of_rules(target.path, united.key_rules)
    warn_if_past_plan(united.file)


def _merge_folders(target: Target, paths: Sequence[str]) -> None:
    # Not at the top: a program that opens one file needs nothing of folders.
    from mmbloom._storage.folder import (  # noqa: PLC0415
        file_name,
        new_filter_folder,
        open_named,
    )

    with in_steps_if_too_many(), ExitStack() as stack:
        opened = [stack.enter_context(open_named(each)) for each in paths]
        plan = _common_plan(paths, [file.manifest.plan for file, _ in opened])
        parts = _parts(plan, opened)
        with new_filter_folder(target, plan) as place:
            made = [
                combine_opened(place(number, file_name(number)), files, np.bitwise_or, united_count)
                for number, files in parts.items()
            ]
    warn_of_rules(target.path, [rule for one in made for rule in one.key_rules])
    warn_if_any_past_plan(target.path, plan.kind, [one.file for one in made])


def _common_plan(paths: Sequence[str], plans: Sequence[FolderPlan]) -> FolderPlan:
    """Return the plan of all; raise `IncompatibleFiltersError` if they have more than one."""
    first = plans[0]
    for path, plan in zip(paths, plans, strict=True):
        if type(plan) is not type(first):
            raise IncompatibleFiltersError(paths[0], path, (("kind", first.kind, plan.kind),))
        # How disk space was reserved does not matter for the bits.
        require_alike(paths[0], first, path, replace(plan, reserve=first.reserve))
    return first


def _parts(
    plan: FolderPlan, opened: Sequence[tuple[ManifestFile, list[UnmappedFilter]]]
) -> dict[int, list[UnmappedFilter]]:
    """Return the sources of each file of the result, by number, oldest first."""
    parts: dict[int, list[UnmappedFilter]] = {}
    for file, files in opened:
        for entry, each in zip(file.manifest.members, files, strict=True):
            same = parts.setdefault(entry.number, [])
            same.append(each)
            # Another version may have planned another size.
            require_alike(same[0].path, same[0].header.params, each.path, each.header.params)
    newest = max(parts)
    return {number: parts[number] for number in sorted(parts) if not plan.is_past(number, newest)}


_WHY_FILES_TO_INTERSECT = (
    "a key may be in file 1 of one folder and in file 2 of another, and would be lost; \
check the lines against one folder, and the lines that this prints against the other"
)


def intersect(
    destination: Path,
    sources: Iterable[Path],
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Make a filter that finds a key exactly if each of the given filters finds it.

    It has every key that all of them have, and more false positives than a filter made from only
    those keys: see the notes.

    Parameters
    ----------
    destination, permissions, allow_network
        Same as for `merge`.
    sources : iterable of str or path-like
        Filters of one file each; otherwise the same as for `merge`.

    Raises
    ------
    FormatError
        If a source is a folder.
    IncompatibleFiltersError, OSError, ValueError, TypeError
        Same as for `merge`, as are all other errors.

    Notes
    -----
    The array is the AND of all arrays. A key that only one source has is found at the rate at which
    the others report it as a false positive. For a key that no source has, let c be the number of
    common keys, and a and b the numbers of keys that only one of the two sources has. The
    share of set bits is f = 1 - C + C (1 - A) (1 - B), where C = e^(-k c/m) and A and B likewise,
    and the rate is f^k in the standard layout, and about f^k in the blocked one. That is more than
    the (1 - C)^k of the common keys alone, and no more than the rate of any source.

    Bits that coincide by chance look like keys. `keys_added` and `approx_count` of the result are
    computed from its set bits, so they are too high, and more so the fuller the sources are. After
    the result has been made, a `CapacityWarning` is given for sources that are past their capacity.
    To estimate how many keys two filters share, use `BloomFilter.common_count`.

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
    require_files(paths, _WHY_FILES_TO_INTERSECT)
    common = combine(target, paths, np.bitwise_and, _most_keys)
    warn_of_rules(target.path, common.key_rules)
    warn_if_past_plan(*common.sources)


def _most_keys(keys_added: Sequence[int], positions_set: int, params: FilterParams) -> int:
    """Estimate the keys of an intersection: no more than any source has."""
    return min(*keys_added, round(params.estimated_count(positions_set)))


_WHY_FILES_TO_COMPARE = (
    "a key may be in file 1 of one folder and in file 2 of the other, and would not be \
counted; use contains_many (check -c) to find the keys that a folder has"
)


@dataclass(frozen=True, slots=True)
class Similarity:
    """How similar two filters are: estimated numbers of distinct keys.

    Attributes
    ----------
    first_count, second_count : int
        Keys of each filter.
    common_count : int
        Keys that both filters have; at most the smaller of the two counts.
    union_count : int
        Keys that at least one of the filters has.
    jaccard : float
        Common keys divided by all keys of both, from 0 to 1; for two empty filters, 1.

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
        If parameters differ; the error names all of them.
    FormatError
        If one is a folder.
    FormatError, FileChangedError, OSError
        Errors common to calls that read filters: see `mmbloom.errors`.

    Notes
    -----
    With n(X) the estimate for X set bits (`sizing.estimate_count`), A and B have
    n(A) + n(B) - n(A | B) common keys, between 0 and the smaller of n(A) and n(B) (Swamidass and
    Baldi, "Mathematical Correction for Fingerprint Similarity Measures to Improve Chemical
    Retrieval", 2007). The standard error of each term is about sqrt(m (e^x - 1 - x)) / k with
    x = k n/m. For filters at capacity with an error rate of 1 %, the standard error of the common
    keys was measured as sqrt(n) / 4 keys if at least half are common, and sqrt(n) / 2 if none are,
    because A | B is then overfull. A few common keys of large filters are lost in that noise.
    Full filters say nothing about common keys; a `CapacityWarning` is given for filters past their
    capacity.

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
    require_files(paths, _WHY_FILES_TO_COMPARE)
    found, counted = _compare(*map(FilterAt, paths))
    warn_if_past_plan(*dict.fromkeys(counted))
    return found


def compare_sources(one: FilterAt, other: FilterAt) -> Similarity:
    """Compare two files as `compare` does, which must have the uuids given."""
    return _compare(one, other)[0]


def _compare(one: FilterAt, other: FilterAt) -> tuple[Similarity, tuple[Counted, Counted]]:
    """Compare two files; return how full each is as well."""
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


def none_set(one: FilterAt, other: FilterAt, operation: Callable[..., object]) -> bool:
    """Return whether the combined arrays of two filters have no bit set; stop at the first."""
    with open_alike((one, other)) as inputs:
        return not any(segment.any() for segment in combined(inputs, operation))
