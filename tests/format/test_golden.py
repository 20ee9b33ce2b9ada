"""Format version 1, byte for byte: golden files, the independent reader and the package agree.

The golden files are read, never written, by tests; `make_golden.py` made them once.
"""

import hashlib
import itertools
import shutil
import struct
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import make_golden
import numpy as np
import pytest
from checks import WRITES, check_raises
from golden import EXPECTED, GOLDEN, golden_bytes, golden_fields, golden_keys
from reference import (
    RULE_OFFSET,
    Fields,
    NaiveFilter,
    murmur3_x64_128,
    pack_header,
    parse_key_rule,
    seal,
)
from tally import Count

from mmbloom import (
    BloomFilter,
    FilterParams,
    FormatError,
    GrowingFilter,
    NewerFormatError,
    ReadOnlyError,
    RotatingFilter,
)
from mmbloom.format import folder as manifest
from mmbloom.format import header as package_header

LAYOUT_NAMES = {1: "standard", 2: "blocked", 3: "blocked"}
HASH_NAMES = {1: "murmur3", 2: "siphash"}

every_file = pytest.mark.parametrize("name", list(EXPECTED["files"]))
WITH_KEYS = [name for name, expected in EXPECTED["files"].items() if expected["keys"]]
every_filter = pytest.mark.parametrize("name", WITH_KEYS)


@pytest.mark.parametrize("place", [0, 5, len(make_golden.CASES)])
def test_no_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """A new case at the end is written, and the others as they are; elsewhere it is refused."""
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*") if file.is_file()}
    monkeypatch.setattr(make_golden, "GOLDEN", tmp_path)
    cases = [*make_golden.CASES]
    cases.insert(place, ("new", Fields(512, 1, 2, 1, 300, 0.5), 1))
    monkeypatch.setattr(make_golden, "CASES", cases)
    at_the_end = place == len(make_golden.CASES) - 1
    refused = pytest.raises(SystemExit, match="would change; golden files never do")
    with nullcontext() if at_the_end else refused:
        make_golden.main()
    assert (tmp_path / "new.bloom").exists() == at_the_end
    before.pop(tmp_path / "expectations.json")
    assert all(file.read_bytes() == data for file, data in before.items())


PANGRAM = "The quick brown fox jumps over the lazy dog"


@pytest.mark.laws("T12")
@pytest.mark.parametrize(
    ("text", "seed", "digest"),
    [
        ("", 0, "00000000000000000000000000000000"),
        ("", 2538058380, "b3bbaa1d8a202b397a9502e38f60b093"),
        (PANGRAM, 0, "6c1b07bc7bbc4be347939ac4a93c437a"),
        (PANGRAM, 2538058380, "213163d23b7f8a73e516c07e727345f9"),
    ],
)
def test_reference_hash_gives_published_digests(
    text: str, seed: int, digest: str, tally: Count
) -> None:
    assert struct.pack("<QQ", *murmur3_x64_128(text.encode(), seed)).hex() == digest
    tally(digests=1)


@pytest.mark.laws("T12")
def test_reference_hash_gives_smhasher_verification_value(tally: Count) -> None:
    """SMHasher's check of MurmurHash3_x64_128 over all lengths 0..255 gives 0x6384BA69."""
    digests = b"".join(
        struct.pack("<QQ", *murmur3_x64_128(bytes(range(i)), 256 - i)) for i in range(256)
    )
    assert murmur3_x64_128(digests, 0)[0] & 0xFFFFFFFF == 0x6384BA69
    tally(digests=256)


@pytest.mark.laws("T12")
def test_no_golden_file_is_missing_or_unknown(tally: Count) -> None:
    """The folder holds exactly the recorded files, both kinds in all layouts, a sealed one."""
    found = {file.stem for file in GOLDEN.glob("*.bloom")}
    assert found == set(EXPECTED["files"])
    fields = [golden_fields(name) for name in EXPECTED["files"]]
    assert {(f.layout, f.kind) for f in fields} == {*itertools.product((1, 2, 3), (1, 2))}
    assert any(f.read_only_compatible & 1 for f in fields)
    assert {(f.hash_id, f.kind) for f in fields} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    tally(files=len(found))


