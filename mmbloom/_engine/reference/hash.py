"""SipHash-1-3 with 128 bits of output: of one key in Python's ints, of many keys in arrays.

After the reference code of its authors (Aumasson and Bernstein, "SipHash: a fast short-input
PRF", 2012; 128 bits of output since 2014). The 16 bytes of the secret key, and the words of the
input, are little-endian; the last word has the length, modulo 256, in its top byte.

The hash halves of a batch of keys, by either hash, the reference; the only importer of mmh3.

Of MurmurHash3_x64_128, mmh3 hashes bytes and str one call a key (50-100 ns); keys of exactly 8
bytes are hashed by the same algorithm written for arrays (about 20 ns).
"""

from itertools import repeat
from typing import Any, assert_never

import mmh3
import numpy as np

from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    HashedKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    SpelledKeys,
    TextKeys,
)
from mmbloom._system.typing import Array, HashHalves, Octets, Words
from mmbloom.sizing.params import KeyHash

_MASK = 2**64 - 1
_START = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)
_FEW = 8  # fewer keys are hashed faster in ints, a key at a time

# Keys at a time, so that what a kernel makes of them stays in the cache. Adding 2 million keys to a
# file for 10^9 took 225 ns a key with 16 Ki, 430 ns with 64 Ki.
PIECE_KEYS = 1 << 14


def pieces_of(num_keys: int, most: int = 0) -> list[slice]:
    """Cut a batch for the cache, or into pieces of at most so many keys."""
    size = most or PIECE_KEYS
    return [slice(at, at + size) for at in range(0, num_keys, size)]


def siphash(
    octets: bytes, key: int, compressions: int = 1, finalizations: int = 3
) -> tuple[int, int]:
    """Hash one input to (h1, h2), Python ints below 2**64.

    Parameters
    ----------
    octets : bytes
        What to hash.
    key : int
        The secret key, 0 to 2**128 - 1.
    compressions, finalizations : int
        Rounds a word, and in each half of the end; with 2 and 4 it is SipHash-2-4.

    Examples
    --------
    >>> [hex(half) for half in siphash(b"", 0)]
    ['0x2134935d61d9b40d', '0xb91c5ed031fb3303']
    """
    v0, v1, v2, v3 = (
        start ^ key >> shift & _MASK for start, shift in zip(_START, (0, 64, 0, 64), strict=True)
    )
    whole = len(octets) // 8 * 8
    words = [int.from_bytes(octets[start : start + 8], "little") for start in range(0, whole, 8)]
    words.append(int.from_bytes(octets[whole:], "little") | (len(octets) & 255) << 56)
    for word in words:
        v3 ^= word
        for _ in range(compressions):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= 0xEE
    for _ in range(finalizations):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    h1 = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(finalizations):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return h1, v0 ^ v1 ^ v2 ^ v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = v0 + v1 & _MASK
    v2 = v2 + v3 & _MASK
    v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
    v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
    v0 = v0 << 32 & _MASK | v0 >> 32
    v2 = v2 + v1 & _MASK
    v0 = v0 + v3 & _MASK
    v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
    v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
    v2 = v2 << 32 & _MASK | v2 >> 32
    return v0, v1, v2, v3


class _Lanes:
    """The states of many keys, one lane each: arrays of shape (n,)."""

    def __init__(self, num_keys: int, key: int) -> None:
        halves = np.array([key & _MASK, key >> 64], dtype=np.uint64)
        start = np.array(_START, dtype=np.uint64) ^ halves[[0, 1, 0, 1]]
        self._all = np.repeat(start[:, np.newaxis], num_keys, axis=1)
        self._spare = np.empty(num_keys, dtype=np.uint64)

    def compress(self, words: Words) -> None:
        """Take one word more of each of the first len(words) keys."""
        state = self._all[:, : len(words)]
        state[3] ^= words
        self._round(state)
        state[0] ^= words

    def finish(self) -> HashHalves:
        """Mix, and give the two halves of each key's hash."""
        halves = []
        for number, mark in ((2, 0xEE), (1, 0xDD)):
            self._all[number] ^= np.uint64(mark)
            for _ in range(3):
                self._round(self._all)
            halves.append(np.bitwise_xor.reduce(self._all, axis=0))
        return halves[0], halves[1]

    def _round(self, state: Array[np.uint64]) -> None:
        v0, v1, v2, v3 = state
        v0 += v1
        v2 += v3
        self._rotate(v1, 13)
        self._rotate(v3, 16)
        v1 ^= v0
        v3 ^= v2
        self._rotate(v0, 32)
        v2 += v1
        v0 += v3
        self._rotate(v1, 17)
        self._rotate(v3, 21)
        v1 ^= v2
        v3 ^= v0
        self._rotate(v2, 32)

    def _rotate(self, lanes: Words, by: int) -> None:
        spare = self._spare[: len(lanes)]
        np.right_shift(lanes, np.uint64(64 - by), out=spare)
        np.left_shift(lanes, np.uint64(by), out=lanes)
        np.bitwise_or(lanes, spare, out=lanes)


