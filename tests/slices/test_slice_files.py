"""Files of slices: whole or not there, and any bytes are a slice or a `FormatError`."""

import io
import os
import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from mmbloom import FileChangedError, FormatError, NewerFormatError, ParameterMismatchError
from mmbloom.cluster import Generations, Slice, SlicePlan, assemble
from mmbloom.format.slices import decode, encode
from mmbloom.sizing import FilterParams

PARAMS = FilterParams(2000, 0.01, "blocked", 512 * 200, 5, seed=3, hash="murmur3")
PLAN = SlicePlan(PARAMS, 3)  # of four pages, the last one small


def filled(plan: SlicePlan = PLAN) -> list[Slice]:
    parts = [Slice.empty(plan, number) for number in range(plan.slices)]
    for task, (_, h1, h2) in zip(parts, plan.partition(range(500)), strict=True):
        task.mark(h1, h2)
    return parts


def test_read_by_the_specification() -> None:
    """Each field stands where the specification says, and the checksums are those of zlib."""
    part = filled()[1]
    raw = part.to_bytes()
    assert raw[:8] == b"\x89MMBLS\r\n"
    assert struct.unpack_from("<4I", raw, 8) == (1, 4096, 3, 1)
    counters = part.keys_added, part.positions_set
    assert struct.unpack_from("<Q16sQQI", raw, 24) == (
        0,
        bytes(16),
        *counters,
        zlib.crc32(raw[4096:]),
    )
    assert struct.unpack_from("<I", raw, 508) == (zlib.crc32(raw[:508] + raw[512:1024]),)
    assert struct.unpack_from("<IIQI", raw, 512 + 24) == (1, 5, 512 * 200, 3)
    assert not any(raw[1024:4096])
    assert len(raw) == 4096 + 4096
    assert np.unpackbits(np.frombuffer(raw, np.uint8)[4096:]).sum() == part.positions_set > 0


def test_read_again(tmp_path: Path) -> None:
    """From a path, bytes, a file, even one that gives little at a time: the same slice."""

    class Trickle(io.RawIOBase):
        def __init__(self, raw: bytes) -> None:
            self._rest = raw

        def read(self, size: int = -1) -> bytes:
            some, self._rest = self._rest[: min(size, 7)], self._rest[min(size, 7) :]
            return some

    part = filled()[2]
    path = tmp_path / "2.slice"
    part.write(path)
    raw = part.to_bytes()
    assert path.read_bytes() == raw
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("rb") as file:
        sources = [path, str(path), path.as_uri(), raw, memoryview(raw), io.BytesIO(raw), file]
        for source in [*sources, Trickle(raw)]:
            again = Slice.read(source, PLAN)  # type: ignore[arg-type]
            assert again.to_bytes() == raw
            assert (again.number, again.generation, again.plan) == (2, 0, PLAN)
            again.mark(*PLAN.partition(range(900))[2][1:])  # it can be written to
            assert again.positions_set > part.positions_set


def test_replaced_at_once(tmp_path: Path) -> None:
    one, other = Slice.empty(PLAN, 0), filled()[0]
    for each in (one, other):
        each.write(tmp_path / "0.slice")
        assert Slice.read(tmp_path / "0.slice").to_bytes() == each.to_bytes()
    assert os.listdir(tmp_path) == ["0.slice"]


def test_every_flip_and_every_cut() -> None:
    """Whichever bit is flipped, and wherever it is cut or made longer, it is no slice."""
    raw = filled()[2].to_bytes()
    chance = random.Random(0)
    bits = {*range(8 * 1024), *chance.sample(range(8 * len(raw)), 2000)}
    for bit in bits:
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match=r"^<bytes>: "):
            Slice.read(bytes(damaged))
    cuts = [(raw[:size], ".") for size in [*range(0, len(raw), 64), len(raw) - 1]]
    for wrong, said in [*cuts, (raw + b"\0", "file size")]:
        for source in (wrong, io.BytesIO(wrong)):  # whose size is not known before
            with pytest.raises(FormatError, match=said):
                Slice.read(source)


def test_any_bytes(seed: int) -> None:
    """Damage with checksums that are right gives `FormatError`, or a slice that can be used."""
    chance = random.Random(seed)
    extremes = [0, 1, 2, 3, 63, 512, 4096, 2**31, 2**32 - 1, 2**40, 2**43, 2**63, 2**64 - 1]
    valid = 0
    for _ in range(3000):
        raw = bytearray(chance.choice(filled()[1:]).to_bytes())
        for _ in range(chance.choice([1, 1, 2, 5])):
            how = chance.random()
            if how < 0.5:
                place = chance.choice([8, 12, 16, 20, 24, 48, 56, 64, *range(520, 660, 4)])
                struct.pack_into("<I", raw, place, chance.choice(extremes) % 2**32)
            elif how < 0.8:
                raw[chance.randrange(len(raw))] = chance.randrange(256)
            else:
                del raw[chance.randrange(len(raw)) :]
                break
        if len(raw) >= 1024:
            struct.pack_into("<I", raw, 64, zlib.crc32(raw[4096:]))
            struct.pack_into("<I", raw, 512 + 508, zlib.crc32(raw[512 : 512 + 508]))
            struct.pack_into("<I", raw, 508, zlib.crc32(raw[:508] + raw[512:1024]))
        try:
            part = Slice.read(bytes(raw))
        except FormatError:
            continue
        valid += 1
        _, h1, h2 = part.plan.partition(range(50))[part.number]
        part.mark(h1, h2)
        assert part.contains(h1, h2).all()
    assert valid > 100


