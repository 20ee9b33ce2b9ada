"""The member of a line of JSON that is its key: what is found without Python's parser.

That is nothing here: `mmbloom.logs.members` has the definition, by that parser. The compiled
engine finds it in plain lines, and declines the others.
"""

import numpy as np

from mmbloom._system.typing import Bools, Octets, Offsets


def find_members(
    octets: Octets,
    starts: Offsets,
    ends: Offsets,  # noqa: ARG001  as the compiled one
    names: list[bytes],  # noqa: ARG001
) -> tuple[Octets, Offsets, Offsets, Bools]:
    """Find the member at a path in each line, as far as no parser is needed.

    Parameters
    ----------
    octets : ndarray of uint8, shape (m,)
        A block.
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]].
    names : list of bytes
        Those of the path in UTF-8, outermost first.

    Returns
    -------
    keys : ndarray of uint8
        The keys that were found, one after the other.
    first, last : ndarray of int64, shape (n,)
        Key i is keys[first[i]:last[i]].
    declined : ndarray of bool, shape (n,)
        True for each line that is left to the parser.
    """
    none = np.zeros(len(starts), dtype=np.int64)
    return octets[:0], none, none, np.ones(len(starts), dtype=np.bool_)
