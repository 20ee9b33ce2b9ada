"""No damaged header is taken for a filter (law 13, T3 and T5).

What "valid" means is the independent reader's word: the package must agree with it.
"""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from mutants import ORIGINALS, claimed_size, mutant_block
from reference import (
    HEADER_BYTES,
    BadFileError,
    Fields,
    NaiveFilter,
    pack_header,
    parse_header,
    with_crc,
)
from tally import Count

from mmbloom import BloomFilter, FormatError
from mmbloom.format import header as _header

MODES: tuple[Literal["r"], Literal["r+"]] = ("r", "r+")
each_original = pytest.mark.parametrize("fields", ORIGINALS[:5], ids=range(5))


def reference_refuses(raw: bytes, size: int) -> bool:
    """Ask the reference reader; `pytest.raises` takes as long as both readers."""
    try:
        parse_header(raw, size)
    except BadFileError:
        return True
    return False


@pytest.mark.stress
@pytest.mark.laws("T3")
def test_header_mutants_are_refused_or_valid(seed: int, stress: int, tally: Count) -> None:
    """Law 13: 100,000 mutated headers: FormatError or valid, as the reference reader says."""
    chance, outcomes = random.Random(seed), Counter[str]()
    originals = [(pack_header(fields), fields.file_bytes) for fields in ORIGINALS]
    right_checksums = 0
    for _ in range(100_000 * stress):
        header, size = chance.choice(originals)
        block = mutant_block(header[:512], chance)
        raw = block + header[512:]
        right_checksums += block == with_crc(block)
        if chance.random() < 0.5:
            size = claimed_size(block)
        if chance.random() < 0.02:
            size = chance.randrange(HEADER_BYTES)
            raw = raw[:size]
        try:
            decoded = _header.decode(raw, size, "mutant")
        except FormatError as error:
            outcomes[error.field] += 1
            assert reference_refuses(raw, size)
        else:
            outcomes["valid"] += 1
            fields = parse_header(raw, size)
            assert decoded.file_bytes == fields.file_bytes == size
            assert decoded.params.num_bits == fields.num_positions
            assert decoded.params.num_hashes == fields.num_hashes
            hash_id = {"murmur3": 1, "siphash": 2}[decoded.params.hash]
            assert (hash_id, decoded.params.seed) == (fields.hash_id, fields.seed)
    mutants = outcomes.total()
    tally(mutants=mutants, with_a_right_checksum=right_checksums, valid=outcomes["valid"])
    assert 0.38 < right_checksums / mutants < 0.42
    # The mutants reached every rule, or this test would show little.
    assert set(outcomes) == {
        *("valid", "length", "magic", "format version", "header checksum", "incompatible flags"),
        *("kind", "layout", "hash id", "blocks per key", "number of hashes"),
        *("number of positions", "header size", "hash key", "seed", "reserved bytes"),
        *("planned capacity", "planned error rate", "file size"),
    }


@pytest.mark.laws("T5")
@pytest.mark.parametrize("fields", [ORIGINALS[0], ORIGINALS[3], ORIGINALS[4]], ids=range(3))
def test_every_bit_flip_of_the_immutable_block_is_refused(
    tmp_path: Path, fields: Fields, tally: Count
) -> None:
    """Law 13: each of 4,096 single-bit flips is found, and the file left as it is."""
    file, original = tmp_path / "seen.bloom", NaiveFilter.empty(fields).data
    file.write_bytes(original)
    with file.open("r+b", buffering=0) as raw:
        for bit in range(4096):
            place, flipped = bit >> 3, original[bit >> 3] ^ 1 << (bit & 7)
            os.pwrite(raw.fileno(), bytes([flipped]), place)
            with pytest.raises(FormatError):
                BloomFilter.open(file, MODES[bit & 1])
            assert os.pread(raw.fileno(), 1, place) == bytes([flipped])
            os.pwrite(raw.fileno(), original[place : place + 1], place)
            tally(flips=1)
    assert file.read_bytes() == original


@pytest.mark.laws("T5")
@pytest.mark.parametrize("fields", [ORIGINALS[0], ORIGINALS[4]], ids=["plain", "sealed"])
@pytest.mark.parametrize("mode", MODES)
def test_every_truncation_is_refused(
    tmp_path: Path, fields: Fields, mode: Literal["r", "r+"], tally: Count
) -> None:
    """Law 13: a file cut to any shorter length is refused, and not grown again."""
    file, original = tmp_path / "seen.bloom", bytes(NaiveFilter.empty(fields).data)
    file.write_bytes(original)
    for length in reversed(range(len(original))):
        os.truncate(file, length)
        with pytest.raises(FormatError) as caught:
            BloomFilter.open(file, mode)
        assert caught.value.field == ("length" if length < 4096 else "file size")
        assert file.stat().st_size == length
        tally(truncations=1)


@pytest.mark.laws("T5")
@each_original
@pytest.mark.parametrize("extra", [1, 2, 7, 8, 64, 512, 4096, 1 << 20])
def test_trailing_bytes_are_refused(
    tmp_path: Path, fields: Fields, extra: int, tally: Count
) -> None:
    """Law 13: bytes after the end of the array (or trailer) are refused, in both modes."""
    file = tmp_path / "seen.bloom"
    file.write_bytes(NaiveFilter.empty(fields).data + bytes(extra))
    for mode in MODES:
        with pytest.raises(FormatError, match="file size"):
            BloomFilter.open(file, mode)
        assert file.stat().st_size == fields.file_bytes + extra
        tally(trailers=1)


def test_text_mode_transfer_is_refused(tmp_path: Path) -> None:
    """Law 13: a copy whose line ends were converted is refused by its magic."""
    data = bytes(NaiveFilter.empty(ORIGINALS[2]).data)
    file = tmp_path / "seen.bloom"
    for damaged in (data.replace(b"\r\n", b"\n"), data.replace(b"\n", b"\r\n")):
        file.write_bytes(damaged + bytes(8))
        with pytest.raises(FormatError, match="is not a filter"):
            BloomFilter.open(file)
