"""The record of a generation: by its specification, and any bytes are one or a `FormatError`."""

import json
import random
from typing import Any

import pytest

from mmbloom.errors import FormatError, NewerFormatError
from mmbloom.format.slices import (
    Record,
    decode_record,
    encode_record,
    generation_of_folder,
    generation_of_record,
    record_name,
)
from mmbloom.sizing import FilterParams

PARAMS = FilterParams(2000, 0.01, "blocked", 512 * 200, 5, seed=2**127, hash="siphash")
RECORD = Record(b"u" * 16, 2, b"r" * 16, b"b" * 16, PARAMS, 3)


def test_as_the_specification_says() -> None:
    """Each field is there, as text that people can read but for the filter's block."""
    found = json.loads(encode_record(RECORD))
    block = bytes.fromhex(found.pop("filter"))
    assert found == {
        "format": "mmbloom generations",
        "version": 1,
        "uuid": "75" * 16,
        "generation": 2,
        "run": "72" * 16,
        "base": "62" * 16,
        "slices": 3,
    }
    assert block[:8] == b"\x89MMBLM\r\n"
    assert len(block) == 512
    assert decode_record(encode_record(RECORD), 2, "r") == RECORD


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": "other"}, "format is 'other'"),
    ({"version": 0}, "version is 0, expected 1"),
    ({"version": True}, "version is True"),
    ({"generation": 3}, "generation is 3, expected 2"),
    ({"generation": 2.0}, "generation is 2.0"),
    ({"run": "72"}, "run is '72', expected 32 hexadecimal digits"),
    ({"run": "0" * 32}, "run is 0+, expected zeros in generation 0 only"),
    ({"base": "0" * 32}, "base is 0+, expected zeros in generations 0, 1 only"),
    ({"uuid": None}, "uuid is None"),
    ({"slices": 0}, "slices is 0, expected 1 to 4"),
    ({"slices": 5}, "slices is 5, expected 1 to 4"),
    ({"filter": "00"}, "filter is '00', expected 1024 hexadecimal digits"),
    ({"filter": "00" * 512}, "magic of the filter is"),
    ({"more": 1}, "fields is"),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=lambda value: str(value)[:30])
def test_each_rule(change: dict[str, Any], said: str) -> None:
    """A rule that does not hold is named, with the path."""
    raw = json.dumps(json.loads(encode_record(RECORD)) | change).encode()
    with pytest.raises(FormatError, match=f"^where: {said}"):
        decode_record(raw, 2, "where")


def test_newer_and_no_json() -> None:
    """A later version says so; what is no JSON, no object or too long says that."""
    raw = json.dumps(json.loads(encode_record(RECORD)) | {"version": 2}).encode()
    with pytest.raises(NewerFormatError, match="use a newer mmbloom"):
        decode_record(raw, 2, "where")
    twice = encode_record(RECORD).replace(b'"version": 1', b'"version": 1, "version": 1')
    for other in (twice, b"", b"\xff", b"{", b"[" * 50_000, b"3", b"[]", b" " * 70_000, b"NaN"):
        with pytest.raises(FormatError, match=r"^where: (text|size|record) is"):
            decode_record(other, 2, "where")


def test_damage(seed: int) -> None:
    chance, good = random.Random(seed), 0
    for _ in range(3000):
        raw = bytearray(encode_record(RECORD))
        for _ in range(chance.choice([1, 1, 2, 4])):
            place = chance.randrange(len(raw))
            if chance.random() < 0.6:
                raw[place] = chance.choice(b'0123456789abcdef"{}[],:-.eE \n\xff')
            elif chance.random() < 0.5:
                del raw[place : place + chance.randrange(1, 9)]
            else:
                raw[place:place] = raw[place : place + chance.randrange(1, 9)]
        try:
            decode_record(bytes(raw), 2, "where")
        except FormatError:
            continue
        good += 1
    assert good < 3000


def test_names() -> None:
    """A name has one spelling; all others are of something else."""
    assert record_name(7) == "generation-00000007.json"
    assert record_name(123_456_789) == "generation-123456789.json"
    for number in (0, 7, 123_456_789):
        assert generation_of_record(record_name(number)) == number
    for name in ("generation-7.json", "generation-000000007.json", "generation-00000007.json.tmp"):
        assert generation_of_record(name) is None
    assert generation_of_folder(f"00000007-{'ab' * 16}") == (7, b"\xab" * 16)
    assert generation_of_folder("00000007-ab") is None
