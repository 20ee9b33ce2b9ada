"""Any bytes as a file: opened in both modes, asked, added to, verified, copied, repaired (law 13).

The first byte of an input says what follows: if it is odd, a whole file; if it is even, a file
without the zeros of its header (bytes 512 to 2047 and 2088 to 4095), so that inputs stay short.
"""

import functools
import json
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from mutants import claimed_size, mutant_file
from mutants import mutate as damage
from reference import HEADER_BYTES, BadFileError, Key, NaiveCounting, NaiveFilter, seal, with_crc

from mmbloom import (
    BloomFilter,
    FormatError,
    ParameterMismatchError,
    ReadOnlyError,
    copy,
    repair,
    verify,
)
from mmbloom.errors import MmbloomWarning
from mmbloom.sizing import FilterParams

_BLOCK, _COUNTERS, _COUNTERS_END = 512, 2048, 2088
_LARGEST = 1 << 16
_GOLDEN = Path(__file__).parents[1] / "golden"
_folder = functools.cache(tempfile.TemporaryDirectory[str])  # one for all inputs
_KEYS: list[Key] = ["key-7", b"", -3, 7]
_GUESSES = [  # what the owner says it was made with: one block a key, and several in one page
    FilterParams(10, 0.1, "blocked", 1024, 3, 5),
    FilterParams(10, 0.1, "blocked", 32768, 6, 3, blocks_per_key=3),
]


def check(data: bytes) -> None:
    """Use the file in every way: FormatError, or the answers that the naive filter gives."""
    content = unpack(data)[:_LARGEST]
    file = Path(_folder().name) / "seen.bloom"
    file.write_bytes(content)
    naive = read(content)
    plain = None if isinstance(naive, NaiveCounting) else naive
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MmbloomWarning)  # full, or bits lost: so it seems
        _read(file, plain)
        _verify(file, naive)
        for seal_it in (False, True):
            _copy(file, naive, seal_it)
        for params in (None, *_GUESSES):
            _repair(file, content, plain, params)
        assert file.read_bytes() == content, "changed by reading"
        _write(file, content, plain)
    assert os.listdir(file.parent) == [file.name]


def read(content: bytes) -> NaiveFilter | None:
    try:
        naive = NaiveFilter(content)
        return NaiveCounting(content) if naive.fields.kind == 2 else naive
    except BadFileError:
        return None


def unpack(data: bytes) -> bytes:
    kind, rest = data[:1], data[1:]
    if kind and kind[0] & 1:
        return rest
    block, counters = rest[:_BLOCK], rest[_BLOCK : _BLOCK + _COUNTERS_END - _COUNTERS]
    head = block.ljust(_COUNTERS, b"\0") + counters.ljust(HEADER_BYTES - _COUNTERS, b"\0")
    return head + rest[_BLOCK + _COUNTERS_END - _COUNTERS :]


def pack(content: bytes) -> bytes:
    short = b"\0" + content[:_BLOCK] + content[_COUNTERS:_COUNTERS_END] + content[HEADER_BYTES:]
    return short if unpack(short) == content else b"\1" + content


def _read(file: Path, naive: NaiveFilter | None) -> None:
    try:
        seen = BloomFilter.open(file, "r")
    except FormatError:
        assert naive is None, "refused, and valid"
        return
    with seen:
        assert naive is not None, "opened, and not valid"
        expected = [key in naive for key in _KEYS]
        assert seen.contains_many(_KEYS).tolist() == expected
        assert [key in seen for key in _KEYS] == expected
        assert seen.info().file_bytes == len(naive.data)
        json.dumps([seen.info().as_dict(), repr(seen)], allow_nan=False)
        try:
            seen.add(b"")
        except ReadOnlyError:
            return
        raise AssertionError("added to in mode r")


def _verify(file: Path, naive: NaiveFilter | None) -> None:
    try:
        found = verify(file, keys=_KEYS)
    except FormatError:
        assert naive is None, "refused, and valid"
        return
    assert naive is not None, "verified, and not valid"
    json.dumps(found.as_dict(), allow_nan=False)
    assert found.positions_set == naive.popcount()
    assert found.keys_missing == sum(key not in naive for key in _KEYS)
    assert _whole(naive) or not found.ok