@pytest.mark.laws("T12")
@pytest.mark.parametrize("kind", EXPECTED["folders"])
def test_golden_folders(kind: str, tmp_path: Path, tally: Count) -> None:
    """A folder of SipHash is as recorded, read as recorded, and its manifest is what is written."""
    folder, expected = GOLDEN / f"siphash-{kind}", EXPECTED["folders"][kind]
    there = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    assert there == expected["sha256"]
    copied = tmp_path / "seen"
    shutil.copytree(folder, copied)
    options: dict[str, Any] = {"clock": lambda: 19676 * 86400.0} if kind == "rotating" else {}
    cls: Any = {"growing": GrowingFilter, "rotating": RotatingFilter}[kind]
    keys, absent = [f"key-{i}" for i in range(expected["keys"])], range(400)
    with cls.open(copied, "r", **options) as seen:
        assert seen.contains_many(keys).all()
        found = seen.contains_many([f"absent-{i}" for i in absent])
        assert np.flatnonzero(found).tolist() == expected["false_positives_of_400"]
        assert seen.info().settings["seed"] == int.from_bytes(bytes(range(16)), "little")
    raw = (folder / "manifest.json").read_bytes()
    assert manifest.encode(manifest.decode(raw, "f")) == raw
    with cls.open(copied, "r+", **options) as seen:
        seen.update(["one", "more"])
    newest = NaiveFilter((copied / max(expected["sha256"].keys() - {"manifest.json"})).read_bytes())
    assert "one" in newest
    assert "more" in newest
    tally(folders=1)


@pytest.mark.laws("T12")
@every_file
def test_golden_bytes_are_as_recorded(name: str) -> None:
    found = hashlib.sha256(golden_bytes(name)).hexdigest()
    assert found == EXPECTED["files"][name]["sha256"]


@pytest.mark.laws("T12")
@every_file
def test_reference_reads_golden_file(name: str, tally: Count) -> None:
    """The independent reader finds fields, keys, set bits and checksums as recorded."""
    golden, expected = NaiveFilter(golden_bytes(name)), EXPECTED["files"][name]
    assert golden.fields == golden_fields(name)
    assert all(key in golden for key in golden_keys(name))
    assert golden.popcount() == expected["positions_set"]
    assert golden.trailer == (seal(golden.array) if golden.fields.read_only_compatible & 1 else b"")
    false_positives = expected["first_false_positives"]
    for i in range(max(false_positives, default=-1) + 1):
        assert (f"absent-{i}" in golden) == (i in false_positives)
    tally(files_read_by_the_reference=1)


@pytest.mark.laws("T12")
@every_file
def test_key_rule_of_golden_file(name: str, tally: Count) -> None:
    """Package and reference read how lines became keys, or that this is not noted; and write it."""
    raw, expected = golden_bytes(name), EXPECTED["files"][name].get("key_rule")
    assert parse_key_rule(raw) == expected
    assert package_header.read_key_rule(raw[:4096]) == expected
    assert package_header.encode_key_rule(expected) == raw[RULE_OFFSET:4096]
    tally(headers=1)


@pytest.mark.laws("T12")
@every_filter
def test_package_reads_golden_file(name: str, tally: Count) -> None:
    """Mode r finds every key, and exactly the recorded first ten false positives."""
    file, expected = GOLDEN / f"{name}.bloom", EXPECTED["files"][name]
    keys, false_positives = golden_keys(name), expected["first_false_positives"]
    absent = [f"absent-{i}" for i in range(false_positives[-1] + 1)]
    with BloomFilter.open(file, mode="r") as golden:
        assert golden.contains_many(keys).all()
        assert all(key in golden for key in keys)
        assert np.flatnonzero(golden.contains_many(absent)).tolist() == false_positives
        assert [i for i, key in enumerate(absent) if key in golden] == false_positives
    assert len(false_positives) == 10
    assert file.read_bytes() == golden_bytes(name)
    tally(files_read_by_the_package=1, keys=len(keys))


@pytest.mark.laws("T12")
@every_file
def test_package_and_reference_have_the_same_header(name: str, tally: Count) -> None:
    """The package reads every field as the reference packed it, and packs it so, byte for byte."""
    raw, fields = golden_bytes(name), golden_fields(name)
    decoded, expected = package_header.decode(raw[:4096], len(raw), name), as_package_header(fields)
    assert decoded == expected
    assert decoded.file_bytes == len(raw)
    assert package_header.encode(expected) == pack_header(fields)
    tally(headers=2)


def as_package_header(f: Fields) -> package_header.Header:
    layout: Any = LAYOUT_NAMES[f.layout]
    hash_name: Any = HASH_NAMES[f.hash_id]
    sizes = f.num_positions, f.num_hashes
    plan = f.capacity, f.error_rate, layout
    params = FilterParams(*plan, *sizes, f.seed, hash_name, f.blocks or 1)
    flags = f.compatible, f.read_only_compatible
    return package_header.Header(params, f.created_ns, f.uuid, f.kind, *flags)


WRITABLE = [name for name in WITH_KEYS if not golden_fields(name).read_only_compatible]


