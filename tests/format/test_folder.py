"""Any bytes as a manifest are a valid one or a FormatError (law 13); the rules one by one."""

import json
import random
from typing import Any

import pytest

from mmbloom.errors import FormatError, NewerFormatError
from mmbloom.format.folder import (
    Entry,
    FolderPlan,
    GrowthPlan,
    Manifest,
    PeriodPlan,
    decode,
    encode,
)

PLANS: list[FolderPlan] = [
    GrowthPlan(1000, 0.01, "blocked", 7, "zeros", "murmur3"),
    PeriodPlan(604800, 86400, 1000, 0.01, "standard", 7, "fallocate", "murmur3"),
    GrowthPlan(1000, 0.01, "blocked", 2**128 - 7, "zeros"),
    PeriodPlan(604800, 86400, 1000, 0.01, "standard", 7, "fallocate"),
]
GOOD = [
    Manifest(
        bytes(range(16)),
        plan,
        tuple(Entry(i, f"{i:010}.bloom", bytes([i] * 16)) for i in range(3)),
    )
    for plan in PLANS
]


@pytest.mark.parametrize("manifest", GOOD, ids=lambda manifest: manifest.plan.kind)
def test_round_trip(manifest: Manifest) -> None:
    assert decode(encode(manifest), "m") == manifest
    record = json.loads(encode(manifest))
    assert record["format"] == "mmbloom folder"
    assert record["kind"] == manifest.plan.kind
    assert record["members"][1] == {"number": 1, "name": "0000000001.bloom", "uuid": "01" * 16}


def changed(field: str, value: object, good: Manifest = GOOD[0]) -> bytes:
    """A good manifest with one field of it, named with dots, set or (with ...) removed."""
    record: Any = json.loads(encode(good))
    *way, last = field.split(".")
    place = record
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(record).encode()


WRONG: dict[str, list[object]] = {
    "format": ["mmbloom", None, 1, ...],
    "version": [0, "1", 1.0, True, None, ...],
    "kind": ["shrinking", 1, None, [], ...],
    "uuid": ["0" * 31, "G" * 32, "A" * 32, 5, None, ...],
    "more": [1],
    "settings": [[], None, "x", {}, ...],
    "settings.more": [1],
    "settings.initial_capacity": [0, -1, 1.5, True, "9", 2**63, ...],
    "settings.error_rate": [0.0, 1.0, 1, "0.1", None, ...],
    "settings.layout": ["round", 1, None, [], ...],
    "settings.reserve": ["maybe", 1, ...],
    "settings.seed": [-1, 2**32, 1.0, False, ...],
    "members": [[], {}, None, "x", ...],
    "members.0": [None, [], {}],
    "members.0.more": [1],
    "members.0.number": [1, -1, True, 0.0, "0", ...],
    "members.2.number": [1, 3, 2**63],
    "members.0.name": [
        *("", "a", ".bloom", "../a.bloom", "/a.bloom", "a/b.bloom", "A.bloom", "a.bloom\n"),
        *("é.bloom", "a\0.bloom", "x" * 90 + ".bloom", 5, None, "0000000001.bloom", ...),
    ],
    "members.0.uuid": ["01" * 16, "", 5, ...],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_wrong_field(field: str, value: object) -> None:
    """Each rule is checked; the error names the file, and what was found."""
    with pytest.raises(FormatError) as caught:
        decode(changed(field, value), "folder/manifest.json")
    assert caught.value.path == "folder/manifest.json"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("settings.keep_seconds", value) for value in (0, ...)),
        *(("settings.every_seconds", value) for value in (0, ...)),
        ("settings.keep_seconds", 1000 * 86400),  # 1,001 files
        ("settings.initial_capacity", 1),
        ("kind", "growing"),
        ("members.2.number", 1),
        ("members.0.number", 5),
    ],
)
def test_wrong_field_of_a_rotating_one(field: str, value: object) -> None:
    """Numbers rise, and need not follow each other; settings are those of the kind."""
    decode(changed("members.2.number", 7, GOOD[1]), "m")
    with pytest.raises(FormatError):
        decode(changed(field, value, GOOD[1]), "m")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("settings.hash", value) for value in ("murmur3", "md5", 2, None, ["siphash"], ...)],
        *[("settings.seed", value) for value in (7, "7", "07" * 15, "0G" * 16, "0A" * 16, None)],
        ("settings.seed", ...),
    ],
)
@pytest.mark.parametrize("good", GOOD[2:], ids=lambda manifest: manifest.plan.kind)
def test_wrong_hash_or_key(good: Manifest, field: str, value: object) -> None:
    """The hash is SipHash and its key 16 bytes; else there is no field, and the seed an int."""
    with pytest.raises(FormatError) as caught:
        decode(changed(field, value, good), "m")
    assert caught.value.field in {"hash", "seed", "fields of settings"}
    assert "070707" not in str(caught.value)  # most of a secret key, perhaps


