"""A new, sound filter from a damaged one: what is there is kept, nothing is made up.

No bit is invented and none is dropped. Where bits may be missing, keys that were added may not
be found, and the report says so: such a filter has no guarantee left, and only its owner knows
whether it is still of use. What is damaged is read, never mapped, never changed. Of a folder,
each file is mended in this way. Its manifest must be sound, because it says which files there
were, and how they were made.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mmbloom._storage.atomic import OWNER_ONLY, Target, new_folder
from mmbloom._storage.build import create_file, new_filter
from mmbloom._storage.folder import entry_of, first_manifest, manifest_of, require_named
from mmbloom._storage.kinds import BITS, require_kind
from mmbloom._storage.opening import absolute, is_folder
from mmbloom._storage.unmapped import Segments, UnmappedFile, UnmappedFilter
from mmbloom._typing import Path, Words
from mmbloom._warn import Counted, warn_if_any_past_plan, warn_if_past_plan
from mmbloom.errors import FormatError, NewerFormatError, NoFilterError, ParameterMismatchError
from mmbloom.format.header import (
    HEADER_BYTES,
    VERSION,
    Header,
    decode_block,
    read_counters,
    read_key_rule,
)
from mmbloom.format.manifest import Entry, FolderPlan
from mmbloom.sizing.params import FilterParams, spelled

# A file of a few bytes must not fill the disk with the terabyte of zeros that it asks for.
_MOST_TIMES = 100  # times the array that is there may be as large as it should be
_DAMAGED_COUNTERS = "the counters were damaged, and cannot tell if bits are lost: recounted"


@dataclass(frozen=True, slots=True)
class Repair:
    """What `repair` found and did.

    Attributes
    ----------
    header_damage : str
        The part of the header that was wrong, so that it was made anew: from the parameters
        given, or from the folder's manifest. "" if none; of a folder always "", see `files`.
    positions_set : int
        Bits that are 1, counted; of a folder the sum.
    keys_added : int
        Keys that were new when added: as the file said if that is possible, else estimated. Of
        a folder the sum.
    losses : tuple of str
        Why bits may be missing, so that keys may not be found; empty if every key is there.
    notes : tuple of str
        What else was found.
    files : tuple of Repair
        Of a folder, each file that was there, oldest first; of a file ().

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> old, new = (os.path.join(tempfile.mkdtemp(), name) for name in ("old", "new"))
    >>> mmbloom.BloomFilter.create(old, capacity=1000).close()
    >>> os.truncate(old, os.path.getsize(old) - 64)
    >>> mmbloom.repair(old, new).losses
    ('the last 64 bytes of the array are not there; zeros now',)
    """

    header_damage: str
    positions_set: int
    keys_added: int
    losses: tuple[str, ...]
    notes: tuple[str, ...]
    files: tuple["Repair", ...] = ()


def repair(
    source: Path,
    destination: Path,
    *,
    params: FilterParams | None = None,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> Repair:
    """Make a sound filter of what a damaged one holds.

    Parameters
    ----------
    source : str or path-like
        The damaged filter, a file or a folder, to which no process should be writing. It is not
        changed.
    destination : str or path-like
        Where to make the new one. It appears complete and forced to the disk, or not at all.
    params : FilterParams, optional
        What a file was made with; needed only if its header is damaged. With wrong ones the
        result finds nothing. Of a folder the manifest says this.
    permissions : int, default 0o600
        Mode bits of the new file; of a folder, of the files in it.
    allow_network : bool, default False
        Allow making it on a network file system.

    Returns
    -------
    Repair
        `losses` says whether keys may be missing.

    Raises
    ------
    FormatError
        If the header of a file is damaged and no `params` are given, or less than a hundredth of
        the array is there; of a folder, if the manifest is missing or damaged.
    ParameterMismatchError
        If the header is sound and says otherwise than `params`.
    ValueError
        If `params` are given for a folder.
    FileChangedError, FileExistsError, NetworkFileSystemError, OSError
        As each call that reads a filter and makes one: see `mmbloom.errors`.

    Notes
    -----
    Of a folder each file is mended, and an empty one takes the place of one that is missing or
    of which nothing can be kept. Exclusions are not copied. A `CapacityWarning` tells, after the
    result is there, if it has more keys than planned.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> damaged, mended = (os.path.join(tempfile.mkdtemp(), name) for name in ("old", "new"))
    >>> with mmbloom.GrowingFilter.create(damaged, initial_capacity=10, error_rate=1e-6) as seen:
    ...     seen.update(range(25))
    25
    >>> os.unlink(os.path.join(damaged, "0000000000.bloom"))
    >>> mmbloom.repair(damaged, mended).losses
    ('0000000000.bloom: is missing: the keys in it are lost',)
    >>> with mmbloom.open(mended) as seen:
    ...     print(seen.contains_many([0, 24]), seen.add(0))
    [False  True] True
    """
    path, target = absolute(source), Target(absolute(destination), permissions, allow_network)
    if not is_folder(path):
        done, mended = _repair_file(path, target, params)
        warn_if_past_plan(mended)
        return done
    if params is not None:
        raise ValueError(f"{path}: is a folder, whose manifest says how its files were made")
    return _repair_folder(path, target)


def _repair_file(
    path: str, target: Target, params: FilterParams | None = None
) -> tuple[Repair, Counted]:
    with UnmappedFile(path) as damaged:
        if damaged.size <= HEADER_BYTES:
            found = f"{damaged.size} bytes"
            raise NoFilterError(damaged.path, "length", found, "a header of 4096 and an array")
        raw = damaged.read(0, HEADER_BYTES)
        header, wrong = _header_of(damaged, raw, params)
        if _MOST_TIMES * (damaged.size - HEADER_BYTES) < header.array_bytes:
            found, whole = f"{damaged.size} bytes", header.file_bytes
            expected = f"{whole}, or a hundredth of that: there is too little to save"
            raise FormatError(damaged.path, "file size", found, expected)
        damaged.find_array(header)
        salvage = _Salvage(damaged, header, maybe_sealed=header.sealed or bool(wrong))
        with new_filter(target, header.params, key_rule=read_key_rule(raw)) as mended:
            for segment in salvage.segments():
                mended.write(segment)
            positions_set = mended.positions_set
            said = read_counters(raw)
            salvage.compare(said, positions_set)
            keys_added = mended.finish(said["keys_added"], batches=0)
    losses, notes = tuple(salvage.losses), tuple(salvage.notes)
    made = Counted(target.path, header.params, positions_set)
    return Repair(wrong, positions_set, keys_added, losses, notes), made


def _header_of(
    damaged: UnmappedFile, raw: bytes, params: FilterParams | None
) -> tuple[Header, str]:
    """Read the header, or make one; and what was wrong with it, "" if nothing."""
    wrong = ""
    try:
        header = decode_block(raw, damaged.size, damaged.path)
    except NewerFormatError as error:
        header, wrong = _of_this_version(damaged, raw, error), error.field
    except FormatError as error:
        if params is None:
            expected = f"{error.expected}; to rebuild it give the parameters that it was made with"
            raise type(error)(error.path, error.field, error.found, expected) from None
        return Header(params, 0, bytes(16)), error.field
    require_kind(header, damaged.path, (BITS,))
    if params is None:
        return header, wrong
    for field in ("num_bits", "num_hashes", "layout", "blocks_per_key", "hash", "seed"):
        if getattr(header.params, field) != getattr(params, field):
            there, given = spelled(header.params, field), spelled(params, field)
            said = (
                f"its header is sound, with {field} {there}, and params have {given}: repair it "
                "without params, or with those of this filter"
            )
            raise ParameterMismatchError(damaged.path, field, there, given, said)
    return header, wrong


def _of_this_version(damaged: UnmappedFile, raw: bytes, error: NewerFormatError) -> Header:
    """Read a header whose version number alone is damaged: the checksum proves that it was 1."""
    try:
        mended = raw[:8] + VERSION.to_bytes(4, "little") + raw[12:]
        return decode_block(mended, damaged.size, damaged.path)
    except FormatError:
        raise error from None


class _Salvage:
    """Reading what there is of an array, noting what there is not."""

    def __init__(self, damaged: UnmappedFile, header: Header, *, maybe_sealed: bool) -> None:
        self._damaged, self._header = damaged, header
        self.losses: list[str] = []
        self.notes: list[str] = []
        end = HEADER_BYTES + header.array_bytes
        if damaged.size < end:
            self.losses.append(
                f"the last {end - damaged.size} bytes of the array are not there; zeros now"
            )
        self._checksums = self._sealed_checksums(end) if maybe_sealed else []
        if header.sealed or self._checksums:
            self.notes.append("the file was sealed; the new one is not")
            end += header.seal_bytes
        if damaged.size > end:
            self.notes.append(f"{damaged.size - end} bytes after the end are left out")

    def segments(self) -> Iterator[Words]:
        """Read the array from front to back; what is not there is zeros."""
        wrong: list[int] = []
        array = Segments(
            self._damaged, self._header, self._checksums, lambda number, *_: wrong.append(number)
        )
        yield from array
        if wrong:
            first = ", ".join(map(str, wrong[:8])) + (", ..." if len(wrong) > 8 else "")
            self.losses.append(f"{len(wrong)} MiB of the array are not what was sealed: {first}")

    def _sealed_checksums(self, start: int) -> list[int]:
        """Read the seal's checksums; none if there is no seal, or it cannot be relied on."""
        size = self._header.seal_bytes
        there = min(size, max(0, self._damaged.size - start))
        values = np.frombuffer(self._damaged.read(start, there).ljust(size, b"\0"), "<u4")
        if zlib.crc32(values[:-1].tobytes()) == int(values[-1]):
            return [int(value) for value in values[:-1]]
        if self._header.sealed:  # of a header made anew that is not known
            self.losses.append("the seal is damaged itself, so the array could not be checked")
        return []

    def compare(self, said: dict[str, int], positions_set: int) -> None:
        """Compare what the counters say with the bits that are there."""
        counted, unfinished = said["positions_set"], said["batches_begun"] - said["batches_done"]
        if counted > self._header.params.num_bits:
            self.notes.append(_DAMAGED_COUNTERS)
        elif counted > positions_set:
            self.losses.append(
                f"{counted} bits were set when last counted, {positions_set} are now"
            )
        elif unfinished < 0:
            self.notes.append(_DAMAGED_COUNTERS)
        elif unfinished:
            self.notes.append(
                f"{unfinished} batches were interrupted; no key whose add returned is missing"
            )
        elif counted < positions_set:
            self.notes.append(f"{positions_set} bits are set, {counted} were counted: recounted")


