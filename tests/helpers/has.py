"""What this system has: tests that need it ask here, and nowhere else."""

import fcntl
import mmap
import os
import sys

from mmbloom._system import disk, memory

MACOS = sys.platform == "darwin"
DEV_FD = os.path.exists("/dev/fd")
DEV_FULL = os.path.exists("/dev/full")
FALLOCATE = hasattr(os, "posix_fallocate")  # else zeros are written in place of it
HOLDERS = os.path.exists("/proc/locks")  # says which process has a lock
IN_MEMORY = os.path.isdir(memory.SHARED)  # a file system in memory, which all may use
MEMORY_LIMIT = sys.platform == "linux"  # macOS accepts RLIMIT_AS and does not enforce it
PAGES_OF_4_KIB = mmap.PAGESIZE == 4096  # so that a header has its own; on arm64 they have 16
PIPE_SIZES = hasattr(fcntl, "F_SETPIPE_SZ")
PROC = os.path.exists("/proc/self/mountinfo")  # a bare container has none, and nor has macOS
RSS_UNIT = 1 if MACOS else 1024  # bytes, of ru_maxrss
TRANSFERRED = disk.transferred("wchar") is not None  # else there are no bars of it
WAITID = hasattr(os, "waitid")  # Python on macOS has it from 3.13 on
WORKING_COPIES = bool(memory.boot_id())  # arrays of filters can be in shared memory
