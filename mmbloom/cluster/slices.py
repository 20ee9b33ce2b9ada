"""A filter in slices: a plan assigns keys to slices, tasks fill them, and one call assembles them.

`assemble` reads the slices front to back, a MiB at a time, and checks each as it reads. The filter
file appears only when all slices were good. It has the bytes that one process would have written.
"""

from __future__ import annotations

import errno
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import IO, Any, NamedTuple, Self, TypedDict

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import HashedKeys
from mmbloom._keys.coerce import checked_hashes, coerce
from mmbloom._storage.atomic import OWNER_ONLY, Target
from mmbloom._storage.build import Builder, new_filter
from mmbloom._storage.opening import absolute
from mmbloom._storage.warnings import Counted, warn_if_past_plan
from mmbloom._system.typing import (
    Array,
    Bools,
    HashHalves,
    HashName,
    Indices,
    Keys,
    Nulls,
    Path,
    Words,
)
from mmbloom.cluster.places import At, Opened, Source, head_of, reading, write_whole
from mmbloom.errors import FileChangedError, FormatError, ParameterMismatchError
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.options import choose_params
from mmbloom.format.slices import (
    HEADER_BYTES,
    NO_RUN,
    SliceHeader,
    bounds_of,
    decode,
    encode,
    pages_of,
    require_body,
    require_size,
)
from mmbloom.sizing.formulas import BLOCK_BITS, PAGE_BITS
from mmbloom.sizing.params import FilterParams, spelled

NULL = -1  # the slice of a row without a key
_AT_A_TIME = 1 << 20
_SHOWN = 8  # missing slices in an error


class Split(NamedTuple):
    """The slice and the hash of each key of a batch, row by row.

    Attributes
    ----------
    slice_no : ndarray of int32, shape (n,)
        The slice of each row's key; -1 for a null.
    h1, h2 : ndarray of uint64, shape (n,)
        The hash halves of each row's key; 0 for a null.
    """

    slice_no: Array[np.int32]
    h1: Words
    h2: Words


class Part(NamedTuple):
    """The keys of a batch that belong to one slice, in the order of their rows.

    Attributes
    ----------
    rows : ndarray of intp, shape (m,)
        Their row numbers in the batch, ascending.
    h1, h2 : ndarray of uint64, shape (m,)
        Their hash halves.
    """

    rows: Indices
    h1: Words
    h2: Words


class PlanOptions(TypedDict, total=False):
    """The options of `SlicePlan.draw` that `build` for Dask and for Spark accepts."""

    slices: int | None
    seed: int | None
    hash: HashName | None
    like: object


