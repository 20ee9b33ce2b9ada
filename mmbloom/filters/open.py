"""Opening a filter with the class that matches the file or folder at its path."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.opening import absolute, as_file_or_folder
from mmbloom._system.typing import HashName, Layout, Mode, Path, Reserve
from mmbloom.errors import OtherKindError
from mmbloom.filters.base import Filter
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.options import OpenedWith, choose_params, not_asked

if TYPE_CHECKING:
    from mmbloom.filters.growing import GrowingFilter
    from mmbloom.filters.rotating import RotatingFilter


OfBits: TypeAlias = "BloomFilter | GrowingFilter | RotatingFilter"


def open(path: Path, mode: Mode = "r+", **options: Any) -> Filter:  # noqa: A001  as zarr.open
    """Open the filter at a path with the matching class.

    Parameters
    ----------
    path : str or path-like
        The filter: a file or a folder. Opening it changes nothing.
    mode : {"r+", "r"}, default "r+"
        Same as for `BloomFilter.open`.
    **options
        Other options of the class's `open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
        `verify_after_add`, `on_full` and `resident`; for a `RotatingFilter` also `clock`.

    Returns
    -------
    Filter
        A `BloomFilter`, `CountingBloomFilter`, `GrowingFilter` or `RotatingFilter`.

    Raises
    ------
    FormatError
        If it is not a valid filter.
    TypeError, ValueError
        If the class does not have an option, or a value is out of range.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> path = os.path.join(tempfile.mkdtemp(), "seen")
    >>> with mmbloom.GrowingFilter.create(path, initial_capacity=1000) as seen:
    ...     seen.add("a")
    True
    >>> with mmbloom.open(path, "r") as seen:
    ...     print(type(seen).__name__, "a" in seen)
    GrowingFilter True
    """
    where = absolute(path)  # of either: another thread may change the working folder
    with suppress(OtherKindError):
        return open_of_bits(where, mode, **options)
    return CountingBloomFilter.open(where, mode, **options)


def open_of_bits(path: Path, mode: Mode = "r+", **options: Any) -> OfBits:
    """Open a filter as `open` does, but refuse one of counters."""

    def of_folder(folder: str) -> GrowingFilter | RotatingFilter:
        return _folder_at(folder).open(folder, mode, **options)

    of_file = partial(BloomFilter.open, mode=mode, **options)
    return as_file_or_folder(absolute(path), of_file, of_folder)


def open_or_create(
    path: Path,
    capacity: int,
    error_rate: float = 0.01,
    *,
    layout: Layout = "blocked",
    seed: int | None = None,
    hash: HashName | None = None,
    permissions: int = OWNER_ONLY,
    reserve: Reserve = "zeros",
    **options: Unpack[OpenedWith],
) -> BloomFilter | GrowingFilter:
    """Open the filter at a path, or create it if nothing is there.

    The filter may be a file, or the folder that it has become by growing. If several processes call
    this at once, one of them creates the filter and the others open it.

    Parameters
    ----------
    path : str or path-like
        The filter.
    capacity, error_rate, layout, seed, hash
        Same as for `BloomFilter.create`. An existing filter must have been created with the same
        values; unless you pass a seed or hash, any will do.
    permissions, reserve
        Used only for a new file, as in `BloomFilter.create`.
    **options
        Options of `BloomFilter.open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
        `verify_after_add`, `on_full` and `resident`.

    Returns
    -------
    BloomFilter or GrowingFilter
        Opened for writing; close it with ``close`` or a ``with`` block.

    Raises
    ------
    ParameterMismatchError
        If the filter was created with other parameters.
    FormatError
        If something else is at the path, for example a counting or rotating filter.
    OSError
        If the disk space cannot be reserved (ENOSPC), or on any other system error.
    ValueError, TypeError
        If a parameter is out of range, or missing.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> path = os.path.join(tempfile.mkdtemp(), "seen")
    >>> for _ in range(2):
    ...     with mmbloom.open_or_create(path, 1000, 1e-6) as seen:
    ...         print(type(seen).__name__, seen.add("a"))
    ...     rate = mmbloom.grow(path)
    BloomFilter True
    GrowingFilter False
    """

    def of_file(path: str) -> BloomFilter:
        return BloomFilter.create(
            path,
            capacity,
            error_rate,
            layout=layout,
            seed=seed,
            hash=hash,
            permissions=permissions,
            exist_ok=True,
            reserve=reserve,
            **options,
        )

    def of_folder(folder: str) -> GrowingFilter:
        from mmbloom.filters.growing import GrowingFilter  # noqa: PLC0415  as below

        asked = choose_params(capacity, error_rate, layout, seed, hash, like=None)
        return GrowingFilter._begun_with(folder, asked, not_asked(hash, seed), **options)  # noqa: SLF001

    return as_file_or_folder(absolute(path), of_file, of_folder)


def _folder_at(path: str) -> type[GrowingFilter | RotatingFilter]:
    # Here, not above: a program that opens one file imports nothing of folders, a twentieth of
    # the time that a command takes to start.
    from mmbloom._storage.folder import folder_kind  # noqa: PLC0415
    from mmbloom.filters.growing import GrowingFilter  # noqa: PLC0415
    from mmbloom.filters.rotating import RotatingFilter  # noqa: PLC0415

    return GrowingFilter if folder_kind(path) == "growing" else RotatingFilter
