"""An independent reader of mmbloom files, written from the specification alone.

Plain Python integers, `struct` and `zlib`; it shares no code with the package, nor its hash
library, so that reader and writer are not tested against each other only. Slow and obvious.
"""

import functools
import struct
import zlib
from dataclasses import dataclass
from typing import Self

MAGIC = bytes.fromhex("894d4d424c4d0d0a")
HEADER_BYTES = 4096

RULE_OFFSET = 2560
MIB = 2**20
_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15

# magic | version header_size kind layout hash_id k | m | seed reserved | capacity rate created
# | uuid | compatible read_only_compatible incompatible | hash key | blocks | padding | crc
IMMUTABLE = struct.Struct("<8s6IQIIQdQ16sQQQ16sI376sI")

Key = bytes | str | int | tuple[bytes | str | int, ...]


class BadFileError(ValueError):
    """These bytes are not a filter of format version 1."""


@dataclass(frozen=True)
class Fields:
    """What the immutable block says."""

    num_positions: int
    num_hashes: int
    layout: int  # 1 standard, 2 blocked, 3 blocked with several blocks a key
    seed: int = 0  # of SipHash its key, as a little-endian number
    capacity: int = 1
    error_rate: float = 0.01
    kind: int = 1  # 1 bits, 2 four-bit counters
    created_ns: int = 0
    uuid: bytes = bytes(16)
    compatible: int = 0
    read_only_compatible: int = 0
    incompatible: int = 0
    hash_id: int = 1  # 1 MurmurHash3_x64_128, 2 SipHash-1-3 with 128 bits
    blocks: int = 0  # a key, in layout 3: 2 to 8

    @property
    def array_bytes(self) -> int:
        return self.num_positions // 8 if self.kind == 1 else self.num_positions // 2

    @property
    def file_bytes(self) -> int:
        size = HEADER_BYTES + self.array_bytes
        if self.read_only_compatible & 1:
            size += 4 * ((self.array_bytes + MIB - 1) // MIB) + 4
        return size


def with_crc(block: bytes) -> bytes:
    return block[:508] + struct.pack("<I", zlib.crc32(block[:508]))


def pack_header(fields: Fields) -> bytes:
    f = fields
    seed, key = (f.seed, 0) if f.hash_id == 1 else (0, f.seed)
    block = IMMUTABLE.pack(
        MAGIC,
        *(1, 4096, f.kind, f.layout, f.hash_id, f.num_hashes),
        f.num_positions,
        *(seed, 0),
        *(f.capacity, f.error_rate, f.created_ns, f.uuid),
        *(f.compatible, f.read_only_compatible, f.incompatible),
        *(key.to_bytes(16, "little"), f.blocks, b"", 0),
    )
    return with_crc(block) + bytes(HEADER_BYTES - 512)


def parse_header(raw: bytes, file_bytes: int) -> Fields:
    """Read a header and check every rule; raises `BadFileError`."""
    if len(raw) < HEADER_BYTES:
        raise BadFileError("too short")
    magic, version, header_size, kind, layout, hash_id, k, m, seed, reserved, *rest = (
        IMMUTABLE.unpack_from(raw)
    )
    capacity, rate, created, uuid, compatible, read_only, incompatible, key, *rest = rest
    blocks, padding, crc = rest
    of_hash = int.from_bytes(key, "little") if hash_id == 2 else seed
    plan = (m, k, layout, of_hash, capacity, rate, kind)
    fields = Fields(*plan, created, uuid, compatible, read_only, incompatible, hash_id, blocks)
    step, most = {2: (512, 2**31 * 512), 3: (32768, 2**43)}.get(layout, (64, 2**43))
    rules = (
        magic == MAGIC,
        version == 1,
        crc == zlib.crc32(raw[:508]),
        incompatible == 0,
        header_size == HEADER_BYTES,
        kind in {1, 2},
        layout in {1, 2, 3},
        hash_id in {1, 2},
        (key == bytes(16)) if hash_id == 1 else (seed == 0),
        (2 <= blocks <= 8) if layout == 3 else (blocks == 0),
        1 <= k <= 64 and (not blocks or k % blocks == 0),
        64 <= m <= most and m % step == 0,
        reserved == 0 and padding == bytes(376),
        capacity >= 1,
        0 < rate < 1,
    )
    if not all(rules):
        raise BadFileError(f"rule {rules.index(False)} of the header does not hold")
    if file_bytes != fields.file_bytes:
        raise BadFileError("wrong file size")
    return fields


def pack_key_rule(rule: str) -> bytes:
    """Lay out the field that says how lines became keys: its checksum, then the text."""
    text = struct.pack("1532s", rule.encode())
    return struct.pack("<I", zlib.crc32(text)) + text


def parse_key_rule(raw: bytes) -> str | None:
    """Read that field of a header; None where no rule is written whole."""
    crc, field = struct.unpack_from("<I1532s", raw, RULE_OFFSET)
    text, _, rest = field.partition(b"\0")
    if crc != zlib.crc32(field) or not text or any(rest):
        return None
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError:
        return None


def seal(array: bytes) -> bytes:
    """Make the trailer of a sealed file: a CRC-32 per MiB, then a CRC-32 of that table."""
    pieces = [array[start : start + MIB] for start in range(0, len(array), MIB)]
    table = b"".join(struct.pack("<I", zlib.crc32(piece)) for piece in pieces)
    return table + struct.pack("<I", zlib.crc32(table))


def key_bytes(key: Key) -> bytes:
    """Turn a key into its bytes: str is UTF-8, int is 8-byte little-endian two's complement.

    A tuple is the byte FE, then the items, each after its length.
    """
    if isinstance(key, tuple):
        items = [key_bytes(item) for item in key]
        return b"\xfe" + b"".join(struct.pack("<Q", len(item)) + item for item in items)
    if isinstance(key, str):
        return key.encode("utf-8")
    if isinstance(key, int):
        return struct.pack("<q" if key < 0 else "<Q", key)
    return key


def _rotate_left(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _finish(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


def murmur3_x64_128(data: bytes, seed: int) -> tuple[int, int]:
    """Hash with MurmurHash3_x64_128 (Austin Appleby, public domain) to (h1, h2)."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = seed
    whole = len(data) // 16 * 16
    for start in range(0, whole, 16):
        k1, k2 = struct.unpack_from("<QQ", data, start)
        h1 ^= _rotate_left(k1 * c1 & _MASK, 31) * c2 & _MASK
        h1 = ((_rotate_left(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _rotate_left(k2 * c2 & _MASK, 33) * c1 & _MASK
        h2 = ((_rotate_left(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    k1, k2 = int.from_bytes(tail[:8], "little"), int.from_bytes(tail[8:], "little")
    h2 ^= _rotate_left(k2 * c2 & _MASK, 33) * c1 & _MASK
    h1 ^= _rotate_left(k1 * c1 & _MASK, 31) * c2 & _MASK
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = (h1 + h2) & _MASK
    return h1, (h2 + h1) & _MASK


@functools.lru_cache(16_384)  # tests hash the same keys in each form, by each engine, at each size
def siphash(
    data: bytes, key: int, compressions: int = 1, finalizations: int = 3, bits: int = 128
) -> int:
    """Hash with SipHash (Aumasson and Bernstein) to a number of 64 or 128 bits.

    Written from the paper and the authors' notes on 128 bits: `key` and the result are their
    bytes as little-endian numbers.
    """
    k0, k1 = key & _MASK, key >> 64
    v0 = k0 ^ int.from_bytes(b"somepseu", "big")
    v1 = k1 ^ int.from_bytes(b"dorandom", "big")
    v2 = k0 ^ int.from_bytes(b"lygenera", "big")
    v3 = k1 ^ int.from_bytes(b"tedbytes", "big")

    def rounds(number: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(number):  # a million times in all: _rotate_left is written out
            v0, v2 = (v0 + v1) & _MASK, (v2 + v3) & _MASK
            v1 = (v1 << 13 | v1 >> 51) & _MASK ^ v0
            v3 = (v3 << 16 | v3 >> 48) & _MASK ^ v2
            v0 = (v0 << 32 | v0 >> 32) & _MASK
            v2, v0 = (v2 + v1) & _MASK, (v0 + v3) & _MASK
            v1 = (v1 << 17 | v1 >> 47) & _MASK ^ v2
            v3 = (v3 << 21 | v3 >> 43) & _MASK ^ v0
            v2 = (v2 << 32 | v2 >> 32) & _MASK

    if bits == 128:
        v1 ^= 0xEE
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v3 ^= word
        rounds(compressions)
        v0 ^= word
    v2 ^= 0xEE if bits == 128 else 0xFF
    rounds(finalizations)
    first = v0 ^ v1 ^ v2 ^ v3
    if bits == 64:
        return first
    v1 ^= 0xDD
    rounds(finalizations)
    return first | (v0 ^ v1 ^ v2 ^ v3) << 64


@functools.lru_cache(1024)  # tests ask for a key before it is added, after, and once more
def _positions(key: bytes, hash_id: int, seed: int, *sizes: int) -> tuple[int, ...]:
    if hash_id == 1:
        return positions_of(*murmur3_x64_128(key, seed), *sizes)
    h2, h1 = divmod(siphash(key, seed), 2**64)
    return positions_of(h1, h2, *sizes)


def positions_of(
    h1: int, h2: int, layout: int, m: int, k: int, in_blocks: int = 0
) -> tuple[int, ...]:
    """List the k positions of a key by its hash, in order, repeats included.

    Standard: ((h1 + i h2) AND (2^63 - 1)) mod m. Blocked: 512 block + (h2 G^(i+1)) >> 55. With b
    blocks a key bit i is in block i // (k/b) of them, in one page of 64.
    """
    if layout == 1:
        return tuple(((h1 + i * h2) & (2**63 - 1)) % m for i in range(k))
    if layout == 2:
        blocks = [(h1 >> 32) * (m // 512) >> 32]
    else:
        page = (h1 >> 32) * (m // 32768) >> 32
        first, step = h1 & 63, 2 * (h1 >> 6 & 31) + 1
        blocks = [64 * page + (first + j * step & 63) for j in range(in_blocks)]
    found = []
    for i in range(k):
        h2 = h2 * _GOLDEN & _MASK
        found.append(512 * blocks[i * len(blocks) // k] + (h2 >> 55))
    return tuple(found)


class NaiveFilter:
    """The bytes of a filter file, read and written one bit at a time.

    Parameters
    ----------
    data : bytes-like
        A whole file; copied.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = bytearray(data)
        self.fields = parse_header(bytes(data[:HEADER_BYTES]), len(data))

    @classmethod
    def empty(cls, fields: Fields) -> Self:
        """Make the bytes of a new file; a sealed one needs `reseal` after its keys."""
        return cls(pack_header(fields).ljust(fields.file_bytes, b"\0"))

    @property
    def array(self) -> bytes:
        return bytes(self.data[HEADER_BYTES : HEADER_BYTES + self.fields.array_bytes])

    @property
    def trailer(self) -> bytes:
        """What follows the array: nothing, unless the file is sealed."""
        return bytes(self.data[HEADER_BYTES + self.fields.array_bytes :])

    @property
    def counters(self) -> tuple[int, int, int, int, int]:
        """Keys added, positions set, batches begun, batches done, time of last flush."""
        added, positions, begun, done, flushed = struct.unpack_from("<5Q", self.data, 2048)
        return added, positions, begun, done, flushed

    def positions(self, key: Key) -> list[int]:
        """List the k positions of a key, in order, repeats included."""
        f = self.fields
        plan = (f.hash_id, f.seed, f.layout, f.num_positions, f.num_hashes, f.blocks)
        return [*_positions(key_bytes(key), *plan)]

    def __contains__(self, key: Key) -> bool:
        return all(self.data[HEADER_BYTES + (p >> 3)] >> (p & 7) & 1 for p in self.positions(key))

    def add(self, key: Key) -> bool:
        """Set the positions of a key; True if one of them was clear. Leaves the counters."""
        new = key not in self
        for p in self.positions(key):
            self.data[HEADER_BYTES + (p >> 3)] |= 1 << (p & 7)
        return new

    def popcount(self) -> int:
        return int.from_bytes(self.array, "little").bit_count()

    def reseal(self) -> None:
        trailer = seal(self.array)
        self.data[len(self.data) - len(trailer) :] = trailer


class NaiveCounting(NaiveFilter):
    """The same for a file of counters: each distinct position of a key counts it once."""

    def count(self, position: int) -> int:
        return self.data[HEADER_BYTES + (position >> 1)] >> 4 * (position & 1) & 15

    def _change(self, position: int, by: int) -> None:
        if self.count(position) != 15:  # which stays for ever
            self.data[HEADER_BYTES + (position >> 1)] += by << 4 * (position & 1)

    def __contains__(self, key: Key) -> bool:
        return all(self.count(p) for p in self.positions(key))

    def add(self, key: Key) -> bool:
        """Raise the counters of a key; True if one of them was 0. Leaves the header."""
        new = key not in self
        for p in set(self.positions(key)):
            self._change(p, 1)
        return new

    def remove(self, key: Key) -> bool:
        """Lower the counters of a key that is there; True if it was. Leaves the header."""
        found = key in self
        for p in set(self.positions(key)) if found else ():
            self._change(p, -1)
        return found

    def popcount(self) -> int:
        return self.fields.num_positions - self.array.hex().count("0")  # a digit is a counter
