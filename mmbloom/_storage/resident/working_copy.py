"""The array of one filter in shared memory, which all processes map and change instead of the file.

Where more than a part of the memory is changed pages of files, the kernel lets a process that
changes more of them wait for the disk: a key took 90 us so. It takes 0.1 us in shared memory, whose
pages are written nowhere. The file is the checkpoint of the copy. Bits only go from 0 to 1, so any
mix of an older and a newer array is a valid filter between the two: the file may be written at any
time, in any order. (Four-bit counters go down as well: a torn checkpoint of them could forget a
key, so filters that count stay mapped.)

- The file's header names its copy: the boot of the kernel, and 16 random bytes. Whoever can write
  these can write the filter, so a name that anyone else has made first is never believed.
- The copy's first page names its file: device, inode, uuid and size. What `cp` made of a file has
  the name of a copy that is not its own, and is the filter as of its last checkpoint.
- A copy is made under the file's write lock. Every call compares what the header names with what
  it has mapped, and follows. It is removed when no writer has a share in it any more
  (``share.py``): so whoever changes the array follows once, from the file to the copy.

It is changed through maps, which are none of this file's business.
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
from mmbloom._storage.resident.share import in_use
from mmbloom._storage.warnings import warn
from mmbloom._system import memory, mounts
from mmbloom._system import memory as pages
from mmbloom._system.forks import OpenFile, open_file
from mmbloom._system.typing import Resident
from mmbloom.errors import FileChangedError, MmbloomWarning, ReservationWarning
from mmbloom.format.header import COPY_BYTES, COPY_OFFSET, HEADER_BYTES, Header

# The bytes of the pieces in which it is written and read: with 1 MiB it takes a tenth longer.
PIECE = 8 << 20

# How much of the free memory a copy may take: the rest is for the processes that use the filter.
_SHARE = 0.8

_PAGE = struct.Struct("<8sQQ16sQ16s")  # magic, device, inode, uuid, bytes of the array, boot
_MAGIC = b"MMBLcopy"
_WRITTEN_OFFSET = 2048  # whether the file was equal to it, and how many batches had begun then
_WRITTEN = struct.Struct("<QQ")
_TURN_OFFSET = 2064  # the next turn to write a piece: turn t is of piece t modulo their number
_TURN = struct.Struct("<Q")

# While keys are added, each piece of the copy is written to the file once in this time: a power
# cut loses the keys of this time at most, even if flush is never called.
ROUND_SECONDS = 300.0

# The most pieces to write in one section of the lock: after a pause, many are due.
_PIECES_AT_ONCE = 32

# What opening says of something at the name of a copy that cannot be one.
_STRANGE = {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR}

NO_COPY = bytes(COPY_BYTES)

# The first of the random bytes: while they are 0 no copy is named, whatever else stands there.
WORD_OF_NAME = slice(16, 24)


def named_by(fd: int) -> bytes:
    """Read which copy the header of an open file names."""
    named = os.pread(fd, COPY_BYTES, COPY_OFFSET)
    return named if any(named[WORD_OF_NAME]) else NO_COPY


def is_named(named: bytes) -> bool:
    """Tell whether what a header names is a copy of this boot."""
    return named != NO_COPY and named[:16] == memory.boot_id()


def is_wanted(resident: Resident, array_bytes: int, path: str) -> bool:
    """Tell whether the array of a file is to lie in shared memory."""
    if resident is False or (resident == "auto" and not memory.too_large_to_be_dirty(array_bytes)):
        return False
    file_system = mounts.file_system_type(path)
    if resident == "auto" and file_system in mounts.IN_MEMORY:
        return False
    return file_system not in mounts.NETWORK  # whose other hosts would not see a key


class WorkingCopy:
    """A copy, open; made by `make` or `find`.

    Attributes
    ----------
    named : bytes
        As the header names it.
    fd : int
        Its descriptor. The array lies where it lies in the file.
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
        """Make the copy of a file, by the holder of its write lock; no header names it yet.

        Parameters
        ----------
        fd : int
            Of the file, open for writing.
        header : Header
            Of the file.
        path : str
            Of the file: for errors.
        empty : bool
            Whether no bit of it is set: then nothing is read.

        Returns
        -------
        WorkingCopy, int
            And how many bits are set.

        Raises
        ------
        OSError
            If the shared memory cannot be had, or the file cannot be read.
        """
        size, named = header.file_bytes, memory.boot_id() + os.urandom(16)
        status = os.fstat(fd)
        sweep(fd)  # first: what it frees is room
        _require_possible(size, status, path)
        there = _path(named, status)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        made = None
        try:
            made = cls(named, open_file(there, flags, 0o600), size, there)
            write_at(made.fd, _page(header, status), 0)
            pages.reserve(made.fd, size, path)
            positions_set = 0 if empty else made._load(fd, path)
            made._give(fd, path)
        except BaseException:  # an interrupt may come before the name is noted
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
            What the header says, and the copy; None if the file is what counts.

        Raises
        ------
        OSError
            If it is there and may not be used, or others use it and it cannot be found here.
        """
        while True:
            named, found, there = named_by(fd), -1, ""
            if named == NO_COPY:
                return named, None
            if is_named(named):
                there = _path(named, os.fstat(fd))
                found, fault = _open(there, writable=writable, path=path)
            else:
                fault = "it is of another start of the machine"
            if found >= 0:
                copy = cls(named, found, header.file_bytes, there)
                fault = _fault(found, header, os.fstat(fd), path)
                if not fault:
                    return named, copy
                copy.close()
            if named_by(fd) == named:  # else it was half written a moment ago, or was given up
                _require_unused(fd, fault, path)
                return named, None

    def _load(self, fd: int, path: str) -> int:
        """Read the array of the file; how many bits are set."""
        positions_set = 0
        for start, piece in _pieces(fd, self.size, path, HEADER_BYTES):
            if found := count_set(np.frombuffer(piece, "<u8")):
                write_at(self.fd, piece, start)  # what is not written is zero
                positions_set += found
        return positions_set

    def _give(self, fd: int, path: str) -> None:
        """Give it the owner, group and mode of the file; OSError if that cannot be."""
        file = os.fstat(fd)
        if os.geteuid() == 0:
            os.fchown(self.fd, file.st_uid, file.st_gid)
        elif os.fstat(self.fd).st_gid != file.st_gid:
            with suppress(PermissionError):
                os.fchown(self.fd, -1, file.st_gid)
        mode = stat.S_IMODE(file.st_mode) & 0o777
        if mode & 0o070 and os.fstat(self.fd).st_gid != file.st_gid:
            reason = f"its group, {file.st_gid}, cannot be given to a copy"
            raise PermissionError(errno.EPERM, reason, path)
        if _has_access_list(fd):
            reason = "its access control list cannot be given to a copy"
            raise PermissionError(errno.EPERM, reason, path)
        os.fchmod(self.fd, mode)

    def write_to(self, fd: int, path: str) -> None:
        """Write the array to its file, front to back; not forced to the disk.

        Two of these at once could put older pieces over newer ones: see `Share.writing`.
        """
        for start, piece in _pieces(self.fd, self.size, path, HEADER_BYTES):
            write_at(fd, piece, start)
            # Lets the disk begin with it at once, and the page cache forget it afterwards. Advice
            # only: a kernel built without it is no disk that failed.
            with suppress(OSError):
                os.posix_fadvise(fd, start, len(piece), os.POSIX_FADV_DONTNEED)

    def write_due(self, fd: int, path: str, begun: int) -> float:
        """Write the pieces whose turn it is; return the time of the next turn.

        The caller holds the write lock, and `begun` batches have begun. Nothing is forced to the
        disk: the kernel writes it within a minute.
        """
        pieces, now = _num_pieces(self.size), _turn(self.size)
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
        """Tell whether the file has all bits: no batch has begun since it was written."""
        return os.pread(self.fd, _WRITTEN.size, _WRITTEN_OFFSET) == _WRITTEN.pack(True, begun)

    def set_written(self, begun: int | None) -> None:
        """Note that the file has the keys of the first `begun` batches, all of which had ended.

        A batch under way could have set its bits after they were written. None says that the file
        is not known to have everything.
        """
        raw = _WRITTEN.pack(begun is not None, begun or 0)
        os.pwrite(self.fd, raw, _WRITTEN_OFFSET)

    def remove(self) -> None:
        """Remove its name: a process that has it open keeps it."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def can_be_removed(self) -> bool:
        """Tell whether this process may: in a sticky folder it must be the owner."""
        return os.geteuid() in (0, os.fstat(self.fd).st_uid)

    def close(self) -> None:
        """Close the descriptor."""
        self._file.close()


