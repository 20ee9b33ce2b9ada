"""The array of one filter in shared memory, which all processes map and change instead of the file.

If changed pages of files take more than a part of the memory, the kernel makes a process that
changes more of them wait for the disk: a key took 90 us then. It takes 0.1 us in shared memory,
whose pages are written nowhere. The file is the checkpoint of the copy. Bits only go from 0 to 1,
so any mix of an older and a newer array is a valid filter between the two: the file may be written
at any time, in any order. (Four-bit counters go down as well: a torn checkpoint of them could
forget a key, so filters that count stay mapped.)

- The file's header names its copy: the boot of the kernel, and 16 random bytes. Whoever can write
  these can write the filter, so nobody else can choose the name that is trusted.
- The copy's first page names its file: device, inode, uuid and size. A file that `cp` made has the
  name of a copy that is not its own; it is the filter as of its last checkpoint.
- A copy is made under the file's write lock. Every call compares the name in the header with the
  copy that it has mapped, and maps the array that the header names. A copy is removed when no
  writer has a share in it any more (``share.py``): so a writer moves once, from the file to the
  copy.

The maps through which a copy is changed are in ``moving.py``.
"""

import errno
import os
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from mmbloom._engine import count_set
from mmbloom._storage.atomic import write_at
from mmbloom._storage.share import in_use
from mmbloom._system import disk, memory
from mmbloom._system.descriptors import OpenFile, open_file
from mmbloom._system.typing import Resident
from mmbloom.errors import FileChangedError
from mmbloom.format.header import COPY_BYTES, COPY_OFFSET, HEADER_BYTES, Header

# The size of the pieces in which it is written and read: with 1 MiB that takes a tenth longer.
PIECE = 8 << 20

# The share of the free memory that a copy may take: the processes that use the filter need some.
_SHARE = 0.8

_PAGE = struct.Struct("<8sQQ16sQ16s")  # magic, device, inode, uuid, bytes of the array, boot
_MAGIC = b"MMBLcopy"
_WRITTEN_OFFSET = 2048  # whether the file was equal to it, and how many batches had begun by then
_WRITTEN = struct.Struct("<QQ")
_TURN_OFFSET = 2064  # the next turn to write a piece: turn t is of piece t modulo their number
_TURN = struct.Struct("<Q")

# While keys are added, each piece of the copy is written to the file once in this time: a power
# cut loses the keys of this time at most, even if flush is never called.
ROUND_SECONDS = 300.0

# The most pieces to write in one section of the lock: after a pause, many are due.
_PIECES_AT_ONCE = 32

# Errors of opening what has the name of a copy and cannot be one.
_STRANGE = {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR}

NO_COPY = bytes(COPY_BYTES)

# The first of the random bytes: while they are 0, no copy is named, whatever the other bytes are.
WORD_OF_NAME = slice(16, 24)


def named_by(fd: int) -> bytes:
    """Return the name of a copy in the header of an open file, `NO_COPY` if it names none."""
    named = os.pread(fd, COPY_BYTES, COPY_OFFSET)
    return named if any(named[WORD_OF_NAME]) else NO_COPY


def is_named(named: bytes) -> bool:
    """Return whether a header names a copy of this boot."""
    return named != NO_COPY and named[:16] == memory.boot_id()


def is_wanted(resident: Resident, array_bytes: int, path: str) -> bool:
    """Return whether the array of a file should be in shared memory."""
    if resident is False or (resident == "auto" and not memory.too_large_to_be_dirty(array_bytes)):
        return False
    file_system = disk.file_system_type(path)
    if resident == "auto" and file_system in disk.IN_MEMORY:
        return False
    return file_system not in disk.NETWORK  # other hosts would not see the keys