def _whole(naive: NaiveFilter) -> bool:
    return not naive.trailer or naive.trailer == seal(naive.array)


def _copy(file: Path, naive: NaiveFilter | None, seal_it: bool) -> None:
    copied = file.with_name("copied.bloom")
    copied.unlink(missing_ok=True)
    try:
        copy(file, copied, seal=seal_it)
    except FormatError:
        assert naive is None or not _whole(naive), "refused, and valid"
        return
    assert naive is not None, "copied, and not valid"
    assert NaiveFilter(copied.read_bytes()).array == naive.array
    problems = verify(copied).problems
    assert not problems, problems
    copied.unlink()


def _repair(
    file: Path, content: bytes, naive: NaiveFilter | None, params: FilterParams | None
) -> None:
    mended = file.with_name("mended.bloom")
    mended.unlink(missing_ok=True)
    try:
        report = repair(file, mended, params=params)
    except FormatError:
        assert naive is None
    except ParameterMismatchError:
        assert params is not None
    else:
        after = NaiveFilter(mended.read_bytes())
        there = content[HEADER_BYTES:][: after.fields.array_bytes]
        assert after.array == there.ljust(after.fields.array_bytes, b"\0"), "not the same bits"
        if params is not None:
            fields = after.fields
            shape = fields.num_positions, fields.num_hashes, fields.blocks or 1
            assert shape == (params.num_bits, params.num_hashes, params.blocks_per_key)
        assert report.positions_set == after.popcount()
        assert report.losses or naive is None or after.array == naive.array
        problems = verify(mended).problems
        assert not problems, problems
        mended.unlink()


def _write(file: Path, content: bytes, naive: NaiveFilter | None) -> None:
    try:
        seen = BloomFilter.open(file, "r+")
    except FormatError:
        assert naive is None
        assert file.read_bytes() == content
        return
    with seen:
        assert naive is not None
        read_only = naive.fields.read_only_compatible != 0
        try:
            assert seen.add(_KEYS[0]) == naive.add(_KEYS[0])
            assert seen.add_many(_KEYS).tolist() == [naive.add(key) for key in _KEYS]
            json.dumps(seen.info().as_dict(), allow_nan=False)
            assert seen.recount() == naive.popcount()
            seen.flush()
        except ReadOnlyError:
            assert read_only
        else:
            assert not read_only
    after = file.read_bytes()
    assert after[:_COUNTERS] == content[:_COUNTERS]
    counters = slice(_COUNTERS, _COUNTERS_END)
    naive.data[counters] = after[counters]
    assert after == naive.data, "not the bits that the keys ask for, or others"
    assert not read_only or after == content


def seeds() -> list[bytes]:
    golden = [file.read_bytes() for file in sorted(_GOLDEN.glob("*.bloom"))]
    damaged = [mutant_file(random.Random(number)) for number in range(20)]
    return [pack(content) for content in golden + damaged]


def mutate(data: bytes, most: int, chance: random.Random, plain: Callable[..., bytes]) -> bytes:
    """Damage numbers of the header or any bytes; often mend the checksum, and often the size."""
    if chance.random() < 0.7:
        data = plain(data, most)
    kind, block, rest = data[:1].ljust(1, b"\0"), bytearray(data[1 : 1 + _BLOCK]), data[513:]
    block = block.ljust(_BLOCK, b"\0")
    if chance.random() < 0.4:
        damage(block, chance)
    if chance.random() < 0.8:
        block = bytearray(with_crc(bytes(block)))
    size = claimed_size(bytes(block))
    if size < _LARGEST and chance.random() < 0.7:
        left_out = 0 if kind[0] & 1 else HEADER_BYTES - _BLOCK - (_COUNTERS_END - _COUNTERS)
        wanted = size - _BLOCK - left_out
        rest = rest[:wanted].ljust(wanted, b"\0")
    return (kind + bytes(block) + rest)[:most]