def test_a_wrong_count() -> None:
    """A header that counts other bits than there are is refused, whatever its checksum says."""
    raw = filled()[2].to_bytes()
    header = decode(raw, "")
    for positions_set in (header.positions_set - 1, header.positions_set + 1):
        lying = encode(replace(header, positions_set=positions_set)) + raw[4096:]
        said = f"positions set is {positions_set}, expected {header.positions_set}"
        with pytest.raises(FormatError, match=said):
            Slice.read(lying)


def test_a_newer_format_is_called_newer() -> None:
    """A later version says so; a filter's file is no slice."""
    raw = bytearray(filled()[0].to_bytes())
    raw[8] = 2
    with pytest.raises(NewerFormatError, match="use a newer mmbloom"):
        Slice.read(bytes(raw))
    raw[:8] = b"\x89MMBLM\r\n"
    with pytest.raises(FormatError, match="the start of a slice"):
        Slice.read(bytes(raw))


def test_not_of_this_plan(tmp_path: Path) -> None:
    """Another seed, another size, another number of slices: named, with the file."""
    part = Slice.empty(SlicePlan(PARAMS, 2), 1)
    part.write(tmp_path / "1.slice")
    with pytest.raises(FormatError, match=r"1\.slice: number of slices is 2, expected 3"):
        Slice.read(tmp_path / "1.slice", PLAN)
    other = FilterParams(2000, 0.01, "blocked", 512 * 200, 5, seed=4, hash="murmur3")
    with pytest.raises(ParameterMismatchError, match=r"seed 3, but the plan has 4"):
        Slice.read(filled()[0].to_bytes(), SlicePlan(other, 3))
    secret = SlicePlan.draw(2000, slices=1)
    with pytest.raises(ParameterMismatchError) as caught:
        Slice.read(Slice.empty(secret, 0).to_bytes(), SlicePlan.draw(2000, slices=1))
    assert str(secret.params.seed) not in str(caught.value)


def test_keys_of_another_slice() -> None:
    """They are refused by position, nothing is marked; wrong arrays are refused by name."""
    part = Slice.empty(PLAN, 1)
    split = PLAN.split(range(100))
    place = int((split.slice_no != 1).argmax())
    said = f"key at position {place} belongs to slice {split.slice_no[place]}, not to slice 1"
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        (split.h1, split.h2, ValueError, said),
        (split.h1.view("i8"), split.h2, TypeError, "h1 is of int64"),
        (split.h1, split.h2.tolist(), TypeError, "h2 is list"),
        (split.h1, split.h2[1:], ValueError, "differ in length: 100 and 99"),
    ]
    for call in (part.claim, part.mark, part.contains):
        for h1, h2, error, said in wrong:
            with pytest.raises(error, match=said):
                call(h1, h2)
    assert (part.positions_set, part.keys_added) == (0, 0)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    for part in filled():
        part.write(tmp_path / f"{part.number}")
    return [tmp_path / f"{number}" for number in range(3)]


def refused(parts: Any, folder: Path, said: str, kind: type[Exception] = FormatError) -> None:
    before = {file: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(kind, match=said):
        assemble(folder / "all.bloom", PLAN, parts)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_assemble_refuses(tmp_path: Path, paths: list[Path]) -> None:
    """A slice missing, twice, cut, damaged, of another generation: named, and nothing is made."""
    missing = r"all\.bloom: these slices are missing: 1, expected all 3"
    refused([paths[0], paths[2]], tmp_path, missing)
    refused([], tmp_path, "these slices are missing: 0, 1, 2")
    refused([*paths, filled()[2]], tmp_path, "slice is 2 again, expected each slice once")
    later = Slice.read(paths[2])
    later.generation = 4
    refused([*paths[:2], later], tmp_path, "generation is 4, expected 0")
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[:-1])
    refused(paths, tmp_path, "1: file size is")
    paths[1].write_bytes(whole[:-1] + b"\xff")
    refused(paths, tmp_path, "1: checksum of the body is")
    paths[1].unlink()
    refused(paths, tmp_path, "No such file", FileNotFoundError)
    (tmp_path / "all.bloom").write_text("mine")
    refused(filled(), tmp_path, "exists|there already", FileExistsError)


def test_assemble_sees_a_slice_replaced(tmp_path: Path, paths: list[Path]) -> None:
    """The slice that is read must be the one that was checked before."""

    def replaced_amid() -> Iterator[Path]:
        yield from paths
        Slice.empty(PLAN, 0).write(paths[0])

    with pytest.raises(FileChangedError, match="replaced by another slice"):
        assemble(tmp_path / "all.bloom", PLAN, replaced_amid())
    assert not (tmp_path / "all.bloom").exists()


def test_at_the_root_of_a_store() -> None:
    """A URL without a folder in it is a URL all the same, of a slice and of a state."""
    root = fsspec.filesystem("memory")
    assert not root.ls("/", detail=False)
    try:
        Slice.empty(SlicePlan.draw(1000, slices=1), 0).write("memory://one.slice")
        assert Slice.read("memory://one.slice").number == 0
        assert Generations.create("memory://", 1000, slices=1).path == "memory://"
        found = [name.lstrip("/") for name in root.ls("/", detail=False)]
        assert sorted(found) == ["generation-00000000.json", "one.slice"]
    finally:
        root.rm("/", recursive=True)
