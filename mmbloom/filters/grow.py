"""A full file becomes the first of a growing folder, at the same path, in one step.

The file itself is not copied and not changed: it gets a second name, in a new folder beside it,
and then folder and file change places. All of it happens under the file's write lock. So a
writer has added to a file of the folder, or finds the folder and goes on with that.
If this process dies, the path has the file as it was, or the folder with all that the file knows.
"""

import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import cast

from mmbloom._storage.atomic import Target, require_reserve, require_same, sync_folder
from mmbloom._storage.exclusions import counted_listed, replace_listed
from mmbloom._storage.folder import file_name, is_named, new_filter_folder, open_named
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import ALL_KINDS, BITS, absolute, as_file_or_folder, kind_of
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._system.sections import outlast
from mmbloom._system.typing import Path, Reserve
from mmbloom.errors import FormatError, OtherKindError
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import BitFile
from mmbloom.filters.growing import GrowingChain, become, grown_chain, hand_over
from mmbloom.filters.options import OpenOptions
from mmbloom.filters.shelf import OneFile, Shelf
from mmbloom.format.exclusions import exclusions_path, exclusions_path_in
from mmbloom.format.folder import GrowthPlan
from mmbloom.sizing import Fill
from mmbloom.sizing.formulas import rate_of_any
from mmbloom.sizing.params import FilterParams


def grow(
    path: Path,
    *,
    reserve: Reserve = "zeros",
    lock_timeout: float | None = 60.0,
    allow_network: bool = False,
) -> float:
    """Turn a filter file into a growing folder at the same path, with all its keys.

    The file becomes the first file of the folder, and its exclusions become those of the folder.
    Once the file has reached its capacity, keys go to a second file with twice the capacity, and so
    on: see `GrowingFilter`. If a growing folder is already at the path, nothing happens, so several
    processes that find the file full may all call this; one of them grows it.

    Parameters
    ----------
    path : str or path-like
        The file of a `BloomFilter`. Other processes may have it open: the folder contains all keys
        that they add, and their next call continues with the folder.
    reserve : {"zeros", "fallocate"}, default "zeros"
        How to reserve the disk space of further files, as in `BloomFilter.create`.
    lock_timeout : float or None, default 60.0
        Seconds to wait for other writers; None waits forever.
    allow_network : bool, default False
        Allow a network file system; safe only if a single host writes to the filter.

    Returns
    -------
    float
        The false-positive rate of the folder, however many keys it gets: twice that of the file, or
        more if the file is already past its capacity.

    Raises
    ------
    FormatError
        If it is not a valid filter file, or is the file of a `CountingBloomFilter`, a rotating
        folder, a file of a folder, or a symbolic link.
    ReadOnlyError
        If it is sealed.
    ValueError
        If the rate of the folder would be 1, or if the file is so far past its capacity that it
        reports half of all new keys as seen: the folder would, too.
    LockTimeoutError, FileChangedError
        If other writers kept the lock, or another file replaced this one during the call.
    PermissionError
        If the file belongs to another user: the folder would have to belong to that user, too.
    OSError
        If the system or file system cannot swap a folder and a file in one step, or on any other
        system error. The file is then unchanged.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> path = os.path.join(tempfile.mkdtemp(), "seen")
    >>> with mmbloom.BloomFilter.create(path, capacity=1000, error_rate=1e-6) as seen:
    ...     added = seen.add_many(range(1000))
    >>> mmbloom.grow(path)
    2e-06
    >>> with mmbloom.open(path) as seen:
    ...     print(999 in seen, seen.add_many(range(1000, 3000)).all(), len(seen.info().files))
    True True 2
    """
    require_reserve(reserve)
    options = OpenOptions(lock_timeout=lock_timeout, allow_network=allow_network)
    of_file = partial(_grow_file, options=options, reserve=reserve)
    return as_file_or_folder(absolute(path), of_file, _rate_of_grown)


def _grow_file(path: str, *, options: OpenOptions, reserve: Reserve) -> float:
    require_file_of_bits(path)
    with ExitStack() as stack:
        storage = MappedFilter(path, writable=True, allow_network=options.allow_network)
        params = storage.header.params
        exclusions = ExclusionList(exclusions_path(path), params.key_hash)
        opened = BitFile(storage, exclusions, options, on_full=None)
        stack.callback(opened.close)
        storage.check_writable()
        require_growth(path, params, storage.positions_set)
        plan = GrowthPlan.beginning_with(params, reserve)
        with opened.section(options.lock_timeout):
            now = storage.current_error_rate
            _swap(path, plan)
    return _rate_of(plan, params, now)


