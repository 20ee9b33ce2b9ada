"""Both engines, imported directly, whichever of them serves the package in this process."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from mmbloom._batch import KeyBatch
from mmbloom._engine import (
    HashHalves,
    Words,
    _numpy,
    _numpy_counters,
    _numpy_hash,
    _numpy_lines,
)
from mmbloom.sizing import FilterParams

Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Engine(NamedTuple):
    """The names that every engine has."""

    name: str
    contains: Callable[[Words, Words, Words, FilterParams], Bools]
    contains_any: Callable[[list[Words], Words, Words, FilterParams], Bools]
    add: Callable[[Words, Words, Words, FilterParams], tuple[Bools, int]]
    counted_contains: Callable[[Words, Words, Words, FilterParams], Bools]
    increment: Callable[[Words, Words, Words, FilterParams], tuple[Bools, int]]
    decrement: Callable[[Words, Words, Words, FilterParams], tuple[Bools, int]]
    claim: Callable[[Words, Words, Words, FilterParams], Any]
    commit: Callable[[Words, Any], int]
    count_set: Callable[[Words], int]
    OneKey: Callable[[Words, Words, FilterParams, Callable[[Any], bytes]], Any]
    hash_keys: Callable[[KeyBatch, int], HashHalves]
    plain: Callable[[list[Any]], bool]
    first_unencodable: Callable[[npt.NDArray[Any]], int]
    find_lines: Callable[[Octets, int, int, int, int], tuple[Offsets, Offsets]]
    gather: Callable[[Octets, Offsets, Offsets, Bools, int], Octets]
    select_keys: Callable[..., KeyBatch]

    def __repr__(self) -> str:
        return self.name


NUMPY = Engine(
    "numpy",
    _numpy.contains,
    _numpy.contains_any,
    _numpy.add,
    _numpy_counters.counted_contains,
    _numpy_counters.increment,
    _numpy_counters.decrement,
    _numpy.claim,
    _numpy.commit,
    _numpy.count_set,
    _numpy.OneKey,
    _numpy_hash.hash_keys,
    _numpy_hash.plain,
    _numpy_hash.first_unencodable,
    _numpy_lines.find_lines,
    _numpy_lines.gather,
    _numpy_lines.select_keys,
)


PARTS = ("", "_claim", "_counters", "_hash", "_lines", "_several", "_text")
MODULES = tuple(f"_compiled{part}" for part in PARTS)


def _load_compiled() -> Engine | None:
    if not all(find_spec(f"mmbloom._engine.{name}") for name in MODULES):
        return None
    from mmbloom._engine import (  # noqa: PLC0415  only where they were built
        _compiled,
        _compiled_claim,
        _compiled_counters,
        _compiled_hash,
        _compiled_lines,
        _compiled_several,
        _compiled_text,
    )

    return Engine(
        "compiled",
        _compiled.contains,
        _compiled_several.contains_any,
        _compiled.add,
        _compiled_counters.counted_contains,
        _compiled_counters.increment,
        _compiled_counters.decrement,
        _compiled_claim.claim,
        _compiled_claim.commit,
        _compiled.count_set,
        _compiled.OneKey,
        _compiled_hash.hash_keys,
        _compiled_text.plain,
        _compiled_text.first_unencodable,
        _compiled_lines.find_lines,
        _compiled_lines.gather,
        _compiled_lines.select_keys,
    )


_FOUND = _load_compiled()
BUILT = _FOUND is not None
ENGINES = [NUMPY, *([_FOUND] if _FOUND else [])]
# Where it was not built every test that uses it is skipped; CI builds it.
COMPILED: Engine = _FOUND or NUMPY
needs_compiled = pytest.mark.skipif(not BUILT, reason="the compiled engine was not built here")
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=repr)
