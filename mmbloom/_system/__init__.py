"""What the machine and the interpreter provide, and all that systems differ in.

Nothing here knows of filters, and nothing above asks which system this is.

``extras``       the libraries of the extras, imported only here; what brings a C compiler
``typing``       type aliases
``sections``     sections of the write lock: who may be in one; how long the check before it holds
``threads``      work on several cores, with results in order; reading ahead
``descriptors``  open files: above the standard streams, opened again, renewed in a forked child
``memory``       how much is free or may be dirty; maps of files; the only importer of mmap
``disk``         files where systems differ: forced to the disk, reserved, swapped; file systems
``locks``        locks of bytes of a file; which process holds the lock of one
"""

try:
    import fcntl as _fcntl  # noqa: F401  for locks; where it is missing, nothing else is tried
except ImportError:
    raise ImportError(
        "mmbloom runs on Linux and macOS; on Windows, install it in WSL, the Windows Subsystem "
        "for Linux"
    ) from None
