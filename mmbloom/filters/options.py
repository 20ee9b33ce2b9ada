"""How a filter is opened, which parameters a new one gets, and whether an existing one has them.

No argument is ever ignored: what is given must be what the file has.
"""

import os
from dataclasses import dataclass
from typing import TypedDict, get_args

from mmbloom._system.typing import HashName, Layout, Mode, OnFull, Resident
from mmbloom.errors import ParameterMismatchError
from mmbloom.sizing import plan
from mmbloom.sizing.params import (
    DEFAULT_HASH,
    FilterParams,
    HasHash,
    KeyHash,
    require_seed,
    spelled,
    traits_of,
)

# A note, not the message: commands show that as well, and have no such argument.
EXIST_OK = "pass exist_ok=True to open what is there, if it was made with the same parameters"


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a filter is opened: the options of `FileFilter.open`, which pickle with it."""

    mode: Mode = "r+"
    lock_timeout: float | None = 60.0
    allow_network: bool = False
    threads: int | None = None
    preload: bool = False
    verify_after_add: bool = False
    on_full: OnFull = "warn"
    resident: Resident = "auto"

    def __post_init__(self) -> None:
        if self.mode not in ("r", "r+"):
            raise ValueError(f"mode is {self.mode!r}, expected 'r' or 'r+'")
        if not (self.lock_timeout is None or hasattr(self.lock_timeout, "__float__")):
            raise TypeError(f"lock_timeout is {self.lock_timeout!r}, expected seconds or None")
        if self.lock_timeout is not None and not self.lock_timeout >= 0:  # nan neither
            raise ValueError(
                f"lock_timeout is {self.lock_timeout}, expected 0 or more seconds, or None to wait "
                "forever"
            )
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads is {self.threads}, expected 1 or more")
        if self.on_full not in get_args(OnFull):
            raise ValueError(f"on_full is {self.on_full!r}, expected 'warn', 'raise' or 'grow'")
        if self.resident not in (True, False, "auto"):
            raise ValueError(f"resident is {self.resident!r}, expected True, False or 'auto'")


OpenOptions.__init__.__qualname__ = "create or open"  # for Python's error about an unknown option


class OpenedWith(TypedDict, total=False):
    """The options of `BloomFilter.open`, except `mode`."""

    lock_timeout: float | None
    allow_network: bool
    threads: int | None
    preload: bool
    verify_after_add: bool
    on_full: OnFull
    resident: Resident


def choose_params(
    capacity: int | None,
    error_rate: float | None,
    layout: Layout | None,
    seed: int | None,
    hash: HashName | None,
    *,
    like: object,
) -> FilterParams:
    """Resolve the sizing arguments of `BloomFilter.create`."""
    if like is not None:
        if (capacity, error_rate, layout, seed, hash) != (None,) * 5:
            raise ValueError("like= copies all parameters: pass it alone, without other parameters")
        params = getattr(like, "params", None)
        if not isinstance(params, FilterParams):
            raise TypeError(
                f"like is {like!r}, expected an open BloomFilter or CountingBloomFilter"
            )
        return params
    if capacity is None:
        raise TypeError("capacity is required: the number of distinct keys that the filter is for")
    chosen = choose_hash(hash, seed)
    return plan(
        capacity,
        0.01 if error_rate is None else error_rate,
        layout="blocked" if layout is None else layout,
        hash=chosen.name,
        seed=chosen.seed,
    )


def choose_hash(name: HashName | None, seed: int | None) -> KeyHash:
    """Resolve hash and seed, drawing a seed unless one is given.

    With a known seed an attacker crafts false positives; with SipHash's key a secret, nobody
    who cannot read the file does.
    """
    name = DEFAULT_HASH if name is None else name
    if seed is None:
        seed = int.from_bytes(os.urandom(traits_of(name).seed_bits // 8), "little")
    require_seed(name, seed)
    return KeyHash(name, seed)


def not_asked(name: HashName | None, seed: int | None) -> frozenset[str]:
    """Return the parameters that need not match: a seed says nothing without its hash."""
    if seed is not None:
        return frozenset()
    return frozenset({"seed", "hash"}) if name is None else frozenset({"seed"})


def require_equal(
    found: FilterParams, asked: FilterParams, path: str, *, copied: bool, free: frozenset[str]
) -> None:
    """Raise `ParameterMismatchError` naming the first parameter that differs.

    Unless `copied` from another filter, the numbers of bits, hashes and blocks may: they follow
    from the others, and another version of this package, or of numpy, may plan them otherwise.
    """
    fields = ["capacity", "error_rate", "layout", "hash", "seed"]
    fields = [*fields, "num_bits", "num_hashes", "blocks_per_key"] if copied else [*fields]
    for field in fields:
        if field not in (frozenset() if copied else free):
            require_field(found, asked, path, field)


def require_field(found: HasHash, asked: HasHash, path: str, name: str) -> None:
    """Raise `ParameterMismatchError` if one parameter of what is there is another."""
    if getattr(found, name) != getattr(asked, name):
        raise ParameterMismatchError(path, name, spelled(found, name), spelled(asked, name))
