"""Any bytes as a file of Guava's: refused, or imported bit for bit, and back again (law 13).

The first byte of an input chooses what the filter is said to be planned for, the rest is the file.
"""

import functools
import os
import random
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from guava_files import GOLDEN, GuavaFile, parse
from reference import Key, NaiveFilter

from mmbloom import BloomFilter, CapacityWarning, FormatError, export_guava, import_guava, verify

_folder = functools.cache(tempfile.TemporaryDirectory[str])  # one for all inputs
_KEYS: list[Key] = ["key-7", b"", -3, 7]
_CAPACITIES = [None, 1, 300]
_ERROR_RATES = [0.01, 0.5, 1e-9]


def check(data: bytes) -> None:
    """Import: FormatError where the independent reader refuses, else a filter of the same bits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)  # any bits may be those of a full one
        _check(data)


def _check(data: bytes) -> None:
    choice, content = data[:1].ljust(1, b"\0")[0], data[1:]
    capacity = _CAPACITIES[choice % 3]
    error_rate = _ERROR_RATES[choice // 3 % 3]
    theirs, ours = (Path(_folder().name) / name for name in ("theirs", "ours"))
    theirs.write_bytes(content)
    expected = parse(content)
    try:
        import_guava(theirs, ours, capacity=capacity, error_rate=error_rate)
    except FormatError:
        assert expected is None, "refused, and valid"
    else:
        assert expected is not None, "imported, and not valid"
        _compare(ours, expected)
        fields = NaiveFilter(ours.read_bytes()).fields
        assert fields.capacity == capacity or (capacity is None and fields.capacity > 0)
        assert fields.error_rate == error_rate
        back = theirs.with_name("back")
        export_guava(ours, back)
        assert back.read_bytes() == content, "not the same when it goes out again"
        back.unlink()
        ours.unlink()
    assert theirs.read_bytes() == content, "changed by reading"
    assert os.listdir(theirs.parent) == [theirs.name]


def _compare(ours: Path, expected: GuavaFile) -> None:
    naive = NaiveFilter(ours.read_bytes())
    assert naive.array == expected.array, "not the same bits"
    assert naive.fields.num_hashes == expected.num_hashes
    assert (naive.fields.layout, naive.fields.seed, naive.fields.kind) == (1, 0, 1)
    problems = verify(ours).problems
    assert not problems, problems
    with BloomFilter.open(ours, "r") as seen:
        assert seen.contains_many(_KEYS).tolist() == [expected.has(key) for key in _KEYS]


def seeds() -> list[bytes]:
    """The files that Guava made, and small ones: empty, full, with few hashes and with most."""
    golden = [file.read_bytes() for file in sorted(GOLDEN.glob("*.guava"))]
    full = 2**64 - 1
    small = [GuavaFile(1, (0,)), GuavaFile(64, (full,)), GuavaFile(7, (1, full, 2**63))]
    files = [*golden, *(held.pack() for held in small)]
    return [bytes([number % 9]) + content for number, content in enumerate(files)]


def mutate(data: bytes, most: int, chance: random.Random, plain: Callable[..., bytes]) -> bytes:
    """Damage a number of the first bytes, or any; then often mend the size."""
    if chance.random() < 0.6:
        data = plain(data, most)
    choice, prefix = data[:1].ljust(1, b"\0"), bytearray(data[1:7].ljust(6, b"\0"))
    longs = data[7:]
    if chance.random() < 0.3:
        prefix[0] = chance.choice([0, 1, 1, 2, 255])
    if chance.random() < 0.3:
        prefix[1] = chance.choice([0, 1, 2, 63, 64, 65, 127, 128, 255])
    if chance.random() < 0.3:
        struct.pack_into(">i", prefix, 2, chance.choice([-(2**31), -1, 0, 1, 2, 9, 2**31 - 1]))
    (wanted,) = struct.unpack_from(">i", prefix, 2)
    if 0 < wanted <= most // 8 and chance.random() < 0.7:
        longs = longs[: 8 * wanted].ljust(8 * wanted, b"\0")
    return (choice + bytes(prefix) + longs)[:most]
