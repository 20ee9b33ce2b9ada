"""Union of filters with equal parameters: a key of any of them is in the result.

With it writers need not share a lock: each fills a filter of its own, made like the others, and
these are merged. Sources are read without a lock, never mapped, and left as they are.

Folders of one plan are merged file by file: by the plan, files of one number have equal
parameters. A key whose add had returned when the merge began is in one of the files that a
manifest named then, and all of these are read.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from mmbloom._storage.atomic import OWNER_ONLY, Target, new_folder
from mmbloom._storage.folder import ManifestFile, entry_of, file_name, first_manifest, open_named
from mmbloom._storage.opening import absolute, as_file_or_folder, is_folder
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._storage.warnings import warn_if_any_past_plan, warn_if_past_plan
from mmbloom._system.typing import Path
from mmbloom.errors import IncompatibleFiltersError
from mmbloom.format.folder import FolderPlan
from mmbloom.operations.combine import (
    combine,
    combine_opened,
    in_steps_if_too_many,
    require_alike,
    source_paths,
    united_count,
    warn_of_rules,
)


def merge(
    destination: Path,
    sources: Iterable[Path],
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Make a filter that holds the keys of all others given.

    Parameters
    ----------
    destination : str or path-like
        Where to make it; it appears complete and on the disk, or not at all.
    sources : iterable of str or path-like
        At least one filter: all files of a `BloomFilter`, or all folders of one kind; none that
        counts. They must have equal parameters, hash and seed
        (`BloomFilter.create(..., like=other)`, `mmbloom create --like`).
        Others may write to them at the same time; sealed ones are checked on the way. Memory
        depends neither on their sizes nor on how many there are.
    permissions : int, default 0o600
        Mode bits of the new file; of a folder, of the files in it.
    allow_network : bool, default False
        Allow making it on a network file system.

    Raises
    ------
    IncompatibleFiltersError
        If a parameter differs; names every one that does, of the first two that differ. Also of
        a file and a folder.
    OSError
        EMFILE if there are more files in all than may be open: merge in steps.
    ValueError, TypeError
        If `sources` is empty, or a single path.
    FormatError, FileChangedError, FileExistsError, NetworkFileSystemError
        As each call that reads filters and makes one: see `mmbloom.errors`.

    Notes
    -----
    "Keys added" of the result is an estimate, for sources may share keys. After the result is
    there, a `CapacityWarning` tells of files with more keys than planned, and a `MmbloomWarning`
    of sources with different `key_rule`: the result has that of the first source that has one, and
    finds a line only in the way that put it there.

    File i of a growing filter is the union of the files i. The file of a period of a rotating
    filter is the union of the files of that period; a source that has none is left out. Periods
    that were past their time when the newest of all began are left out as well.

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
    _require_one_kind(paths)
    as_file_or_folder(
        paths[0], lambda _: _merge_files(target, paths), lambda _: _merge_folders(target, paths)
    )


def _require_one_kind(paths: Sequence[str]) -> None:
    """Raise `IncompatibleFiltersError` if some paths are folders and others files."""
    folders = [is_folder(path) for path in paths]
    if any(folders) and not all(folders):
        folder, file = paths[folders.index(True)], paths[folders.index(False)]
        raise IncompatibleFiltersError(folder, file, (("kind", "a folder", "a file"),))


def _merge_files(target: Target, paths: Sequence[str]) -> None:
    united = combine(target, paths, np.bitwise_or, united_count)
    warn_of_rules(target.path, united.key_rules)
    warn_if_past_plan(united.file)


_Opened = tuple[ManifestFile, list[UnmappedFilter]]


def _merge_folders(target: Target, paths: Sequence[str]) -> None:
    with in_steps_if_too_many(), ExitStack() as stack:
        opened = [stack.enter_context(open_named(each)) for each in paths]
        plan = _common_plan(paths, opened)
        parts = _parts(plan, opened)
        with new_folder(target.path, target.permissions) as folder:
            made, entries = [], []
            for number, files in parts.items():
                name = file_name(number)
                file = target.within(folder, name)
                made.append(combine_opened(file, files, np.bitwise_or, united_count))
                entries.append(entry_of(folder, name, number))
            first_manifest(folder, plan, entries, target.permissions)
    warn_of_rules(target.path, [rule for one in made for rule in one.key_rules])
    warn_if_any_past_plan(target.path, plan.kind, [one.file for one in made])


def _common_plan(paths: Sequence[str], opened: Sequence[_Opened]) -> FolderPlan:
    """Return the plan of all; raise `IncompatibleFiltersError` if they have more than one."""
    first = opened[0][0].manifest.plan
    for path, (file, _) in zip(paths, opened, strict=True):
        plan = file.manifest.plan
        if type(plan) is not type(first):
            raise IncompatibleFiltersError(paths[0], path, (("kind", first.kind, plan.kind),))
        # How disk space was reserved does not matter for the bits.
        require_alike(paths[0], first, path, replace(plan, reserve=first.reserve))
    return first


def _parts(plan: FolderPlan, opened: Sequence[_Opened]) -> dict[int, list[UnmappedFilter]]:
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
