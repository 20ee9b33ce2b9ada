"""One file of a folder, open: its map, its lock, and what is written between lock and unlock.

It is proved to be the file that the manifest names, of the sizes that the plan gives it.
"""

import os
from collections.abc import Sequence
from time import monotonic

from mmbloom import _engine
from mmbloom._machine.moments import MOMENT
from mmbloom._storage.folder import require_named
from mmbloom._storage.mapped import MappedFilter
from mmbloom._typing import Bools, HashHalves
from mmbloom.filters.exclusion_list import ExclusionList
from mmbloom.filters.opened import OpenedFile
from mmbloom.filters.options import OpenOptions
from mmbloom.format.growth import GrowthPlan
from mmbloom.format.manifest import Entry, FolderPlan

_KEYS_A_CHECK = 16  # as many as are asked in a moment where each waits for the disk


class Member:
    """One filter file of a folder.

    Parameters
    ----------
    folder : str
        Absolute path of the folder.
    entry : Entry
        Which file, as the manifest names it.
    plan : FolderPlan
        What says its sizes.
    settings : OpenOptions
        How to open it.
    exclusions : ExclusionList
        The exclusions of the folder: looked at before keys are added, and never its own.

    Raises
    ------
    FormatError
        If it is no valid filter, or not the one that is meant.
    OSError
        If it cannot be opened.
    """

    def __init__(
        self,
        folder: str,
        entry: Entry,
        plan: FolderPlan,
        settings: OpenOptions,
        exclusions: ExclusionList,
    ) -> None:
        path = os.path.join(folder, entry.name)
        writable, network = settings.mode == "r+", settings.allow_network
        self.entry = entry
        self.storage = MappedFilter(
            path, writable=writable, allow_network=network, resident=settings.resident
        )
        try:
            require_named(self.storage.header, path, entry, plan)
        except BaseException:
            self.storage.close()
            raise
        self.params = self.storage.header.params
        self.check_at = 0.0
        # What does not fit into a file of a growing filter goes to the next one.
        on_full = None if isinstance(plan, GrowthPlan) else settings.on_full
        opened = OpenedFile(self.storage, exclusions, settings, path=folder, on_full=on_full)
        self.lock, self.writer, self.close = opened.lock, opened.writer, opened.close

    def recheck(self, now: float) -> None:
        """Make sure that touching the file is safe, and will be for some keys."""
        self.storage.look(_KEYS_A_CHECK)
        self.check_at = now + MOMENT

    @property
    def room(self) -> int:
        """How many more new keys it is planned for; a damaged counter makes that 0 or all."""
        return max(0, self.params.capacity - self.storage.counters["keys_added"])

    def keys_that_were_added(self) -> bool:
        """Tell whether any bit is set; reads the whole file."""
        return _engine.count_set(self.storage.views.words) > 0

    def flush(self) -> None:
        """Force it to the disk, with no stamp: for one that does not change any more."""
        with self.lock.own_threads():  # none may close the file under our feet
            self.storage.check_open()
            self.storage.array.flush()


def key_rule_of(members: Sequence[Member]) -> str | None:
    """Read how lines became keys, from the newest of these files that says it.

    Each new file gets the rule, so that the rule outlives the old ones.
    """
    rules = (member.storage.key_rule for member in reversed(members))
    return next((rule for rule in rules if rule is not None), None)


def contains_one(members: Sequence[Member], key: bytes) -> bool:
    """Test one key in files, the last of them first.

    Each file is looked at once a moment: a look takes longer than all else. To cut a file between
    two looks is as dangerous as to cut it between a look and an access.
    """
    now = monotonic()
    for member in reversed(members):
        if now > member.check_at:
            member.recheck(now)
        if member.storage.views.one.contains(key):
            return True
    return False


def contains_any(members: Sequence[Member], hashes: HashHalves) -> Bools:
    """Test keys in files of equal parameters at once: bool array of shape (n,)."""
    words = [member.storage.look(len(hashes[0])).words for member in members]
    if len(words) == 1:
        member = members[0]
        return _engine.contains(words[0], *hashes, member.params, member.writer.threads)
    return _engine.contains_any(words, *hashes, members[0].params)
