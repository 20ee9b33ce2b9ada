"""Damaged filter files, as many kinds as come to mind; what is valid is `reference`'s word."""

import random
import struct
from dataclasses import replace

from reference import HEADER_BYTES, IMMUTABLE, Fields, NaiveCounting, NaiveFilter, with_crc

ORIGINALS = [
    Fields(64, 1, 1, capacity=5, error_rate=0.3),
    Fields(64 * 33, 7, 1, 2**32 - 1, 200),
    Fields(512, 6, 2, 5, 40, 0.2, created_ns=2**63, uuid=b"u" * 16),
    Fields(512 * 9, 64, 2, 77, 300, 1e-12, compatible=1),
    Fields(512 * 2, 5, 2, 99, 50, read_only_compatible=1),
    Fields(512, 4, 2, kind=2, capacity=30),
    Fields(512 * 2, 5, 2, 2**128 - 5, 60, hash_id=2),
    Fields(64 * 9, 3, 1, 1, 60, hash_id=2),
    Fields(32768, 6, 3, 3, 800, hash_id=2, blocks=3),
    Fields(32768 * 2, 64, 3, 5, 60, kind=2, blocks=8),
]

# Offset and format of every number in the immutable block, as the specification has them.
NUMBERS = [
    *((offset, "<I") for offset in (8, 12, 16, 20, 24, 28, 40, 44, 128, 508)),
    *((offset, "<Q") for offset in (32, 48, 64, 88, 96, 104, 112, 120)),
    (56, "<d"),
]
EXTREMES = [0, 1, 2, 3, 63, 64, 65, 511, 512, 513, 4096, 2**15, 10**9, 2**31, 2**32 - 1, 2**40]
EXTREMES += [2**40 + 512, 2**43, 2**43 + 64, 2**44, 2**63, 2**63 + 64, 2**64 - 64, 2**64 - 1]
RATES = [0.0, 1.0, -0.1, 0.5, 1e-300, 5e-324, float("nan"), float("inf"), -float("inf"), 2.0]


def mutate(block: bytearray, chance: random.Random) -> None:
    """Damage an immutable block in one of many ways, sometimes several times."""
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        how = chance.random()
        offset, form = chance.choice(NUMBERS)
        if how < 0.35:
            value = chance.choice(RATES) if form == "<d" else chance.choice(EXTREMES)
            struct.pack_into(form, block, offset, value if form != "<I" else int(value) % 2**32)
        elif how < 0.55:  # a small step away from a valid number
            place = chance.randrange(offset, offset + struct.calcsize(form))
            block[place] = (block[place] + chance.choice([-1, 1, 64])) % 256
        elif how < 0.75:
            block[chance.randrange(512)] ^= 1 << chance.randrange(8)
        elif how < 0.85:
            block[chance.randrange(512)] = chance.randrange(256)
        elif how < 0.95:
            start, length = chance.randrange(512), chance.randrange(1, 40)
            block[start : start + length] = chance.randbytes(len(block[start : start + length]))
        else:
            block[:] = chance.randbytes(512)


def mutant_block(original: bytes, chance: random.Random) -> bytes:
    block = bytearray(original)
    mutate(block, chance)
    return with_crc(bytes(block)) if chance.random() < 0.4 else bytes(block)


def claimed_size(block: bytes) -> int:
    """The file size that a block asks for, however absurd."""
    found = IMMUTABLE.unpack_from(block)
    return Fields(found[7], 1, 1, kind=found[3], read_only_compatible=found[15]).file_bytes


def mutant_file(chance: random.Random, *, counters: bool = False) -> bytes:
    """Damage a small filter file anywhere: header, counters, array, size; most of one kind."""
    fields = chance.choice(ORIGINALS)
    if counters:
        fields = replace(fields, kind=2)
    filled = NaiveCounting.empty(fields) if counters else NaiveFilter.empty(fields)
    for key in range(chance.randrange(30) if counters or fields.kind == 1 else 0):
        filled.add(key)
    if fields.read_only_compatible & 1:
        filled.reseal()
    data, how = filled.data, chance.random()
    if how < 0.6:
        data[:512] = mutant_block(bytes(data[:512]), chance)
        size = claimed_size(bytes(data))
        if size < 100_000 and chance.random() < 0.8:
            data = data[:size] + bytes(size - len(data[:size]))
    elif how < 0.8:  # the counters are never trusted, the array is taken as it is
        data[2048:2088] = b"".join(
            struct.pack("<Q", chance.choice([*EXTREMES, chance.getrandbits(64)])) for _ in range(5)
        )
        start = HEADER_BYTES + chance.randrange(fields.array_bytes)
        data[start : HEADER_BYTES + fields.array_bytes] = chance.randbytes(
            HEADER_BYTES + fields.array_bytes - start
        )
    elif how < 0.9:
        data = data[: chance.randrange(len(data))]
    else:
        data += chance.randbytes(chance.choice([1, 4, 8, 64, 4096]))
    return bytes(data)
