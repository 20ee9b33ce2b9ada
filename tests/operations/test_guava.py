"""Interchange with Guava's BloomFilter: what leaves is what Guava reads, what comes in is kept.

The golden files were made by the real Guava and are only ever read; ``test_guava_jar.py`` asks
the real one. Here its files are read and written by `guava_files`, which shares no code with the
package.
"""

import errno
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import array_of, check_folder, check_settled, counters_of
from damages import KEYS, MIB, untouched
from guava_files import GOLDEN, GuavaFile, keys_of, parse
from reference import Fields, NaiveFilter, pack_header
from workers import peak_memory

from mmbloom import (
    BloomFilter,
    FilterParams,
    ParameterMismatchError,
    export_guava,
    import_guava,
    sizing,
    verify,
)
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file
from mmbloom._system.typing import HashName

EXPECTED: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expectations.json").read_text())
HELD = [name for name, expected in EXPECTED.items() if expected["can_be_held"]]


def golden(name: str) -> Path:
    return GOLDEN / f"{name}.guava"


def exportable(path: Path, num_bits: int, num_hashes: int = 7, **options: Any) -> str:
    """Make an empty filter that can be exported, or cannot by the options; gives its path."""
    layout = options.pop("layout", "standard")
    params = FilterParams(10**6, 0.01, layout, num_bits, num_hashes, 0, "murmur3")
    create_file(Target(str(path), 0o600, False), params)
    return str(path)


def filled(path: Path, num_bits: int) -> str:
    with BloomFilter.open(exportable(path, num_bits)) as seen:
        seen.add_many(list(KEYS))
    return str(path)


def test_golden_files_are_as_recorded() -> None:
    """No golden file is missing, unknown or changed since Guava wrote it."""
    assert {file.stem for file in GOLDEN.glob("*.guava")} == set(EXPECTED)
    for name, expected in EXPECTED.items():
        assert hashlib.sha256(golden(name).read_bytes()).hexdigest() == expected["sha256"]
    assert {expected["funnel"] for expected in EXPECTED.values()} >= {"bytes", "utf8", "long"}


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize("name", HELD)
def test_import_of_what_guava_wrote(tmp_path: Path, path: str, name: str) -> None:
    """Every key that Guava put is found, and of 400 others exactly those that Guava finds."""
    expected, number = EXPECTED[name], EXPECTED[name]["keys"]
    with untouched(golden(name)):
        import_guava(golden(name), path)
    held = parse(golden(name).read_bytes())
    assert held is not None
    assert array_of(path) == held.array
    keys, absent = keys_of(expected["funnel"], 0, number), keys_of(expected["funnel"], 10000, 10400)
    assert all(map(held.has, keys))
    with BloomFilter.open(path, "r") as seen:
        params = seen.params
        assert (params.layout, params.hash, params.seed) == ("standard", "murmur3", 0)
        assert (params.num_bits, params.num_hashes) == tuple(
            expected[field] for field in ("num_bits", "num_hashes")
        )
        assert not keys or seen.contains_many(keys).all()
        found = np.flatnonzero(seen.contains_many(absent)).tolist()
    assert found == expected["found_of_10000_to_10400"]
    check_settled(path)
    assert verify(path).ok
    check_folder(tmp_path, "seen.bloom")