def discard(fd: int) -> None:
    """Remove the copy of a file, open, that has no name any more, unless it is in use."""
    if named_by(fd) != NO_COPY and not in_use(fd):
        sweep(fd)


def _has_access_list(fd: int) -> bool:
    try:
        os.getxattr(fd, "system.posix_acl_access")
    except OSError:
        return False
    return True


def _page(header: Header, file: os.stat_result) -> bytes:
    """Lay out what a copy says of its file."""
    named = _PAGE.pack(
        _MAGIC, file.st_dev, file.st_ino, header.uuid, header.array_bytes, memory.boot_id()
    )
    mutable = _WRITTEN.pack(False, 0) + _TURN.pack(_turn(header.file_bytes))
    return named.ljust(_WRITTEN_OFFSET, b"\0") + mutable


def _num_pieces(size: int) -> int:
    return -(-size // PIECE)


def _turn(size: int) -> int:
    """Return the turn that is now: by the clock of the machine, which all processes share."""
    return int(time.monotonic() / ROUND_SECONDS * _num_pieces(size))


def _pieces(fd: int, end: int, path: str, start: int) -> Iterator[tuple[int, memoryview]]:
    """Read a part of an array piece by piece, each into the same memory."""
    # Of a small array no more than that: zeroed, 8 MiB take 3 ms.
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
    if not memory.boot_id():
        raise OSError(errno.ENOTSUP, "this system does not name its boots", path)
    if os.geteuid() not in (0, file.st_uid):
        # Others would not believe it, see `_fault`.
        raise OSError(errno.EPERM, f"only its owner, user {file.st_uid}, can do that", path)
    if (room := int(_SHARE * memory.shared_bytes())) < size:
        reason = f"{size} bytes of shared memory are needed, and {room} could be had"
        raise OSError(errno.ENOSPC, reason, path)


_CLOSED = "its array is in shared memory, in a copy that cannot be used: "


def _open(there: str, *, writable: bool, path: str) -> tuple[int, str]:
    """Open what is at the name of a copy; or -1, and why that is no copy."""
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
        reason = f"its array is in shared memory, in a copy that cannot be used here, as {fault}: "
        reason += "others use it, in another container perhaps; end those"
        raise OSError(errno.EBUSY, reason, path)


def _fault(fd: int, header: Header, file: os.stat_result, path: str) -> str:
    """Say why a file is not the copy of another one, "" if it is.

    Raises OSError if it is, and users who may not change the file may have changed the copy.
    """
    there = os.fstat(fd)
    if not stat.S_ISREG(there.st_mode):
        return "its name is of no regular file"
    if there.st_size < header.file_bytes:  # it may be longer: see `pages.extent`
        return f"it has {there.st_size} bytes"
    if os.pread(fd, _PAGE.size, 0) != _page(header, file)[: _PAGE.size]:
        return "it is the copy of another file"
    # The name of a copy that is gone can be made by anyone, so the owner counts.
    if there.st_uid not in (0, file.st_uid):
        strange = f"it belongs to user {there.st_uid}, the file to {file.st_uid}"
    elif wider := there.st_mode & ~file.st_mode & 0o022:
        strange = f"others may write to it, which they may not to the file (mode {wider:o})"
    else:
        return ""
    raise PermissionError(
        errno.EPERM, f"{_CLOSED}{strange}; mend that in {memory.SHARED}, or remove it there", path
    )


def say_lost(path: str) -> None:
    """Warn that the copy of a file is gone, with what was not flushed."""
    warn(
        f"{path}: its array was in shared memory, in a copy that is not there any more, or is "
        "of the file that this one was copied from: the file counts, as it was last flushed",
        MmbloomWarning,
    )


def say_not_saved(path: str, error: Exception) -> None:
    """Warn that the last writer has left the array in shared memory."""
    warn(
        f"{path}: its file was not brought up to date, as {error}; its keys are in shared memory "
        "until the machine starts anew: open the filter for writing and close it again",
        MmbloomWarning,
    )


def say_why_mapped(path: str, error: OSError) -> None:
    """Warn that a filter cannot be kept in memory, and what that means."""
    warn(
        f"{path}: not kept in shared memory: {error.strerror}. Its file is changed itself: keys "
        "wait for the disk where more of it is dirty than the kernel allows",
        ReservationWarning,
    )


def sweep(fd: int) -> None:
    """Remove copies of an open file whose header names none: their makers were killed."""
    file = os.fstat(fd)
    for copy in _copies(file.st_dev, file.st_ino):
        with suppress(OSError):  # another user's, perhaps: the others go all the same
            os.unlink(copy)


def has_copies(device: int, inode: int) -> bool:
    """Tell whether there are copies of a file, named by it or left by killed makers."""
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
