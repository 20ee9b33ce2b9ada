"""The two kinds of filter file: what their positions are, and which class opens them."""

from collections.abc import Callable
from typing import NamedTuple

from mmbloom._engine import count_nonzero, count_set
from mmbloom._typing import Words
from mmbloom.errors import OtherKindError
from mmbloom.format.header import KIND_BITS, KIND_COUNTERS, Header


class Kind(NamedTuple):
    """What readers and writers of a file need to know of its kind.

    Attributes
    ----------
    number : int
        In the header.
    noun : str
        What its positions are.
    opened_by : str
        The class that opens it.
    otherwise : str
        What to do where the other kind is wanted.
    count_set : callable
        Counts the positions of a part of the array that are not 0.
    """

    number: int
    noun: str
    opened_by: str
    otherwise: str
    count_set: Callable[[Words], int]

    def __str__(self) -> str:
        return f"{self.number} ({self.noun}), a {self.opened_by}"


BITS = Kind(
    KIND_BITS,
    "bits",
    "BloomFilter",
    "to count keys, create a CountingBloomFilter (mmbloom create --counting) and add them to it",
    count_set,
)

COUNTERS = Kind(
    KIND_COUNTERS,
    "counters",
    "CountingBloomFilter",
    "its to_bloom(path) writes a plain filter of the keys that it holds",
    count_nonzero,
)

ALL_KINDS = (BITS, COUNTERS)
_BY_NUMBER = {kind.number: kind for kind in ALL_KINDS}


def kind_of(header: Header) -> Kind:
    """Look up the kind that a header names."""
    return _BY_NUMBER[header.kind]


def possible_count(header: Header, keys_added: int, positions_set: int) -> int:
    """Correct a number of keys added that the positions set do not allow, by their estimate.

    Each new key sets 1 to k positions that were clear.
    """
    fewest, most = -(-positions_set // header.params.num_hashes), positions_set
    if fewest <= keys_added <= most:
        return keys_added
    return min(max(fewest, round(header.params.estimated_count(positions_set))), most)


def require_kind(header: Header, path: str, expected: tuple[Kind, ...]) -> None:
    """Raise `OtherKindError`, naming the class that opens the file, if its kind is another one."""
    if (found := kind_of(header)) not in expected:
        wanted = " or ".join(map(str, expected))
        opening = f"open it with {found.opened_by}.open, or mmbloom.open"
        expected_kind = f"{wanted}; {opening}; {found.otherwise}"
        raise OtherKindError(path, found.noun, str(found), expected_kind)
