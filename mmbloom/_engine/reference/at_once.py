"""Lines claimed, written and marked in one step, unless one of these takes more: the reference."""

import os
from typing import NamedTuple

import numpy as np

from mmbloom._engine.reference.bits import Claimed, claim, commit
from mmbloom._engine.reference.lines import gather
from mmbloom._engine.reference.status import LastLook
from mmbloom._typing import Bools, HashHalves, Octets, Offsets, Words
from mmbloom.format.header import BATCHES_BEGUN, BATCHES_DONE, KEYS_ADDED, POSITIONS_SET
from mmbloom.sizing.params import FilterParams


class Output(NamedTuple):
    """An open file to which lines can be written as they are.

    Attributes
    ----------
    fd : int
        Its descriptor.
    end_fd : int
        One that is open for reading, to see whether the file ends in a whole line; -1 where that is
        known.
    terminator : int
        The byte that ends a line.
    """

    fd: int
    end_fd: int
    terminator: int


def write_new(
    words: Words,
    counters: Words,
    hashes: HashHalves,
    params: FilterParams,
    meeting: Bools,
    *,
    lines: tuple[Octets, Offsets, Offsets],
    output: Output,
    last_look: LastLook,
    absent: bytes,
    sure: tuple[float, float],
) -> tuple[Claimed, int | None] | None:
    """Claim the keys of lines, write the new lines, and mark them; the write lock is held.

    Parameters
    ----------
    words : ndarray of uint64
        The bit array.
    counters : ndarray of uint64
        Those of the file, in the order of `MUTABLE_FIELDS`.
    hashes : pair of ndarray of uint64, shape (n,)
        Hash halves of the keys; one key or more.
    params : FilterParams
        Layout and number of hashes.
    meeting : ndarray of bool, shape (n,)
        As `reference.bits.meeting` gives it.
    lines : ndarray of uint8, shape (m,), and two of int64, shape (n,)
        A block, and where in it each line starts and ends; a byte follows each that ends it.
    output : Output
        Where new lines go, by one system call.
    last_look : LastLook
        The last look at the file: it is to hold before the array is read, and before it is changed.
    absent : bytes
        A path where nothing is to be: that of exclusions, which are no matter of bits.
    sure : (float, float)
        The numbers of set positions, and of keys, up to which new ones fit into the plan surely.

    Returns
    -------
    (Claimed, int or None) or None
        The claim, and how many bytes of the new lines are written: then the caller is to write the
        others, and to mark the keys. Without a number all is done. None: nothing is done.
    """
    if not last_look.holds() or not _is_absent(absent):
        return None
    claimed = claim(words, *hashes, params, meeting)
    if not claimed.num_new:
        return claimed, None
    new = gather(*lines, claimed.new, 1)
    fit = (
        int(counters[POSITIONS_SET]) + claimed.num_new * params.num_hashes <= sure[0]
        and int(counters[KEYS_ADDED]) + claimed.num_new <= sure[1]
    )
    written = _write_once(output, new) if fit and _begins_line(output) else 0
    if not written:
        return None
    if written < len(new) or not last_look.holds():
        return claimed, written
    _count(counters, BATCHES_BEGUN, 1)
    newly_set = commit(words, claimed)
    _count(counters, KEYS_ADDED, claimed.num_new)
    _count(counters, POSITIONS_SET, newly_set)
    _count(counters, BATCHES_DONE, 1)  # last: a batch that is not done may have lost bits
    return claimed, None


def _is_absent(path: bytes) -> bool:
    """Tell whether it can be seen that nothing is there, not even a link."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def _begins_line(output: Output) -> bool:
    """Tell whether the next byte of a file begins a line."""
    if output.end_fd < 0:
        return True
    try:
        size = os.fstat(output.end_fd).st_size
        return not size or os.pread(output.end_fd, 1, size - 1) == bytes([output.terminator])
    except OSError:
        return False


def _write_once(output: Output, lines: Octets) -> int:
    """Write some of the bytes, or none: the caller's own attempt says what is wrong then."""
    try:
        return os.write(output.fd, lines.data)
    except OSError:
        return 0


def _count(counters: Words, place: int, by: int) -> None:
    # Of an array: modulo 2**64, so that a damaged counter stays harmless.
    counters[place : place + 1] += np.uint64(by)
