"""The hash halves of a batch of keys, by either hash, the reference; the only importer of mmh3.

Of MurmurHash3_x64_128, mmh3 hashes bytes and str one call a key (50-100 ns); keys of exactly 8
bytes are hashed by the same algorithm written for arrays (about 20 ns).
"""

from itertools import repeat
from typing import Any

import mmh3
import numpy as np

from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    SpelledKeys,
    TextKeys,
)
from mmbloom._engine.reference.siphash import siphash, siphash_of_all, siphash_of_words
from mmbloom._typing import Array, HashHalves, Octets
from mmbloom.sizing.params import KeyHash

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_31, _33 = np.uint64(31), np.uint64(33)
_SLICE = 1 << 14  # str checked at a time, as they are copied


def plain(items: list[Any]) -> bool:
    """Tell whether every item is a `bytes`, or a `str` that has a UTF-8: what `ByteKeys` takes."""
    kinds = set(map(type, items))
    if kinds <= {bytes}:
        return True
    if not kinds <= {bytes, str}:
        return False
    try:
        for start in range(0, len(items), _SLICE):
            part = items[start : start + _SLICE]
            "".join([key for key in part if isinstance(key, str)]).encode()
    except UnicodeEncodeError:
        return False
    return True


def first_unencodable(items: Array[Any]) -> int:
    """Find the first item of a `U` array that has no UTF-8 (a lone surrogate), or -1."""
    for start in range(0, len(items), _SLICE):
        part = np.ascontiguousarray(items[start : start + _SLICE])
        points = part.view(part.dtype.byteorder.replace("|", "=") + "u4").reshape(len(part), -1)
        wrong = ((points >= 0xD800) & (points <= 0xDFFF) | (points > 0x10FFFF)).any(axis=1)
        if wrong.any():
            return start + int(wrong.argmax())
    return -1


def hash_one(key: bytes, key_hash: KeyHash) -> tuple[int, int]:
    """Hash one key to (h1, h2), Python ints below 2**64.

    Examples
    --------
    >>> hash_one(b"", KeyHash("murmur3", 0))
    (0, 0)
    """
    name, seed = key_hash
    if name == "siphash":
        return siphash(key, seed)
    h1, h2 = mmh3.mmh3_x64_128_utupledigest(key, seed)
    return h1, h2


def hash_keys(keys: KeyBatch, key_hash: KeyHash) -> HashHalves:
    """Hash a batch to (h1, h2), two uint64 arrays of shape (n,).

    Examples
    --------
    >>> from mmbloom._engine.key_batch import ByteKeys
    >>> h1, h2 = hash_keys(ByteKeys.of([b"a", "a"]), KeyHash("siphash", 7))
    >>> bool(h1[0] == h1[1]), h2.dtype
    (True, dtype('uint64'))
    """
    if isinstance(keys, DictionaryKeys):
        if key_hash not in keys.hashes:
            keys.hashes[key_hash] = hash_keys(keys.values, key_hash)
        h1, h2 = keys.hashes[key_hash]
        return h1[keys.indices], h2[keys.indices]
    name, seed = key_hash
    if isinstance(keys, IntegerKeys):
        # Sign-extended, so that 5 and -5 are the same key in any width.
        words = keys.items.astype("<i8", copy=False).view("<u8")
        return siphash_of_words(words, seed) if name == "siphash" else _hash_8_bytes(words, seed)
    if name == "siphash":
        return siphash_of_all(bytes_of(keys), seed)
    # map and join keep the loop in C: the fastest of the pure-Python ways measured.
    digests = b"".join(map(mmh3.hash_bytes, items_of(keys), repeat(seed)))
    halves = np.frombuffer(digests, dtype="<u8")
    return halves[0::2].copy(), halves[1::2].copy()


def _hash_8_bytes(words: Array[np.uint64], seed: int) -> HashHalves:
    """MurmurHash3_x64_128 of 8-byte keys: no 16-byte block, a tail of k1 only, length 8."""
    k1 = words * _C1
    k1 = ((k1 << _31) | (k1 >> _33)) * _C2
    start = np.uint64(seed ^ 8)
    h1 = (k1 ^ start) + start
    h2 = h1 + start
    h1, h2 = _mix(h1), _mix(h2)
    h1 += h2
    return h1, h2 + h1


def _mix(h: Array[np.uint64]) -> Array[np.uint64]:
    """Finish as MurmurHash3 does (fmix64)."""
    h = (h ^ (h >> _33)) * _M1
    h = (h ^ (h >> _33)) * _M2
    return h ^ (h >> _33)


def items_of(keys: SpelledKeys) -> list[Any]:
    """Make an object of each key: `bytes`, or `str` that stands for its UTF-8."""
    if isinstance(keys, ByteKeys):
        if len(items := keys.items[keys.start : keys.stop]) != keys.stop - keys.start:
            raise ValueError("the list of keys changed its size while in use")
        return items
    if isinstance(keys, TextKeys):
        return list(keys.items.tolist())
    if isinstance(keys, RowKeys):
        rows = [row.tobytes() for row in keys.rows]
        return [row.rstrip(b"\0") for row in rows] if keys.padded else rows
    if isinstance(keys, PackedKeys):
        octets = keys.octets.data
        spans = zip(keys.starts.tolist(), keys.ends.tolist(), strict=True)
        return [bytes(octets[start:end]) for start, end in spans]
    return [_viewed(view, keys.buffers) for view in keys.views]


def bytes_of(keys: KeyBatch) -> list[bytes]:
    r"""Give the bytes of each key; for few keys, as it makes an object of each.

    Examples
    --------
    >>> bytes_of(ByteKeys.of([b"a", "é"])), bytes_of(IntegerKeys(np.array([-2])))
    ([b'a', b'\xc3\xa9'], [b'\xfe\xff\xff\xff\xff\xff\xff\xff'])
    """
    if isinstance(keys, DictionaryKeys):
        used, places = np.unique(keys.indices, return_inverse=True)
        chosen = np.zeros(len(keys.values), np.bool_)
        chosen[used] = True
        values = bytes_of(keys.values[chosen])
        return [values[place] for place in places.tolist()]
    if isinstance(keys, IntegerKeys):
        words = keys.items.astype(np.int64).tolist()
        return [word.to_bytes(8, "little", signed=True) for word in words]
    return [item.encode() if isinstance(item, str) else item for item in items_of(keys)]


def _viewed(view: Octets, buffers: list[Octets]) -> bytes:
    """Read one of Arrow's views: a length, then up to 12 bytes, or prefix, buffer and offset."""
    length, _, buffer, offset = view.view("<u4").tolist()
    octets = view[4 : 4 + length] if length <= 12 else buffers[buffer][offset : offset + length]
    return bytes(octets)
