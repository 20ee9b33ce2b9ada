"""Injected faults, for children of a test: calls that fail or kill, a small disk, no lock."""

import ctypes
import faulthandler
import itertools
import mmap
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import has
import numpy as np
import pytest
from descriptors import is_open
from workers import ChildDiedError, in_child

from mmbloom._storage import lock as _lock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import Counters
from mmbloom._system import disk
from mmbloom._system.typing import Words
from mmbloom.filters import file as file_module
from mmbloom.filters.base import Filter
from mmbloom.format.header import MUTABLE_FIELDS

# Every call of the os module that making or using a file could make.
OS_CALLS = [
    *("open", "close", "read", "write", "pwrite", "lseek", "link", "unlink"),
    *("chmod", "fchmod", "ftruncate", "truncate", "rename", "replace"),
    *("stat", "lstat", "fstat", "remove", "pread", "preadv", "mkdir", "rmdir", "fchown"),
    *(name for name in ("fdatasync", "posix_fadvise") if hasattr(os, name)),  # not on macOS
]


Hook = Callable[[str], object]


def ignore(name: str) -> None:
    """Do nothing at a call."""


@contextmanager
def os_calls(before: Hook = ignore, after: Hook = ignore) -> Iterator[None]:
    """In a child: run something before and after every call of the system.

    Those of the os module, of a map ("mmap", "madvise", "msync"), of the lock ("flock",
    "unlock"), and of `disk`: "fsync", "posix_fallocate", and "exchange", which swaps two names.
    "stat of trust" is the check whether the next keys need none: where it fails, each key checks.
    """

    def wrap(told: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            of_trust = sys._getframe(1).f_code is MappedFilter.trusted.__code__
            name = f"{told} of trust" if of_trust else told
            try:
                before(name)
            except BaseException:
                if name == "close":  # whose error comes when the descriptor is gone
                    original(*args)
                raise
            try:
                return original(*args, **options)
            finally:
                after(name)

        return call

    class Map(mmap.mmap):
        madvise = wrap("madvise", mmap.mmap.madvise)
        flush = wrap("msync", mmap.mmap.flush)

    replaced: list[tuple[Any, str, str]] = [
        *((os, name, name) for name in OS_CALLS),
        (filelock, "lock_descriptor", "flock"),
        (filelock, "unlock_descriptor", "unlock"),
        (disk, "exchange_names", "exchange"),
        (disk, "sync", "fsync"),
        (disk, "allocate", "posix_fallocate"),
    ]
    look = Filter._grounds

    def look_alone(*given: Any) -> None:
        look(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mmap, "mmap", wrap("mmap", Map))
        # How many keys go by one look depends on the clock, and the calls must not.
        patch.setattr(Filter, "_grounds", look_alone)
        patch.setattr(_lock.DescriptorLock, "native", property(lambda _: -1))  # not in C
        for module, place, name in replaced:
            patch.setattr(module, place, wrap(name, getattr(module, place)))
        yield


def names_of_calls(run: Callable[[Hook], object]) -> list[str]:
    """Run something in a child with a hook; return the calls that it made, in order."""

    def note() -> list[str]:
        made: list[str] = []
        run(made.append)
        return made

    return in_child(note)


def at_call(number: int, action: Hook) -> Hook:
    calls = itertools.count()
    return lambda name: action(name) if next(calls) == number else None


def fail_with(code: int) -> Hook:

    def fail(name: str) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def kill_self(name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_counter(number: int, when: str) -> None:
    """In a child: die "before" or "after" a counter of a file is written, counted from 0."""
    set_one, count_some, hook = Counters.__setitem__, file_module.count, at_call(number, kill_self)

    def around(name: str, write: Callable[[], Any]) -> Any:
        if when == "before":
            hook(name)
        written = write()
        if when == "after":
            hook(name)
        return written

    def set_counter(self: Counters, name: str, value: int) -> None:
        around(name, lambda: set_one(self, name, value))

    def count(counters: Counters, place: int, by: int) -> int:
        now: int = around(MUTABLE_FIELDS[place], partial(count_some, counters, place, by))
        return now

    Counters.__setitem__ = set_counter  # type: ignore[method-assign]
    file_module.count = count


def mount_tmpfs(folder: Path, size: int) -> bool:
    """In a child: mount a tmpfs of few bytes in a namespace of its own; False if not allowed."""
    libc, new_namespaces = ctypes.CDLL(None, use_errno=True), 0x10000000 | 0x00020000
    uid, gid = os.getuid(), os.getgid()
    if not has.PROC or libc.unshare(new_namespaces):
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    options = f"size={size}".encode()
    return not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options)


def remount_read_only(folder: Path) -> bool:
    """Make the disk of `mount_tmpfs` a read-only file system; False if not allowed."""
    libc, read_only_remount = ctypes.CDLL(None, use_errno=True), 1 | 32
    return not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", read_only_remount, None)


# What ends a process that writes to memory where it may only read.
FORBIDDEN = (signal.SIGSEGV, signal.SIGBUS) if has.MACOS else (signal.SIGSEGV,)


def ended_by_a_write(function: Callable[[], object]) -> None:
    """Run a function in a child, which a write must end that `die_when_written` forbids."""
    with pytest.raises(ChildDiedError) as caught:
        in_child(function)
    assert caught.value.signal in FORBIDDEN


def die_when_written(start: int, size: int) -> None:
    """In a child: the first write to these pages of memory is the end of the process.

    A kill at one instruction of compiled code, where no hook can be.
    """
    faulthandler.disable()
    for number in FORBIDDEN:
        signal.signal(number, signal.SIG_DFL)
    libc = ctypes.CDLL(None, use_errno=True)
    assert start % mmap.PAGESIZE == 0
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.PROT_READ):
        raise OSError(ctypes.get_errno(), "mprotect failed")


def slow(change: Callable[..., Any], chance: random.Random) -> Callable[..., Any]:
    """Make a kernel that for some batches lets others in between reading and writing the array.

    The kernels do both within nanoseconds: without this the lock could be missing and hundreds
    of rounds lose nothing.
    """

    def run(words: Words, *rest: Any) -> Any:
        if chance.random() > 0.2:
            return change(words, *rest)
        whole = words.copy()
        answer = change(whole, *rest)
        changed = np.flatnonzero(whole != words)
        time.sleep(1e-5)
        words[changed] = whole[changed]
        return answer

    return run


def switch_lock_off() -> None:
    """In a child: every process gets the lock at once, whoever has it."""

    class Open(_lock.DescriptorLock):
        native = -1  # not in C

        def try_acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    _lock.DescriptorLock = Open  # type: ignore[misc]


def allow_descriptors(number: int) -> None:
    """In a child: let so many more files be open, and no more."""
    free = itertools.filterfalse(is_open, itertools.count())
    limit = next(itertools.islice(free, number, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
