"""Arrow memory lives as long as its last view, and is given back exactly once."""

import errno
import gc
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from arrow_made import Made, MadeStream, strings
from forms import bytes_of

from mmbloom import KeyTypeError
from mmbloom._engine import key_batch
from mmbloom._keys.arrow import read


@pytest.fixture(autouse=True)
def by_counting() -> Iterator[None]:
    """Memory is given back when the last reference goes, without the garbage collector."""
    gc.disable()
    yield
    gc.enable()


def packed(keys: object) -> Any:
    """Read a column of one array of strings."""
    ((batch, _),) = read(keys)
    assert isinstance(batch, key_batch.PackedKeys)
    return batch


def test_array_is_freed_with_its_last_view() -> None:
    made = strings(b"ab", b"cd")
    batch = packed(made)
    assert (made.freed, made.schemas_freed) == (0, 1)
    views = [batch.octets[1:][1:], batch.starts[:1], batch[1:].ends.view(np.uint8)]
    del batch
    while views:
        assert made.freed == 0
        views.pop()
    assert made.freed == 1


def test_other_forms_keep_the_array() -> None:
    """Integers, rows, views and their buffers, dictionaries: each view keeps its array."""
    number = np.arange(4, dtype=np.int32)
    view = np.array([[13, 0, 0, 0]], np.int32)
    columns = [
        Made(b"i", 4, [None, number]),
        Made(b"w:2", 4, [None, b"abcdefgh"]),
        Made(b"vu", 1, [None, view, b"a" * 13, np.array([13])]),
        Made(b"l", 1, [None, np.array([0])], dictionary=strings(b"a")),
        Made(b"i", 1, [None, number], dictionary=strings(b"a")),
    ]
    for made in columns:
        ((batch, _),) = read(made)
        before = bytes_of(batch)
        assert made.freed == 0
        assert bytes_of(batch) == before
        del batch
        assert made.freed == 1


def test_buffer_of_views_keeps_the_array() -> None:
    view = np.array([[13, 0, 0, 0]], np.int32)
    made = Made(b"vu", 1, [None, view, b"a" * 13, np.array([13])])
    ((batch, _),) = read(made)
    assert isinstance(batch, key_batch.ViewKeys)
    buffer = batch.buffers[0]
    del batch
    assert made.freed == 0
    assert buffer.tobytes() == b"a" * 13
    del buffer
    assert made.freed == 1


def test_validity_is_a_copy() -> None:
    """The bool array of what is valid keeps nothing alive."""
    made = Made(b"i", 2, [b"\x01", np.zeros(2, np.int32)], null_count=1)
    valid = read(made)[0][1]
    assert made.freed == 1
    assert valid is not None
    assert valid.tolist() == [True, False]


def test_arrays_of_a_stream_are_freed_one_by_one() -> None:
    """Each array of a stream is given back with its own last view; the stream when it is read."""
    arrays = [strings(b"a"), strings(b"b"), strings(b"c")]
    stream = MadeStream(arrays)
    batches = read(stream)
    assert stream.freed == 1
    assert [made.freed for made in arrays] == [0, 0, 0]
    assert [made.schemas_freed for made in arrays] == [1, 0, 0]
    del batches[1]
    assert [made.freed for made in arrays] == [0, 1, 0]
    assert [bytes_of(batch) for batch, _ in batches] == [[b"a"], [b"c"]]
    del batches
    assert [made.freed for made in arrays] == [1, 1, 1]


def test_failing_streams_are_freed() -> None:
    arrays = [strings(b"a"), strings(b"b")]
    stream = MadeStream(arrays, codes=[0, errno.EIO])
    with pytest.raises(OSError, match="no luck"):
        read(stream)
    assert [*(made.freed for made in arrays), stream.freed] == [1, 0, 1]
    arrays[1] = strings(b"b")
    arrays[1].array.length = -1
    arrays[0] = strings(b"a")
    stream = MadeStream(arrays)
    with pytest.raises(ValueError, match="length is -1"):
        read(stream)
    assert [*(made.freed for made in arrays), stream.freed] == [1, 1, 1]
    stream = MadeStream([Made(b"g", 1, [None, b"12345678"])])
    with pytest.raises(KeyTypeError, match="float64"):
        read(stream)
    assert stream.freed == 1


@pytest.mark.parametrize("kind", ["str", "large_string", "string_view", "binary", "int32"])
def test_pyarrow_gets_its_memory_back(kind: str) -> None:
    """After reading arrays, streams and dictionaries many times nothing is kept."""
    numbers = [str(i) * 5 for i in range(5, 2000)]

    def use() -> None:
        array = pa.array(numbers).cast(kind) if kind != "int32" else pa.array(range(2000))
        for column in (array, pa.chunked_array([array, array[1:]]), array.dictionary_encode()):
            for (first, _), (again, _) in pairwise(read(column) + read(column)):
                assert len(first) + len(again) > 0

    use()
    before = pa.total_allocated_bytes()
    for _ in range(20):
        use()
    assert pa.total_allocated_bytes() == before


def test_memory_outlives_the_column() -> None:
    import polars as pl

    keys = [f"key number {i}" for i in range(1000)]
    for make in (pa.array, pl.Series, lambda keys: pa.chunked_array([keys])):
        batches = read(make(keys))
        noise = [make([f"another key {i}" for i in range(1000)]) for _ in range(10)]
        assert [key.decode() for batch, _ in batches for key in bytes_of(batch)] == keys
        del noise


EXIT = """
import sys
import polars, pyarrow
from mmbloom._keys.arrow import read
kept = read(pyarrow.chunked_array([["a"], ["b"]])), read(polars.Series(["a"]))
sys.modules["mmbloom._kept"] = read(pyarrow.chunked_array([["c"]]))
class Cycle: pass
cycle = Cycle()
cycle.itself, cycle.kept = cycle, read(pyarrow.chunked_array([["d"]]))
def function(kept=read(pyarrow.chunked_array([["e"]]))): return cycle
"""


def test_views_at_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", EXIT], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
