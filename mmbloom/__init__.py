"""A memory-mapped, persistent Bloom filter that processes share.

Use::

    BloomFilter          for keys in one file
    CountingBloomFilter  for keys that are removed again
    GrowingFilter        for an unknown number of keys
    RotatingFilter       for keys of the last days
    Sieve                for URLs that wait to be visited
    open                 for whichever filter is at a path
    open_or_create       for a filter that is created on the first run, and may have grown since
    sizing               for how large a filter should be
    dedup_files          for each line of files once
    copy, merge, intersect, compare, verify, repair, grow
                         for whole filters, by path
    import_guava, export_guava
                         for files of Guava's BloomFilter
    columns              for keys of several columns
    hash_many            for keys that are hashed once for several filters

``help(mmbloom.BloomFilter)`` describes one of them, and ``dir(mmbloom)`` lists all names. The
modules ``lines``, ``rows`` and ``dedup`` read logs and CSV; ``scrapy``, ``dask`` and ``spark`` are
for those libraries. ``help(mmbloom.errors)`` describes the errors, each of which is here too.

Names that begin with an underscore are the package's own. The map, lowest first; a package imports
only those above it in this table.

============  ==========================================================
package       one idea
============  ==========================================================
errors        the exception tree
_system       what the machine and the interpreter provide: threads, forks, memory, mounts
sizing        how large: keys and error rate to bits and hashes, and back
format        the promise: all that a second implementation must match
_engine       the kernels: hash, test, claim, commit; lines and their keys
_keys         the border: whatever a caller passes becomes a batch
_storage      one file on the disk, and the lock that guards it
operations    whole filters, by path: copy, merge, verify, repair and others
filters       an open filter, of one file or of several
logs          inputs cut into lines or rows, deduplicated, and written
crawl         URLs that are visited once; Scrapy
cluster       a filter in parts, each filled by one task of a cluster; Dask and Spark
cli           the command line
============  ==========================================================
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

from mmbloom import errors as errors
from mmbloom._system import interpreter as _interpreter
from mmbloom.errors import CapacityWarning as CapacityWarning
from mmbloom.errors import ClosedFilterError as ClosedFilterError
from mmbloom.errors import ColumnError as ColumnError
from mmbloom.errors import CommitConflictError as CommitConflictError
from mmbloom.errors import DamagedHeaderError as DamagedHeaderError
from mmbloom.errors import DurabilityError as DurabilityError
from mmbloom.errors import EngineWarning as EngineWarning
from mmbloom.errors import FileChangedError as FileChangedError
from mmbloom.errors import FilterFullError as FilterFullError
from mmbloom.errors import FormatError as FormatError
from mmbloom.errors import IncompatibleFiltersError as IncompatibleFiltersError
from mmbloom.errors import InputError as InputError
from mmbloom.errors import KeyEncodingError as KeyEncodingError
from mmbloom.errors import KeyTypeError as KeyTypeError
from mmbloom.errors import LockTimeoutError as LockTimeoutError
from mmbloom.errors import LostBitsError as LostBitsError
from mmbloom.errors import MissingLibraryError as MissingLibraryError
from mmbloom.errors import MmbloomError as MmbloomError
from mmbloom.errors import MmbloomWarning as MmbloomWarning
from mmbloom.errors import NetworkFileSystemError as NetworkFileSystemError
from mmbloom.errors import NewerFormatError as NewerFormatError
from mmbloom.errors import NoFilterError as NoFilterError
from mmbloom.errors import OpenQuoteError as OpenQuoteError
from mmbloom.errors import OtherKindError as OtherKindError
from mmbloom.errors import ParameterMismatchError as ParameterMismatchError
from mmbloom.errors import ReadOnlyError as ReadOnlyError
from mmbloom.errors import ReentryError as ReentryError
from mmbloom.errors import ReservationWarning as ReservationWarning

_interpreter.require_main()

if TYPE_CHECKING:
    from mmbloom import sizing as sizing
    from mmbloom._engine import ENGINE
    from mmbloom._keys.coerce import columns as columns
    from mmbloom._keys.coerce import hash_many as hash_many
    from mmbloom._system.typing import Key as Key
    from mmbloom._system.typing import Keys as Keys
    from mmbloom.crawl.sieve import Sieve as Sieve
    from mmbloom.filters.base import Filter as Filter
    from mmbloom.filters.bloom import BloomFilter as BloomFilter
    from mmbloom.filters.claim import Claim as Claim
    from mmbloom.filters.counting import CountingBloomFilter as CountingBloomFilter
    from mmbloom.filters.exclusions import Exclusions as Exclusions
    from mmbloom.filters.folder import FolderInfo as FolderInfo
    from mmbloom.filters.grow import grow as grow
    from mmbloom.filters.growing import GrowingFilter as GrowingFilter
    from mmbloom.filters.info import FilterInfo as FilterInfo
    from mmbloom.filters.open import open as open  # noqa: A004  as zarr.open
    from mmbloom.filters.open import open_or_create as open_or_create
    from mmbloom.filters.rotating import RotatingFilter as RotatingFilter
    from mmbloom.logs.files import dedup_files as dedup_files
    from mmbloom.operations.check import Repair as Repair
    from mmbloom.operations.check import Verification as Verification
    from mmbloom.operations.check import repair as repair
    from mmbloom.operations.check import verify as verify
    from mmbloom.operations.combine import Similarity as Similarity
    from mmbloom.operations.combine import compare as compare
    from mmbloom.operations.combine import intersect as intersect
    from mmbloom.operations.copy import copy as copy
    from mmbloom.operations.guava import export_guava as export_guava
    from mmbloom.operations.guava import import_guava as import_guava
    from mmbloom.operations.merge import merge as merge
    from mmbloom.sizing import FilterParams as FilterParams

    __version__: str
    engine = ENGINE

# Where the names are that bring numpy with them. Each is looked up when it is first asked for:
# `import mmbloom` costs a seventh of numpy's own import, a program that opens one file imports
# nothing of folders, and the command line tells of itself without numpy.
_PLACES = {
    "BloomFilter": "mmbloom.filters.bloom:BloomFilter",
    "Claim": "mmbloom.filters.claim:Claim",
    "CountingBloomFilter": "mmbloom.filters.counting:CountingBloomFilter",
    "Exclusions": "mmbloom.filters.exclusions:Exclusions",
    "Filter": "mmbloom.filters.base:Filter",
    "FilterInfo": "mmbloom.filters.info:FilterInfo",
    "FilterParams": "mmbloom.sizing:FilterParams",
    "FolderInfo": "mmbloom.filters.folder:FolderInfo",
    "GrowingFilter": "mmbloom.filters.growing:GrowingFilter",
    "Key": "mmbloom._system.typing:Key",
    "Keys": "mmbloom._system.typing:Keys",
    "Repair": "mmbloom.operations.check:Repair",
    "RotatingFilter": "mmbloom.filters.rotating:RotatingFilter",
    "Sieve": "mmbloom.crawl.sieve:Sieve",
    "Similarity": "mmbloom.operations.combine:Similarity",
    "Verification": "mmbloom.operations.check:Verification",
    "columns": "mmbloom._keys.coerce:columns",
    "compare": "mmbloom.operations.combine:compare",
    "copy": "mmbloom.operations.copy:copy",
    "dedup_files": "mmbloom.logs.files:dedup_files",
    "engine": "mmbloom._engine:ENGINE",
    "export_guava": "mmbloom.operations.guava:export_guava",
    "grow": "mmbloom.filters.grow:grow",
    "hash_many": "mmbloom._keys.coerce:hash_many",
    "import_guava": "mmbloom.operations.guava:import_guava",
    "intersect": "mmbloom.operations.combine:intersect",
    "merge": "mmbloom.operations.merge:merge",
    "open": "mmbloom.filters.open:open",
    "open_or_create": "mmbloom.filters.open:open_or_create",
    "repair": "mmbloom.operations.check:repair",
    "sizing": "mmbloom.sizing",
    "verify": "mmbloom.operations.check:verify",
}


if not TYPE_CHECKING:
    # Type checkers do not need it: an import that says "as", above, is of a name for users. There
    # is no __all__: with one, help(mmbloom) is the help of every class, nearly 7,000 lines, and
    # `from mmbloom import *` replaces Python's own `open`.
    def __dir__() -> list[str]:
        # Without this it would show the packages below as well, which users do not need.
        named = [name for name in vars(errors) if name.endswith(("Error", "Warning"))]
        return sorted(["errors", *named, *_PLACES, "__version__"])

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
