"""Which keys belong to which slice of a filter; no file, no bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from mmbloom import _engine
from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import coerce
from mmbloom._typing import Array, HashHalves, HashName, Indices, Keys, Nulls, Words
from mmbloom.errors import FormatError, ParameterMismatchError
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.options import choose_params
from mmbloom.format.slices import SliceHeader, bounds_of, pages_of
from mmbloom.sizing.params import FilterParams, spelled

NULL = -1  # the slice of a row without a key


class Split(NamedTuple):
    """Where the keys of a batch belong, row by row.

    Attributes
    ----------
    slice_no : ndarray of int32, shape (n,)
        The slice of each row's key; -1 for a null.
    h1, h2 : ndarray of uint64, shape (n,)
        Its hash halves; 0 for a null.
    """

    slice_no: Array[np.int32]
    h1: Words
    h2: Words


class Part(NamedTuple):
    """The keys of a batch that belong to one slice, in the order of their rows.

    Attributes
    ----------
    rows : ndarray of intp, shape (m,)
        Their rows in the batch, ascending.
    h1, h2 : ndarray of uint64, shape (m,)
        Their hash halves.
    """

    rows: Indices
    h1: Words
    h2: Words


@dataclass(frozen=True)
class SlicePlan:
    """A blocked filter cut into contiguous slices of whole pages, so that each has its own keys.

    Parameters
    ----------
    params : FilterParams, or an open BloomFilter
        Of the whole filter. All who split, claim and assemble need equal ones, so the seed is
        drawn once, by the driver: see `draw`.
    slices : int, default 64
        How many, at most as many as the array has pages of 4096 bytes.

    Raises
    ------
    ValueError
        If the filter cannot be cut: its layout is standard, it is a filter that counts, or it has
        fewer pages than slices were asked for.
    TypeError
        If an argument is of another type.

    Notes
    -----
    A plan is a value: it never changes, it can be compared, and it pickles, with the seed in it,
    which is secret if the hash is SipHash. Any thread and process may use it.

    Examples
    --------
    >>> from mmbloom.slices import SlicePlan
    >>> plan = SlicePlan.draw(1_000_000, 0.01, slices=16)
    >>> slice_no, h1, h2 = plan.split(["a", "b", "a"])
    >>> bool(slice_no[0] == slice_no[2]), int(slice_no.max()) < 16
    (True, True)
    """

    params: FilterParams
    slices: int = 64

    def __post_init__(self) -> None:
        if isinstance(self.params, CountingBloomFilter):
            raise ValueError(
                f"{self.params.path}: a filter that counts has no slices, which are of bits; make "
                "a plain one of it with to_bloom"
            )
        if isinstance(self.params, BloomFilter):
            object.__setattr__(self, "params", self.params.params)
        if not isinstance(self.params, FilterParams):
            raise TypeError(
                f"params is {self.params!r}, expected FilterParams or an open BloomFilter"
            )
        if self.params.layout != "blocked":
            raise ValueError(
                "layout is 'standard', which spreads the bits of a key over the whole array, so "
                "that no slice has all of them; use layout='blocked'"
            )
        if not isinstance(self.slices, int) or isinstance(self.slices, bool):
            raise TypeError(f"slices is {self.slices!r}, expected an int")
        pages = pages_of(self.params)
        if not 1 <= self.slices <= pages:
            raise ValueError(
                f"slices is {self.slices}, expected 1 to {pages}: the array has so many pages of "
                "4096 bytes"
            )

    @classmethod
    def draw(
        cls,
        capacity: int | None = None,
        error_rate: float | None = None,
        *,
        slices: int | None = None,
        seed: int | None = None,
        hash: HashName | None = None,
        like: object = None,
        choose_slices: Callable[[FilterParams], int] | None = None,
    ) -> Self:
        """Plan a filter for so many keys, with a seed drawn at random; or one like another.

        Parameters
        ----------
        capacity, error_rate, seed, hash, like
            As for `BloomFilter.create`.
        slices : int, optional
            How many.
        choose_slices : callable, optional
            Gives that number where it is left out, of the parameters of the filter: by default
            64, or as many as it has pages.

        Returns
        -------
        SlicePlan

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range, or the filter cannot be cut so.

        Examples
        --------
        >>> SlicePlan.draw(1_000_000, slices=16) == SlicePlan.draw(1_000_000, slices=16)
        False
        """
        params = choose_params(capacity, error_rate, None, seed, hash, like=like)
        # Not its parameters, which do not tell that a filter counts.
        cut: Any = params if like is None else like
        if slices is None:
            slices = choose_slices(params) if choose_slices else min(64, pages_of(params))
        return cls(cut, slices)

    def split(self, keys: Keys, *, nulls: Nulls = "error", threads: int = 1) -> Split:
        """Hash a batch of keys, and tell which slice each belongs to.

        Parameters
        ----------
        keys
            As for `BloomFilter.add_many`.
        nulls : {"error", "skip"}, default "error"
            Whether a null is an error, or is in no slice: its number is -1, and rows keep their
            numbers.
        threads : int, default 1
            How many threads hash a batch of 65,536 keys or more. A worker of a cluster has its
            cores for its tasks.

        Returns
        -------
        Split
            To be unpacked as ``slice_no, h1, h2``.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key cannot be one, or a column is damaged; names the position.

        Examples
        --------
        >>> plan = SlicePlan.draw(100_000, slices=4)
        >>> plan.split(["a", None], nulls="skip").slice_no[1]
        np.int32(-1)
        """
        batch = coerce(keys, nulls)
        h1, h2 = batch.hash_all(self.params.key_hash, threads)
        numbers = _engine.slices_of(h1, self.params, self.slices)
        if batch.present is None:
            return Split(numbers, h1, h2)
        rows = len(batch.present)
        spread = Split(np.full(rows, NULL, "i4"), np.zeros(rows, "u8"), np.zeros(rows, "u8"))
        spread.slice_no[batch.present] = numbers
        spread.h1[batch.present], spread.h2[batch.present] = h1, h2
        return spread

    def partition(self, keys: Keys, *, nulls: Nulls = "error", threads: int = 1) -> list[Part]:
        """Hash a batch of keys, and bring those of each slice together.

        Parameters
        ----------
        keys, threads
            As for `split`.
        nulls : {"error", "skip"}, default "error"
            Whether a null is an error, or is in no part; rows keep their numbers.

        Returns
        -------
        list of Part
            One for each slice, in order; many may be empty. They are 24 bytes a key, of which the
            16 of the hashes are what a slice's task needs.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            As `split`.

        Examples
        --------
        >>> plan = SlicePlan.draw(100_000, slices=4)
        >>> parts = plan.partition(["a", None, "b", "a"], nulls="skip")
        >>> sorted(int(row) for part in parts for row in part.rows)
        [0, 2, 3]
        """
        batch = coerce(keys, nulls)
        hashes = batch.hash_all(self.params.key_hash, threads)
        return self._parts(batch, hashes)

    def _parts(self, batch: Batch, hashes: HashHalves) -> list[Part]:
        starts, rows, (h1, h2) = _engine.partition(*hashes, self.params, self.slices)
        if batch.present is not None:
            rows = np.flatnonzero(batch.present)[rows]
        ends = starts.tolist()
        return [
            Part(rows[start:stop], h1[start:stop], h2[start:stop]) for start, stop in pairwise(ends)
        ]

    def bounds(self, number: int) -> tuple[int, int]:
        """Give the bytes of the array that are a slice.

        Parameters
        ----------
        number : int
            Of the slice, from 0.

        Returns
        -------
        start, stop : int
            The first byte, a multiple of 4096, and the one after the last. In a filter's file the
            array begins at byte 4096.

        Raises
        ------
        ValueError
            If there is no such slice.
        """
        if not 0 <= number < self.slices:
            raise ValueError(f"slice {number} is asked for, expected 0 to {self.slices - 1}")
        return bounds_of(self.params, self.slices, number)


def require_of(plan: SlicePlan, header: SliceHeader, path: str) -> None:
    """Raise unless the header of a slice is of a plan: `ParameterMismatchError`, `FormatError`."""
    for name in (field.name for field in fields(FilterParams)):
        if getattr(header.params, name) != getattr(plan.params, name):
            found, asked = spelled(header.params, name), spelled(plan.params, name)
            said = f"is a slice of a filter with {name} {found}, the plan has {asked}"
            raise ParameterMismatchError(path, name, found, asked, said)
    if header.slices != plan.slices:
        raise FormatError(path, "number of slices", str(header.slices), str(plan.slices))
