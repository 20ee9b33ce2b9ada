"""The mmbloom file format, version 1: this docstring is the specification.

A file is a header of 4096 bytes, followed by the array and nothing else; in a sealed file, a
trailer follows the array. All integers are little-endian. The array begins at byte 4096 and is
therefore aligned to pages and cache lines. This page should be enough to write a reader.

Immutable block, bytes 0..511: written once, at creation, and never changed.

======  =====  =========================  =================================================
offset  bytes  field                      rule
======  =====  =========================  =================================================
0       8      magic                      ``89 4D 4D 42 4C 4D 0D 0A``
8       4      version                    1
12      4      header_size                4096
16      4      kind                       1 bits, 2 four-bit counters
20      4      layout                     1 standard, 2 blocked, 3 blocked with several blocks per
                                          key
24      4      hash_id                    1 MurmurHash3_x64_128, 2 SipHash-1-3 with 128 bits
                                          of output
28      4      num_hashes                 k, 1 to 64; in layout 3 a multiple of b
32      8      num_positions              m, 64 to 2^43, a multiple of 64; in layout 2 a multiple
                                          of 512, at most 2^31 * 512; in layout 3 a multiple of
                                          32,768
40      4      seed                       of MurmurHash3; 0 if the hash is SipHash
44      4      reserved                   0
48      8      capacity                   planned number of keys, at least 1
56      8      error_rate                 planned rate, IEEE 754 double, between 0 and 1
64      8      created_ns                 Unix time of creation in nanoseconds
72      16     uuid                       random
88      8      compatible flags           unknown ones are ignored
96      8      read_only_compatible       bit 0: sealed; unknown ones force read-only
104     8      incompatible flags         unknown ones are refused
112     16     hash_key                   of SipHash; 0 if the hash is MurmurHash3
128     4      blocks_per_key             b, 2 to 8 in layout 3, otherwise 0
132     376    padding                    0
508     4      crc                        CRC-32 (zlib) of bytes 0..507
======  =====  =========================  =================================================

Mutable block, bytes 2048..2087: five unsigned 64-bit counters, written under the write lock. No
checksum covers them, and correctness never depends on them. They are: keys added (new when added),
positions set, batches begun, batches done, and the time of the last flush (Unix nanoseconds).

Bytes 2088..2119 are used while the array is in shared memory. They are the boot id of the running
kernel, and 16 random bytes, of which the first eight are not all 0. The array is then in the file
``/dev/shm/mmbloom-DEVICE-INODE-NAME``, at the same offset; the name consists of this file's device
in hexadecimal, its inode, and the random bytes in hexadecimal. If the boot id is not that of the
running kernel, or the first eight random bytes are 0, the array is in this file. These eight bytes
are stored last and cleared first, each time with a single store. A writer compares them in each
section of the write lock, and a reader in each query.

Key rule, bytes 2560..4095: how the keys of this filter were made from lines, as text to read and
to compare. The first process that adds keys of lines writes all of these bytes once, under the
write lock. Before that, and in a filter without keys of lines, they are 0. The rule does not affect
the bits, and a reader may ignore it.

======  =====  =========================  =================================================
2560    4      crc                        CRC-32 of the 1532 bytes that follow
2564    1532   text                       UTF-8, at least one byte, no byte 0; then zeros
======  =====  =========================  =================================================

Any other bytes there are not a rule, but not an error either: a writer was killed, and the next one
writes the rule again. A copy, a union and a repaired file have the rule of their source.

All other bytes of the header are 0; within the immutable block, a reader rejects any other value.

Array: bit p is bit p & 7 of byte p >> 3 (m/8 bytes). Counter p is in byte p >> 1, in the low nibble
if p is even (m/2 bytes). Trailer of a sealed file: one CRC-32 (u32) for each MiB of the array, the
last one for the remainder, followed by a CRC-32 of that table. The size of the file is exactly the
sum of these parts.

A reader checks in this order, so that each file gets the most accurate error: magic (as far as the
file goes), length, version, CRC, incompatible flags, kind, layout, hash id, b, k, m, the other
fields, file size.

A key is hashed as bytes:

=======  ===================================================================================
key      its bytes
=======  ===================================================================================
bytes    as they are
str      in UTF-8; a str with a lone surrogate is not a key
int      8 bytes, two's complement, from -2^63 to 2^64 - 1: so -1 and 2^64 - 1 are the same key
tuple    the byte FE; then for each item, which is one of the above, the number of its bytes as
         8 bytes, followed by these bytes
=======  ===================================================================================

The hash of a key is 16 bytes: h1 is the first 8 as an unsigned integer, h2 the other 8. hash_id 1
is MurmurHash3_x64_128 with the seed. hash_id 2 is SipHash with one compression round, three
finalisation rounds and 16 bytes of output, as in its authors' reference code (v1 ^= 0xee at the
start, v2 ^= 0xee before the first finalisation, v1 ^= 0xdd before the second), with hash_key as
its key. Examples with the seed 7, and with the hash_key ``00 01 02 ... 0F``:

=========  =======  ================  ================
key        hash_id  h1 (hexadecimal)  h2
=========  =======  ================  ================
"abc"      1        6660e03884dff827  d55f9449c6d9969b
"abc"      2        e81efa46153f7543  01d65f4901d5d4b2
-1         1        d68a355fb5a122cd  9b4286014f61a771
-1         2        772d5bb1d8d6400b  565ddd71bb9a0caf
("ab", 1)  1        686f0f9f08479dcc  7f1e25aa1d8bb0c1
("ab", 1)  2        e982c79feb8c28f2  d1efeb9c6ffee727
b""        1        f402c55ac5dec98f  2de586f681711c02
b""        2        bea58827b2bc7ee7  013030dd6adb62fd
=========  =======  ================  ================

``positions.py`` specifies how h1 and h2 become k positions, with more examples. A key is in the
filter if the bits or counters at all of its positions are not 0. Adding a key sets these bits. In a
file of counters, adding a key adds 1 to the counter at each distinct position, and removing it
subtracts 1; a counter that is 15 stays 15 permanently. A key on the list of ``exclusions.py`` is
not in the filter, whatever its bits are.

The version is that of this format, not of the package. A change to any rule above needs a new
version or a new flag.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mmbloom._system.typing import Array, HashName, Layout
from mmbloom.errors import DamagedHeaderError, FormatError, NewerFormatError, NoFilterError
from mmbloom.format.checker import Checker
from mmbloom.sizing.formulas import MAX_BLOCKS_PER_KEY
from mmbloom.sizing.params import HASHES, FilterParams, sizes_of

MAGIC = b"\x89MMBLM\r\n"  # no text starts with 0x89; CR LF is damaged by text-mode transfer
VERSION = 1
HEADER_BYTES = 4096
SEGMENT_BYTES = 1 << 20  # of the array, for each checksum of a sealed file
MUTABLE_OFFSET = 2048
MUTABLE_FIELDS = ("keys_added", "positions_set", "batches_begun", "batches_done", "flushed_ns")
# The first four by number, for the engine, which counts a key at a time.
KEYS_ADDED, POSITIONS_SET, BATCHES_BEGUN, BATCHES_DONE = range(4)

# Which copy in shared memory has the array, if one has. A literal, as it may never move.
COPY_OFFSET, COPY_BYTES = 2088, 32

KEY_RULE_OFFSET = 2560
KEY_RULE_BYTES = HEADER_BYTES - KEY_RULE_OFFSET - 4  # of the text

KIND_BITS, KIND_COUNTERS = 1, 2
SEALED = 1  # bit 0 of read_only_compatible
_LAYOUT_IDS: dict[Layout, int] = {"standard": 1, "blocked": 2}
_SEVERAL_BLOCKS = 3  # the layout id of "blocked" with several blocks a key
_CRC_OFFSET = 508


# The one table that encodes, decodes and documents the immutable block.
IMMUTABLE = np.dtype(
    [
        ("magic", "V8"),
        ("version", "<u4"),
        ("header_size", "<u4"),
        ("kind", "<u4"),
        ("layout", "<u4"),
        ("hash_id", "<u4"),
        ("num_hashes", "<u4"),
        ("num_positions", "<u8"),
        ("seed", "<u4"),
        ("reserved", "<u4"),
        ("capacity", "<u8"),
        ("error_rate", "<f8"),
        ("created_ns", "<u8"),
        ("uuid", "V16"),
        ("compatible", "<u8"),
        ("read_only_compatible", "<u8"),
        ("incompatible", "<u8"),
        ("hash_key", "V16"),
        ("blocks_per_key", "<u4"),
        ("padding", "V376"),
        ("crc", "<u4"),
    ]
)


assert IMMUTABLE.itemsize == 512  # noqa: S101  the table above is the format


@dataclass(frozen=True, slots=True)
class Header:
    """The immutable block, decoded.

    Attributes
    ----------
    params : FilterParams
        Sizes, layout and seed; `num_bits` counts positions when the kind is counters.
    created_ns : int
        Unix time of creation in nanoseconds.
    uuid : bytes
        16 random bytes.
    kind : int
        1 bits, 2 four-bit counters.
    compatible, read_only_compatible : int
        Feature flags.
    """

    params: FilterParams
    created_ns: int
    uuid: bytes
    kind: int = KIND_BITS
    compatible: int = 0
    read_only_compatible: int = 0

    @property
    def array_bytes(self) -> int:
        """Size of the array."""
        return self.params.num_bits // (8 if self.kind == KIND_BITS else 2)

    @property
    def sealed(self) -> bool:
        """Whether checksums follow the array."""
        return bool(self.read_only_compatible & SEALED)

    @property
    def num_segments(self) -> int:
        """How many segments the array has: the last may be smaller."""
        return math.ceil(self.array_bytes / SEGMENT_BYTES)

    @property
    def seal_bytes(self) -> int:
        """Size of the trailer that the file has if it is sealed."""
        return 4 * (self.num_segments + 1)

    @property
    def file_bytes(self) -> int:
        """The exact size that the file must have."""
        return HEADER_BYTES + self.array_bytes + (self.seal_bytes if self.sealed else 0)


def encode(header: Header, key_rule: str | None = None) -> bytes:
    r"""Return a header as its 4096 bytes, counters zero.

    Examples
    --------
    >>> from mmbloom.sizing import plan
    >>> encode(Header(plan(100), 0, bytes(16)))[:12]
    b'\x89MMBLM\r\n\x01\x00\x00\x00'
    """
    record, params = np.zeros((), dtype=IMMUTABLE), header.params
    record["magic"] = np.void(MAGIC)
    record["version"] = VERSION
    record["header_size"] = HEADER_BYTES
    for name in ("kind", "created_ns", "compatible", "read_only_compatible"):
        record[name] = getattr(header, name)
    for name in ("num_hashes", "capacity", "error_rate"):
        record[name] = getattr(params, name)
    record["layout"] = _LAYOUT_IDS[params.layout]
    if params.blocks_per_key > 1:
        record["layout"] = _SEVERAL_BLOCKS
        record["blocks_per_key"] = params.blocks_per_key
    record["num_positions"] = params.num_bits
    record["hash_id"], place = HASHES[params.hash].number, HASHES[params.hash].field
    field = IMMUTABLE[place]
    record[place] = np.frombuffer(params.seed.to_bytes(field.itemsize, "little"), field)[0]
    record["uuid"] = np.void(header.uuid)
    record["crc"] = zlib.crc32(record.tobytes()[:_CRC_OFFSET])
    return record.tobytes().ljust(KEY_RULE_OFFSET, b"\0") + encode_key_rule(key_rule)


def with_counters(block: bytes, counters: Mapping[str, int]) -> bytes:
    """Return the 4096 bytes of `encode` with `MUTABLE_FIELDS`; those not given are 0."""
    values = [counters.get(name, 0) for name in MUTABLE_FIELDS]
    mutable = np.array(values, "<u8").tobytes()
    return block[:MUTABLE_OFFSET] + mutable + block[MUTABLE_OFFSET + len(mutable) :]


def read_counters(raw: bytes) -> dict[str, int]:
    """Read `MUTABLE_FIELDS` from the first 4096 bytes of a file: any values, as none is checked."""
    values = np.frombuffer(raw, "<u8", len(MUTABLE_FIELDS), MUTABLE_OFFSET)
    return dict(zip(MUTABLE_FIELDS, values.tolist(), strict=True))


def encode_key_rule(rule: str | None) -> bytes:
    r"""Return the bytes of a key rule, from `KEY_RULE_OFFSET` to the end of the header.

    Examples
    --------
    >>> encode_key_rule("-k 1")[:10]
    b'\x84\xe0:A-k 1\x00\x00'
    """
    if rule is None:
        return bytes(HEADER_BYTES - KEY_RULE_OFFSET)
    text = rule.encode()
    if not 0 < len(text) <= KEY_RULE_BYTES or 0 in text:
        raise ValueError(f"a key rule is 1 to {KEY_RULE_BYTES} bytes of text without NUL")
    text = text.ljust(KEY_RULE_BYTES, b"\0")
    return zlib.crc32(text).to_bytes(4, "little") + text


def read_key_rule(raw: bytes) -> str | None:
    """Read the key rule from the first 4096 bytes of a file; None if there is none."""
    crc, text = raw[KEY_RULE_OFFSET : KEY_RULE_OFFSET + 4], raw[KEY_RULE_OFFSET + 4 : HEADER_BYTES]
    if zlib.crc32(text).to_bytes(4, "little") != crc:
        return None
    text = text.rstrip(b"\0")
    try:
        return None if 0 in text else text.decode() or None
    except UnicodeDecodeError:
        return None


def has_stray_bytes(raw: bytes) -> bool:
    """Return whether bytes between the fields of a header, which must be 0, are not."""
    end = COPY_OFFSET + COPY_BYTES
    return any(raw[IMMUTABLE.itemsize : MUTABLE_OFFSET] + raw[end:KEY_RULE_OFFSET])


def decode(raw: bytes, file_bytes: int, path: str) -> Header:
    """Decode and check the first 4096 bytes of a file, and its size, `file_bytes`.

    Raise `FormatError` at the first rule that does not hold, or `NewerFormatError` where only a
    later mmbloom can read the file.
    """
    header = decode_block(raw, file_bytes, path)
    if file_bytes != header.file_bytes:
        raise FormatError(path, "file size", f"{file_bytes} bytes", f"{header.file_bytes}")
    return header


def decode_block(raw: bytes, file_bytes: int, path: str) -> Header:
    """Decode the first 4096 bytes, whatever the size of the file: for `repair`, not to open it."""
    require = Checker(path)
    # Checked before the length, which does not matter in a file that is no filter.
    if raw[: len(MAGIC)] != MAGIC[: len(raw)]:
        found = str(raw[: len(MAGIC)])
        said = f"is not a filter: it begins with {found}"
        raise NoFilterError(path, "magic", found, f"{MAGIC!r}", said)
    if len(raw) < HEADER_BYTES:
        raise NoFilterError(path, "length", f"{file_bytes} bytes", "at least 4096")
    record = np.frombuffer(raw, dtype=IMMUTABLE, count=1).reshape(())
    require.version("format version", int(record["version"]), VERSION)
    found_crc, crc = int(record["crc"]), zlib.crc32(raw[:_CRC_OFFSET])
    if found_crc != crc:
        raise DamagedHeaderError(path, "header checksum", hex(found_crc), hex(crc))
    if unknown := int(record["incompatible"]):
        raise NewerFormatError(
            path, "incompatible flags", hex(unknown), "none known; use a newer mmbloom"
        )
    kind, layout_id, hash_id = (int(record[name]) for name in ("kind", "layout", "hash_id"))
    num_positions, num_hashes = int(record["num_positions"]), int(record["num_hashes"])
    require(kind in (KIND_BITS, KIND_COUNTERS), "kind", kind, "1 (bits) or 2 (counters)")
    layout: Layout = "standard" if layout_id == _LAYOUT_IDS["standard"] else "blocked"
    known = "1 (standard), 2 (blocked) or 3 (blocked with several blocks per key)"
    require(layout_id in {*_LAYOUT_IDS.values(), _SEVERAL_BLOCKS}, "layout", layout_id, known)
    hash_name = {traits.number: name for name, traits in HASHES.items()}.get(hash_id)
    known = " or ".join(sorted(f"{each.number} ({each.title})" for each in HASHES.values()))
    require(hash_name is not None, "hash id", hash_id, known)
    blocks = _blocks_per_key(record, layout_id, require)
    whole = num_hashes % blocks == 0
    expected = "1 to 64" if blocks == 1 else f"a multiple of {blocks} (the blocks per key), 1 to 64"
    require(1 <= num_hashes <= 64 and whole, "number of hashes", num_hashes, expected)
    step, most = sizes_of(layout, blocks)
    fits = step <= num_positions <= most and num_positions % step == 0
    expected = f"a multiple of {step}, at most {most}"
    require(fits, "number of positions", num_positions, expected)
    header_size = int(record["header_size"])
    require(header_size == HEADER_BYTES, "header size", header_size, "4096")
    reserved = int(record["reserved"]) or any(record["padding"].tobytes())
    require(not reserved, "reserved bytes", "not zero", "zero")
    assert hash_name is not None  # noqa: S101  for the type checker: required above
    seed = _seed(record, hash_name, require)
    capacity, error_rate = int(record["capacity"]), float(record["error_rate"])
    require(capacity >= 1, "planned capacity", capacity, "at least 1")
    require(0 < error_rate < 1, "planned error rate", error_rate, "between 0 and 1")
    sizes = num_positions, num_hashes
    return Header(
        FilterParams(capacity, error_rate, layout, *sizes, seed, hash_name, blocks),
        int(record["created_ns"]),
        record["uuid"].tobytes(),
        kind,
        int(record["compatible"]),
        int(record["read_only_compatible"]),
    )


def _blocks_per_key(record: Array[np.void], layout_id: int, require: Checker) -> int:
    """Read how many blocks a key has: 1 in a layout that has no field for it."""
    field, blocks = "blocks per key", int(record["blocks_per_key"])
    if layout_id != _SEVERAL_BLOCKS:
        require(blocks == 0, field, blocks, f"0, because the layout is {layout_id}")
        return 1
    require(2 <= blocks <= MAX_BLOCKS_PER_KEY, field, blocks, f"2 to {MAX_BLOCKS_PER_KEY}")
    return blocks


def _seed(record: Array[np.void], hash_name: HashName, require: Checker) -> int:
    """Read the seed of one hash; the fields of the others must be 0."""
    chosen = HASHES[hash_name]
    for other in HASHES.values():
        ok = other is chosen or not any(record[other.field].tobytes())
        field, expected = other.field.replace("_", " "), f"zero, because the hash is {chosen.title}"
        require(ok, field, "not zero", expected)
    return int.from_bytes(record[chosen.field].tobytes(), "little")
