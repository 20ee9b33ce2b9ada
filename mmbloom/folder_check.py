"""Is this folder a sound filter? Its manifest, and each of its files as `verification` sees it.

Nothing is locked, mapped or changed.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from mmbloom import _engine
from mmbloom._batch import Batch
from mmbloom._excepted_file import check_listed
from mmbloom._excepted_form import IN_FOLDER, excepted_path_in
from mmbloom._folder import MANIFEST, ManifestFile, read_manifest, stamp_of
from mmbloom._gathered import gathered
from mmbloom._keys import Keys, batches
from mmbloom._manifest import Entry
from mmbloom._member import require_named
from mmbloom._opening import Path, absolute
from mmbloom._unmapped import UnmappedFilter
from mmbloom.errors import FormatError
from mmbloom.verification import Verification, verify_batches


@dataclass(frozen=True, slots=True)
class FolderVerification:
    """What `verify_folder` found.

    Attributes
    ----------
    path : str
        The folder.
    kind : str
        "growing" or "rotating".
    problems : tuple of str
        What is wrong with it or with any of its files; empty if nothing is.
    notes : tuple of str
        What is worth knowing, and no problem.
    keys_checked, keys_missing : int
        Keys that were given, and those of them that no file has.
    files : tuple of Verification
        Each file that could be read, oldest first.
    """

    path: str
    kind: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    keys_checked: int
    keys_missing: int
    files: tuple[Verification, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def as_dict(self) -> dict[str, object]:
        """Return the same as a dict of JSON-ready values."""
        files = [file.as_dict() for file in self.files]
        return {"ok": self.ok, **asdict(self), "files": files}


def verify_folder(path: Path, *, keys: Keys | None = None) -> FolderVerification:
    """Check all of a growing or rotating filter that can be checked; O(m).

    Parameters
    ----------
    path : str or path-like
        The folder; read only, whoever writes to it meanwhile.
    keys : optional
        Keys that one of the files must have, as for `BloomFilter.update`.

    Returns
    -------
    FolderVerification

    Raises
    ------
    FormatError
        If it is no folder of filters at all: no manifest, or a damaged one.
    FileChangedError
        If a file is truncated or overwritten meanwhile.
    KeyTypeError, KeyEncodingError
        If a key cannot be one.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import GrowingFilter, verify_folder
    >>> folder = os.path.join(tempfile.mkdtemp(), "seen")
    >>> with GrowingFilter.create(folder, initial_capacity=1000) as seen:
    ...     seen.update(["a", "b"])
    2
    >>> verify_folder(folder).ok, verify_folder(folder, keys=["b", "c"]).problems
    (True, ('1 of 2 keys are not found',))
    """
    return verify_folder_batches(path, () if keys is None else batches(keys))


def verify_folder_batches(path: Path, keys: Iterable[Batch]) -> FolderVerification:
    """Do as `verify_folder`, with keys that come in batches."""
    file = read_manifest(absolute(path))
    try:
        return _Check(absolute(path), file).run(keys)
    finally:
        file.close()


class _Check:
    def __init__(self, folder: str, file: ManifestFile) -> None:
        self._folder, self._file = folder, file
        self._problems: list[str] = []
        self._notes: list[str] = []

    def run(self, keys: Iterable[Batch]) -> FolderVerification:
        manifest = self._file.manifest
        with ExitStack() as stack:
            there = [each for each in map(self._open, manifest.members) if each]
            for each in there:
                stack.enter_context(each)
            found = tuple(verify_batches(each.path, ()) for each in there)
            for one in found:
                name = os.path.basename(one.path)
                self._problems += [f"{name}: {problem}" for problem in one.problems]
                self._notes += [f"{name}: {note}" for note in one.notes]
            checked, missing = self._keys(there, keys)
        problems, notes = check_listed(excepted_path_in(self._folder))
        self._problems += problems
        self._notes += notes
        self._strangers()
        return FolderVerification(
            path=self._folder,
            kind=manifest.plan.kind,
            problems=tuple(self._problems),
            notes=tuple(self._notes),
            keys_checked=checked,
            keys_missing=missing,
            files=found,
        )

    def _open(self, entry: Entry) -> UnmappedFilter | None:
        path = os.path.join(self._folder, entry.name)
        try:
            file = UnmappedFilter(path)
        except FileNotFoundError:
            if self._is_named(entry):
                self._problems.append(f"{entry.name}: is missing, and its keys with it")
            else:
                self._notes.append(f"{entry.name}: was dropped meanwhile")
            return None
        except FormatError as error:
            self._problems.append(str(error))
            return None
        try:
            require_named(file.header, path, entry, self._file.manifest.plan)
        except FormatError as error:
            self._problems.append(str(error))
        return file

    def _is_named(self, entry: Entry) -> bool:
        """Look whether a file is still one of the folder's."""
        if stamp_of(self._folder) == self._file.stamp:
            return True
        newer = read_manifest(self._folder)
        newer.close()
        return entry in newer.manifest.members

    def _keys(self, files: list[UnmappedFilter], keys: Iterable[Batch]) -> tuple[int, int]:
        """Look the keys up; how many, and how many no file has."""
        checked = missing = 0
        num_hashes = max((file.header.params.num_hashes for file in files), default=1)
        for hashes in gathered(keys, self._file.manifest.plan.seed, num_hashes):
            absent: _engine.HashHalves = hashes
            for file in reversed(files):
                lost = ~file.contains(absent)
                absent = absent[0][lost], absent[1][lost]
            checked += len(hashes[0])
            missing += len(absent[0])
        for file in files:
            file.check_same()  # at the very end: keys may have come for hours
        if missing:
            self._problems.append(f"{missing} of {checked} keys are not found")
        return checked, missing

    def _strangers(self) -> None:
        """Note files that the manifest does not name."""
        if stamp_of(self._folder) != self._file.stamp:
            return  # what it named when it was read is not what is there now
        named = {MANIFEST, IN_FOLDER, *(entry.name for entry in self._file.manifest.members)}
        for name in sorted({*os.listdir(self._folder)} - named):
            self._notes.append(
                f"{name}: is none of the folder's files: left by a killed process, or somebody's"
            )
