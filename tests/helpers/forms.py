"""Batches and chunks made by hand, and read back as plain bytes, for tests of keys and lines.

Nothing here uses the code under test but for the dataclasses that it makes.
"""

import struct
from collections.abc import Iterable, Sequence

import mmh3
import numpy as np
import numpy.typing as npt
from reference import siphash

from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    TextKeys,
    ViewKeys,
)
from mmbloom._system.typing import Keys
from mmbloom.logs.lines import Chunk
from mmbloom.sizing.params import KeyHash

Octets = npt.NDArray[np.uint8]
Halves = list[tuple[int, int]]
SIPHASH = KeyHash("siphash", 0xFEDCBA9876543210_0123456789ABCDEF)
MURMUR3 = KeyHash("murmur3", 7)
HASHES = (SIPHASH, MURMUR3)


def octets_of(data: bytes) -> Octets:
    """The bytes as a read-only array of just their size: what is read beyond is not theirs."""
    octets = np.frombuffer(data, dtype=np.uint8).copy()
    octets.setflags(write=False)
    return octets


def chunk_of(
    lines: Sequence[bytes],
    *,
    terminated: bool = True,
    terminator: bytes = b"\n",
    before: bytes = b"",
) -> Chunk:
    """A chunk of these lines, as `read_chunks` would have found them after other bytes."""
    sizes = np.array([len(line) for line in lines], dtype=np.int64)
    ends = len(before) + np.cumsum(sizes + 1) - 1
    data = before + b"".join(line + terminator for line in lines)
    data = data if terminated else data.removesuffix(terminator)
    return Chunk(octets_of(data), ends - sizes, ends, terminated)


def octets_of_lines(lines: Iterable[bytes], terminator: bytes, *, terminated: bool) -> Octets:
    """Lines with their terminators, as a sink gets them."""
    ends = terminator if terminated else b""
    return octets_of(terminator.join(lines) + ends)


def int_bytes(number: int) -> bytes:
    """Bytes of an int key: two's complement of 64 bits, little-endian."""
    return number.to_bytes(8, "little", signed=number < 0)


def bytes_of(batch: Keys | KeyBatch) -> list[bytes]:  # noqa: PLR0911  one for each form
    """The bytes of each key of a batch in any form of the engine, as which lines come too.

    What points out of its buffers is an AssertionError.
    """
    match batch:
        case ByteKeys(items=items):
            return [key.encode() if isinstance(key, str) else bytes(key) for key in items]
        case IntegerKeys(items=items):
            return [int_bytes(number) for number in items.tolist()]
        case RowKeys(rows=rows, padded=padded):
            assert rows.dtype == np.uint8
            keys = [bytes(row.tolist()) for row in rows]
            return [key.rstrip(b"\0") for key in keys] if padded else keys
        case TextKeys(items=items):
            return [str(text).encode() for text in items]
        case PackedKeys(octets=octets, starts=starts, ends=ends):
            data, spans = octets.tobytes(), [*zip(starts.tolist(), ends.tolist(), strict=True)]
            assert all(0 <= start <= end <= len(data) for start, end in spans)
            return [data[start:end] for start, end in spans]
        case DictionaryKeys(values=values, indices=indices):
            assert indices.dtype == np.intp
            whole = bytes_of(values)
            assert all(0 <= place < len(whole) for place in indices.tolist())
            return [whole[place] for place in indices]
        case ViewKeys(views=views, buffers=buffers):
            assert views.dtype == np.uint8
            return [_viewed(view.tobytes(), buffers) for view in views]
        case _:
            raise AssertionError(f"not a form of keys: {batch}")


def _viewed(view: bytes, buffers: list[Octets]) -> bytes:
    length, _, buffer, offset = struct.unpack("<I4sII", view)
    if length <= 12:
        return view[4 : 4 + length]
    data: bytes = buffers[buffer].tobytes()
    assert offset + length <= len(data)
    return data[offset : offset + length]


def hashed(keys: Iterable[bytes], key_hash: KeyHash) -> Halves:
    """Hash halves by mmh3, or the independent SipHash, one key at a time."""
    name, seed = key_hash
    if name == "murmur3":
        return [mmh3.hash64(key, seed, signed=False) for key in keys]
    halves = (divmod(siphash(key, seed), 2**64) for key in keys)
    return [(h1, h2) for h2, h1 in halves]