@dataclass(frozen=True)
class SlicePlan:
    """A blocked filter cut into contiguous slices of whole pages; each key belongs to one slice.

    Parameters
    ----------
    params : FilterParams, or an open BloomFilter
        The parameters of the whole filter. All processes that split, claim or assemble need equal
        plans, so the driver draws the seed once; see `draw`.
    slices : int, default 64
        The number of slices, at most the number of 4096-byte pages in the array.

    Raises
    ------
    ValueError
        If the filter cannot be cut: its layout is standard, it is a counting filter, or it has
        fewer pages than the requested number of slices.
    TypeError
        If an argument is of another type.

    Notes
    -----
    A plan is immutable and comparable, and any thread or process may use it. Its pickle contains
    the seed, which is secret if the hash is SipHash.

    Examples
    --------
    >>> from mmbloom.cluster import SlicePlan
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
                f"{self.params.path}: a counting filter cannot be cut into slices, which hold "
                "bits; convert it to a plain filter with to_bloom"
            )
        if isinstance(self.params, BloomFilter):
            object.__setattr__(self, "params", self.params.params)
        if not isinstance(self.params, FilterParams):
            raise TypeError(
                f"params is {self.params!r}, expected FilterParams or an open BloomFilter"
            )
        if self.params.layout != "blocked":
            raise ValueError(
                "layout is 'standard', which spreads the bits of a key over the whole array, so no "
                "slice would hold all of them; use a filter with layout='blocked'"
            )
        if not isinstance(self.slices, int) or isinstance(self.slices, bool):
            raise TypeError(f"slices is {self.slices!r}, expected an int")
        pages = pages_of(self.params)
        if not 1 <= self.slices <= pages:
            raise ValueError(
                f"slices is {self.slices}, expected 1 to {pages}, the number of pages of 4096 "
                "bytes in the array"
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
        """Plan a filter of a given capacity with a random seed, or one like an existing filter.

        Parameters
        ----------
        capacity, error_rate, seed, hash, like
            As for `BloomFilter.create`.
        slices : int, optional
            The number of slices.
        choose_slices : callable, optional
            Returns the number of slices for the given filter parameters if ``slices`` is left out.
            By default there are 64 slices, or one per page in a filter with fewer pages.

        Returns
        -------
        SlicePlan

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range, or the filter cannot be cut into these slices.

        Examples
        --------
        >>> SlicePlan.draw(1_000_000, slices=16) == SlicePlan.draw(1_000_000, slices=16)
        False
        """
        params = choose_params(capacity, error_rate, None, seed, hash, like=like)
        # The filter itself: its parameters do not show that it counts.
        cut: Any = params if like is None else like
        if slices is None:
            slices = choose_slices(params) if choose_slices else min(64, pages_of(params))
        return cls(cut, slices)

    def split(self, keys: Keys, *, nulls: Nulls = "error", threads: int = 1) -> Split:
        """Hash a batch of keys, and find the slice of each.

        Parameters
        ----------
        keys
            As for `BloomFilter.add_many`.
        nulls : {"error", "skip"}, default "error"
            With "error", a null raises an error. With "skip", its slice is -1 and the other rows
            keep their numbers.
        threads : int, default 1
            How many threads may hash a batch of 65,536 keys or more. On a worker of a cluster,
            other tasks need the cores.

        Returns
        -------
        Split
            A named tuple: ``slice_no, h1, h2 = plan.split(keys)``.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a value cannot be a key, or a column is damaged; the error names its position.

        Examples
        --------
        >>> plan = SlicePlan.draw(100_000, slices=4)
        >>> plan.split(["a", None], nulls="skip").slice_no[1]
        np.int32(-1)
        """
        batch = coerce(keys, nulls)
        h1, h2 = batch.hashes(self.params.key_hash, threads)
        numbers = _engine.slices_of(h1, self.params, self.slices)
        if batch.present is None:
            return Split(numbers, h1, h2)
        rows = len(batch.present)
        spread = Split(np.full(rows, NULL, "i4"), np.zeros(rows, "u8"), np.zeros(rows, "u8"))
        spread.slice_no[batch.present] = numbers
        spread.h1[batch.present], spread.h2[batch.present] = h1, h2
        return spread

    def partition(self, keys: Keys, *, nulls: Nulls = "error", threads: int = 1) -> list[Part]:
        """Hash a batch of keys, and group them by slice.

        Parameters
        ----------
        keys, threads
            As for `split`.
        nulls : {"error", "skip"}, default "error"
            With "error", a null raises an error. With "skip", it is in no part and the other rows
            keep their numbers.

        Returns
        -------
        list of Part
            One part per slice, in order; many may be empty. The parts take 24 bytes per key, 16 of
            which are the hashes that the task of a slice needs.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            As for `split`.

        Examples
        --------
        >>> plan = SlicePlan.draw(100_000, slices=4)
        >>> parts = plan.partition(["a", None, "b", "a"], nulls="skip")
        >>> sorted(int(row) for part in parts for row in part.rows)
        [0, 2, 3]
        """
        batch = coerce(keys, nulls)
        hashes = batch.hashes(self.params.key_hash, threads)
        starts, rows, (h1, h2) = _engine.partition(*hashes, self.params, self.slices)
        if batch.present is not None:
            rows = np.flatnonzero(batch.present)[rows]
        ends = starts.tolist()
        return [
            Part(rows[start:stop], h1[start:stop], h2[start:stop]) for start, stop in pairwise(ends)
        ]

    def bounds(self, number: int) -> tuple[int, int]:
        """Return which bytes of the array make up a slice.

        Parameters
        ----------
        number : int
            The slice, counted from 0.

        Returns
        -------
        start, stop : int
            The index of its first byte, a multiple of 4096, and the index after its last. In a
            filter's file the array begins at byte 4096.

        Raises
        ------
        ValueError
            If there is no such slice.
        """
        if not 0 <= number < self.slices:
            raise ValueError(f"slice number is {number}, expected 0 to {self.slices - 1}")
        return bounds_of(self.params, self.slices, number)


def _require_of(plan: SlicePlan, header: SliceHeader, path: str) -> None:
    """Raise `ParameterMismatchError` or `FormatError` unless the header of a slice fits a plan."""
    for name in (field.name for field in fields(FilterParams)):
        if getattr(header.params, name) != getattr(plan.params, name):
            found, asked = spelled(header.params, name), spelled(plan.params, name)
            said = f"has {name} {found}, but the plan has {asked}; pass the plan it was made with"
            raise ParameterMismatchError(path, name, found, asked, said)
    if header.slices != plan.slices:
        raise FormatError(path, "number of slices", str(header.slices), str(plan.slices))


class Slice:
    """One slice of a filter, in the memory of the task that fills it.

    Create one with `empty` or `read`.

    Attributes
    ----------
    plan : SlicePlan
        The plan of the whole filter.
    number : int
        The number of this slice, counted from 0.
    generation : int
        The generation of the state it belongs to, see `Generations`; 0 without a state.
    run : bytes
        The run that writes it, as 16 bytes; zeros without a run.
    keys_added : int
        How many new keys were added to it.

    Notes
    -----
    Only one thread may use it at a time; other processes have their own copies. Nothing is on the
    disk until `write`. Its pickle contains all its bits.

    Examples
    --------
    >>> from mmbloom.cluster import Slice, SlicePlan
    >>> plan = SlicePlan.draw(100_000, slices=4)
    >>> for part, (rows, h1, h2) in enumerate(plan.partition(["a", "a"])):
    ...     if len(rows):
    ...         print(Slice.empty(plan, part).claim(h1, h2))
    [ True False]
    """

    def __init__(
        self,
        plan: SlicePlan,
        number: int,
        words: Words,
        *,
        generation: int = 0,
        run: bytes = NO_RUN,
        keys_added: int = 0,
    ) -> None:
        self.plan, self.number = plan, number
        self.generation, self.keys_added = generation, keys_added
        self._words, self.run = words, run
        # Counted in blocks, or in pages if a key has several blocks, all in one page.
        unit = (BLOCK_BITS if plan.params.blocks_per_key == 1 else PAGE_BITS) // 8
        start, stop = plan.bounds(number)
        self._first, self._units = start // unit, (stop - start) // unit
        # The kernels see the slice as a filter of its own.
        self._params = replace(plan.params, num_bits=64 * len(words))

    @classmethod
    def empty(cls, plan: SlicePlan, number: int) -> Slice:
        """Return a slice without keys.

        Parameters
        ----------
        plan : SlicePlan
            The plan of the whole filter.
        number : int
            The slice, counted from 0.

        Returns
        -------
        Slice

        Raises
        ------
        ValueError
            If the plan has no such slice.
        """
        start, stop = plan.bounds(number)
        return cls(plan, number, np.zeros((stop - start) // 8, np.uint64))

    @classmethod
    def read(cls, source: Source | At, plan: SlicePlan | None = None) -> Slice:
        """Read a slice and check that it is complete and undamaged.

        Parameters
        ----------
        source : str or path-like, URL, bytes, or binary file
            Where to read the slice from; bytes are the content itself. URLs need the extra
            "cluster".
        plan : SlicePlan, optional
            The plan that the slice must belong to; by default any plan is accepted.

        Returns
        -------
        Slice

        Raises
        ------
        FormatError
            If this is not a slice, is cut off or damaged, or belongs to a plan with another number
            of slices.
        ParameterMismatchError
            If the slice belongs to a filter with other parameters or another seed.
        OSError
            If it cannot be read.
        """
        with reading(source) as (file, name, size):
            header = header_of(_read(file, HEADER_BYTES), size, name, plan)
            body = bytearray()  # grows as bytes come: a false size in the header allocates nothing
            for piece in body_of(file, header, name):
                body += piece
        words = np.frombuffer(body, "<u8").astype(np.uint64, copy=False)
        plan = SlicePlan(header.params, header.slices) if plan is None else plan
        found = _engine.count_set(words)
        if found != header.positions_set:
            raise FormatError(name, "positions set", str(header.positions_set), str(found))
        return cls(
            plan,
            header.number,
            words,
            generation=header.generation,
            run=header.run,
            keys_added=header.keys_added,
        )

    @property
    def positions_set(self) -> int:
        """The number of bits that are 1; counting them reads the whole slice."""
        return _engine.count_set(self._words)

    def claim(self, h1: Words, h2: Words) -> Bools:
        """Return which keys are new, and mark them in this copy of the slice.

        The answers are those of adding the keys one by one: among equal keys, within a batch or
        across batches, only the first is new.

        Parameters
        ----------
        h1, h2 : ndarray of uint64, shape (n,)
            The hash halves of keys that belong to this slice, from `SlicePlan.split`.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        TypeError, ValueError
            If an argument is not a one-dimensional array of uint64, if their lengths differ, or if
            a key belongs to another slice. Nothing is marked then.
        """
        hashes = self._own(h1, h2)
        order = _engine.arrange(*hashes, self._params)
        new, _ = _engine.add(self._words, *hashes, self._params, order)
        self.keys_added += int(np.count_nonzero(new))
        return new

    def mark(self, h1: Words, h2: Words) -> int:
        """Mark keys in this copy of the slice; return how many were new.

        Parameters
        ----------
        h1, h2
            As for `claim`.

        Returns
        -------
        int

        Raises
        ------
        TypeError, ValueError
            As for `claim`.
        """
        return int(np.count_nonzero(self.claim(h1, h2)))

    def contains(self, h1: Words, h2: Words) -> Bools:
        """Return for each key whether it is in the slice; false positives are possible.

        Parameters
        ----------
        h1, h2
            As for `claim`.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        TypeError, ValueError
            As for `claim`.
        """
        return _engine.contains(self._words, HashedKeys(*self._own(h1, h2)), self._params)

    def _own(self, h1: Words, h2: Words) -> HashHalves:
        """Return hashes relative to this slice; raise if a key belongs to another slice."""
        h1, h2 = checked_hashes(h1, h2)
        local, foreign = _engine.rebase(h1, self.plan.params, self._first, self._units)
        if foreign >= 0:
            one = h1[foreign : foreign + 1]
            number = int(_engine.slices_of(one, self.plan.params, self.plan.slices)[0])
            raise ValueError(
                f"key at position {foreign} belongs to slice {number}, not to slice {self.number}; "
                "pass each slice only its own keys, as this plan splits them"
            )
        return local, h2

    def write(self, path: Path) -> None:
        """Write the slice to a file, which appears complete and on the disk, or not at all.

        It replaces an existing file in one step. Several tasks may call this at the same time only
        if they write the same content.

        Parameters
        ----------
        path : str or path-like, or URL
            Where to write the slice. URLs need the extra "cluster".

        Raises
        ------
        OSError
            If there is no space, or the system reports another error.
        """
        write_whole(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes that `write` writes."""
        body = self._words.astype("<u8", copy=False).view(np.uint8).data
        header = SliceHeader(
            self.plan.params,
            self.plan.slices,
            self.number,
            self.generation,
            self.run,
            self.keys_added,
            self.positions_set,
            zlib.crc32(body),
        )
        return b"".join((encode(header), body))

    def __repr__(self) -> str:
        return (
            f"<Slice {self.number} of {self.plan.slices}, generation {self.generation}, "
            f"{self.keys_added} keys added>"
        )