class WorkingCopy:
    """An open copy, which `make` or `find` returns.

    Attributes
    ----------
    named : bytes
        As the header names it.
    fd : int
        Its descriptor. The array has the same offset as in the file.
    size : int
        As of the file.
    """

    def __init__(self, named: bytes, fd: int, size: int, path: str) -> None:
        self.named, self.size, self._path = named, size, path
        self._file = OpenFile(fd)

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self._file.fd

    @classmethod
    def make(cls, fd: int, header: Header, path: str, *, empty: bool) -> tuple["WorkingCopy", int]:
        """Make the copy of a file, under its write lock; the header does not name it yet.

        Parameters
        ----------
        fd : int
            Of the file, open for writing.
        header : Header
            Of the file.
        path : str
            Of the file: for errors.
        empty : bool
            Whether no bit is set: then the file is not read.

        Returns
        -------
        WorkingCopy, int
            The copy, and how many bits are set.

        Raises
        ------
        OSError
            If there is not enough shared memory, or the file cannot be read.
        """
        size, named = header.file_bytes, memory.boot_id() + os.urandom(16)
        status = os.fstat(fd)
        sweep(fd)  # first: it may free memory
        _require_possible(size, status, path)
        there = _path(named, status)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        made = None
        try:
            made = cls(named, open_file(there, flags, 0o600), size, there)
            write_at(made.fd, _page(header, status), 0)
            memory.reserve(made.fd, size, path)
            positions_set = 0 if empty else made._load(fd, path)
            made._give(fd, path)
        except BaseException:  # also an interrupt between creation and assignment
            with suppress(FileNotFoundError):
                os.unlink(there)
            if made is not None:
                made.close()
            raise
        return made, positions_set

    @classmethod
    def find(
        cls, fd: int, header: Header, path: str, *, writable: bool
    ) -> tuple[bytes, "WorkingCopy | None"]:
        """Open the copy that the header of an open file names.

        Returns
        -------
        bytes, WorkingCopy or None
            The name in the header, and the copy; None if the file has the array.

        Raises
        ------
        OSError
            If the copy may not be used, or if others use it and it cannot be found here.
        """
        while True:
            named, found, there = named_by(fd), -1, ""
            if named == NO_COPY:
                return named, None
            if is_named(named):
                there = _path(named, os.fstat(fd))
                found, fault = _open(there, writable=writable, path=path)
            else:
                fault = "it is from before the machine restarted"
            if found >= 0:
                copy = cls(named, found, header.file_bytes, there)
                fault = _fault(found, header, os.fstat(fd), path)
                if not fault:
                    return named, copy
                copy.close()
            if named_by(fd) == named:  # else the name was half written, or the copy was removed
                _require_unused(fd, fault, path)
                return named, None

    def _load(self, fd: int, path: str) -> int:
        """Read the array of the file; return how many bits are set."""
        positions_set = 0
        for start, piece in _pieces(fd, self.size, path, HEADER_BYTES):
            if found := count_set(np.frombuffer(piece, "<u8")):
                write_at(self.fd, piece, start)  # what is not written is zero
                positions_set += found
        return positions_set

    def _give(self, fd: int, path: str) -> None:
        """Set owner, group and mode as those of the file; OSError if that is impossible."""
        file = os.fstat(fd)
        if os.geteuid() == 0:
            os.fchown(self.fd, file.st_uid, file.st_gid)
        elif os.fstat(self.fd).st_gid != file.st_gid:
            with suppress(PermissionError):
                os.fchown(self.fd, -1, file.st_gid)
        mode = stat.S_IMODE(file.st_mode) & 0o777
        if mode & 0o070 and os.fstat(self.fd).st_gid != file.st_gid:
            reason = f"a copy there cannot have its group, {file.st_gid}"
            raise PermissionError(errno.EPERM, reason, path)
        if disk.has_access_list(fd):
            reason = "a copy there cannot have its access control list"
            raise PermissionError(errno.EPERM, reason, path)
        os.fchmod(self.fd, mode)

    def write_to(self, fd: int, path: str) -> None:
        """Write the array to its file, front to back; not forced to the disk.

        Two of these at once could put older pieces over newer ones: see `Share.writing`.
        """
        for start, piece in _pieces(self.fd, self.size, path, HEADER_BYTES):
            write_at(fd, piece, start)
            disk.drop_cached(fd, start, len(piece))

    def write_due(self, fd: int, path: str, begun: int) -> float:
        """Write the pieces whose turn it is; return the time of the next turn.

        The caller holds the write lock, and `begun` batches have begun. Nothing is forced to the
        disk: the kernel writes it within a minute.
        """
        now, pieces = _turn(self.size)
        (first,) = _TURN.unpack(os.pread(self.fd, _TURN.size, _TURN_OFFSET))
        first = now if self.is_written(begun) else max(first, now - pieces)
        end = min(now, first + _PIECES_AT_ONCE)
        for turn in range(first, end):
            start = turn % pieces * PIECE
            stop = min(start + PIECE, self.size)
            for there, piece in _pieces(self.fd, stop, path, max(start, HEADER_BYTES)):
                write_at(fd, piece, there)
        os.pwrite(self.fd, _TURN.pack(end), _TURN_OFFSET)
        return (end + 1) * ROUND_SECONDS / pieces

    def is_written(self, begun: int) -> bool:
        """Return whether the file has all bits: no batch has begun since it was written."""
        return os.pread(self.fd, _WRITTEN.size, _WRITTEN_OFFSET) == _WRITTEN.pack(True, begun)

    def set_written(self, begun: int | None) -> None:
        """Note that the file has the keys of the first `begun` batches, all of which had ended.

        A running batch could have set bits after their piece was written. None notes that the file
        may not have everything.
        """
        raw = _WRITTEN.pack(begun is not None, begun or 0)
        os.pwrite(self.fd, raw, _WRITTEN_OFFSET)

    def remove(self) -> None:
        """Remove its name: a process that has it open can go on."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def can_be_removed(self) -> bool:
        """Return whether this process may remove it: in a sticky folder, its owner and root may."""
        return os.geteuid() in (0, os.fstat(self.fd).st_uid)

    def close(self) -> None:
        """Close the descriptor."""
        self._file.close()


def discard(fd: int) -> None:
    """Remove the copy of an open file that has no name any more, unless the copy is in use."""
    if named_by(fd) != NO_COPY and not in_use(fd):
        sweep(fd)


def _page(header: Header, file: os.stat_result) -> bytes:
    """Return the first bytes of a copy, which identify its file."""
    named = _PAGE.pack(
        _MAGIC, file.st_dev, file.st_ino, header.uuid, header.array_bytes, memory.boot_id()
    )
    mutable = _WRITTEN.pack(False, 0) + _TURN.pack(_turn(header.file_bytes)[0])
    return named.ljust(_WRITTEN_OFFSET, b"\0") + mutable


def _turn(size: int) -> tuple[int, int]:
    """Return which turn it is by the clock, which all processes share, and the number of pieces."""
    pieces = -(-size // PIECE)
    return int(time.monotonic() / ROUND_SECONDS * pieces), pieces


def _pieces(fd: int, end: int, path: str, start: int) -> Iterator[tuple[int, memoryview]]:
    """Read a part of an array piece by piece, each into the same memory."""
    # No larger than needed: to zero 8 MiB takes 3 ms.
    buffer, size = memoryview(bytearray(max(0, min(PIECE, end - start)))), end
    while start < size:
        piece = buffer[: min(PIECE - start % PIECE, size - start)]
        there = os.preadv(fd, [piece], start)
        if not there:
            raise FileChangedError(path, "truncated")
        there -= there % 8 if start + there < size else 0
        yield start, piece[:there]
        start += there


def _require_possible(size: int, file: os.stat_result, path: str) -> None:
    """Raise OSError unless this process may make a copy, and there is room for it."""
    if os.geteuid() not in (0, file.st_uid):
        # Others would not trust it, see `_fault`.
        raise OSError(errno.EPERM, f"only its owner, user {file.st_uid}, can do that", path)
    if (room := int(_SHARE * memory.shared_bytes())) < size:
        reason = f"{size} bytes of shared memory are needed, but only {room} are available"
        raise OSError(errno.ENOSPC, reason, path)


_CLOSED = "its array is in shared memory, in a copy that cannot be used: "


def _open(there: str, *, writable: bool, path: str) -> tuple[int, str]:
    """Open what has the name of a copy; return -1 and the reason if it is no copy."""
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NONBLOCK
    try:
        return open_file(there, flags | os.O_NOFOLLOW), ""
    except FileNotFoundError:
        return -1, f"it is not in {memory.SHARED}"
    except OSError as error:
        if error.errno not in _STRANGE:
            raise OSError(error.errno, f"{_CLOSED}{error.strerror}", path) from error
        return -1, f"something else has its name: {error.strerror}"


def _require_unused(fd: int, fault: str, path: str) -> None:
    """Raise OSError if others use a copy that this process cannot find."""
    if in_use(fd):
        reason = f"its array is in shared memory, in a copy that cannot be used here: {fault}; "
        reason += "other processes use it, perhaps in another container: end them first"
        raise OSError(errno.EBUSY, reason, path)


def _fault(fd: int, header: Header, file: os.stat_result, path: str) -> str:
    """Return why a file is not the copy of another one, "" if it is.

    Raise OSError if it is, but users who may not change the file may have changed the copy.
    """
    there = os.fstat(fd)
    if not stat.S_ISREG(there.st_mode):
        return "its name is taken by something that is not a regular file"
    if there.st_size < header.file_bytes:  # it may be larger: see `memory.extent`
        return f"it has only {there.st_size} bytes"
    if os.pread(fd, _PAGE.size, 0) != _page(header, file)[: _PAGE.size]:
        return "it is the copy of another file"
    # Anyone can make a file with the name of a copy that is gone, so the owner is checked.
    if there.st_uid not in (0, file.st_uid):
        strange = f"it belongs to user {there.st_uid}, the file to {file.st_uid}"
    elif wider := there.st_mode & ~file.st_mode & 0o022:
        strange = f"users who cannot write to the file can write to it (mode {wider:o})"
    else:
        return ""
    raise PermissionError(
        errno.EPERM, f"{_CLOSED}{strange}; correct that in {memory.SHARED}, or remove it", path
    )


def sweep(fd: int) -> None:
    """Remove copies of an open file whose header names none: processes were killed making them."""
    file = os.fstat(fd)
    for copy in _copies(file.st_dev, file.st_ino):
        with suppress(OSError):  # perhaps it is another user's: go on with the others
            os.unlink(copy)


def has_copies(device: int, inode: int) -> bool:
    """Return whether a file has copies, in use or left by killed processes."""
    return bool(_copies(device, inode))


def _copies(device: int, inode: int) -> list[str]:
    prefix = _prefix(device, inode)
    with suppress(OSError):
        names = os.listdir(memory.SHARED)
        return [os.path.join(memory.SHARED, name) for name in names if name.startswith(prefix)]
    return []


def _prefix(device: int, inode: int) -> str:
    return f"mmbloom-{device:x}-{inode}-"


def _path(named: bytes, file: os.stat_result) -> str:
    return f"{memory.SHARED}/{_prefix(file.st_dev, file.st_ino)}{named[16:].hex()}"
