"""Which parameters a new filter gets, and whether an existing one has them.

No argument is ever ignored: what is given must be what the file has.
"""

import os

from mmbloom.errors import ParameterMismatch
from mmbloom.sizing import FilterParams, Layout, plan


def choose_params(
    capacity: int | None,
    error_rate: float | None,
    layout: Layout | None,
    seed: int | None,
    like: FilterParams | None,
) -> FilterParams:
    """Resolve the sizing arguments of `BloomFilter.create`."""
    if like is not None:
        if (capacity, error_rate, layout, seed) != (None, None, None, None):
            raise ValueError("like= copies all parameters: give it alone, without others")
        return like
    if capacity is None:
        raise TypeError("capacity is required: the number of distinct keys to plan for")
    return plan(
        capacity,
        0.01 if error_rate is None else error_rate,
        layout="blocked" if layout is None else layout,
        seed=seed_or_random(seed),
    )


def seed_or_random(seed: int | None) -> int:
    """Draw a seed unless one is given: with a known seed an attacker crafts false positives."""
    return int.from_bytes(os.urandom(4), "little") if seed is None else seed


def require_equal(
    found: FilterParams, asked: FilterParams, path: str, *, copied: bool, any_seed: bool
) -> None:
    """Raise `ParameterMismatch` naming the first parameter that differs.

    Unless `copied` from another filter, the number of bits and of hashes may: they follow
    from the others, and another version of this package, or of numpy, may plan them otherwise.
    """
    fields = ["capacity", "error_rate", "layout"]
    fields += [] if any_seed and not copied else ["seed"]
    fields += ["num_bits", "num_hashes"] if copied else []
    for field in fields:
        there, wanted = getattr(found, field), getattr(asked, field)
        if there != wanted:
            raise ParameterMismatch(path, field, str(there), str(wanted))
