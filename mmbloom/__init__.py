"""A memory-mapped, persistent Bloom filter that processes share.

Take::

    BloomFilter          for keys in one file
    CountingBloomFilter  for keys that are removed again
    GrowingFilter        for an unknown number of keys
    RotatingFilter       for keys of the last days
    Sieve                for URLs that wait to be visited
    open                 for whichever of them is at a path
    sizing               for how large a filter is to be
    copy, merge, intersect, compare, verify, repair, grow
                         for whole filters, by path

``help(mmbloom.BloomFilter)`` has all of one of them. The modules ``lines`` and ``dedup`` read
logs; ``scrapy``, ``dask`` and ``spark`` are for these. Errors are in ``errors``.

Names that begin with an underscore are the package's own. The map, lowest first; a package imports
only those above it in this table.

============  ==========================================================
package       one idea
============  ==========================================================
errors        the exception tree
_typing       type aliases
_reentry      what a thread that has the lock may do; the task that runs in it
_threads      work on several cores, results in order; reading ahead
_machine      what the machine is, and gives: mounts, memory, maps of files
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
counts        how often each line occurs
sieve         each URL enqueued once, marked after it is enqueued
slices        a filter in parts, each filled by one task of a cluster; its state
scrapy        Scrapy's duplicate filter and scheduler, on a filter; imported by nothing
spark         filters filled and asked by a Spark cluster
dask          filters filled and asked by a Dask cluster
cli           the command line, a file per command
============  ==========================================================
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

from mmbloom import errors
from mmbloom.errors import (
    CapacityWarning,
    ClosedFilterError,
    CommitConflictError,
    DamagedHeaderError,
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
    NoFilterError,
    OtherKindError,
    ParameterMismatchError,
    ReadOnlyError,
    ReentryError,
    ReservationWarning,
)

if TYPE_CHECKING:
    from mmbloom import sizing
    from mmbloom._engine import ENGINE as engine  # noqa: N811  a value, as users see it
    from mmbloom._keys.coerce import columns
    from mmbloom._keys.hashed import hash_many
    from mmbloom._open import open  # noqa: A004  as zarr.open
    from mmbloom._typing import Key, Keys
    from mmbloom.filters.base import Filter
    from mmbloom.filters.bloom import BloomFilter
    from mmbloom.filters.claim import Claim
    from mmbloom.filters.counting import CountingBloomFilter
    from mmbloom.filters.exclusion_list import Exclusions
    from mmbloom.filters.info import FilterInfo
    from mmbloom.folders.grow import grow
    from mmbloom.folders.growing import GrowingFilter
    from mmbloom.folders.info import FolderInfo
    from mmbloom.folders.rotating import RotatingFilter
    from mmbloom.operations.compare import Similarity, compare
    from mmbloom.operations.copy import copy
    from mmbloom.operations.guava import export_guava, import_guava
    from mmbloom.operations.intersect import intersect
    from mmbloom.operations.merge import merge
    from mmbloom.operations.repair import Repair, repair
    from mmbloom.operations.verify import Verification, verify
    from mmbloom.sieve import Sieve
    from mmbloom.sizing import FilterParams

    __version__: str

__all__ = [
    "BloomFilter",
    "CapacityWarning",
    "Claim",
    "ClosedFilterError",
    "CommitConflictError",
    "CountingBloomFilter",
    "DamagedHeaderError",
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
    "NoFilterError",
    "OtherKindError",
    "ParameterMismatchError",
    "ReadOnlyError",
    "ReentryError",
    "Repair",
    "ReservationWarning",
    "RotatingFilter",
    "Sieve",
    "Similarity",
    "Verification",
    "columns",
    "compare",
    "copy",
    "engine",
    "errors",
    "export_guava",
    "grow",
    "hash_many",
    "import_guava",
    "intersect",
    "merge",
    "open",
    "repair",
    "sizing",
    "verify",
]

# Where the names are that bring numpy with them. Each is looked up when it is first asked for:
# `import mmbloom` costs a seventh of numpy's own import, a program that opens one file imports
# nothing of folders, and the command line tells of itself without numpy.
_PLACES = {
    "BloomFilter": "mmbloom.filters.bloom:BloomFilter",
    "Claim": "mmbloom.filters.claim:Claim",
    "CountingBloomFilter": "mmbloom.filters.counting:CountingBloomFilter",
    "Exclusions": "mmbloom.filters.exclusion_list:Exclusions",
    "Filter": "mmbloom.filters.base:Filter",
    "FilterInfo": "mmbloom.filters.info:FilterInfo",
    "FilterParams": "mmbloom.sizing:FilterParams",
    "FolderInfo": "mmbloom.folders.info:FolderInfo",
    "GrowingFilter": "mmbloom.folders.growing:GrowingFilter",
    "Key": "mmbloom._typing:Key",
    "Keys": "mmbloom._typing:Keys",
    "Repair": "mmbloom.operations.repair:Repair",
    "RotatingFilter": "mmbloom.folders.rotating:RotatingFilter",
    "Sieve": "mmbloom.sieve:Sieve",
    "Similarity": "mmbloom.operations.compare:Similarity",
    "Verification": "mmbloom.operations.verify:Verification",
    "columns": "mmbloom._keys.coerce:columns",
    "compare": "mmbloom.operations.compare:compare",
    "copy": "mmbloom.operations.copy:copy",
    "engine": "mmbloom._engine:ENGINE",
    "export_guava": "mmbloom.operations.guava:export_guava",
    "grow": "mmbloom.folders.grow:grow",
    "hash_many": "mmbloom._keys.hashed:hash_many",
    "import_guava": "mmbloom.operations.guava:import_guava",
    "intersect": "mmbloom.operations.intersect:intersect",
    "merge": "mmbloom.operations.merge:merge",
    "open": "mmbloom._open:open",
    "repair": "mmbloom.operations.repair:repair",
    "sizing": "mmbloom.sizing",
    "verify": "mmbloom.operations.verify:verify",
}


def __dir__() -> list[str]:
    # Without this it would show the packages below as well, which users have no need of.
    return sorted([*__all__, "__version__"])


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "__version__":  # it stands in pyproject.toml only; what reads it takes 16 ms
            from importlib.metadata import version  # noqa: PLC0415

            return version("mmbloom")
        if name not in _PLACES:
            raise AttributeError(f"module 'mmbloom' has no attribute {name!r}")
        module, _, attribute = _PLACES[name].partition(":")
        # Imports make no garbage, and the collector looks through all that numpy has made again
        # and again meanwhile: 5 of 31 ms.
        thresholds = gc.get_threshold()
        try:
            gc.set_threshold(100_000, *thresholds[1:])
            found = import_module(module)
        finally:
            gc.set_threshold(*thresholds)
        return globals().setdefault(name, getattr(found, attribute) if attribute else found)