def header_of(
    raw: bytes, size: int | None, name: str, plan: SlicePlan | None = None
) -> SliceHeader:
    """Decode the header of a slice; check its size and its plan if these are given.

    Raises
    ------
    FormatError
        If this is not the header of a slice, the file has another size, or the plan has another
        number of slices.
    ParameterMismatchError
        If the plan is for another filter.
    """
    header = decode(raw, name)
    if size is not None:
        require_size(header, size, name)
    if plan is not None:
        _require_of(plan, header, name)
    return header


def body_of(file: IO[bytes], header: SliceHeader, name: str) -> Iterator[bytes]:
    """Yield the bytes after the header, a MiB at a time; raise at the end if they are damaged."""
    size = crc = 0
    while size <= header.body_bytes and (piece := _read(file, _AT_A_TIME)):
        size, crc = size + len(piece), zlib.crc32(piece, crc)
        if size <= header.body_bytes:
            yield piece
    require_body(header, size, crc, name)


def _read(file: IO[bytes], size: int) -> bytes:
    """Read so many bytes, or all that are left: one read may return less before the end."""
    pieces: list[bytes] = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


AnyPart = Path | bytes | At | Slice


def assemble(
    destination: Path,
    plan: SlicePlan,
    parts: Iterable[AnyPart],
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Assemble all slices of a filter into a plain filter file.

    The array of the file equals, bit for bit, that of one process that added the same keys in any
    batches and any order. Its counts of keys and bits are equal, too.

    Parameters
    ----------
    destination : str or path-like
        The path of the new file. It appears complete and forced to the disk, or not at all.
    plan : SlicePlan
        The plan of the slices.
    parts : iterable of Slice, path, URL or bytes
        All slices, each once, in any order. URLs need the extra "cluster".
    permissions : int, default 0o600
        The mode bits of the new file.
    allow_network : bool, default False
        Allow the file to be on a network file system.

    Raises
    ------
    FormatError
        If a part is not a slice, is cut off or damaged, or belongs to a plan with another number of
        slices; if parts are of different generations; or if a slice is missing or given twice. No
        file is made then.
    ParameterMismatchError
        If a slice belongs to a filter with other parameters or another seed.
    FileChangedError
        If a slice is replaced while it is read.
    FileExistsError
        If the destination exists.
    NetworkFileSystemError
        If the destination is on a network file system and `allow_network` is not set.
    OSError
        If there is no space (ENOSPC), or the system reports another error.

    Examples
    --------
    >>> import os, tempfile
    >>> import mmbloom
    >>> from mmbloom.cluster import Slice, SlicePlan, assemble
    >>> plan = SlicePlan.draw(100_000, slices=4)
    >>> parts = [Slice.empty(plan, number) for number in range(4)]
    >>> for part, (rows, h1, h2) in zip(parts, plan.partition(["a", "b"])):
    ...     new = part.claim(h1, h2)
    >>> path = os.path.join(tempfile.mkdtemp(), "all.bloom")
    >>> assemble(path, plan, parts)
    >>> with mmbloom.open(path) as seen:
    ...     print(seen.contains_many(["a", "b", "c"]))
    [ True  True False]
    """
    target = Target(absolute(destination), permissions, allow_network)
    ordered = _in_order(plan, parts, target.path)
    with new_filter(target, plan.params) as made:
        keys = sum(_append(made, each, header) for each, header in ordered)
        made.finish(keys, batches=plan.slices)
    warn_if_past_plan(Counted(target.path, plan.params, made.positions_set))


def require_free(destination: Path) -> str:
    """Return the absolute path of a new file, after the checks that `assemble` would make late.

    Raises
    ------
    FileExistsError
        If the file exists.
    FileNotFoundError
        If its folder does not exist.
    """
    path = absolute(destination)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not os.path.isdir(folder := os.path.dirname(path)):
        said = f"the folder for {os.path.basename(path)} does not exist; create it first"
        raise FileNotFoundError(errno.ENOENT, said, folder)
    return path


_Known = tuple[AnyPart, SliceHeader]


def _in_order(plan: SlicePlan, parts: Iterable[AnyPart], destination: str) -> list[_Known]:
    """Read all headers, and return the parts in order; raise unless each slice is there once."""
    found: dict[int, _Known] = {}
    generation: int | None = None
    for part in parts:
        raw, size, name = _head_of(part)
        header = header_of(raw, size, name, plan)
        if header.number in found:
            raise FormatError(name, "slice", f"{header.number} again", "each slice once")
        if generation not in (None, header.generation):
            raise FormatError(name, "generation", str(header.generation), str(generation))
        generation = header.generation
        found[header.number] = part, header
    if missing := [str(number) for number in range(plan.slices) if number not in found]:
        shown = ", ".join(missing[:_SHOWN]) + ", ..." * (len(missing) > _SHOWN)
        has, said = f"without {shown}", f"these slices are missing: {shown}"
        raise FormatError(destination, "slices", has, f"all {plan.slices}", said)
    return [found[number] for number in range(plan.slices)]


def _append(made: Builder, part: AnyPart, expected: SliceHeader) -> int:
    """Append the body of a slice; return how many keys were added to it."""
    with _opened(part) as (file, name, size):
        if header_of(_read(file, HEADER_BYTES), size, name) != expected:
            raise FileChangedError(name, "replaced by another slice")
        for piece in body_of(file, expected, name):
            made.write(np.frombuffer(piece, "<u8"))
    return expected.keys_added


def _head_of(part: AnyPart) -> tuple[bytes, int, str]:
    if isinstance(part, Slice):
        raw = part.to_bytes()
        return raw[:HEADER_BYTES], len(raw), repr(part)
    try:
        return head_of(part, HEADER_BYTES)
    except FileNotFoundError:
        if not isinstance(part, At):  # a path from the caller, which the system's error names
            raise
        path, expected = part.place.name_of(part.name), "a slice of the newest generation"
        raise FormatError(path, "file", "missing", expected) from None


def _opened(part: AnyPart) -> AbstractContextManager[Opened]:
    if isinstance(part, Slice):
        raw = part.to_bytes()
        return nullcontext(Opened(io.BytesIO(raw), repr(part), len(raw)))
    return reading(part)
