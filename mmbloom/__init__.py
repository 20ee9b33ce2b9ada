"""mmbloom: a memory-mapped, persistent Bloom filter that processes share.

The map, lowest first; a package imports only those above it in this table.

============  ==========================================================
package       one idea
============  ==========================================================
errors        the exception tree
_typing       type aliases
_tasks        what a thread that has the lock may do; the task that runs in it
_threads      work on several cores, results in order; reading ahead
sizing        how large: keys and error rate to bits and hashes, and back
_warn         warnings that point at the caller; past capacity
format        the promise: all that a second implementation must match
_engine       the kernels: hash, test, claim, commit; lines and their keys
_keys         the border: whatever a caller passes becomes a batch
_storage      one file on the disk, and the lock that guards it
operations    whole filters, by path: copy, merge, verify, repair and others
filters       an open filter of one file
folders       an open filter of several files: growing, rotating
_open         whichever filter is at a path
lines         records of a byte stream, and which part of one is its key
dedup         each line once, marked after it is written
sieve         each URL enqueued once, marked after it is enqueued
cli           the command line, a file per command
============  ==========================================================
"""

from mmbloom import _engine, errors, sizing
from mmbloom._open import open  # noqa: A004  as zarr.open
from mmbloom._typing import Key, Keys
from mmbloom.errors import (
    CapacityWarning,
    ClosedFilterError,
    DurabilityError,
    EngineWarning,
    FileChangedError,
    FilterFullError,
    FormatError,
    IncompatibleFiltersError,
    KeyEncodingError,
    KeyTypeError,
    LockTimeoutError,
    LostBitsError,
    MmbloomError,
    MmbloomWarning,
    NetworkFileSystemError,
    NewerFormatError,
    ParameterMismatchError,
    ReadOnlyError,
    ReentryError,
    ReservationWarning,
)
from mmbloom.filters.base import Filter
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.claim import Claim
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.exclusion_list import Exclusions
from mmbloom.filters.info import FilterInfo
from mmbloom.folders.growing import GrowingFilter
from mmbloom.folders.info import FolderInfo
from mmbloom.folders.rotating import RotatingFilter
from mmbloom.operations.compare import Similarity, compare
from mmbloom.operations.copy import copy
from mmbloom.operations.grow import grow
from mmbloom.operations.guava import export_guava, import_guava
from mmbloom.operations.intersect import intersect
from mmbloom.operations.merge import merge
from mmbloom.operations.repair import Repair, repair
from mmbloom.operations.verify import Verification, verify
from mmbloom.sieve import Sieve
from mmbloom.sizing import FilterParams

__all__ = [
    "BloomFilter",
    "CapacityWarning",
    "Claim",
    "ClosedFilterError",
    "CountingBloomFilter",
    "DurabilityError",
    "EngineWarning",
    "Exclusions",
    "FileChangedError",
    "Filter",
    "FilterFullError",
    "FilterInfo",
    "FilterParams",
    "FolderInfo",
    "FormatError",
    "GrowingFilter",
    "IncompatibleFiltersError",
    "Key",
    "KeyEncodingError",
    "KeyTypeError",
    "Keys",
    "LockTimeoutError",
    "LostBitsError",
    "MmbloomError",
    "MmbloomWarning",
    "NetworkFileSystemError",
    "NewerFormatError",
    "ParameterMismatchError",
    "ReadOnlyError",
    "ReentryError",
    "Repair",
    "ReservationWarning",
    "RotatingFilter",
    "Sieve",
    "Similarity",
    "Verification",
    "compare",
    "copy",
    "engine",
    "errors",
    "export_guava",
    "grow",
    "import_guava",
    "intersect",
    "merge",
    "open",
    "repair",
    "sizing",
    "verify",
]

engine: str = _engine.ENGINE  # "compiled" or "numpy"


def __dir__() -> list[str]:
    # Without this it would show the packages below as well, which users have no need of.
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> str:
    # Looked up when asked for: the version stands in pyproject.toml only, and importing
    # what reads it takes 16 ms.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("mmbloom")
    raise AttributeError(f"module 'mmbloom' has no attribute {name!r}")
