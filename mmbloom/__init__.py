"""A memory-mapped, persistent Bloom filter that processes share.

Start with::

    seen = mmbloom.open_or_create("seen.bloom", capacity=1_000_000, error_rate=1e-6)
    seen.add("a")  # True: it is new
    "a" in seen  # True
    seen.add_many(["a", "b"])  # array([False,  True])
    seen.close()

The main names::

    open_or_create       opens a filter, or creates it on the first run
    open                 opens a filter of any kind
    BloomFilter          a filter in one file
    CountingBloomFilter  a filter whose keys can be removed again
    GrowingFilter        a filter for an unknown number of keys
    RotatingFilter       a filter that forgets keys after some days or hours
    Sieve                a queue of URLs to visit, which accepts each URL once
    dedup_files          writes each line of some files once
    copy, merge, intersect, compare, verify, repair, grow
                         work on whole filters, by path
    import_guava, export_guava
                         read and write files of Guava's BloomFilter
    columns              makes keys of several columns
    hash_many            hashes keys once for several filters
    sizing               computes how large a filter should be

``help(mmbloom.BloomFilter)`` describes one of them, and ``dir(mmbloom)`` lists all names.
``help(mmbloom.errors)`` describes the errors, which are also names of this package. The
modules ``mmbloom.logs.lines``, ``rows`` and ``dedup`` read logs and CSV; ``mmbloom.crawl.scrapy``,
``mmbloom.cluster.dask`` and ``mmbloom.cluster.spark`` are for those libraries.

Names that begin with an underscore are private. Each package imports only those above it in this
table.

============  ==========================================================
package       purpose
============  ==========================================================
errors        the exception tree
_system       what machine, system and interpreter provide, and how systems differ
sizing        from capacity and error rate to bits and hashes, and back
format        the file format: what a second implementation must match
_engine       the kernels: hash, test, claim, commit; lines and their keys
_keys         turns whatever a caller passes into a batch of keys
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

from mmbloom import _system as _system  # first: it refuses Windows
from mmbloom import errors
from mmbloom.errors import *  # noqa: F403


def _require_main_interpreter() -> None:
    """Raise ImportError in a subinterpreter.

    Tables of modules record the locks, forks and shared-memory copies of a process. A
    subinterpreter has modules of its own, so two of them would not know of each other's locks.
    numpy supports one interpreter per process too, but its error says something else, or does not
    come at all.
    """
    interpreters = None
    # The module behind concurrent.interpreters, which takes 10 ms to import; before 3.13 the other.
    for name in ("_xxsubinterpreters", "_interpreters"):
        try:
            interpreters = import_module(name)
        except ImportError:
            continue
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "mmbloom cannot be imported in a subinterpreter, because its locks belong to the whole "
            "process: import it in the main interpreter (mod_wsgi: WSGIApplicationGroup "
            "%{GLOBAL}), or use processes"
        )


_require_main_interpreter()

# The other names, by the module that has them; `__init__.pyi` imports the same for type checkers.
# Each is looked up when it is first asked for: `import mmbloom` costs a seventh of numpy's own
# import, a program that opens one file imports nothing of folders, and help is printed without
# numpy. Not read from the stub, which programs that are frozen or stripped do not have.
_MODULES = {
    name: f"mmbloom.{module}"
    for module, names in {
        "_engine": "engine",
        "_keys.coerce": "columns hash_many",
        "_system.typing": "Key Keys",
        "crawl.sieve": "Sieve",
        "filters.base": "Filter",
        "filters.bloom": "BloomFilter",
        "filters.claim": "Claim",
        "filters.counting": "CountingBloomFilter",
        "filters.exclusions": "Exclusions",
        "filters.grow": "grow",
        "filters.growing": "GrowingFilter",
        "filters.info": "FilterInfo FolderInfo",
        "filters.open": "open open_or_create",
        "filters.rotating": "RotatingFilter",
        "logs.dedup": "dedup_files",
        "operations.check": "Repair Verification repair verify",
        "operations.combine": "Similarity compare intersect merge",
        "operations.copy": "copy",
        "operations.guava": "export_guava import_guava",
        "sizing": "FilterParams",
    }.items()
    for name in names.split()
} | {"errors": "mmbloom", "sizing": "mmbloom"}


# There is no __all__: with one, help(mmbloom) is the help of every class, nearly 7,000 lines, and
# `from mmbloom import *` replaces Python's own `open`.
def __dir__() -> list[str]:
    # Without this it would show the packages below as well, which users do not need.
    named = [name for name in vars(errors) if name.endswith(("Error", "Warning"))]
    return sorted([*named, *_MODULES, "__version__"])


def __getattr__(name: str) -> object:
    if name == "__version__":  # it stands in pyproject.toml only; what reads it takes 16 ms
        from importlib.metadata import version  # noqa: PLC0415

        return version("mmbloom")
    if name not in _MODULES:
        raise AttributeError(
            f"module 'mmbloom' has no attribute {name!r}; help(mmbloom) describes its names"
        )
    module = _MODULES[name]
    # Imports make no garbage, and the collector looks through all that numpy has made again and
    # again meanwhile: 5 of 31 ms.
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(100_000, *thresholds[1:])
        found = import_module(f"mmbloom.{name}" if module == "mmbloom" else module)
    finally:
        gc.set_threshold(*thresholds)
    return globals().setdefault(name, found if module == "mmbloom" else getattr(found, name))
