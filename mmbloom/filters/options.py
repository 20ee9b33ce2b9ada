"""How a filter is opened, which parameters a new one gets, and whether an existing one has them.

No argument is ever ignored: what is given must be what the file has.
"""

import os
from dataclasses import dataclass, fields

from mmbloom._typing import Layout, Mode
from mmbloom.errors import ParameterMismatchError
from mmbloom.format.manifest import FolderPlan
from mmbloom.sizing.params import FilterParams
from mmbloom.sizing.planning import plan


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a filter is opened: the options of `FileFilter.open`, which pickle with it."""

    mode: Mode = "r+"
    lock_timeout: float | None = 60.0
    allow_network: bool = False
    threads: int | None = None
    preload: bool = False
    verify_after_add: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("r", "r+"):
            raise ValueError(f"mode is {self.mode!r}, expected 'r' or 'r+'")
        if self.lock_timeout is not None and not self.lock_timeout >= 0:  # nan neither
            raise ValueError(
                f"lock_timeout is {self.lock_timeout}, expected seconds from 0, or None to wait "
                "for ever"
            )
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads is {self.threads}, expected 1 or more")


def choose_params(
    capacity: int | None,
    error_rate: float | None,
    layout: Layout | None,
    seed: int | None,
    like: object,
) -> FilterParams:
    """Resolve the sizing arguments of `BloomFilter.create`."""
    if like is not None:
        if (capacity, error_rate, layout, seed) != (None, None, None, None):
            raise ValueError("like= copies all parameters: give it alone, without others")
        params = getattr(like, "params", None)
        if not isinstance(params, FilterParams):
            raise TypeError(
                f"like is {like!r}, expected an open BloomFilter or CountingBloomFilter"
            )
        return params
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
    """Raise `ParameterMismatchError` naming the first parameter that differs.

    Unless `copied` from another filter, the number of bits and of hashes may: they follow
    from the others, and another version of this package, or of numpy, may plan them otherwise.
    """
    fields = ["capacity", "error_rate", "layout"]
    fields += [] if any_seed and not copied else ["seed"]
    fields += ["num_bits", "num_hashes"] if copied else []
    for field in fields:
        there, wanted = getattr(found, field), getattr(asked, field)
        if there != wanted:
            raise ParameterMismatchError(path, field, str(there), str(wanted))


def require_same(found: FolderPlan, asked: FolderPlan, path: str, *, any_seed: bool) -> None:
    """Raise `ParameterMismatchError` naming the first setting that differs.

    How the disk is reserved, and any seed if none was asked for, may.
    """
    free = {"reserve", "seed"} if any_seed else {"reserve"}
    if type(found) is not type(asked):
        raise ParameterMismatchError(path, "kind", found.kind, asked.kind)
    for name in (field.name for field in fields(asked) if field.name not in free):
        there, wanted = getattr(found, name), getattr(asked, name)
        if there != wanted:
            raise ParameterMismatchError(path, name, str(there), str(wanted))
