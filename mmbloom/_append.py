"""Writing a new file from front to back, in large pieces, until all of it is on the disk.

What is written may come in pieces of any size. They go out at multiples of `WRITE_BYTES`, so
that the kernel keeps them whole (see ``_create.py``), and whatever fails names the file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom._create import WRITE_BYTES


class Appender:
    """A file that is being written.

    Parameters
    ----------
    fd : int
        Its descriptor, of `_create.new_file`.
    path : str
        The path that it will have: for errors, as the system knows a descriptor only.
    start : int, default 0
        Where to begin; what is before is left to `finish`.
    """

    def __init__(self, fd: int, path: str, start: int = 0) -> None:
        self._fd, self._path = fd, path
        self._at, self._waiting = start, bytearray()

    @property
    def size(self) -> int:
        """Bytes of the file so far."""
        return self._at + len(self._waiting)

    def append(self, octets: bytes) -> None:
        """Add to the end."""
        self._waiting += octets
        if len(self._waiting) >= WRITE_BYTES:
            # To the next multiple: so the file is mapped as huge pages (see _create.py).
            self._write_out(WRITE_BYTES - self._at % WRITE_BYTES)

    def finish(self, beginning: bytes = b"") -> None:
        """Write what waits, then the beginning of the file, and force all to the disk."""
        self._write_out(len(self._waiting))
        with self._named():
            if beginning:
                os.pwrite(self._fd, beginning, 0)
            os.fsync(self._fd)

    def _write_out(self, size: int) -> None:
        rest = memoryview(bytes(self._waiting[:size]))
        del self._waiting[:size]
        with self._named():
            while rest:
                written = os.pwrite(self._fd, rest, self._at)
                self._at, rest = self._at + written, rest[written:]

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(
                error.errno, f"cannot be written: {error.strerror}", self._path
            ) from error
