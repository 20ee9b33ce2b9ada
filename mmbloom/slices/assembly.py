"""A plain filter file of all slices of one: its bytes are those of one process that added all.

The slices are read front to back, a MiB of each at a time, and proved on the way. The file is
there when all of them were.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from mmbloom._storage.atomic import OWNER_ONLY, Target
from mmbloom._storage.build import Builder, new_filter
from mmbloom._storage.opening import absolute
from mmbloom._typing import Path
from mmbloom._warn import Counted, warn_if_past_plan
from mmbloom.errors import FileChangedError, FormatError
from mmbloom.format.slices import HEADER_BYTES, SliceHeader, decode, require_size
from mmbloom.slices.places import At, Opened, head_of, reading
from mmbloom.slices.plan import SlicePlan, require_of
from mmbloom.slices.slice import Slice, body_of, header_of

AnyPart = Path | bytes | At | Slice


def assemble(
    destination: Path,
    plan: SlicePlan,
    parts: Iterable[AnyPart],
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Put the slices of a filter together to a plain filter file.

    Its array is, bit for bit, that of one process that added the same keys, whatever the batches
    and the order, and its counters of keys and bits are equal too.

    Parameters
    ----------
    destination : str or path-like
        Where to make it. It appears complete and forced to the disk, or not at all.
    plan : SlicePlan
        What they are slices of.
    parts : iterable of Slice, path, URL or bytes
        All slices, in any order, each once. URLs need the extra "cluster".
    permissions : int, default 0o600
        Mode bits of the new file.
    allow_network : bool, default False
        Allow it on a network file system.

    Raises
    ------
    FormatError
        If one is no slice, is cut or damaged, is one of another number of slices or of another
        generation than the first, is there twice or is missing. Nothing is made.
    ParameterMismatchError
        If one is of a filter with other parameters, or another seed.
    FileChangedError
        If one is replaced by another meanwhile.
    FileExistsError
        If the destination exists.
    NetworkFileSystemError
        If it is on a network file system, and `allow_network` is not set.
    OSError
        If there is no space (ENOSPC), or as the system says.

    Examples
    --------
    >>> import os, tempfile
    >>> import mmbloom
    >>> from mmbloom.slices import Slice, SlicePlan, assemble
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
    """Give the absolute path of a file to be made; for before the work, as `assemble` looks after.

    Raises
    ------
    FileExistsError
        If it exists.
    FileNotFoundError
        If there is no folder for it.
    """
    path = absolute(destination)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not os.path.isdir(folder := os.path.dirname(path)):
        said = f"there is no such folder, in which {os.path.basename(path)} is to be made"
        raise FileNotFoundError(errno.ENOENT, said, folder)
    return path


_SHOWN = 8  # of those that are missing
_Known = tuple[AnyPart, SliceHeader]


def _in_order(plan: SlicePlan, parts: Iterable[AnyPart], destination: str) -> list[_Known]:
    """Read the headers of all, and put them in order; raise unless each slice is there once."""
    found: dict[int, _Known] = {}
    generation: int | None = None
    for part in parts:
        raw, size, name = _head_of(part)
        header = decode(raw, name)
        require_size(header, size, name)
        require_of(plan, header, name)
        if header.number in found:
            raise FormatError(name, "slice", f"{header.number} once more", "each slice once")
        if generation not in (None, header.generation):
            raise FormatError(name, "generation", str(header.generation), str(generation))
        generation = header.generation
        found[header.number] = part, header
    if missing := [str(number) for number in range(plan.slices) if number not in found]:
        lacking = ", ".join(missing[:_SHOWN]) + ", ..." * (len(missing) > _SHOWN)
        raise FormatError(destination, "slices", f"without {lacking}", f"all {plan.slices}")
    return [found[number] for number in range(plan.slices)]


def _append(made: Builder, part: AnyPart, expected: SliceHeader) -> int:
    """Append the body of a slice; how many keys were added to it."""
    with _opened(part) as (file, name, size):
        if header_of(file, name, size) != expected:
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
        if not isinstance(part, At):  # a path of the caller's: the system's own error names it
            raise
        path, expected = part.place.name_of(part.name), "a slice of the newest generation"
        raise FormatError(path, "file", "missing", expected) from None


def _opened(part: AnyPart) -> AbstractContextManager[Opened]:
    if isinstance(part, Slice):
        raw = part.to_bytes()
        return nullcontext(Opened(io.BytesIO(raw), repr(part), len(raw)))
    return reading(part)
