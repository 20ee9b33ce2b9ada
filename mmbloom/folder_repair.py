"""A new, sound folder of filters from a damaged one: each of its files is mended as `repair` does.

The manifest must be sound: it says which files there were, and how they were made. The damaged
folder is read, never mapped, never changed.
"""

import os
from dataclasses import dataclass, replace
from typing import TypedDict

from mmbloom._create import create_file
from mmbloom._folder import ManifestFile, first_manifest, new_folder, read_manifest
from mmbloom._manifest import Entry
from mmbloom._member import entry_of, require_named
from mmbloom._opening import Path, absolute
from mmbloom._unmapped import UnmappedFilter
from mmbloom.errors import FormatError, ParameterMismatch
from mmbloom.salvage import Repair, repair


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
        except (FormatError, ParameterMismatch) as error:
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
