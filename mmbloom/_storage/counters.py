"""The numbers in a header that change, as they are mapped.

Each is stored in one step, so that a reader, or a kill, finds the number of before or of after.
This file takes no lock: a caller that changes a number holds the write lock.
"""

import numpy as np

from mmbloom._typing import Array
from mmbloom.format.header import MUTABLE_FIELDS


class Counters:
    """The `MUTABLE_FIELDS` of one header, each modulo 2**64: a damaged one stays harmless.

    Parameters
    ----------
    words : ndarray of uint64
        The fields, in order.
    """

    __slots__ = ("words",)

    def __init__(self, words: Array[np.uint64]) -> None:
        self.words = words

    def __getitem__(self, name: str) -> int:
        """Read one."""
        return self.words.item(MUTABLE_FIELDS.index(name))

    def __setitem__(self, name: str, value: int) -> None:
        """Write one."""
        # numpy stores all eight bytes at once; struct.pack_into zeroes them first, which a
        # reader, or a kill, can see.
        self.words[MUTABLE_FIELDS.index(name)] = value % 2**64
