"""What is at a path: the reference."""

import os
from collections.abc import Callable
from typing import Protocol


class Status(Protocol):
    """What each look at a file asks of its status."""

    @property
    def st_dev(self) -> int:
        """The device."""

    @property
    def st_ino(self) -> int:
        """The inode."""

    @property
    def st_size(self) -> int:
        """The size in bytes."""

    @property
    def st_mode(self) -> int:
        """The type, and who may do what."""


# The compiled engine makes these four fields alone, in two thirds of the time.
status_at: Callable[[str], Status] = os.stat
