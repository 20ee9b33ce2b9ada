"""What this system has: tests that need it ask here, and nowhere else."""

import os
import sys

MACOS = sys.platform == "darwin"
LINUX_CALLS = sys.platform == "linux"  # posix_fallocate, posix_fadvise, locks of open files
PROC = os.path.exists("/proc/self/mountinfo")  # a bare container has none, and nor has macOS