def _rate_of_grown(folder: str) -> float:
    with open_named(folder) as (file, (first, *_)):
        plan, params = file.manifest.plan, first.header.params
        if not isinstance(plan, GrowthPlan):
            why = "a single file; a rotating filter begins a new file each period"
            raise OtherKindError(folder, plan.kind, plan.kind, why)
        positions = min(first.counters()["positions_set"], params.num_bits)  # nothing proves them
        now = params.expected_error_rate(positions)
    return _rate_of(plan, params, now)


def _rate_of(plan: GrowthPlan, first: FilterParams, now: float) -> float:
    # By the plan, unless the first file is so far past its own that it alone drops more.
    return max(plan.error_rate, rate_of_any([now, plan.error_rate - first.error_rate]))


def require_growth(path: str, params: FilterParams, positions_set: int = 0) -> None:
    """Raise `ValueError` unless a file can become the first of a growing folder."""
    reason = why_not(params, Fill.of(params, positions_set))
    if reason:
        raise ValueError(f"{path}: cannot grow: {reason}")


def why_not(params: FilterParams, fill: Fill) -> str:
    """Return why a file cannot become the first of a growing folder, or ""."""
    if fill.is_useless:
        return (
            f"{fill.taken()}, and a folder made from it would be no better; make a new "
            "filter, and add the keys again"
        )
    try:
        GrowthPlan.beginning_with(params, "zeros")
    except ValueError as error:
        return f"{error}; make a larger filter"
    return ""


def require_file_of_bits(path: str) -> None:
    """Raise `FormatError` unless a path is a file of bits, and a filter of its own."""
    if os.path.islink(path):
        expected = f"the file itself; grow {os.path.realpath(path)}"
        raise FormatError(path, "file", "a symbolic link", expected)
    if is_named(path):
        folder = os.path.dirname(path)
        expected = "a separate filter: the folder grows by itself, or begins a file each period"
        raise FormatError(path, "file", f"a file of the folder {folder}", expected)
    with UnmappedFilter(path, kinds=ALL_KINDS) as looked_at:
        if (kind_of(looked_at.header)) is not BITS:
            raise OtherKindError(
                path,
                "counters",
                "counters",
                "bits: keys cannot be removed from a growing filter; to_bloom writes a filter of "
                "bits with the same keys, which can grow",
            )


def shelf_to_grow(
    path: str, options: OpenOptions, open_file: Callable[[str, OpenOptions], OneFile]
) -> Shelf:
    """Open a file that will grow, or the folder that it has become."""

    def of_file(path: str) -> OneFile:
        require_file_of_bits(path)
        shelf = open_file(path, options)
        file = shelf.only
        try:
            require_growth(path, file.params, file.storage.positions_set)
        except ValueError:
            shelf.close()
            raise
        return shelf

    return as_file_or_folder(path, of_file, partial(grown_chain, options=options))


def grow_in_use(shelf: OneFile) -> None:
    """Grow the file of a shelf, within a section of it, which goes on."""
    with shelf.loading.here():  # other threads that find the folder wait
        _swap(shelf.path, GrowthPlan.beginning_with(shelf.only.params, "zeros"))
        if isinstance(cast("Shelf", shelf), OneFile):  # no signal handler has asked meanwhile
            # Held before another thread can use it: that would wait for this very section.
            path = os.path.join(shelf.path, file_name(0))
            lock = WriteLock(path, shelf.only.storage.identity, shelf.timeout)
            hand_over(shelf.state, lock)
            become(shelf, lock)
        cast("GrowingChain", shelf).keep_lock()


def _swap(path: str, plan: GrowthPlan) -> None:
    """Put a folder with the file in the file's place; call under its lock."""
    try:
        _make_folder(path, plan)
    finally:
        # A process that has the file open may ask it, and add to it, while its last check is
        # valid. Under the lock of the newest file nothing is added to the folder.
        outlast()


def _make_folder(path: str, plan: GrowthPlan) -> None:
    file, beside = os.lstat(path), exclusions_path(path)
    listed = counted_listed(beside)  # if damaged, nothing is made
    # Whether a network is allowed was checked when the file was opened.
    target = Target(path, stat.S_IMODE(file.st_mode) & 0o777, True, instead_of=file)
    with new_filter_folder(target, plan, like=file) as place:
        first = place(0, file_name(0)).path
        os.link(path, first)
        require_same(file, first)
        if listed.keys:
            replace_listed(exclusions_path_in(os.path.dirname(first)), listed.keys, file)
    if listed.keys:
        with suppress(OSError):  # the folder's count now, and these are not asked
            os.unlink(beside)
            sync_folder(os.path.dirname(path))