def _repair_folder(path: str, target: Target) -> Repair:
    manifest = manifest_of(path)
    plan = manifest.plan
    entries: list[Entry] = []
    files: list[Repair] = []
    made: list[Counted] = []
    losses: list[str] = []
    notes: list[str] = []
    with new_folder(target.path, target.permissions) as folder:
        for entry in manifest.members:
            name = entry.name
            old, new = os.path.join(path, name), target.within(folder, name)
            mended, lost = _mend(old, new, entry, plan)
            entries.append(entry_of(folder, name, entry.number))
            if lost:
                losses.append(f"{name}: {lost}")
            if not mended:
                made.append(Counted(new.path, plan.params(entry.number), 0))
                continue
            done = mended[0]
            files.append(done)
            made.append(mended[1])
            if done.header_damage:
                wrong = done.header_damage
                notes.append(f"{name}: header rebuilt by the manifest, its {wrong} was wrong")
            losses += [f"{name}: {loss}" for loss in done.losses]
            notes += [f"{name}: {note}" for note in done.notes]
        first_manifest(folder, plan, entries, target.permissions)
    warn_if_any_past_plan(target.path, plan.kind, made)
    return Repair(
        header_damage="",
        positions_set=sum(done.positions_set for done in files),
        keys_added=sum(done.keys_added for done in files),
        losses=tuple(losses),
        notes=tuple(notes),
        files=tuple(files),
    )


def _mend(
    path: str, made: Target, entry: Entry, plan: FolderPlan
) -> tuple[tuple[Repair, Counted] | None, str]:
    """Make one file of a folder, an empty one if nothing of the old one can be kept.

    Gives what was found in the old one, and how all its keys are lost, "" if they are not.
    """
    try:
        try:
            with UnmappedFilter(path) as there:
                found = there.header
        except FormatError:  # its header, or its size, is wrong
            return _repair_file(path, made, plan.params(entry.number)), ""
        as_found = replace(entry, uuid=found.uuid)
        require_named(found, path, as_found, plan)  # or no folder can have it
        done = _repair_file(path, made)
        if as_found == entry:
            return done, ""
        return done, "is another filter: the keys of the folder's own are lost"
    except FileNotFoundError:
        lost = "is missing: the keys in it are lost"
    except (FormatError, ParameterMismatchError) as error:
        lost = f"nothing of it can be kept, its {error.field} is {error.found}"
    create_file(
        made.path,
        plan.params(entry.number),
        permissions=made.permissions,
        allow_network=made.allow_network,
        reserve=plan.reserve,
    )
    return None, lost
