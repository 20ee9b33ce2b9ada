"""Any bytes whatsoever, opened as a filter, give a FormatError or a valid filter (law 13, T4).

What "valid" means is the independent reader's word: the package must agree with it.
"""

import mmap
import random
import resource
import struct
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import has
import numpy as np
import pytest
from mutants import ORIGINALS, mutant_file
from reference import Fields, NaiveCounting, NaiveFilter, pack_header, with_crc
from tally import Count
from workers import PATIENCE, in_child

from mmbloom import BloomFilter, CapacityWarning, CountingBloomFilter, FormatError, ReadOnlyError

MODES: tuple[Literal["r"], Literal["r+"]] = ("r", "r+")
READERS = {BloomFilter: NaiveFilter, CountingBloomFilter: NaiveCounting}


def open_and_use(
    file: Path,
    data: bytes,
    mode: Literal["r", "r+"],
    *,
    flush: bool = True,
    made: type[BloomFilter | CountingBloomFilter] = BloomFilter,
) -> str:
    """Open bytes as a filter, ask and add; returns what came of it."""
    file.unlink(missing_ok=True)  # to write over a file takes ten times as long as to make one
    file.write_bytes(data)
    try:
        seen = made.open(file, mode)
    except FormatError:
        assert file.read_bytes() == data
        return "refused"
    with seen:
        assert file.read_bytes() == data, "open changed a byte"
        naive = READERS[made](data)  # raises if the reference reader would have refused it
        keys = ["a", b"b", -3, 7, *range(40)]
        expected = [key in naive for key in keys]
        assert seen.contains_many(keys).tolist() == expected
        assert [key in seen for key in keys] == expected
        info = seen.info()
        assert info.as_dict()["file_bytes"] == len(data)
        assert 0 <= seen.fill_ratio <= 1
        assert 0 <= seen.current_error_rate <= 1
        assert seen.approx_count >= 0
        assert repr(seen)
        try:
            assert seen.add("a") == naive.add("a")
            assert seen.add_many(keys).tolist() == [naive.add(key) for key in keys]
            with seen.claim(["c"]) as new:
                assert new.tolist() == [naive.add("c")]
            assert seen.recount() == naive.popcount()
            if flush:
                seen.flush()
            outcome = "written"
        except ReadOnlyError:
            assert file.read_bytes() == data
            outcome = "read"
    after = READERS[made](file.read_bytes())
    assert after.array == naive.array, "not the bits that the keys ask for"
    assert after.data[:2048] == data[:2048]
    return outcome


@pytest.mark.stress
@pytest.mark.laws("T4")
@pytest.mark.parametrize(("made", "files"), [(BloomFilter, 5_000), (CountingBloomFilter, 2_000)])
def test_file_mutants_are_refused_or_usable(
    tmp_path: Path,
    made: type[BloomFilter | CountingBloomFilter],
    files: int,
    seed: int,
    stress: int,
    tally: Count,
) -> None:
    """Law 13: thousands of mutated files, opened and used in a child of bounded memory."""
    file = tmp_path / "mutant.bloom"

    def open_many() -> dict[str, int]:
        warnings.simplefilter("ignore", CapacityWarning)
        limit_memory(256 << 20)
        chance, outcomes = random.Random(seed), Counter[str]()
        for _ in range(files * stress):
            # The file that a signal leaves is in the test's folder.
            data = mutant_file(chance, counters=made is CountingBloomFilter)
            mode, flush = chance.choice(MODES), chance.random() < 0.1
            outcomes[open_and_use(file, data, mode, flush=flush, made=made)] += 1
        return dict(outcomes)

    outcomes = in_child(open_many, timeout=PATIENCE * stress)
    tally(files=sum(outcomes.values()), **outcomes)
    assert min(outcomes[kind] for kind in ("refused", "read", "written")) > 100


def limit_memory(more: int) -> None:
    """Let this process map so many bytes more, where the system has such a limit."""
    if has.PROC:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + more,) * 2)


@pytest.mark.laws("T4")
def test_forged_sizes_neither_grow_the_file_nor_use_memory(tmp_path: Path, tally: Count) -> None:
    """Law 13: k = 10^9, or an m of terabytes, with a right checksum, in a bounded child."""
    file = tmp_path / "seen.bloom"
    plain = pack_header(Fields(64, 1, 1, capacity=5, error_rate=0.3))
    forged = []
    for offset, form, value in ((28, "<I", 10**9), (32, "<Q", 2**43), (32, "<Q", 2**64 - 64)):
        block = bytearray(plain[:512])
        struct.pack_into(form, block, offset, value)
        forged.append(with_crc(bytes(block)) + plain[512:] + bytes(8))

    def open_each() -> None:
        limit_memory(64 << 20)
        for data in forged:
            for mode in MODES:
                assert open_and_use(file, data, mode) == "refused"
                assert file.read_bytes() == data

    in_child(open_each)
    tally(files=len(forged), refused=len(forged))


@pytest.mark.laws("T4")
def test_huge_sparse_file_costs_no_memory(tmp_path: Path, tally: Count) -> None:
    """Law 13: a valid header before 8 GiB of holes opens in little memory, or is an OSError."""
    file, fields = tmp_path / "seen.bloom", Fields(2**36, 10, 2, 1, 10**10)
    file.write_bytes(pack_header(fields))
    with file.open("r+b") as stream:
        stream.truncate(fields.file_bytes)

    def query() -> int:
        with BloomFilter.open(file, "r") as seen:
            assert not seen.contains_many(np.arange(100)).any()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if has.MACOS else 1024 * peak

    def query_in_little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32,) * 2)
        with pytest.raises(OSError, match="memory"):
            BloomFilter.open(file, "r")

    assert in_child(query) < 1 << 30
    if has.MEMORY_LIMIT:
        in_child(query_in_little_memory)
    tally(files=1)
    assert file.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("made", READERS)
@pytest.mark.parametrize("kind", [1, 2])
def test_unknown_compatible_flags_are_ignored(
    tmp_path: Path, kind: int, made: type[BloomFilter | CountingBloomFilter]
) -> None:
    """Law 13: compatible flags of the future, all 64, do not keep version 1 from writing."""
    fields = replace(ORIGINALS[2], compatible=2**64 - 1, kind=kind)
    expected = "written" if made is [*READERS][kind - 1] else "refused"
    data = bytes(NaiveFilter.empty(fields).data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        assert open_and_use(tmp_path / "seen.bloom", data, "r+", made=made) == expected
