"""`verify` checks whether a filter is sound; `repair` makes a sound filter from a damaged one.

`verify` checks everything that the files can show. It reads them with `pread` and locks, maps and
changes nothing, so it can check a filter in use, and a file with any content. The array of a filter
in use has no checksum: a flipped bit is noticed only if it makes the counters differ, if the filter
is a sealed copy, or if its keys are given. In a folder, the manifest and each file are checked.

`repair` keeps every bit that it can read and invents none. Where bits may be missing, keys that
were added may not be found, and the report says so: that filter has no guarantee left, and only
its owner knows whether it is still of use. The damaged file is read, never mapped, never changed.
In a folder, each file is repaired in this way. The manifest must be sound, because it says which
files there were and how they were made.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mmbloom._keys.batch import Batch, gathered
from mmbloom._keys.coerce import batches
from mmbloom._storage.atomic import OWNER_ONLY, Target
from mmbloom._storage.build import new_filter
from mmbloom._storage.exclusions import check_listed
from mmbloom._storage.folder import (
    ManifestFile,
    make_member,
    manifest_of,
    new_filter_folder,
    read_manifest,
    require_named,
    stamp_of,
)
from mmbloom._storage.opening import (
    ALL_KINDS,
    BITS,
    absolute,
    as_file_or_folder,
    kind_of,
    require_kind,
)
from mmbloom._storage.unmapped import Segments, UnmappedFile, UnmappedFilter
from mmbloom._storage.warnings import Counted, warn_if_any_past_plan, warn_if_past_plan
from mmbloom._system import disk
from mmbloom._system.typing import HashHalves, Keys, Path, Words
from mmbloom.errors import FormatError, NewerFormatError, NoFilterError, ParameterMismatchError
from mmbloom.format.exclusions import IN_FOLDER, exclusions_path, exclusions_path_in
from mmbloom.format.folder import MANIFEST, Entry, FolderPlan
from mmbloom.format.header import (
    HEADER_BYTES,
    KEY_RULE_OFFSET,
    VERSION,
    Header,
    decode_block,
    has_stray_bytes,
    read_counters,
    read_key_rule,
)
from mmbloom.sizing import Fill
from mmbloom.sizing.formulas import rate_of_any
from mmbloom.sizing.params import FilterParams, KeyHash, spelled

# Of a folder, the sums of its files.
_SUMS = (
    *("file_bytes", "bytes_not_reserved", "sealed_segments", "positions_set", "approx_count"),
    *("capacity", "unfinished_batches"),
)
_COPY = "; copy it: a copy counts its bits again"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`.

    Attributes
    ----------
    path : str
        The file, or the folder.
    kind : str
        For a file, "bits", or "counters" for a `CountingBloomFilter`; for a folder, "growing" or
        "rotating".
    problems : tuple of str
        What is wrong, and what to do; empty if the filter is sound. Problems of a folder's files
        begin with the name of the file.
    notes : tuple of str
        Other findings, which are not problems.
    file_bytes : int
        Size, which is exactly what the header requires.
    bytes_not_reserved : int
        Bytes for which no disk space is reserved: holes.
    sealed_segments : int
        Number of 1 MiB segments whose checksums were compared; 0 if the filter is not sealed.
    positions_set : int
        Number of bits that are 1, or of counters that are not 0, as counted by `verify`.
    fill_ratio : float
        Positions set divided by all positions.
    approx_count : int
        Estimated number of distinct keys.
    capacity : int
        Number of distinct keys the filter is for.
    error_rate : float
        Planned false-positive rate; for a folder, that of all its files together.
    current_error_rate : float
        False-positive rate to expect now; for a folder, that of all its files together.
    past_plan : bool
        Whether the filter, or a file of the folder, is past its capacity. It may still be sound,
        but it reports more new keys as seen than planned.
    unfinished_batches : int
        Batches begun and not done, because writers are at work or were killed.
    keys_checked, keys_missing : int
        Number of keys that were given, and of those that were not found.
    files : tuple of Verification
        For a folder, each file that could be read, oldest first; the sizes and counts above are
        their sums. Empty for a file.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> mmbloom.BloomFilter.create(path, capacity=1000).close()
    >>> found = mmbloom.verify(path)
    >>> found.ok, found.kind, found.positions_set, found.as_dict()["capacity"]
    (True, 'bits', 0, 1000)
    """

    path: str
    kind: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    file_bytes: int
    bytes_not_reserved: int
    sealed_segments: int
    positions_set: int
    fill_ratio: float
    approx_count: int
    capacity: int
    error_rate: float
    current_error_rate: float
    past_plan: bool
    unfinished_batches: int
    keys_checked: int = 0
    keys_missing: int = 0
    files: tuple["Verification", ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the filter is sound: it has no problems."""
        return not self.problems

    def as_dict(self) -> dict[str, object]:
        """Return the attributes and `ok` as a dict of JSON-ready values."""
        files = [file.as_dict() for file in self.files]
        return {"ok": self.ok, **asdict(self), "files": files}


def verify(path: Path, *, keys: Keys | None = None) -> Verification:
    """Check a filter as far as possible: header, size, counters, holes, seal and manifest.

    Parameters
    ----------
    path : str or path-like
        The filter: a file or a folder. It is only read, from end to end; others may write to it.
    keys : optional
        Keys that must be found, as for `BloomFilter.update`; in a folder, any file may have them.

    Returns
    -------
    Verification
        Its `problems` say what is wrong.

    Raises
    ------
    FormatError
        If it is not a filter at all: a file with an invalid header, or not of exactly the size that
        the header requires; or a folder without a sound manifest.
    FileChangedError, OSError, KeyTypeError, KeyEncodingError
        Errors common to calls that read a filter or take keys: see `mmbloom.errors`.

    Notes
    -----
    The array of a filter in use has no checksum: a flipped bit is noticed only if it makes the
    counters differ. A sealed copy (`copy`) has a checksum for each MiB.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> path = os.path.join(tempfile.mkdtemp(), "seen")
    >>> with mmbloom.GrowingFilter.create(path, initial_capacity=1000) as seen:
    ...     seen.update(["a", "b"])
    2
    >>> mmbloom.verify(path).ok, mmbloom.verify(path, keys=["b", "c"]).problems
    (True, ('1 of 2 keys are not found',))
    """
    return verify_batches(path, () if keys is None else batches(keys))


def verify_batches(path: Path, keys: Iterable[Batch]) -> Verification:
    """Verify a filter with keys that come in batches; return and raise what `verify` does."""
    with ExitStack() as stack:
        opened = as_file_or_folder(
            absolute(path), partial(_open_file, stack), partial(_open_folder, stack)
        )
        files = tuple(_FileCheck(file).run() for file in opened.files)
        found = files[0] if opened.manifest is None else _sum_of(opened, opened.manifest, files)
        checked, missing = _look_up(keys, opened.key_hash, opened.files)
        problems, notes = check_listed(opened.exclusions)
        for file in opened.files:
            file.check_same()  # at the very end: keys may have come for hours
    if missing:
        problems.insert(0, f"{missing} of {checked} keys are not found")
    return replace(
        found,
        problems=(*found.problems, *problems),
        notes=(*found.notes, *notes),
        keys_checked=checked,
        keys_missing=missing,
    )


class _Opened(NamedTuple):
    """A filter to verify: its files, and of a folder what its manifest and its files' names show.

    The files stay open: a name can be gone when a file is dropped.
    """

    path: str
    files: list[UnmappedFilter]
    key_hash: KeyHash
    exclusions: str
    manifest: ManifestFile | None = None
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()


def _open_file(stack: ExitStack, path: str) -> _Opened:
    file = stack.enter_context(UnmappedFilter(path, kinds=ALL_KINDS))
    return _Opened(path, [file], file.header.params.key_hash, exclusions_path(path))


def _open_folder(stack: ExitStack, folder: str) -> _Opened:
    manifest = stack.enter_context(closing(read_manifest(folder)))
    plan, members = manifest.manifest.plan, manifest.manifest.members
    files: list[UnmappedFilter] = []
    problems: list[str] = []
    notes: list[str] = []
    for entry in members:
        path = os.path.join(folder, entry.name)
        try:
            files.append(stack.enter_context(UnmappedFilter(path)))
            require_named(files[-1].header, path, entry, plan)
        except FileNotFoundError:
            if stamp_of(folder) == manifest.stamp or entry in manifest_of(folder).members:
                problems.append(f"{entry.name}: is missing, and so are its keys")
            else:
                notes.append(f"{entry.name}: was dropped during the check")
        except FormatError as error:
            problems.append(str(error))
    exclusions = exclusions_path_in(folder)
    return _Opened(folder, files, plan.key_hash, exclusions, manifest, problems, notes)


def _sum_of(
    folder: _Opened, manifest: ManifestFile, files: tuple[Verification, ...]
) -> Verification:
    problems, notes = [*folder.problems], [*folder.notes]
    for one in files:
        name = os.path.basename(one.path)
        problems += [f"{name}: {problem}" for problem in one.problems]
        notes += [f"{name}: {note}" for note in one.notes]
    if stamp_of(folder.path) == manifest.stamp:  # else other files may belong to it by now
        named = {MANIFEST, IN_FOLDER, *(entry.name for entry in manifest.manifest.members)}
        notes += [
            f"{name}: is not a file of this folder: left by a killed process, or by someone else"
            for name in sorted({*os.listdir(folder.path)} - named)
        ]
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in files) for name in _SUMS}
    num_positions = sum(file.header.params.num_bits for file in folder.files)
    return Verification(
        path=folder.path,
        kind=manifest.manifest.plan.kind,
        problems=tuple(problems),
        notes=tuple(notes),
        fill_ratio=sums["positions_set"] / num_positions if files else 0.0,
        error_rate=manifest.manifest.plan.error_rate,
        current_error_rate=rate_of_any(one.current_error_rate for one in files),
        past_plan=any(one.past_plan for one in files),
        files=files,
        **sums,
    )


def _look_up(
    keys: Iterable[Batch], key_hash: KeyHash, files: Sequence[UnmappedFilter]
) -> tuple[int, int]:
    """Return how many keys there are, and how many are in no file; the newest is asked first."""
    checked = missing = 0
    num_hashes = max((file.header.params.num_hashes for file in files), default=1)
    for hashes in gathered(keys, key_hash, num_hashes):
        absent: HashHalves = hashes
        for file in reversed(files):
            lost = ~file.contains(absent)
            absent = absent[0][lost], absent[1][lost]
        checked += len(hashes[0])
        missing += len(absent[0])
    return checked, missing


class _FileCheck:
    """A check of one file, except for keys and exclusions."""

    def __init__(self, file: UnmappedFilter) -> None:
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._file, self._params = file, file.header.params
        self._kind = kind_of(file.header)
        self._seal_damaged = False

    def run(self) -> Verification:
        header_bytes = self._file.header_first()
        sealed_segments, positions_set = self._array()
        before, after = read_counters(header_bytes), self._file.counters()
        self._header(header_bytes)
        unfinished = self._counters(before, after, positions_set)
        not_reserved = self._reservation()
        fill = Fill.of(self._params, positions_set)
        if fill.is_past:
            self._notes.append(fill.past_plan)
        return Verification(
            path=self._file.path,
            kind=self._kind.noun,
            problems=tuple(self._problems),
            notes=tuple(self._notes),
            file_bytes=self._file.size,
            bytes_not_reserved=not_reserved,
            sealed_segments=sealed_segments,
            positions_set=positions_set,
            fill_ratio=positions_set / self._params.num_bits,
            approx_count=round(fill.keys),
            capacity=fill.capacity,
            error_rate=self._params.error_rate,
            current_error_rate=fill.now,
            past_plan=fill.is_past,
            unfinished_batches=unfinished,
        )

    def _array(self) -> tuple[int, int]:
        """Compare the seal and count set positions; return segments compared and positions set."""
        try:
            checksums = self._file.checksums().tolist()
        except FormatError as error:
            checksums = []
            self._problems.append(
                f"the {error.field} is {error.found}, expected {error.expected}: it is damaged, "
                "so the array cannot be checked; go back to another copy"
            )

        def differs(number: int, found: int, sealed: int) -> None:
            self._problems.append(
                f"MiB {number} of the array has the checksum {found:#x}, expected {sealed:#x}: "
                "go back to another copy"
            )

        array = Segments(self._file, self._file.header, checksums, differs)
        for _ in array:
            pass
        self._seal_damaged = bool(self._problems)
        return len(checksums), array.positions_set

    def _header(self, raw: bytes) -> None:
        if has_stray_bytes(raw):
            self._problems.append(
                "bytes of the header that must be zero are not: something else wrote to the file"
            )
        if any(raw[KEY_RULE_OFFSET:]) and read_key_rule(raw) is None:
            self._notes.append(
                "the key rule is incomplete: a writer was killed, or something else wrote there; "
                "the next command that adds lines writes it again"
            )

    def _counters(self, before: dict[str, int], after: dict[str, int], positions_set: int) -> int:
        """Compare the counters with the bits; return the number of unfinished batches."""
        again, recount = self._advice()
        quiet = before == after  # counters that move are read at different moments
        if not quiet:
            self._notes.append("the filter is being written to: its counters are changing")
        unfinished = after["batches_begun"] - after["batches_done"]
        if quiet and unfinished < 0:
            self._problems.append(f"{-unfinished} more batches are done than were begun{recount}")
        elif unfinished > 0:
            self._notes.append(
                f"{unfinished} batches begun and not done: writers are at work, or were killed; "
                f"every key whose add returned is there, but the counters may lag behind{recount}"
            )
        if self._kind is not BITS:  # counters go down, and may have while they were read
            if quiet and not unfinished and positions_set != after["positions_set"]:
                self._problems.append(
                    f"{positions_set} counters are not 0, but {after['positions_set']} were "
                    f"counted: something else changed them, or the totals are damaged{recount}"
                )
            return max(0, unfinished)
        # Bits are set before they are counted, and never cleared; each new key sets at least one.
        if positions_set < before["positions_set"]:
            self._problems.append(
                f"{positions_set} bits are set, but {before['positions_set']} were counted: "
                f"bits are lost, or the counters are damaged{again}"
            )
        elif quiet and not unfinished and positions_set > after["positions_set"]:
            self._problems.append(
                f"{positions_set} bits are set, but {after['positions_set']} were counted: "
                f"something else set bits, or the counters are damaged{recount}"
            )
        if before["keys_added"] > positions_set:
            self._problems.append(
                f"{before['keys_added']} keys added is impossible with {positions_set} bits set: "
                f"the counters are damaged{'' if self._seal_damaged else _COPY}"
            )
        return max(0, unfinished)

    def _advice(self) -> tuple[str, str]:
        """Return what to do about lost bits and about wrong counters, "" if it would be refused."""
        if self._seal_damaged:  # it can be neither copied nor written to
            return "", ""
        if self._file.header.sealed:
            return _COPY, _COPY
        return "; if you have the keys, add them again", "; recount corrects them (info --recount)"

    def _reservation(self) -> int:
        missing = self._file.bytes_not_reserved()
        if not missing:
            return 0
        said = f"{missing} bytes of the file are holes, with no disk space reserved"
        if self._file.header.sealed or (
            disk.file_system_type(self._file.path) in disk.COPY_ON_WRITE
        ):
            self._notes.append(said)
        else:
            self._problems.append(
                f"{said}: a full disk would end every process that writes to it; "
                "copy it, because a copy has no holes"
            )
        return missing


# The size in the header over the size that is there, at most: a file of a few bytes must not fill
# the disk with the terabyte of zeros that its header asks for.
_MOST_TIMES = 100
_DAMAGED_COUNTERS = "the counters were damaged, so lost bits cannot be detected: recounted"


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of `repair`.

    Attributes
    ----------
    header_damage : str
        The part of the header that was wrong; the header was then rebuilt from the given
        parameters, or from the folder's manifest. "" if nothing was wrong. Always "" for a folder:
        see `files`.
    positions_set : int
        Number of bits that are 1, as counted by `repair`; for a folder, the sum.
    keys_added : int
        Number of keys that were new when added: the file's own count if that is possible, otherwise
        an estimate. For a folder, the sum.
    losses : tuple of str
        Reasons why bits may be missing and keys may not be found; empty if every key is there.
    notes : tuple of str
        Other findings.
    files : tuple of Repair
        For a folder, each file that was there, oldest first; empty for a file.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> old, new = (os.path.join(tempfile.mkdtemp(), name) for name in ("old", "new"))
    >>> mmbloom.BloomFilter.create(old, capacity=1000).close()
    >>> os.truncate(old, os.path.getsize(old) - 64)
    >>> mmbloom.repair(old, new).losses
    ('the last 64 bytes of the array are missing; now zeros',)
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
    """Make a sound filter from what is left of a damaged one.

    Parameters
    ----------
    source : str or path-like
        The damaged filter: a file or a folder. No process should be writing to it. It is not
        changed.
    destination : str or path-like
        Where to make the new filter. It appears complete and on the disk, or not at all.
    params : FilterParams, optional
        The parameters a file was made with; needed only if its header is damaged. With wrong
        parameters, the result finds no key. Do not pass them for a folder: its manifest has them.
    permissions : int, default 0o600
        Mode bits of the new file; for a folder, of the files in it.
    allow_network : bool, default False
        Allow a destination on a network file system.

    Returns
    -------
    Repair
        Its `losses` say whether keys may be missing.

    Raises
    ------
    FormatError
        If the header of a file is damaged and `params` is missing, or if less than a hundredth of
        the array is left; for a folder, if the manifest is missing or damaged.
    ParameterMismatchError
        If the header is sound but `params` differ from it.
    ValueError
        If `params` are given for a folder.
    FileChangedError, FileExistsError, NetworkFileSystemError, OSError
        Errors common to calls that read or make a filter: see `mmbloom.errors`.

    Notes
    -----
    In a folder, each file is repaired; a file that is missing, or from which nothing can be kept,
    is replaced by an empty one. Exclusions are not copied. If the result is past its capacity, a
    `CapacityWarning` is given after it has been made.

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

    def mend_file(path: str) -> Repair:
        done, mended = _repair_file(path, target, params)
        warn_if_past_plan(mended)
        return done

    return as_file_or_folder(path, mend_file, partial(_repair_folder, target=target, params=params))


def _repair_file(
    path: str, target: Target, params: FilterParams | None = None
) -> tuple[Repair, Counted]:
    with UnmappedFile(path) as damaged:
        if damaged.size <= HEADER_BYTES:
            found = f"{damaged.size} bytes"
            raise NoFilterError(damaged.path, "length", found, "a 4096-byte header and an array")
        raw = damaged.read(0, HEADER_BYTES)
        header, wrong = _header_of(damaged, raw, params)
        if _MOST_TIMES * (damaged.size - HEADER_BYTES) < header.array_bytes:
            found, whole = f"{damaged.size} bytes", header.file_bytes
            expected = f"{whole}, or at least a hundredth of that: too little is left to repair"
            raise FormatError(damaged.path, "file size", found, expected)
        damaged.find_array(header)
        losses: list[str] = []
        notes: list[str] = []
        said, sealed = read_counters(raw), header.sealed or bool(wrong)
        segments = _salvaged(damaged, header, maybe_sealed=sealed, losses=losses, notes=notes)
        with new_filter(target, header.params, key_rule=read_key_rule(raw)) as mended:
            for segment in segments:
                mended.write(segment)
            positions_set = mended.positions_set
            _compare(said, positions_set, header, losses, notes)
            keys_added = mended.finish(said["keys_added"], batches=0)
    made = Counted(target.path, header.params, positions_set)
    return Repair(wrong, positions_set, keys_added, tuple(losses), tuple(notes)), made


def _header_of(
    damaged: UnmappedFile, raw: bytes, params: FilterParams | None
) -> tuple[Header, str]:
    """Return the header, read or rebuilt, and what was wrong with it, "" if nothing."""
    wrong = ""
    try:
        header = decode_block(raw, damaged.size, damaged.path)
    except NewerFormatError as error:
        header, wrong = _of_this_version(damaged, raw, error), error.field
    except FormatError as error:
        if params is None:
            expected = f"{error.expected}; to rebuild it, give the parameters it was made with"
            raise type(error)(error.path, error.field, error.found, expected) from None
        return Header(params, 0, bytes(16)), error.field
    require_kind(header, damaged.path, (BITS,))
    if params is None:
        return header, wrong
    for field in ("num_bits", "num_hashes", "layout", "blocks_per_key", "hash", "seed"):
        if getattr(header.params, field) != getattr(params, field):
            there, given = spelled(header.params, field), spelled(params, field)
            said = (
                f"its header is sound and has {field} {there}, but params have {given}: repair it "
                "without params, or with the filter's own"
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


def _salvaged(
    damaged: UnmappedFile,
    header: Header,
    *,
    maybe_sealed: bool,
    losses: list[str],
    notes: list[str],
) -> Iterator[Words]:
    """Read the array from front to back, with zeros for what is missing, and note what that is."""
    end = HEADER_BYTES + header.array_bytes
    if damaged.size < end:
        losses.append(f"the last {end - damaged.size} bytes of the array are missing; now zeros")
    checksums = _sealed_checksums(damaged, header) if maybe_sealed else None
    if header.sealed and checksums is None:  # unknown if the header was rebuilt
        losses.append("the seal itself is damaged, so the array could not be checked")
    if header.sealed or checksums is not None:
        notes.append("the file was sealed; the new one is not")
        end += header.seal_bytes
    if damaged.size > end:
        notes.append(f"{damaged.size - end} bytes after the end were left out")
    wrong: list[int] = []
    yield from Segments(damaged, header, checksums or (), lambda number, *_: wrong.append(number))
    if wrong:
        first = ", ".join(map(str, wrong[:8])) + (", ..." if len(wrong) > 8 else "")
        losses.append(f"{len(wrong)} MiB of the array differ from what was sealed: {first}")


def _sealed_checksums(damaged: UnmappedFile, header: Header) -> list[int] | None:
    """Read the seal's checksums; None if there is no seal, or it cannot be relied on."""
    start, size = HEADER_BYTES + header.array_bytes, header.seal_bytes
    there = min(size, max(0, damaged.size - start))
    table = np.frombuffer(damaged.read(start, there).ljust(size, b"\0"), "<u4")
    checksums: list[int] = table[:-1].tolist()
    return checksums if zlib.crc32(table[:-1].tobytes()) == int(table[-1]) else None


def _compare(
    said: dict[str, int], positions_set: int, header: Header, losses: list[str], notes: list[str]
) -> None:
    """Compare what the counters say with the bits that are there."""
    counted, unfinished = said["positions_set"], said["batches_begun"] - said["batches_done"]
    if counted > header.params.num_bits:
        notes.append(_DAMAGED_COUNTERS)
    elif counted > positions_set:
        losses.append(f"{counted} bits were set when last counted, but {positions_set} are now")
    elif unfinished < 0:
        notes.append(_DAMAGED_COUNTERS)
    elif unfinished:
        notes.append(f"{unfinished} batches were interrupted; no key whose add returned is missing")
    elif counted < positions_set:
        notes.append(f"{positions_set} bits are set, but {counted} were counted: recounted")


_NOTHING_KEPT = Repair("", 0, 0, (), ())


def _repair_folder(path: str, target: Target, params: FilterParams | None) -> Repair:
    if params is not None:
        raise ValueError(f"{path}: is a folder, whose manifest has its parameters: omit params")
    manifest = manifest_of(path)
    files: list[Repair] = []
    made: list[Counted] = []
    losses: list[str] = []
    notes: list[str] = []
    with new_filter_folder(target, manifest.plan) as place:
        for entry in manifest.members:
            old, new = os.path.join(path, entry.name), place(entry.number, entry.name)
            done, counted, lost = _mend(old, new, entry, manifest.plan)
            made.append(counted)
            losses += [f"{entry.name}: {loss}" for loss in (lost, *done.losses) if loss]
            if wrong := done.header_damage:
                notes.append(f"{entry.name}: header rebuilt from the manifest: {wrong} was wrong")
            notes += [f"{entry.name}: {note}" for note in done.notes]
            if done is not _NOTHING_KEPT:
                files.append(done)
    warn_if_any_past_plan(target.path, manifest.plan.kind, made)
    return Repair(
        header_damage="",
        positions_set=sum(done.positions_set for done in files),
        keys_added=sum(done.keys_added for done in files),
        losses=tuple(losses),
        notes=tuple(notes),
        files=tuple(files),
    )


def _mend(path: str, made: Target, entry: Entry, plan: FolderPlan) -> tuple[Repair, Counted, str]:
    """Make one file of a folder, an empty one if nothing of the old one can be kept.

    Return what `_repair_file` returns, and how all keys of the old file are lost, "" if not.
    """
    try:
        try:
            with UnmappedFilter(path) as there:
                found = there.header
        except FormatError:  # the header or the size is wrong
            return *_repair_file(path, made, plan.params(entry.number)), ""
        as_found = replace(entry, uuid=found.uuid)
        require_named(found, path, as_found, plan)  # else it fits no folder of this plan
        same = as_found == entry
        lost = "" if same else "is another filter: the keys of the original file are lost"
        return *_repair_file(path, made), lost
    except FileNotFoundError:
        lost = "is missing: the keys in it are lost"
    except (FormatError, ParameterMismatchError) as error:
        lost = f"is lost with its keys: its {error.field} is {error.found}"
    make_member(made, plan, entry.number)
    return _NOTHING_KEPT, Counted(made.path, plan.params(entry.number), 0), lost
