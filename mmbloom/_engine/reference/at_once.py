"""Lines claimed, written and marked in one step, unless one of these takes more: the reference."""

import os
import select
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mmbloom._engine.reference.bits import Claimed, claim, commit
from mmbloom._engine.reference.lines import gather
from mmbloom._engine.reference.status import LastLook
from mmbloom._typing import Bools, HashHalves, Octets, Spans, Words
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


# Hash halves of the keys of some lines, each of shape (n,), one key or more; which may meet, as
# `reference.bits.meeting` gives it; and the lines, of which a byte follows each that ends it.
Part = tuple[tuple[HashHalves, Bools], Spans]


def write_new(
    words: Words,
    counters: Words,
    params: FilterParams,
    parts: Sequence[Part],
    *,
    output: Output,
    last_look: LastLook,
    absent: bytes,
    sure: tuple[float, float],
) -> tuple[int, int, tuple[Claimed, int] | None]:
    """Claim the keys of lines, write the new lines, and mark them, part by part; within the lock.

    Parameters
    ----------
    words : ndarray of uint64
        The bit array.
    counters : ndarray of uint64
        Those of the file, in the order of `MUTABLE_FIELDS`.
    params : FilterParams
        Layout and number of hashes.
    parts : sequence of Part
        Lines and their keys; those of a part are claimed, written and marked together.
    output : Output
        Where new lines go, those of a part by one system call.
    last_look : LastLook
        The last look at the file: it is to hold before the array is read, and before it is changed.
    absent : bytes
        A path where nothing is to be: that of exclusions, which are no matter of bits.
    sure : (float, float)
        The numbers of set positions, and of keys, up to which new ones fit into the plan surely.

    Returns
    -------
    done : int
        How many parts are done, from the first one on. Where they are not all, of the next one
        nothing is done but what `begun` says. A part after which the output would have to be
        waited for is the last one: signals are seen, and others have the lock, before that.
    num_new : int
        How many keys of these were new.
    begun : (Claimed, int) or None
        The claim of the next part, and how many bytes of its new lines are written: the caller is
        to write the others, and to mark the keys.
    """
    done = num_new = 0
    for part in parts:
        written_part = _write_part(
            words,
            counters,
            params,
            part,
            output=output,
            last_look=last_look,
            absent=absent,
            sure=sure,
        )
        if written_part is None:
            break
        claimed, written = written_part
        if written is not None:
            return done, num_new, (claimed, written)
        done, num_new = done + 1, num_new + claimed.num_new
        if not _is_ready(output):
            break
    return done, num_new, None


def _write_part(
    words: Words,
    counters: Words,
    params: FilterParams,
    part: Part,
    *,
    output: Output,
    last_look: LastLook,
    absent: bytes,
    sure: tuple[float, float],
) -> tuple[Claimed, int | None] | None:
    """Do so with one part; None if nothing is done, and a number if not all is."""
    if not last_look.holds() or not _is_absent(absent):
        return None
    (hashes, meeting), lines = part
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


def _is_ready(output: Output) -> bool:
    """Tell whether some bytes can be written without waiting."""
    look = select.poll()
    look.register(output.fd, select.POLLOUT)
    return bool(look.poll(0))


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