def test_manifests_of_murmur3_have_no_hash() -> None:
    """They are, byte for byte, those of before there was another; of SipHash the key is hex."""
    assert b'"hash"' not in encode(GOOD[0])
    assert b'"seed": 7,' in encode(GOOD[0])
    settings = json.loads(encode(GOOD[3]))["settings"]
    assert (settings["hash"], settings["seed"]) == ("siphash", "07" + "00" * 15)
    assert b'"seed": "f9' + b"ff" * 15 + b'"' in encode(GOOD[2])


def test_newer_version() -> None:
    """Whatever else a later version has, it is told that a newer mmbloom is needed."""
    with pytest.raises(NewerFormatError, match="newer mmbloom"):
        decode(b'{"format": "mmbloom folder", "version": 2, "else": []}', "m")


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"null", b"[]", b"\xff\xfe", b'"text"', b"[" * 200_000, b'{"a":' * 100_000),
        *(b"1" * 100_000, b" " * (1 << 20) + encode(GOOD[0]), encode(GOOD[0]) + b"x"),
        *(encode(GOOD[0]).replace(b"0.01", number) for number in (b"NaN", b"1e999")),
        encode(GOOD[0]).replace(b'"version": 1', b'"version": 1, "version": 1'),
    ],
)
def test_no_manifest(raw: bytes) -> None:
    with pytest.raises(FormatError):
        decode(raw, "m")


def test_too_many_members() -> None:
    record = json.loads(encode(GOOD[0]))
    record["members"] = [
        {"number": i, "name": f"{i}.bloom", "uuid": f"{i:032x}"} for i in range(65)
    ]
    with pytest.raises(FormatError, match="at most 64"):
        decode(json.dumps(record).encode(), "m")
    record["members"].pop()
    assert len(decode(json.dumps(record).encode(), "m").members) == 64


@pytest.mark.parametrize("manifest", GOOD, ids=lambda manifest: manifest.plan.kind)
def test_mutants(manifest: Manifest, seed: int) -> None:
    """Law 13: bytes changed, cut out, doubled or swapped: FormatError, or valid."""
    chance, good = random.Random(seed), encode(manifest)
    pieces = [
        b"-",
        b"1",
        b"9" * 30,
        b"null",
        b"true",
        b'"',
        b"{}",
        b"[",
        b"\\u0000",
        b"\xc3",
        b"..",
    ]
    valid = 0
    for _ in range(4000):
        raw = bytearray(good)
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            start = chance.randrange(len(raw))
            end = min(len(raw), start + chance.choice([0, 1, 1, 2, 8, 40]))
            new = [b"", chance.randbytes(1), chance.choice(pieces), raw[start:end] * 2]
            raw[start:end] = chance.choice(new)
        try:
            found = decode(bytes(raw), "m")
        except FormatError:
            continue
        valid += 1
        assert decode(encode(found), "m") == found
    assert 0 < valid < 2000
