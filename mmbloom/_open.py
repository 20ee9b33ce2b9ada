"""Whichever filter is at a path: the class that the file or the folder needs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from mmbloom._storage.opening import absolute, is_folder
from mmbloom._typing import Mode, Path
from mmbloom.errors import OtherKindError
from mmbloom.filters.base import Filter
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter

if TYPE_CHECKING:
    from mmbloom.folders.growing import GrowingFilter
    from mmbloom.folders.rotating import RotatingFilter

OfBits: TypeAlias = "BloomFilter | GrowingFilter | RotatingFilter"


def open(path: Path, mode: Mode = "r+", **options: Any) -> Filter:  # noqa: A001  as zarr.open
    """Open the filter at a path with the class that it needs.

    Parameters
    ----------
    path : str or path-like
        The filter, a file or a folder. Opening changes nothing in it.
    mode : {"r+", "r"}, default "r+"
        As for `BloomFilter.open`.
    **options
        The other options of the class's `open`: `lock_timeout`, `allow_network`, `threads`,
        `preload`, `verify_after_add`, `on_full`, `resident`; of a `RotatingFilter` also `clock`.

    Returns
    -------
    Filter
        A `BloomFilter`, `CountingBloomFilter`, `GrowingFilter` or `RotatingFilter`.

    Raises
    ------
    FormatError
        If it is no valid filter.
    TypeError, ValueError
        If an option is not of this class, or out of range.
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
    where = absolute(path)
    if is_folder(where):
        return open_of_bits(where, mode, **options)
    with suppress(OtherKindError):
        return BloomFilter.open(where, mode, **options)
    return CountingBloomFilter.open(where, mode, **options)


def open_of_bits(path: Path, mode: Mode = "r+", **options: Any) -> OfBits:
    """Open a filter that is not of counters, which are refused; otherwise as `open`."""
    where = absolute(path)
    if is_folder(where):
        return _folder_at(where).open(where, mode, **options)
    return BloomFilter.open(where, mode, **options)


def _folder_at(path: str) -> type[GrowingFilter | RotatingFilter]:
    # Here, not above: a program that opens one file imports nothing of folders, a twentieth of
    # the time that a command takes to start.
    from mmbloom._storage.folder import folder_kind  # noqa: PLC0415
    from mmbloom.folders.growing import GrowingFilter  # noqa: PLC0415
    from mmbloom.folders.rotating import RotatingFilter  # noqa: PLC0415

    classes: dict[str, type[GrowingFilter | RotatingFilter]] = {
        "growing": GrowingFilter,
        "rotating": RotatingFilter,
    }
    return classes[folder_kind(path)]
