"""A new, sound filter from a damaged one: what is there is kept, nothing is made up.

No bit is invented and none is dropped. Where bits may be missing, so that keys which were added
may not be found, the report says so plainly: such a filter has no guarantee left, and whether
it is still of use only its owner knows. What is damaged is read, never mapped, never changed.
Each file of a folder is mended so; the manifest must be sound, as it says which files there
were, and how they were made.
"""

import math
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from mmbloom._storage.atomic import new_folder
from mmbloom._storage.build import Target, create_file, new_filter
from mmbloom._storage.folder import (
    ManifestFile,
    entry_of,
    first_manifest,
    read_manifest,
    require_named,
)
from mmbloom._storage.kinds import BITS, require_kind
from mmbloom._storage.opening import absolute
from mmbloom._storage.unmapped import PIECE_BYTES, UnmappedFile, UnmappedFilter
from mmbloom._typing import Path, Words
from mmbloom.errors import FormatError, NewerFormatError, ParameterMismatchError
from mmbloom.format.header import HEADER_BYTES, VERSION, Header, decode_block, read_counters
from mmbloom.format.manifest import Entry
from mmbloom.sizing.params import FilterParams

# A file of a few bytes must not fill the disk with the terabyte of zeros that it asks for.
_MOST_TIMES = 100  # times the array that is there may be as large as it should be


_DAMAGED_COUNTERS = "the counters were damaged, and cannot tell if bits are lost: recounted"


@dataclass(frozen=True, slots=True)
class Repair:
    """What `repair` found and did.

    Attributes
    ----------
    header_damage : str
        The part of the header that was wrong, so that it was made anew from the parameters
        given; "" if none.
    positions_set : int
        Bits that are 1, counted.
    keys_added : int
        Keys that were new when added: as the file said if that is possible, else estimated.
    losses : tuple of str
        Why bits may be missing, so that keys may not be found; empty if every key is there.
    notes : tuple of str
        What else was found.
    """

    header_damage: str
    positions_set: int
    keys_added: int
    losses: tuple[str, ...]
    notes: tuple[str, ...]


