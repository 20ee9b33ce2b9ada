"""Which descriptors this process has open, on any system."""

import os
from contextlib import suppress

import has

from mmbloom._system.descriptors import path_of

_MOST = 1024  # of a process that tests, where the system lists none


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def open_descriptors() -> set[int]:
    listed = map(int, os.listdir("/dev/fd")) if has.DEV_FD else range(_MOST)
    return set(filter(is_open, listed))  # without that of the listing, which is closed


def is_file_open(path: str | os.PathLike[str]) -> bool:
    status = os.stat(path)
    return any(os.path.samestat(os.fstat(fd), status) for fd in open_descriptors())


def file_of(fd: int) -> str:
    """Return the path of an open file; of a pipe or a socket, what the system calls it."""
    with suppress(OSError):
        return os.path.realpath(path_of(fd))
    return ""


def open_files() -> dict[int, str]:
    return {fd: file_of(fd) for fd in open_descriptors()}
