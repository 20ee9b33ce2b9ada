"""One slice of a filter in memory: keys claimed in it, read from a file, written to one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

import numpy as np

from mmbloom import _engine
from mmbloom._keys.hashed import HashedBatch
from mmbloom._typing import Bools, HashHalves, Path, Words
from mmbloom.errors import FormatError
from mmbloom.format.slices import (
    HEADER_BYTES,
    NO_RUN,
    SliceHeader,
    decode,
    encode,
    require_body,
    require_size,
)
from mmbloom.sizing.formulas import BLOCK_BITS, PAGE_BITS
from mmbloom.slices.places import At, Source, reading, write_whole
from mmbloom.slices.plan import SlicePlan, require_of

_AT_A_TIME = 1 << 20


class Slice:
    """One slice of a filter, in the memory of the task that alone fills it.

    Made by `empty` or `read`.

    Attributes
    ----------
    plan : SlicePlan
        Of the whole filter.
    number : int
        Which slice, from 0.
    generation : int
        Of the state that it belongs to, see `Generations`; 0 if to none.
    run : bytes
        Of the run that writes it: 16 bytes, zero if of none.
    keys_added : int
        How many keys were new in it.

    Notes
    -----
    One thread of one process at a time may use it: other processes have copies of their own.
    Nothing of it is on a disk before `write`. It pickles with all of its body.

    Examples
    --------
    >>> from mmbloom.slices import Slice, SlicePlan
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
        # In blocks; or in pages, where the blocks of a key are chosen within one.
        unit = (BLOCK_BITS if plan.params.blocks_per_key == 1 else PAGE_BITS) // 8
        start, stop = plan.bounds(number)
        self._first, self._units = start // unit, (stop - start) // unit
        # What the kernels see: the slice as a filter by itself.
        self._params = replace(plan.params, num_bits=64 * len(words))

    @classmethod
    def empty(cls, plan: SlicePlan, number: int) -> Slice:
        """Make a slice without a key.

        Parameters
        ----------
        plan : SlicePlan
            Of the whole filter.
        number : int
            Which slice, from 0.

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
        """Read a slice, proved to be whole.

        Parameters
        ----------
        source : str or path-like, URL, bytes, or binary file
            Where it is; bytes are the content itself. URLs need the extra "cluster".
        plan : SlicePlan, optional
            What it must be a slice of; anything by default.

        Returns
        -------
        Slice

        Raises
        ------
        FormatError
            If it is no slice, is cut or damaged, or one of as many as the plan has not.
        ParameterMismatchError
            If it is of a filter with other parameters, or another seed, than the plan's.
        OSError
            If it cannot be read.
        """
        with reading(source) as (file, name, size):
            header = header_of(file, name, size)
            if plan is not None:
                require_of(plan, header, name)
            body = bytearray()  # grows as bytes come: a header that lies allocates nothing
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
        """How many bits are 1; it reads all of the slice."""
        return _engine.count_set(self._words)

    def claim(self, h1: Words, h2: Words) -> Bools:
        """Learn which keys are new, and mark them in this copy of the slice.

        The answers of one call after the other are those of adding key by key: of equal keys only
        the first is new, in a batch or in a later one.

        Parameters
        ----------
        h1, h2 : ndarray of uint64, shape (n,)
            Hash halves of keys that belong to this slice, of `SlicePlan.split`.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        TypeError, ValueError
            If one is no array of uint64 in one dimension, they differ in length, or a key belongs
            to another slice: nothing is marked then.
        """
        new, _ = _engine.add(self._words, *self._own(h1, h2), self._params)
        self.keys_added += int(np.count_nonzero(new))
        return new

    def mark(self, h1: Words, h2: Words) -> int:
        """Mark keys in this copy of the slice; gives how many were new.

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
            As `claim`.
        """
        return int(np.count_nonzero(self.claim(h1, h2)))

    def contains(self, h1: Words, h2: Words) -> Bools:
        """Tell for each key whether it was marked, or is a false positive.

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
            As `claim`.
        """
        return _engine.contains(self._words, *self._own(h1, h2), self._params)

    def _own(self, h1: Words, h2: Words) -> HashHalves:
        """Give hashes as this slice has them; raise if one belongs to another slice."""
        batch = HashedBatch.of(h1, h2)
        local, foreign = _engine.rebase(batch.h1, self.plan.params, self._first, self._units)
        if foreign >= 0:
            one = batch.h1[foreign : foreign + 1]
            number = int(_engine.slices_of(one, self.plan.params, self.plan.slices)[0])
            raise ValueError(
                f"key at position {foreign}: belongs to slice {number}, not to {self.number}; "
                "pass to each slice its own keys, of this plan"
            )
        return local, batch.h2

    def write(self, path: Path) -> None:
        """Write the slice to a file: whole and on the disk, or not there.

        It replaces what is there, in one step. To be called by one task at a time, or by several
        that write the same.

        Parameters
        ----------
        path : str or path-like, or URL
            Where. URLs need the extra "cluster".

        Raises
        ------
        OSError
            If there is no space, or as the system says.
        """
        write_whole(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Give what `write` writes."""
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


def header_of(file: IO[bytes], name: str, size: int | None) -> SliceHeader:
    """Read and prove the header of a slice, and the size of its file where that is known."""
    header = decode(_read(file, HEADER_BYTES), name)
    if size is not None:
        require_size(header, size, name)
    return header


def body_of(file: IO[bytes], header: SliceHeader, name: str) -> Iterator[bytes]:
    """Read what follows the header, a MiB at a time; at its end it is proved, or an error."""
    size = crc = 0
    while size <= header.body_bytes and (piece := _read(file, _AT_A_TIME)):
        size, crc = size + len(piece), zlib.crc32(piece, crc)
        if size <= header.body_bytes:
            yield piece
    require_body(header, size, crc, name)


def _read(file: IO[bytes], size: int) -> bytes:
    """Read so many bytes, or all that are left: a read may come back short before the end."""
    pieces: list[bytes] = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