def repair(
    source: Path,
    destination: Path,
    *,
    params: FilterParams | None = None,
    permissions: int = 0o600,
    allow_network: bool = False,
) -> Repair:
    """Make a sound filter of what a damaged file holds.

    Parameters
    ----------
    source : str or path-like
        The damaged file, which nobody should be writing to; it is not changed.
    destination : str or path-like
        Where the new file is made; it appears complete and forced to the disk, or not at all.
    params : FilterParams, optional
        What the filter was made with; needed only if the header is damaged. Wrong ones make a
        filter that finds nothing.
    permissions : int, default 0o600
        Mode bits of the new file.
    allow_network : bool, default False
        Allow making it on a network file system.

    Returns
    -------
    Repair
        `losses` says whether keys may be missing.

    Raises
    ------
    FormatError
        If the header is damaged and no `params` are given, or less than a hundredth of the
        array is there.
    ParameterMismatchError
        If the header is sound and says otherwise than `params`.
    FileExistsError, OSError
        If the new file cannot be made.
    """
    target = Target(absolute(destination), permissions, allow_network)
    with UnmappedFile(absolute(source)) as damaged:
        if damaged.size <= HEADER_BYTES:
            found = f"{damaged.size} bytes"
            raise FormatError(damaged.path, "length", found, "a header of 4096 and an array")
        raw = damaged.read(0, HEADER_BYTES)
        header, wrong = _header_of(damaged, raw, params)
        if _MOST_TIMES * (damaged.size - HEADER_BYTES) < header.array_bytes:
            found, whole = f"{damaged.size} bytes", header.file_bytes
            expected = f"{whole}, or a hundredth of that: there is too little to save"
            raise FormatError(damaged.path, "file size", found, expected)
        salvage = _Salvage(damaged, header, maybe_sealed=header.sealed or bool(wrong))
        with new_filter(target, header.params) as mended:
            for piece in salvage.pieces():
                mended.write(piece)
            positions_set = mended.positions_set
            said = read_counters(raw)
            salvage.compare(said, positions_set)
            keys_added = mended.finish(said["keys_added"], batches=0)
    losses, notes = tuple(salvage.losses), tuple(salvage.notes)
    return Repair(wrong, positions_set, keys_added, losses, notes)


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
            raise FormatError(error.path, error.field, error.found, expected) from None
        return Header(params, 0, bytes(16)), error.field
    require_kind(header, damaged.path, (BITS,))
    for field in ("num_bits", "num_hashes", "layout", "seed") if params else ():
        there, given = getattr(header.params, field), getattr(params, field)
        if there != given:
            raise ParameterMismatchError(damaged.path, field, str(there), str(given))
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
            end += self._seal_bytes
        if damaged.size > end:
            self.notes.append(f"{damaged.size - end} bytes after the end are left out")

    def pieces(self) -> Iterator[Words]:
        """Read the array from front to back; what is not there is zeros."""
        checksums = self._checksums
        wrong = []
        for number, start in enumerate(range(0, self._header.array_bytes, PIECE_BYTES)):
            size = min(PIECE_BYTES, self._header.array_bytes - start)
            there = min(size, max(0, self._damaged.size - HEADER_BYTES - start))
            octets = self._damaged.read(HEADER_BYTES + start, there).ljust(size, b"\0")
            if checksums and zlib.crc32(octets) != checksums[number]:
                wrong.append(number)
            yield np.frombuffer(octets, "<u8")
        if wrong:
            first = ", ".join(map(str, wrong[:8])) + (", ..." if len(wrong) > 8 else "")
            self.losses.append(f"{len(wrong)} MiB of the array are not what was sealed: {first}")

    @property
    def _seal_bytes(self) -> int:
        return 4 * (math.ceil(self._header.array_bytes / PIECE_BYTES) + 1)

    def _sealed_checksums(self, start: int) -> list[int]:
        """Read the seal's checksums; none if there is no seal, or it cannot be relied on."""
        there = min(self._seal_bytes, max(0, self._damaged.size - start))
        values = np.frombuffer(
            self._damaged.read(start, there).ljust(self._seal_bytes, b"\0"), "<u4"
        )
        if zlib.crc32(values[:-1].tobytes()) == int(values[-1]):
            return [int(value) for value in values[:-1]]
        if self._header.sealed:  # of a header made anew nobody knows whether it was
            self.losses.append("the seal is damaged itself, so the array could not be checked")
        return []

    def compare(self, said: dict[str, int], positions_set: int) -> None:
        """Compare what the counters say with the bits that are there."""
        counted, unfinished = said["positions_set"], said["batches_begun"] - said["batches_done"]
        if counted > self._header.params.num_bits:
            self.notes.append(
                "the counters were damaged, and cannot tell if bits are lost: recounted"
            )
        elif counted > positions_set:
            self.losses.append(
                f"{counted} bits were set when last counted, {positions_set} are now"
            )
        elif unfinished < 0:
            self.notes.append(
                "the counters were damaged, and cannot tell if bits are lost: recounted"
            )
        elif unfinished:
            self.notes.append(
                f"{unfinished} batches were interrupted; no key whose add returned is missing"
            )
        elif counted < positions_set:
            self.notes.append(f"{positions_set} bits are set, {counted} were counted: recounted")


@dataclass(frozen=True, slots=True)
class FolderRepair:
    """What `repair_folder` found and did.

    Attributes
    ----------
    losses : tuple of str
        Why bits may be missing, so that keys may not be found; empty if every key is there.
    notes : tuple of str
        What else was found.
    files : tuple of Repair
        Each file that was there, oldest first.
    """

    losses: tuple[str, ...]
    notes: tuple[str, ...]
    files: tuple[Repair, ...]


