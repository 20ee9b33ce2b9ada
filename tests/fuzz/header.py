"""The header parser on any bytes and any file size: what it takes, it must give back (law 13).

An input is the size of the file (8 bytes, little-endian), then its first 4096 bytes, of which
the last may be left out if they are zero: so inputs stay short.
"""

import random
from collections.abc import Callable

from mutants import ORIGINALS, claimed_size
from mutants import mutate as damage
from reference import HEADER_BYTES, BadFileError, pack_header, parse_header, with_crc

from mmbloom.errors import FormatError
from mmbloom.format.header import decode, encode

_BLOCK = 512


def check(data: bytes) -> None:
    """Decode: FormatError where the independent reader refuses, else the same fields."""
    size = int.from_bytes(data[:8], "little")
    raw = data[8:].ljust(HEADER_BYTES, b"\0")[: min(size, HEADER_BYTES)]
    try:
        expected = parse_header(raw, size)
    except BadFileError:
        expected = None
    try:
        header = decode(raw, size, "fuzzed")
    except FormatError:
        assert expected is None, "refused, and valid"
        return
    assert expected is not None, "taken, and not valid"
    block = encode(header)
    assert block[:_BLOCK] == raw[:_BLOCK]
    assert decode(block, size, "fuzzed") == header
    params = header.params
    assert (params.num_bits, params.num_hashes) == (expected.num_positions, expected.num_hashes)
    assert (params.capacity, params.error_rate) == (expected.capacity, expected.error_rate)
    assert params.layout == {1: "standard", 2: "blocked", 3: "blocked"}[expected.layout]
    assert params.blocks_per_key == (expected.blocks or 1)
    assert params.hash == {1: "murmur3", 2: "siphash"}[expected.hash_id]
    assert (params.seed, header.created_ns) == (expected.seed, expected.created_ns)
    assert (header.uuid, header.kind) == (expected.uuid, expected.kind)
    assert header.file_bytes == expected.file_bytes == size


def seeds() -> list[bytes]:
    return [
        fields.file_bytes.to_bytes(8, "little") + pack_header(fields)[:_BLOCK]
        for fields in ORIGINALS
    ]


def mutate(data: bytes, most: int, chance: random.Random, plain: Callable[..., bytes]) -> bytes:
    """Damage numbers or any bytes; then often mend the checksum, and often the size."""
    if chance.random() < 0.5:
        data = plain(data, most)
    size, rest = data[:8].ljust(8, b"\0"), data[8:]
    block = bytearray(rest[:_BLOCK].ljust(_BLOCK, b"\0"))
    if chance.random() < 0.5:
        damage(block, chance)
    if chance.random() < 0.7:
        block = bytearray(with_crc(bytes(block)))
    if chance.random() < 0.5:
        size = (claimed_size(bytes(block)) % 2**64).to_bytes(8, "little")
    return (size + bytes(block) + rest[_BLOCK:])[:most]
