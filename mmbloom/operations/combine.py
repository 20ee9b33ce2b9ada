"""Filters with equal parameters, read side by side: compared, or combined to a new one.

Inputs are read without a lock, never mapped, and left as they are. Of each, a segment of 1 MiB
is in memory, whatever their sizes.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mmbloom._storage.atomic import Target
from mmbloom._storage.build import new_filter
from mmbloom._storage.opening import absolute, is_folder
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._typing import Path, Words
from mmbloom._warn import Counted, warn
from mmbloom.errors import FormatError, IncompatibleFiltersError, MmbloomWarning
from mmbloom.sizing.params import FilterParams, spelled

if TYPE_CHECKING:  # a program without folders imports nothing of them
    from mmbloom.format.manifest import FolderPlan

# What the counters of all inputs, and the set bits of the result, say of its keys.
CountKeys = Callable[[Sequence[int], int, FilterParams], int]


# What a filter, or a folder of them, was made with.
Parameters: TypeAlias = "FilterParams | FolderPlan"


class FilterAt(NamedTuple):
    """A filter to read: an absolute path, and the uuid that it must have, if that is known."""

    path: str
    uuid: bytes | None = None


class Combined(NamedTuple):
    """A filter that was made of others."""

    file: Counted
    sources: tuple[Counted, ...]  # each once; by what their counters say
    key_rules: tuple[str, ...]  # of the others, each once


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


def combined(inputs: Sequence[UnmappedFilter], operation: np.ufunc) -> Iterator[Words]:
    """Read all arrays at once, and give them combined by OR or AND, segment by segment.

    At the end the files must be what they were (`FileChangedError`).
    """
    first, *others = [each.segments() for each in inputs]
    for segment in first:
        result = segment.copy()
        for other in others:  # one at a time: of each of many inputs a segment is in memory
            operation(result, next(other), out=result)
        yield result
    for other in others:
        next(other, None)  # so that it comes to its end, where it compares what it has read
    for each in inputs:
        each.check_same()


def combine(
    target: Target, paths: Iterable[str], operation: np.ufunc, count_keys: CountKeys
) -> Combined:
    """Make a filter of the arrays of others: what `merge` and `intersect` have in common."""
    with in_steps_if_too_many(), open_alike(map(FilterAt, paths)) as inputs:
        return combine_opened(target, inputs, operation, count_keys)


def source_paths(sources: Iterable[Path]) -> list[str]:
    """Name what is to be combined, so that there is something to combine."""
    if isinstance(sources, (str, bytes)):
        raise TypeError(f"sources is {sources!r}, expected a list of paths")
    paths = [absolute(source) for source in sources]
    if not paths:
        raise ValueError("sources is empty: name one filter or more")
    return paths


def require_files(paths: Iterable[str], why: str) -> None:
    """Raise `FormatError` of the first folder; `why` none can be taken, and what to do instead."""
    for path in paths:
        if is_folder(path):
            raise FormatError(path, "file", "a folder", f"a single file: {why}")


def combine_opened(
    target: Target, inputs: Sequence[UnmappedFilter], operation: np.ufunc, count_keys: CountKeys
) -> Combined:
    """Make a filter of the arrays of others that are open, and of equal parameters."""
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
    """Give each key rule once, in order; a filter without one says nothing of its keys."""
    return tuple(dict.fromkeys(rule for rule in rules if rule is not None))


def warn_of_rules(path: str, rules: Iterable[str | None]) -> None:
    """Warn if keys that are now in one filter were made of lines in different ways."""
    different = different_rules(rules)
    if len(different) > 1:
        warn(
            f"{path}: its keys were made of lines in different ways: {'; '.join(different)}; "
            f"a line is found only in the way that put it there, and {different[0]} is noted: "
            "combine filters that were filled with the same options",
            MmbloomWarning,
        )


@contextmanager
def in_steps_if_too_many() -> Iterator[None]:
    """Say what to do where more files are to be open at once than may be."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        reason = f"{error.strerror}; do it in steps, or allow more at once (ulimit -n)"
        raise OSError(error.errno, reason, error.filename) from error


def united_count(keys_added: Sequence[int], positions_set: int, params: FilterParams) -> int:
    """Estimate the keys of a union: no fewer than of one part, no more than of all together."""
    estimate = round(params.estimated_count(positions_set))
    # Counters are not proved: a damaged one must not exceed what the bits can hold.
    return min(positions_set, max(*keys_added, min(sum(keys_added), estimate)))
