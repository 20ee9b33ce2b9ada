"""Filter files read with pread: any bytes, any shortness of reads, any key (laws 13, 16)."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checks import HEADER_BYTES
from damages import MIB, filter_of, sealed_of
from descriptors import open_descriptors
from fuzz import file
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import mutant_file
from naive import HASH, split
from reference import Fields, NaiveFilter, positions_of
from steps import calls_of
from workers import in_child

from mmbloom import FormatError, copy, repair, verify
from mmbloom._storage.unmapped import UnmappedFile, UnmappedFilter

LOOKS: dict[str, Callable[[Path, Path], object]] = {
    "verify": lambda source, _target: verify(source, keys=range(10)),
    "copy": copy,
    "repair": repair,
}
SPECIAL: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "folder": Path.mkdir,
    "null": lambda path: path.symlink_to("/dev/null"),
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "empty": Path.touch,
    "text": lambda path: path.write_text("once upon a time\n" * 1000),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("look", LOOKS)
def test_special_files(tmp_path: Path, kind: str, look: str) -> None:
    """Law 13: what is no filter is FormatError at once: nothing hangs, nothing is made."""
    SPECIAL[kind](tmp_path / "a")

    def refused() -> bool:
        with pytest.raises(FormatError) as caught:
            LOOKS[look](tmp_path / "a", tmp_path / "b")
        return caught.value.path == str(tmp_path / "a")

    assert in_child(refused, 20.0)
    assert os.listdir(tmp_path) == ["a"]


def test_any_bytes(seed: int) -> None:
    """Law 13: mutants are refused or used in every way, as an independent reader has it."""
    chance, valid = random.Random(seed), 0
    for _ in range(250):
        data = mutant_file(chance)
        file.check(file.pack(data))
        valid += file.read(data) is not None
    assert 20 < valid < 230


@settings(max_examples=40)
@given(
    st.lists(HASH, max_size=40),
    st.lists(HASH, max_size=40),
    st.one_of(
        st.tuples(
            st.sampled_from([1, 2]),
            st.sampled_from([512, 1024, 8 * (64 << 10), 8 * (64 << 10) + 512, 8 * 200_192]),
            st.sampled_from([1, 2, 7, 64]),
            st.just(0),
        ),
        st.tuples(
            st.just(3),
            st.sampled_from([1 << 15, 1 << 19, (1 << 19) + (1 << 15)]),
            st.sampled_from([6, 48]),
            st.sampled_from([2, 3, 6]),
        ),
    ),
)
def test_lookups_are_those_of_the_specification(
    tmp_path_factory: pytest.TempPathFactory,
    added: list[tuple[int, int]],
    others: list[tuple[int, int]],
    sizes: tuple[int, int, int, int],
) -> None:
    """Whichever parts of the file the positions are in, a key is found if all its bits are set."""
    layout, num_bits, num_hashes, blocks = sizes
    data = NaiveFilter.empty(Fields(num_bits, num_hashes, layout, blocks=blocks)).data
    held = {p for key in added for p in positions_of(*key, *sizes)}
    for p in held:
        data[HEADER_BYTES + (p >> 3)] |= 1 << (p & 7)
    path = tmp_path_factory.mktemp("unmapped") / "a"
    path.write_bytes(data)
    hashes = [*added, *others]
    with UnmappedFilter(str(path)) as looked_at:
        answers = looked_at.contains(split(hashes)).tolist()
    assert answers == [held.issuperset(positions_of(*key, *sizes)) for key in hashes]


def test_each_part_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 17: a batch of many keys reads each 64 KiB of the array at most once."""
    with UnmappedFilter(filter_of(tmp_path / "a", MIB + 64)) as looked_at:
        calls = calls_of(monkeypatch, os, "pread")
        halves = np.random.default_rng(1).integers(2**63, size=(2, 10_000)).astype(np.uint64)
        looked_at.contains((halves[0], halves[1]))
        assert len(looked_at.contains((halves[0, :0], halves[1, :0]))) == 0
    reads = [start for _, _, start in calls]
    assert reads == sorted(set(reads))
    assert 16 <= len(reads) <= 17


@pytest.mark.parametrize("array_bytes", [64, MIB - 64, MIB, MIB + 64, 2 * MIB])
def test_segments(tmp_path: Path, array_bytes: int) -> None:
    path = sealed_of(tmp_path / "a", array_bytes)
    with UnmappedFilter(path) as looked_at:
        segments = [segment.tobytes() for segment in looked_at.segments()]
        assert len(looked_at.checksums()) == len(segments) == -(-array_bytes // MIB)
        assert all(len(segment) == MIB for segment in segments[:-1])
        assert b"".join(segments) == Path(path).read_bytes()[4096 : 4096 + array_bytes]


def test_short_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(whole := os.urandom(10_000))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 7), at))
    with UnmappedFile(str(tmp_path / "a")) as looked_at:
        assert looked_at.read(3, 9000) == whole[3:9003]
        assert looked_at.read(5, 0) == b""
        assert looked_at.size == 10_000


def test_header_that_is_refused_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(5000))
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(FormatError):
            UnmappedFilter(str(tmp_path / "a"))
    assert open_descriptors() == before