@pytest.mark.parametrize("name", HELD)
def test_export_of_what_guava_put(tmp_path: Path, name: str) -> None:
    """A filter of the same size and keys leaves as the very bytes that Guava wrote."""
    expected = EXPECTED[name]
    source = exportable(tmp_path / "a", expected["num_bits"], expected["num_hashes"])
    with BloomFilter.open(source) as seen:
        if expected["keys"]:
            seen.add_many(keys_of(expected["funnel"], 0, expected["keys"]))
    with untouched(source):
        export_guava(source, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == golden(name).read_bytes()
    check_folder(tmp_path, "a", "b")


@pytest.mark.parametrize("size", [8, 64, 4096, MIB - 8, MIB, MIB + 8, 8 * MIB - 8, 17 * MIB + 8])
def test_there_and_back(tmp_path: Path, size: int) -> None:
    """A file is laid out as described, and the way back gives the array bit for bit."""
    source = filled(tmp_path / "a", 8 * size)
    export_guava(source, tmp_path / "b")
    words = struct.unpack(f"<{size // 8}Q", array_of(source))
    assert (tmp_path / "b").read_bytes() == GuavaFile(7, words).pack()
    import_guava(tmp_path / "b", tmp_path / "c", capacity=10**6)
    assert array_of(str(tmp_path / "c")) == array_of(source)
    check_settled(str(tmp_path / "c"))
    here, there = counters_of(source), counters_of(str(tmp_path / "c"))
    assert here["positions_set"] == there["positions_set"]
    assert size < 4096 or abs(here["keys_added"] - there["keys_added"]) < 10
    assert verify(tmp_path / "c", keys=list(KEYS)).problems == ()


@pytest.mark.parametrize(
    ("layout", "name", "seed", "field", "found"),
    [
        ("blocked", "murmur3", 0, "layout", "blocked"),
        ("blocked", "siphash", 7, "layout", "blocked"),
        ("standard", "siphash", 0, "hash", "siphash"),
        ("standard", "siphash", 2**100, "hash", "siphash"),
        ("standard", "murmur3", 1, "seed", "1"),
        ("standard", "murmur3", 2**32 - 1, "seed", str(2**32 - 1)),
    ],
)
def test_filter_that_guava_would_not_understand(
    tmp_path: Path, layout: sizing.Layout, name: HashName, seed: int, field: str, found: str
) -> None:
    """Another layout, hash or seed is refused, with the words that make an exportable filter."""
    BloomFilter.create(tmp_path / "a", 100, layout=layout, hash=name, seed=seed).close()
    advice = r'has .*layout="standard", hash="murmur3", seed=0 .*--hash murmur3 --seed 0'
    with pytest.raises(ParameterMismatchError, match=advice) as caught:
        export_guava(tmp_path / "a", tmp_path / "b")
    assert (caught.value.path, caught.value.field) == (str(tmp_path / "a"), field)
    assert caught.value.found == found
    check_folder(tmp_path, "a")


def test_filter_of_several_blocks_a_key(tmp_path: Path) -> None:
    """It is refused as any of the blocked layout, be its hash and seed as they should."""
    with BloomFilter.create(tmp_path / "a", 20_000, 1e-6, hash="murmur3", seed=0) as seen:
        assert seen.params.blocks_per_key > 1
    with pytest.raises(ParameterMismatchError, match="has layout blocked"):
        export_guava(tmp_path / "a", tmp_path / "b")
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("longs", [2**31, 2**37])
def test_filter_with_more_longs_than_an_int_counts(tmp_path: Path, longs: int) -> None:
    """More than 2^31 - 1 longs are refused, before any of them is read."""
    fields = Fields(64 * longs, 7, 1)
    with open(tmp_path / "a", "wb") as file:
        file.write(pack_header(fields))
        try:
            file.truncate(fields.file_bytes)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            pytest.skip("this file system has no files of that size")
    with pytest.raises(
        ParameterMismatchError, match=r"num_bits .* at most 137438953408;"
    ) as caught:
        export_guava(tmp_path / "a", tmp_path / "b")
    assert caught.value.found == str(64 * longs)
    check_folder(tmp_path, "a")


def test_what_an_import_is_planned_for(tmp_path: Path) -> None:
    """Capacity and error rate are those given; by default what a filter of the size can hold."""
    source, most = golden("long"), sizing.capacity_of(4352, 10, 0.01, layout="standard")
    import_guava(source, tmp_path / "a")
    import_guava(source, tmp_path / "b", error_rate=0.001)
    import_guava(source, tmp_path / "c", capacity=300, error_rate=0.002)
    planned = []
    for name in "abc":
        with BloomFilter.open(tmp_path / name) as seen:
            planned.append((seen.params.capacity, seen.params.error_rate))
    fewer = sizing.capacity_of(4352, 10, 0.001, layout="standard")
    assert planned == [(most, 0.01), (fewer, 0.001), (300, 0.002)]
    assert 290 <= fewer < most
    bad: list[Any] = [{"capacity": 0}, {"error_rate": 0.0}, {"error_rate": 1}, {"error_rate": 2.5}]
    for options in bad:
        with pytest.raises(ValueError, match=r"(capacity|error_rate) is .*expected"):
            import_guava(source, tmp_path / "d", **options)
    check_folder(tmp_path, "a", "b", "c")


def test_imported_filter_takes_keys_and_leaves_again(tmp_path: Path) -> None:
    """What Guava began mmbloom goes on with, as any filter, and gives back."""
    import_guava(golden("utf8"), tmp_path / "a", capacity=400)
    more = keys_of("utf8", 300, 350)
    with BloomFilter.open(tmp_path / "a") as seen:
        seen.add_many(more)
    export_guava(tmp_path / "a", tmp_path / "b")
    held = parse((tmp_path / "b").read_bytes())
    assert held is not None
    assert all(held.has(key) for key in [*keys_of("utf8", 0, 300), *more])
    assert held.array == NaiveFilter((tmp_path / "a").read_bytes()).array


def test_export_of_a_filter_in_use(tmp_path: Path) -> None:
    """A writer that holds the lock keeps nobody from exporting what is acknowledged."""
    source = filled(tmp_path / "a", 8 * 4096)
    with BloomFilter.open(source) as seen, seen.locked():
        seen.add("x")
        export_guava(source, tmp_path / "b")
    held = parse((tmp_path / "b").read_bytes())
    assert held is not None
    assert held.has("x")


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Law 17: a filter of 64 MiB leaves and comes in with far less memory than it has bytes."""
    source = filled(tmp_path / "a", 8 * 64 * MIB)

    def there_and_back() -> None:
        export_guava(source, tmp_path / "b")
        import_guava(tmp_path / "b", tmp_path / "c")

    assert peak_memory(there_and_back) < 40 * MIB
    assert array_of(str(tmp_path / "c")) == array_of(source)