def _siphash_of_words(words: Words, seed: int) -> HashHalves:
    """Hash keys of exactly 8 bytes, given as little-endian numbers."""
    lanes = _Lanes(len(words), seed)
    lanes.compress(words)
    lanes.compress(np.repeat(np.uint64(8 << 56), len(words)))
    return lanes.finish()


def _siphash_of_spelled(keys: SpelledKeys, seed: int) -> HashHalves:
    """Hash keys of any lengths: all that have a word in its place are mixed at once."""
    octets = bytes_of(keys)
    n = len(octets)
    num_words = np.fromiter(map(len, octets), np.int64, n) // 8 + 1
    longest_first = np.argsort(-num_words, kind="stable")
    # The longest few would be alone in their words at the end.
    few = min(n, _FEW)
    if n > few:
        few = int(np.count_nonzero(num_words > num_words[longest_first[few]]))
    alone, others = longest_first[:few].tolist(), longest_first[few:]
    h1, h2 = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    for i in alone:
        h1[i], h2[i] = siphash(octets[i], seed)
    if len(others):
        h1[others], h2[others] = _together([octets[i] for i in others.tolist()], seed)
    return h1, h2


def _together(keys: list[bytes], key: int) -> HashHalves:
    """Hash keys of which none has more words than the one before."""
    text = b"".join([octets + _TAILS[len(octets) & 255] for octets in keys])
    words = np.frombuffer(text, dtype="<u8")
    num_words = np.fromiter(map(len, keys), np.int64, len(keys)) // 8 + 1
    starts = np.cumsum(num_words) - num_words
    lanes = _Lanes(len(keys), key)
    for place in range(int(num_words[0])):
        still = int(np.searchsorted(-num_words, -place))  # keys with more words than that
        lanes.compress(words[starts[:still] + place])
    return lanes.finish()


# What follows a key's bytes, by its length: zeros up to the last byte of a word, then the length.
_TAILS = [bytes(7 - length % 8) + bytes([length]) for length in range(256)]


_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_31, _33 = np.uint64(31), np.uint64(33)
_SLICE = 1 << 14  # str checked at a time, as they are copied


def plain(items: list[Any]) -> bool:
    """Return whether each item is a `bytes`, or a `str` that has a UTF-8: what `ByteKeys` takes."""
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
    match name:
        case "siphash":
            return siphash(key, seed)
        case "murmur3":
            h1, h2 = mmh3.mmh3_x64_128_utupledigest(key, seed)
            return h1, h2
        case _:
            assert_never(name)


def hash_keys(keys: KeyBatch, key_hash: KeyHash, threads: int = 1) -> HashHalves:
    """Hash a batch to (h1, h2), two new uint64 arrays of shape (n,).

    With the compiled engine a number of threads may work on a large batch.

    Examples
    --------
    >>> from mmbloom._engine.key_batch import ByteKeys
    >>> h1, h2 = hash_keys(ByteKeys.of([b"a", "a"]), KeyHash("siphash", 7))
    >>> bool(h1[0] == h1[1]), h2.dtype
    (True, dtype('uint64'))
    """
    if len(keys) > PIECE_KEYS:
        pieces = (hash_keys(keys[piece], key_hash) for piece in pieces_of(len(keys)))
        h1, h2 = map(np.concatenate, zip(*pieces, strict=True))
        return h1, h2
    if isinstance(keys, HashedKeys):
        return keys.h1.copy(), keys.h2.copy()  # the caller's may change meanwhile
    if isinstance(keys, DictionaryKeys):
        if key_hash not in keys.hashes:
            keys.hashes[key_hash] = hash_keys(keys.values, key_hash)
        h1, h2 = keys.hashes[key_hash]
        return h1[keys.indices], h2[keys.indices]
    name, seed = key_hash
    match name:
        case "siphash":
            of_words, of_spelled = _siphash_of_words, _siphash_of_spelled
        case "murmur3":
            of_words, of_spelled = _murmur3_of_words, _murmur3_of_spelled
        case _:
            assert_never(name)
    if isinstance(keys, IntegerKeys):
        # Sign-extended, so that 5 and -5 are the same key in any width.
        return of_words(keys.items.astype("<i8", copy=False).view("<u8"), seed)
    return of_spelled(keys, seed)


def _murmur3_of_spelled(keys: SpelledKeys, seed: int) -> HashHalves:
    # map and join keep the loop in C: the fastest of the pure-Python ways measured.
    digests = b"".join(map(mmh3.hash_bytes, items_of(keys), repeat(seed)))
    halves = np.frombuffer(digests, dtype="<u8")
    return halves[0::2].copy(), halves[1::2].copy()


def _murmur3_of_words(words: Array[np.uint64], seed: int) -> HashHalves:
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
    r"""Return the bytes of each key; for few keys, as it makes an object of each.

    Examples
    --------
    >>> bytes_of(ByteKeys.of([b"a", "é"])), bytes_of(IntegerKeys(np.array([-2])))
    ([b'a', b'\xc3\xa9'], [b'\xfe\xff\xff\xff\xff\xff\xff\xff'])
    """
    if isinstance(keys, HashedKeys):
        raise ValueError("of these keys only the hashes are known")
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
