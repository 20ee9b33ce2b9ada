"""What Python has on macOS, for a Python on Linux that `.ci/as-macos` starts.

Python imports this as it starts. It removes what macOS has not, and answers what macOS has by the
calls of Linux: F_FULLFSYNC, F_GETPATH, `renameatx_np` and `statfs`, each with macOS's numbers and
structs, so that code with another number fails. Locks of open files and advice that macOS does not
know are refused.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import posix
import sys
import sysconfig
from types import ModuleType

# These read what is Linux's, once: the names of built modules, above all.
sysconfig.get_config_vars()
platform.uname()

PROC = os.environ["REAL_PROC"]
GONE = """
    copy_file_range eventfd fdatasync getrandom getresgid getresuid getxattr listxattr memfd_create
    pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity sched_setaffinity
    setns setresgid setresuid setxattr splice unshare
    O_DIRECT O_NOATIME O_PATH O_TMPFILE POSIX_FADV_DONTNEED P_PIDFD
"""
if sys.version_info < (3, 13):
    GONE += "waitid P_ALL P_PGID P_PID"
for name in GONE.split():
    for module in (os, posix):
        if hasattr(module, name):
            delattr(module, name)
LINUX_ONLY = ("DN_", "F_ADD_SEALS", "F_GETLEASE", "F_GETPIPE", "F_NOTIFY", "F_SEAL", "F_SETLEASE")
for name in dir(fcntl):
    if name.startswith((*LINUX_ONLY, "F_SETPIPE", "F_OFD_")):
        delattr(fcntl, name)

_fcntl, _fsync, _stat = fcntl.fcntl, os.fsync, os.stat
fcntl.F_GETPATH, fcntl.F_FULLFSYNC = 50, 51


def fcntl_of_macos(fd, cmd, arg=0):
    """Answer the commands of macOS; refuse those that Linux alone has."""
    if cmd == fcntl.F_FULLFSYNC:
        return _fsync(fd)
    if cmd == fcntl.F_GETPATH:
        path = os.readlink(f"{PROC}/self/fd/{fd if isinstance(fd, int) else fd.fileno()}")
        return os.fsencode(path.removesuffix(" (deleted)")).ljust(len(arg), b"\0")
    if cmd >= 1024 or cmd in range(36, 39):  # pipes, seals, leases; locks of open files
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return _fcntl(fd, cmd, arg)


fcntl.fcntl = fcntl_of_macos

_open = os.open
STREAMS = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}


def open_of_macos(path, flags, mode=0o777, *, dir_fd=None):
    """Duplicate what /dev/fd/N names, with its position, if it is open for what is asked."""
    number = STREAMS.get(path, path.removeprefix("/dev/fd/")) if isinstance(path, str) else path
    if number == path or not number.isdecimal():
        return _open(path, flags, mode, dir_fd=dir_fd)
    there, asked = (each & os.O_ACCMODE for each in (_fcntl(int(number), fcntl.F_GETFL), flags))
    if there not in (asked, os.O_RDWR):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return os.dup(int(number))


os.open = open_of_macos

KNOWN_ADVICE = 9
for name in dir(mmap):
    unknown = name in ("MADV_REMOVE", "MAP_NORESERVE", "MAP_POPULATE", "MAP_STACK")
    if unknown or (name.startswith("MADV_") and getattr(mmap, name) > KNOWN_ADVICE):
        delattr(mmap, name)


class MapOfMacos(mmap.mmap):
    """A map that takes only advice that macOS has."""

    def madvise(self, advice, *rest):
        """Refuse other advice."""
        if advice > KNOWN_ADVICE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return super().madvise(advice, *rest)


mmap.mmap = MapOfMacos

_CDLL = ctypes.CDLL
_libc = _CDLL(None, use_errno=True)
AT_FDCWD, LINUX_AT_FDCWD, RENAME_SWAP = -2, -100, 2
TYPE_AT, TYPE_BYTES, STATFS_BYTES = 72, 16, 2168


def renameatx_np(from_fd, old, to_fd, new, flags):
    """Swap names: RENAME_SWAP of macOS is RENAME_EXCHANGE of Linux."""
    if (from_fd, to_fd, flags) != (AT_FDCWD, AT_FDCWD, RENAME_SWAP):
        ctypes.set_errno(errno.EBADF)
        return -1
    return _libc.renameat2(LINUX_AT_FDCWD, old, LINUX_AT_FDCWD, new, RENAME_SWAP)


def statfs(path, found):
    """Name the type of a file system, where macOS has it; every local disk here is one of Linux."""
    try:
        number = _stat(path).st_dev
    except OSError as error:
        ctypes.set_errno(error.errno)
        return -1
    device = f"{os.major(number)}:{os.minor(number)}"
    kind = "unknown"
    with open(f"{PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            left, _, right = line.partition(" - ")
            if left.split(" ")[2] == device:
                kind = right.split(" ")[0]
    raw = bytearray(STATFS_BYTES)
    raw[TYPE_AT : TYPE_AT + TYPE_BYTES] = kind.encode()[: TYPE_BYTES - 1].ljust(TYPE_BYTES, b"\0")
    found[:STATFS_BYTES] = bytes(raw)
    return 0


class LibraryOfMacos(_CDLL):
    """The C library, with what macOS's has in place of what Linux's has."""

    def __getattr__(self, name):
        """Return a function of macOS; as on Intel, where plain `statfs` fills another struct."""
        found = {"renameatx_np": renameatx_np, "statfs$INODE64": statfs}.get(name)
        if found is not None:
            return found
        if name in ("fallocate", "memfd_create", "renameat2", "statfs", "syncfs", "syscall"):
            raise AttributeError(name)
        return super().__getattr__(name)


ctypes.CDLL = LibraryOfMacos

sys.platform = "darwin"
sys.modules["_scproxy"] = proxies = ModuleType("_scproxy")  # what urllib asks on macOS
proxies._get_proxies = proxies._get_proxy_settings = dict