def repair_folder(
    source: Path, destination: Path, *, permissions: int = 0o600, allow_network: bool = False
) -> FolderRepair:
    """Make a sound growing or rotating filter of what a damaged folder holds.

    Parameters
    ----------
    source : str or path-like
        The damaged folder, which nobody should be writing to; it is not changed.
    destination : str or path-like
        Where the new one is made; it appears complete and forced to the disk, or not at all.
    permissions : int, default 0o600
        Mode bits of the new files.
    allow_network : bool, default False
        Allow making it on a network file system.

    Returns
    -------
    FolderRepair
        `losses` says whether keys may be missing.

    Raises
    ------
    FormatError
        If the manifest is missing or damaged: each file is then a filter for `repair`.
    FileExistsError, OSError
        If the new folder cannot be made.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import GrowingFilter, repair_folder
    >>> damaged, mended = (os.path.join(tempfile.mkdtemp(), name) for name in ("old", "new"))
    >>> with GrowingFilter.create(damaged, initial_capacity=10, error_rate=1e-6) as seen:
    ...     seen.update(range(25))
    25
    >>> os.unlink(os.path.join(damaged, "0000000000.bloom"))
    >>> repair_folder(damaged, mended).losses
    ('0000000000.bloom: is missing: the keys in it are lost',)
    >>> with GrowingFilter.open(mended) as seen:
    ...     print(seen.contains_many([0, 24]), seen.add(0))
    [False  True] True
    """
    file = read_manifest(absolute(source))
    file.close()
    made = _Mender(absolute(source), file, permissions, allow_network=allow_network)
    with new_folder(absolute(destination), permissions) as folder:
        entries = [made.mend(entry, folder) for entry in file.manifest.members]
        first_manifest(folder, file.manifest.plan, entries, permissions)
    return FolderRepair(tuple(made.losses), tuple(made.notes), tuple(made.files))


class _Options(TypedDict):
    permissions: int
    allow_network: bool


class _Mender:
    def __init__(
        self, source: str, file: ManifestFile, permissions: int, *, allow_network: bool
    ) -> None:
        self._source, self._plan = source, file.manifest.plan
        self._options = _Options(permissions=permissions, allow_network=allow_network)
        self.losses: list[str] = []
        self.notes: list[str] = []
        self.files: list[Repair] = []

    def mend(self, entry: Entry, folder: str) -> Entry:
        """Make one file; gives its entry in the new manifest."""
        made = os.path.join(folder, entry.name)
        path = os.path.join(self._source, entry.name)
        try:
            done = self._repaired(path, made, entry)
        except FileNotFoundError:
            self._lost(entry, "is missing: the keys in it are lost")
            self._make_empty(made, entry)
        except (FormatError, ParameterMismatchError) as error:
            self._lost(entry, f"nothing of it can be kept, its {error.field} is {error.found}")
            self._make_empty(made, entry)
        else:
            self._report(entry, done)
        return entry_of(folder, entry.name, entry.number)

    def _repaired(self, path: str, made: str, entry: Entry) -> Repair:
        try:
            with UnmappedFilter(path) as there:
                found = there.header
        except FormatError:  # its header, or its size, is wrong
            params = self._plan.params(entry.number)
            return repair(path, made, params=params, **self._options)
        as_found = replace(entry, uuid=found.uuid)
        require_named(found, path, as_found, self._plan)  # or no folder can have it
        if as_found != entry:
            self._lost(entry, "is another filter: the keys of the folder's own are lost")
        return repair(path, made, **self._options)

    def _report(self, entry: Entry, done: Repair) -> None:
        self.files.append(done)
        if done.header_damage:
            self.notes.append(
                f"{entry.name}: header rebuilt by the manifest, its {done.header_damage} was wrong"
            )
        for loss in done.losses:
            self._lost(entry, loss)
        self.notes += [f"{entry.name}: {note}" for note in done.notes]

    def _lost(self, entry: Entry, how: str) -> None:
        self.losses.append(f"{entry.name}: {how}")

    def _make_empty(self, made: str, entry: Entry) -> None:
        params = self._plan.params(entry.number)
        create_file(made, params, reserve=self._plan.reserve, **self._options)
