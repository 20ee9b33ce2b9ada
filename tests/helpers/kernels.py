"""Both engines, imported directly, whichever of them serves the package in this process."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from forms import HASHES

from mmbloom._engine.key_batch import HashedKeys, KeyBatch
from mmbloom._system.typing import Bools, HashHalves, Indices, Octets, Offsets, Words
from mmbloom.sizing import FilterParams


class Engine(NamedTuple):
    """The names that every engine has."""

    name: str
    contains: Callable[..., Bools]
    contains_any: Callable[..., Bools]
    arrange: Callable[..., Any]
    add: Callable[..., tuple[Bools, int]]
    counted_contains: Callable[..., Bools]
    increment: Callable[..., tuple[Bools, int]]
    decrement: Callable[..., tuple[Bools, int]]
    claim: Callable[[Words, Words, Words, FilterParams], Any]
    commit: Callable[[Words, Any], int]
    contains_with: Callable[[Words, Any, Words, Words, FilterParams], Bools]
    count_set: Callable[[Words], int]
    OneKey: Callable[[Words, Words, FilterParams, Callable[[Any], bytes]], Any]
    hash_keys: Callable[..., HashHalves]
    siphash: Callable[..., tuple[int, int]]
    plain: Callable[[list[Any]], bool]
    first_unencodable: Callable[[npt.NDArray[Any]], int]
    find_lines: Callable[[Octets, int, int, int, int], tuple[Offsets, Offsets]]
    gather: Callable[[Octets, Offsets, Offsets, Bools, int], Octets]
    select_keys: Callable[..., KeyBatch]
    find_members: Callable[
        [Octets, Offsets, Offsets, list[bytes]], tuple[Octets, Offsets, Offsets, Bools]
    ]
    find_rows: Callable[..., tuple[Offsets, Offsets, int]]
    select_columns: Callable[..., KeyBatch]
    slices_of: Callable[[Words, FilterParams, int], npt.NDArray[np.int32]]
    partition: Callable[[Words, Words, FilterParams, int], tuple[Indices, Indices, HashHalves]]
    rebase: Callable[[Words, FilterParams, int, int], tuple[Words, int]]

    def __repr__(self) -> str:
        return self.name


REFERENCE = ("bits", "counters", "hash", "holding", "lines")  # its modules
PARTS = (*REFERENCE, "members", "rows", "single")  # those of the compiled engine
MODULES = ("_arrays", "vectors", *PARTS)  # what is built: Cython writes the first


def _load(name: str, folder: str, parts: tuple[str, ...]) -> Engine:
    modules = [import_module(f"mmbloom._engine.{folder}.{part}") for part in parts]
    kernels = {
        kernel: next(getattr(module, kernel) for module in modules if hasattr(module, kernel))
        for kernel in Engine._fields[1:]
    }
    for kernel in ("contains", "contains_any", "counted_contains"):
        kernels[kernel] = _of_hashes(kernels[kernel])
    return Engine(name, **kernels)


def _of_hashes(contains: Callable[..., Bools]) -> Callable[..., Bools]:
    """Ask for hash halves, as the other kernels are called; a batch of keys as it is."""

    @wraps(contains)
    def of(words: Any, *rest: Any) -> Bools:
        if isinstance(rest[0], np.ndarray):
            rest = HashedKeys(rest[0], rest[1]), *rest[2:]
        return contains(words, *rest)

    return of


NUMPY = _load("numpy", "reference", REFERENCE)


def _load_compiled() -> Engine | None:
    if not all(find_spec(f"mmbloom._engine.compiled.{part}") for part in MODULES):
        return None
    return _load("compiled", "compiled", PARTS)


_FOUND = _load_compiled()
BUILT = _FOUND is not None
ENGINES = [NUMPY, *([_FOUND] if _FOUND else [])]
# Where it was not built every test that uses it is skipped; CI builds it.
COMPILED: Engine = _FOUND or NUMPY
# The kinds of vectors that this machine can run, each of which the kernels are tested with.
VECTORS = import_module("mmbloom._engine.compiled.vectors") if BUILT else None
KINDS: list[str] = VECTORS.kinds() if VECTORS else ["none"]


def _with_vectors(kind: str) -> Engine:
    """The compiled engine with this kind of vectors in use in each call, but for OneKey's."""

    def in_use(function: Any) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            assert VECTORS
            before = VECTORS.used()
            VECTORS.use(kind)
            try:
                return function(*args, **options)
            finally:
                VECTORS.use(before)

        return call

    return Engine(kind, *map(in_use, COMPILED[1:]))


OF_EACH_KIND = [_with_vectors(kind) for kind in KINDS]
ALL_ENGINES = [NUMPY, *(OF_EACH_KIND if BUILT else [])]
needs_compiled = pytest.mark.skipif(not BUILT, reason="the compiled engine was not built here")
each_hash = pytest.mark.parametrize("key_hash", HASHES, ids=lambda key_hash: key_hash.name)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=repr)
each_kind = pytest.mark.parametrize("engine", OF_EACH_KIND, ids=repr)
every_engine = pytest.mark.parametrize("engine", ALL_ENGINES, ids=repr)
