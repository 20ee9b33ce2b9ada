"""One file of a folder, open: its map, its lock, and what is written between lock and unlock.

It is proved to be the file that the manifest names, of the sizes that the plan gives it.
"""

import os
from collections.abc import Sequence
from time import monotonic

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._create import create_file
from mmbloom._engine import HashHalves
from mmbloom._excepted import Excepted
from mmbloom._header import Header
from mmbloom._lock import WriteLock
from mmbloom._manifest import Entry, Plan
from mmbloom._opening import open_regular, read_header
from mmbloom._storage import Storage
from mmbloom._writer import BitWriter
from mmbloom.errors import FormatError
from mmbloom.filter_file import Settings

Bools = npt.NDArray[np.bool_]

_CHECK_SECONDS = 0.001
_KEYS_A_CHECK = 16  # as many as are asked in that time where each waits for the disk


def file_name(number: int, suffix: str = "") -> str:
    """Name the file of a number, or another one if that name is taken."""
    return f"{number:010d}{'-' if suffix else ''}{suffix}.bloom"


def make_member(
    folder: str, name: str, plan: Plan, number: int, *, permissions: int, allow_network: bool
) -> Entry:
    """Make a file for a folder, which no manifest names yet; raises as `create_file`."""
    create_file(
        os.path.join(folder, name),
        plan.params(number),
        permissions=permissions,
        allow_network=allow_network,
        reserve=plan.reserve,
    )
    return entry_of(folder, name, number)


def entry_of(folder: str, name: str, number: int) -> Entry:
    """Read which filter a file has, as a manifest is to name it."""
    path = os.path.join(folder, name)
    fd = open_regular(path, os.O_RDONLY)
    try:
        header, _ = read_header(fd, path)
    finally:
        os.close(fd)
    return Entry(number, name, header.uuid)


def require_named(header: Header, path: str, entry: Entry, plan: Plan) -> None:
    """Raise `FormatError` if a file is not the one that the manifest names, or not as planned."""
    capacity, error_rate = plan.sizes(entry.number)
    # Bits and hashes follow from these, and another version may plan them otherwise.
    for field, found, expected in (
        ("uuid", header.uuid.hex(), entry.uuid.hex()),
        ("planned capacity", header.params.capacity, capacity),
        ("planned error rate", header.params.error_rate, error_rate),
        ("layout", header.params.layout, plan.layout),
        ("seed", header.params.seed, plan.seed),
    ):
        if found != expected:
            raise FormatError(path, field, str(found), f"{expected}, by the folder's manifest")


class Member:
    """One filter file of a folder.

    Parameters
    ----------
    folder : str
        Absolute path of the folder.
    entry : Entry
        Which file, as the manifest names it.
    plan : Plan
        What says its sizes.
    settings : Settings
        How to open it.
    excepted : Excepted
        The exceptions of the folder: looked at before keys are added, and never its own.

    Raises
    ------
    FormatError
        If it is no valid filter, or not the one that is meant.
    OSError
        If it cannot be opened.
    """

    def __init__(
        self, folder: str, entry: Entry, plan: Plan, settings: Settings, excepted: Excepted
    ) -> None:
        path = os.path.join(folder, entry.name)
        writable, network = settings.mode == "r+", settings.allow_network
        self.entry = entry
        self.storage = Storage(path, writable=writable, allow_network=network)
        try:
            require_named(self.storage.header, path, entry, plan)
        except BaseException:
            self.storage.close()
            raise
        self.params = self.storage.header.params
        self.check_at = 0.0
        self.lock = WriteLock(path, self.storage.identity, settings.lock_timeout)
        self.writer = BitWriter(self.storage, self.lock, excepted, verify=settings.verify_after_add)
        if settings.preload:
            self.storage.preload()

    def look(self, now: float) -> None:
        """Make sure that the file is as it was (law 16), and will be for some keys."""
        self.storage.check_unchanged()
        self.storage.expect(_KEYS_A_CHECK)
        self.check_at = now + _CHECK_SECONDS

    @property
    def room(self) -> int:
        """How many more new keys it is planned for; a damaged counter makes that 0 or all."""
        return max(0, self.params.capacity - self.storage.counter("keys_added"))

    def keys_that_were_added(self) -> bool:
        """Tell whether any bit is set; reads the whole file."""
        return _engine.count_set(self.storage.views.words) > 0

    def close(self) -> None:
        """Unmap it and release everything."""
        with self.lock.closing():
            self.storage.close()


def contains_one(members: Sequence[Member], key: bytes) -> bool:
    """Test one key in files, the last of them first.

    Each file is looked at once in a millisecond: a look takes longer than all else. Who
    truncates it in between does so as in between a look and a touch.
    """
    now = monotonic()
    for member in reversed(members):
        if now > member.check_at:
            member.look(now)
        if member.storage.views.one.contains(key):
            return True
    return False


def contains_any(members: Sequence[Member], hashes: HashHalves) -> Bools:
    """Test keys in files of equal parameters at once: bool array of shape (n,)."""
    for member in members:
        member.storage.check_unchanged()
        member.storage.expect(len(hashes[0]))
    words = [member.storage.views.words for member in members]
    if len(words) == 1:
        return _engine.contains(words[0], *hashes, members[0].params)
    return _engine.contains_any(words, *hashes, members[0].params)