@pytest.mark.laws("T12")
@pytest.mark.parametrize("how", ["add", "add_many", "update", "claim"])
@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
def test_package_writes_what_reference_writes(
    tmp_path: Path, name: str, how: str, tally: Count
) -> None:
    """Keys of every form, added to an empty file by any call, give the golden array."""
    file, keys = tmp_path / "seen.bloom", golden_keys(name)
    expected = NaiveFilter.empty(golden_fields(name))
    file.write_bytes(expected.data)
    new = [expected.add(key) for key in keys]
    with BloomFilter.open(file) as seen:
        if how == "add":
            assert [seen.add(key) for key in keys] == new
        elif how == "add_many":
            assert seen.add_many(keys).tolist() == new
        elif how == "update":
            assert seen.update(iter(keys)) == sum(new)
        else:
            with seen.claim(keys) as claimed:
                assert claimed.tolist() == new
    written = NaiveFilter(file.read_bytes())
    assert written.array == NaiveFilter(golden_bytes(name)).array
    assert written.data[:2048] == pack_header(golden_fields(name))[:2048]
    added, positions, begun, done, _ = written.counters
    assert (added, positions) == (sum(new), written.popcount())
    assert begun == done
    tally(files_written=1)


@pytest.mark.laws("T12")
@pytest.mark.parametrize("layout", ["standard", "blocked"])
@pytest.mark.parametrize("error_rate", [0.3, 0.01, 1e-6])
def test_package_made_file_is_what_the_reference_expects(
    tmp_path: Path, layout: Any, error_rate: float, seed: int, tally: Count
) -> None:
    file, keys = tmp_path / "seen.bloom", golden_keys("blocked-k6")[:500]
    options = {"layout": layout, "seed": seed}
    with BloomFilter.create(file, 1000, error_rate, **options) as seen:
        empty = NaiveFilter(file.read_bytes())
        half = len(keys) // 2
        new = [*seen.add_many(keys[:half]), *(seen.add(key) for key in keys[half:])]
        params = seen.params
    assert empty.data == NaiveFilter.empty(empty.fields).data
    assert (empty.fields.capacity, empty.fields.error_rate) == (1000, error_rate)
    assert (empty.fields.seed, LAYOUT_NAMES[empty.fields.layout]) == (seed, layout)
    sizes = empty.fields.num_positions, empty.fields.num_hashes
    assert sizes == (params.num_bits, params.num_hashes)
    assert new == [empty.add(key) for key in keys]
    assert NaiveFilter(file.read_bytes()).array == empty.array
    tally(files_written=1)


def test_integer_arrays_are_the_keys_that_their_values_are(tmp_path: Path) -> None:
    """An array of any integer dtype sets the bits of the same Python ints."""
    fields = golden_fields("blocked-k12")
    for dtype in ("i1", "i2", ">i4", "i8", "u1", "u2", ">u4", "u8"):
        bounds = np.iinfo(dtype)
        array = np.array([bounds.min, bounds.max, 0, 1, bounds.max // 3], dtype=dtype)
        expected = NaiveFilter.empty(fields)
        for value in array.tolist():
            expected.add(value)
        file = tmp_path / f"{dtype[-2:]}.bloom"
        file.write_bytes(NaiveFilter.empty(fields).data)
        with BloomFilter.open(file) as seen:
            seen.add_many(array)
        assert NaiveFilter(file.read_bytes()).array == expected.array, dtype


@pytest.mark.parametrize("name", ["blocked-sealed", "standard-newer-flag"])
def test_read_only_flags_force_read_only(tmp_path: Path, name: str) -> None:
    """Laws 13, 19: a sealed file, or one with an unknown read-only flag, takes no key."""
    file = tmp_path / "seen.bloom"
    file.write_bytes(golden_bytes(name))
    with BloomFilter.open(file, mode="r+") as seen:
        check_raises(WRITES, seen, ReadOnlyError)
        seen.flush()
    assert file.read_bytes() == golden_bytes(name)


def test_counters_are_refused_as_a_bloom_filter() -> None:
    for layout, mode in itertools.product(("standard", "blocked"), ("r", "r+")):
        with pytest.raises(FormatError) as caught:
            BloomFilter.open(GOLDEN / f"{layout}-counters.bloom", mode=mode)  # type: ignore[arg-type]
        assert caught.value.field == "kind"


def test_unknown_incompatible_flag_asks_for_a_newer_mmbloom(tmp_path: Path) -> None:
    file, fields = tmp_path / "seen.bloom", golden_fields("blocked-k6")
    flagged = pack_header(replace(fields, incompatible=1 << 40))
    later = bytearray(pack_header(fields))
    later[8:12] = struct.pack("<I", 2)  # its checksum is of no rule that version 1 knows
    for header in (flagged, bytes(later)):
        file.write_bytes(header + bytes(fields.array_bytes))
        with pytest.raises(NewerFormatError):
            BloomFilter.open(file)
