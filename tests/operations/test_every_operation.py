"""What every operation that makes a file or folder of others promises (laws 8, 9, 10, 15, 16, 18).

All of it is there or nothing: whatever fails, whoever dies, whatever becomes of the source, and
whatever is at the destination.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from operator import and_
from pathlib import Path
from typing import Any

import has
import pytest
from checks import HEADER_BYTES, array_of, check_folder, check_settled, contents, lasting
from damages import KEYS, MIB, at_pread, flip
from golden import GOLDEN
from guava_files import parse
from sweeps import Sweep
from unions import SEEDS_5_AND_6, check_union, make

import mmbloom
from mmbloom import (
    BloomFilter,
    CountingBloomFilter,
    FileChangedError,
    FilterParams,
    FormatError,
    GrowingFilter,
    IncompatibleFiltersError,
    NetworkFileSystemError,
    compare,
    copy,
    export_guava,
    import_guava,
    intersect,
    merge,
    repair,
    verify,
)
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file


def one_file(path: Path, size: int) -> None:
    """Make a filter that any operation takes, Guava's too, with an array of so many bytes."""
    params = FilterParams(10**6, 0.01, "standard", 8 * size, 7, hash="murmur3")
    create_file(Target(str(path), 0o600, False), params)
    with mmbloom.open(path) as seen:
        seen.add_many(KEYS)


def two_files(path: Path, size: int) -> None:
    """Make the same beside another one, of other keys."""
    one_file(path, size)
    one_file(path.with_name(f"{path.name}.two"), size)
    with mmbloom.open(f"{path}.two") as seen:
        seen.add_many(range(-500, 0))


def of_guava(path: Path, size: int) -> None:
    """Make a file of Guava's."""
    one_file(path.with_name("ours"), size)
    export_guava(path.with_name("ours"), path)
    path.with_name("ours").unlink()


def sealed(path: Path, size: int) -> None:
    """Make a sealed one."""
    one_file(path.with_name("live"), size)
    copy(path.with_name("live"), path, seal=True)
    path.with_name("live").unlink()


def counters(path: Path, size: int) -> None:
    """Make a counting filter that a plain one with an array of so many bytes is made of."""
    with CountingBloomFilter.create(path, 5 * size // 6, layout="standard") as seen:
        seen.add_many(KEYS)


def folder(path: Path, _size: int) -> None:
    """Make a growing filter of two files."""
    with GrowingFilter.create(path, 12, 1e-9, seed=5) as seen:
        seen.update(range(18))


def check_file(made: Path, _source: Path) -> None:
    check_settled(str(made))
    assert verify(made, keys=KEYS).problems == ()


def check_merged(made: Path, source: Path) -> None:
    check_union(made, source, f"{source}.two")


def check_common(made: Path, source: Path) -> None:
    arrays = (array_of(str(source)), array_of(f"{source}.two"))
    assert array_of(str(made)) == bytes(map(and_, *arrays))
    check_file(made, source)


def check_exported(made: Path, source: Path) -> None:
    held = parse(made.read_bytes())
    assert held is not None
    assert held.array == array_of(str(source))


def check_imported(made: Path, source: Path) -> None:
    check_exported(source, made)
    check_file(made, source)


def check_sealed(made: Path, _source: Path) -> None:
    found = verify(made, keys=KEYS)
    assert (found.problems, found.sealed_segments > 0) == ((), True)


def check_made_folder(made: Path, _source: Path) -> None:
    assert verify(made, keys=range(18)).problems == ()


@dataclass(frozen=True)
class Way:
    """What makes something, what of, and what raises unless it is whole."""

    run: Callable[..., object]
    source: Callable[[Path, int], None] = one_file
    check: Callable[[Path, Path], None] = check_file

    def sweep(self, source: Path, size: int = MIB + 64) -> Sweep:
        """Make the source, and give the way to make something of it."""
        self.source(source, size)
        return Sweep(partial(self.run, source), partial(self._check, source))

    def _check(self, source: Path, made: Path) -> None:
        self.check(made, source)


def merge_two(source: Path, made: Path, **options: Any) -> None:
    merge(made, [source, f"{source}.two"], **options)


def intersect_two(source: Path, made: Path, **options: Any) -> None:
    intersect(made, [source, f"{source}.two"], **options)


def merge_twice(source: Path, made: Path, **options: Any) -> None:
    merge(made, [source, source], **options)


def to_bloom(source: Path, made: Path, **options: Any) -> None:
    with CountingBloomFilter.open(source, allow_network=True) as seen:
        seen.to_bloom(made, **options)


WAYS = {
    "copy": Way(copy),
    "seal": Way(partial(copy, seal=True), check=check_sealed),
    "repair": Way(repair),
    "merge": Way(merge_two, two_files, check_merged),
    "intersect": Way(intersect_two, two_files, check_common),
    "export": Way(export_guava, check=check_exported),
    "import": Way(import_guava, of_guava, check_imported),
    "to_bloom": Way(to_bloom, counters),
    "copy folder": Way(copy, folder, check_made_folder),
    "repair folder": Way(repair, folder, check_made_folder),
    "merge folder": Way(merge_twice, folder, check_made_folder),
}
FILES, FOLDERS = [*WAYS][:-4], [*WAYS][-3:]
each_way = pytest.mark.parametrize("way", WAYS)
of_folders = [pytest.mark.slow, pytest.mark.laws("F7")]


@pytest.mark.parametrize("way", FILES)
def test_on_the_disk_before_it_has_its_path(tmp_path: Path, way: str) -> None:
    """Law 8: array and header are written and forced to the disk, then linked, then the folder.

    Law 16: what is read of a source is read by no map.
    """
    calls = WAYS[way].sweep(tmp_path / "source").calls(tmp_path)
    assert "pread" in calls
    assert not {"mmap", "flock"} & {*calls}
    wanted = {"posix_fallocate", "pwrite", "fsync", "link"}
    header = [] if way == "export" else ["pwrite"]
    zeros = [] if has.FALLOCATE else ["pwrite"]
    made = ["posix_fallocate", *zeros, "pwrite", *header, "fsync", "link", "fsync"]
    assert [name for name in calls if name in wanted] == made


@pytest.mark.parametrize(
    ("way", "when"),
    [
        *(("copy", "before"), ("seal", "after"), ("repair", "after"), ("merge", "before")),
        *((way, when) for way in ("export", "import") for when in ("before", "after")),
        pytest.param("to_bloom", "before", marks=pytest.mark.laws("F7")),
        *(
            pytest.param(way, when, marks=of_folders)
            for way, when in zip(FOLDERS, ("after", "after", "before"), strict=True)
        ),
    ],
)
def test_killed_at_any_call(
    tmp_path: Path, way: str, when: str, request: pytest.FixtureRequest
) -> None:
    """Law 8: kill -9 before or after each os call: destination absent or sound, source as ever.

    What a killed run leaves is in nobody's way.
    """
    sweep = WAYS[way].sweep(tmp_path / "source")
    before = contents(tmp_path / "source")
    kills = sweep.killed_at_each_call(tmp_path, when)
    assert contents(tmp_path / "source") == before
    if request.node.get_closest_marker("laws"):
        request.getfixturevalue("tally")(kills=kills)


@pytest.mark.parametrize(
    ("way", "code"),
    [
        *(("copy", errno.EIO), ("seal", errno.ENOSPC), ("repair", errno.EIO)),
        *(
            (way, code)
            for way in ("merge", "export", "import")
            for code in (errno.EIO, errno.ENOSPC)
        ),
        pytest.param("to_bloom", errno.ENOSPC, marks=pytest.mark.laws("F7")),
        *(
            pytest.param(way, code, marks=of_folders)
            for way, code in zip(FOLDERS, (errno.ENOSPC, errno.EIO, errno.EIO), strict=True)
        ),
    ],
)
def test_any_failing_call(
    tmp_path: Path, way: str, code: int, request: pytest.FixtureRequest
) -> None:
    """Law 8: each os call fails in turn: OSError, no half file, no temp file, no descriptor."""
    sweep = WAYS[way].sweep(tmp_path / "source")
    before = contents(tmp_path / "source")
    faults = sweep.failing_at_each_call(tmp_path, code)
    assert contents(tmp_path / "source") == before
    if request.node.get_closest_marker("laws"):
        request.getfixturevalue("tally")(faults=faults)


@each_way
def test_full_disk(tmp_path: Path, way: str) -> None:
    """Laws 8, 9: a full disk is ENOSPC with the size and the path, and nothing is left."""
    (tmp_path / "disk").mkdir()
    sweep = WAYS[way].sweep(tmp_path / "source", MIB * 5 // 8)
    space = sum(map(len, contents(tmp_path / "source").values())) if way in FOLDERS else MIB
    sweep.second_on_a_small_disk(tmp_path / "disk", space + 16_384 * (way in FOLDERS))


@pytest.mark.parametrize("way", FILES)
def test_short_writes_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A system that reads and writes less than asked for makes the same file."""
    sweep = WAYS[way].sweep(tmp_path / "source")
    pread, pwrite = os.pread, os.pwrite

    def write_less(fd: int, data: bytes, at: int) -> int:
        return pwrite(fd, data[: 99_999 if len(data) > HEADER_BYTES else None], at)

    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 99_999), at))
    monkeypatch.setattr(os, "pwrite", write_less)
    sweep.make(tmp_path / "made")
    monkeypatch.undo()
    sweep.check(tmp_path / "made")


IN_THE_WAY: dict[str, Callable[[Path, Path], object]] = {
    "file": lambda there, _: there.write_bytes(b"precious"),
    "filter": lambda there, _: one_file(there, 4096),
    "folder": lambda there, _: there.mkdir(),
    "dangling link": lambda there, _: there.symlink_to("nowhere"),
    "link": lambda there, source: there.symlink_to(source),
    "hard link": lambda there, source: os.link(source, there),
    "the source": lambda _, source: source,
}


@pytest.mark.parametrize(
    ("way", "there"),
    # A folder has no second name.
    [(way, there) for way in WAYS for there in IN_THE_WAY if way in FILES or there != "hard link"],
)
def test_what_is_at_the_destination_stays(tmp_path: Path, way: str, there: str) -> None:
    """Laws 8, 10: an existing destination of any kind is FileExistsError, and untouched."""
    source, made = tmp_path / "source", tmp_path / "made"
    WAYS[way].source(source, 4096)
    IN_THE_WAY[there](made, source)
    made = source if there == "the source" else made
    before, files = lasting(made), contents(tmp_path)
    with pytest.raises(FileExistsError) as caught:
        WAYS[way].run(source, made)
    assert caught.value.filename == str(made)
    assert (lasting(made), contents(tmp_path)) == (before, files)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@each_way
@pytest.mark.parametrize("permissions", [None, 0o600, 0o640, 0o644, 0o400])
def test_permissions(tmp_path: Path, way: str, permissions: int | None) -> None:
    """Law 15: it is private whatever its source is, or as asked for, whatever the umask."""
    source, made = tmp_path / "source", tmp_path / "made"
    WAYS[way].source(source, 4096)
    for path in (source, *tmp_path.glob("source*"), *tmp_path.glob("source/*")):
        os.chmod(path, 0o777 if path.is_dir() else 0o666)
    umask = os.umask(0o077 if permissions else 0)
    try:
        WAYS[way].run(source, made, **({} if permissions is None else {"permissions": permissions}))
    finally:
        os.umask(umask)
    mode = permissions or 0o600
    found = {stat.S_IMODE(path.stat().st_mode) for path in (made, *made.glob("*"))}
    # Who may read the files may enter their folder.
    entering = mode | (mode & 0o444) >> 2 if made.is_dir() else mode
    assert found == {mode, entering}


@each_way
def test_on_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Law 18: nothing is made there unless it is asked for."""
    source, made = tmp_path / "source", tmp_path / "made"
    WAYS[way].source(source, 4096)
    before = os.listdir(tmp_path)
    monkeypatch.setattr("mmbloom._system.disk.file_system_type", lambda _: "nfs4")
    with pytest.raises(NetworkFileSystemError) as caught:
        WAYS[way].run(source, made)
    assert caught.value.path == str(made)
    check_folder(tmp_path, *before)
    WAYS[way].run(source, made, allow_network=True)
    assert made.exists()


@pytest.mark.parametrize("way", ["copy", "repair", "merge", "intersect", "export"])
@pytest.mark.parametrize("at", [0, MIB - 1, MIB, 2 * MIB + 63, 2 * MIB + 64, 2 * MIB + 79])
def test_damaged_seal(tmp_path: Path, way: str, at: int) -> None:
    """Law 19: one flipped bit in array or trailer of a sealed source: refused, nothing is made.

    But by `repair`, which keeps what is there.
    """
    source, made = tmp_path / "source", tmp_path / "made"
    WAYS[way].source(tmp_path / "live", 2 * MIB + 64)
    for live in tmp_path.glob("live*"):
        copy(live, tmp_path / live.name.replace("live", "source"), seal=True)
    WAYS[way].run(source, tmp_path / "of sealed")
    WAYS[way].check(tmp_path / "of sealed", tmp_path / "live")
    flip(str(source), HEADER_BYTES + at, 5)
    before = contents(source)
    if way == "repair":
        assert repair(source, made).losses
    else:
        with pytest.raises(FormatError, match="checksum of ") as caught:
            WAYS[way].run(source, made)
        assert caught.value.path == str(source)
        assert not made.exists()
    assert contents(source) == before


def truncate_to(size: int) -> Callable[[Path, bytes], object]:
    return lambda path, _: os.truncate(path, size)


SIZE = 4 * MIB + 8  # read in 4 pieces and a rest, after the header (and its counters)
CHANGES: dict[str, Callable[[Path, bytes], object]] = {
    "to nothing": truncate_to(0),
    "to its header": truncate_to(HEADER_BYTES),
    "to an odd size": truncate_to(HEADER_BYTES + MIB + 5),
    "by a byte": lambda path, other: os.truncate(path, len(other) - 1),
    "extended": lambda path, other: os.truncate(path, 2 * len(other)),
    "another over it": lambda path, other: path.write_bytes(other),
    "zeros over it": lambda path, other: path.write_bytes(bytes(len(other))),
    "text over it": lambda path, other: path.write_bytes(b"x" * len(other)),
}
OF_THEIRS = [name for name in CHANGES if name not in ("another over it", "zeros over it")]
VERIFY = Way(lambda source, _: verify(source, keys=KEYS))
COMPARE = Way(lambda source, _: compare(source, f"{source}.two"), two_files)
TURNED = {  # the source that changes is the second one
    "merge": Way(lambda source, made: merge(made, [f"{source}.two", source]), two_files),
    "intersect": Way(lambda source, made: intersect(made, [f"{source}.two", source]), two_files),
    "compare": Way(lambda source, _: compare(f"{source}.two", source), two_files),
}
OF_TWO = ["to its header", "another over it"]
MEANWHILE: list[tuple[str, Way, list[str], tuple[int, ...]]] = [
    ("copy", WAYS["copy"], [*CHANGES], (1, 2, 5)),
    ("copy sealed", Way(copy, sealed), [*CHANGES], (1, 2, 5)),
    ("repair", WAYS["repair"], ["to nothing", "to an odd size"], (2,)),
    ("export", WAYS["export"], OF_THEIRS, (1, 3)),
    ("import", WAYS["import"], OF_THEIRS, (1, 3, 5)),
    ("verify", VERIFY, [*CHANGES], (1, 2, 4, 5)),
    ("merge", WAYS["merge"], [*CHANGES], (4, 6, 8, 10, 14, 20, 21)),
    ("merge turned", TURNED["merge"], [*CHANGES], (4, 5, 7, 11, 13, 15, 21)),
    ("intersect", WAYS["intersect"], OF_TWO, (10, 16)),
    ("intersect turned", TURNED["intersect"], OF_TWO, (13, 17)),
    ("compare", COMPARE, OF_TWO, (6, 12)),
    ("compare turned", TURNED["compare"], OF_TWO, (9, 13)),
]


@pytest.mark.parametrize(
    ("way", "change", "at"),
    [
        pytest.param(way, change, at, id=f"{name}-{change}-{at}")
        for name, way, changes, moments in MEANWHILE
        for change in changes
        for at in moments
    ],
)
def test_source_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, change: str, at: int
) -> None:
    """Law 16: a source cut or overwritten meanwhile is FileChangedError, no signal, no file."""
    source, other = tmp_path / "source", tmp_path / "other"
    for path in (source, other):
        way.source(path, SIZE)
    octets, before = other.read_bytes(), os.listdir(tmp_path)
    at_pread(monkeypatch, at, lambda: CHANGES[change](source, octets))
    with pytest.raises(FileChangedError) as caught:
        way.run(source, tmp_path / "made")
    assert caught.value.path == str(source)
    assert change != "extended" or caught.value.found.startswith(("resized from ", "extended"))
    check_folder(tmp_path, *before)


@each_way
@pytest.mark.filterwarnings("error")
def test_copy_on_write_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Law 9: a filter made there comes with a warning, a file that nobody maps without."""
    sweep = WAYS[way].sweep(tmp_path / "source")
    monkeypatch.setattr("mmbloom._system.disk.file_system_type", lambda _: "btrfs")
    warned = pytest.warns(UserWarning, match="btrfs copies on write")
    with nullcontext() if way == "export" else warned:
        sweep.make(tmp_path / "made")
    sweep.check(tmp_path / "made")


def asked(method: str) -> Callable[[Path, Path, Path], object]:
    """Ask a filter for something of another."""

    def ask(one: Path, other: Path, _made: Path) -> None:
        with BloomFilter.open(one) as seen:
            getattr(seen, method)(other)

    return ask


COMBINE: dict[str, Callable[[Path, Path, Path], object]] = {
    "merge": lambda one, other, made: merge(made, [one, other]),
    "intersect": lambda one, other, made: intersect(made, [one, other]),
    "compare": lambda one, other, _: compare(one, other),
    **{
        name: asked(name)
        for name in ("union_update", "common_count", "jaccard", "isdisjoint", "issubset")
    },
}


@pytest.mark.parametrize("name", COMBINE)
def test_what_cannot_be_combined(tmp_path: Path, name: str) -> None:
    """Other parameters, counters and what is not there: its own error, and nothing changes."""
    one, other, made = tmp_path / "one", tmp_path / "other", tmp_path / "made"
    make(one, range(9))
    make(other, range(9), seed=6)
    before = contents(tmp_path)
    with pytest.raises(IncompatibleFiltersError, match="cannot be combined") as caught:
        COMBINE[name](one, other, made)
    assert (caught.value.path, caught.value.other) == (str(one), str(other))
    assert caught.value.differences == (("seed", *SEEDS_5_AND_6),)
    counters, said = (
        GOLDEN / "standard-counters.bloom",
        r"2 \(counters, a CountingBloomFilter\), exp",
    )
    for pair in ((one, counters), (counters, one)):
        with pytest.raises(FormatError, match=said) as refused:
            COMBINE[name](*pair, made)
        assert refused.value.path == str(counters)
    with pytest.raises(FileNotFoundError) as missing:
        COMBINE[name](one, tmp_path / "missing", made)
    assert missing.value.filename == str(tmp_path / "missing")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("combine", [merge, intersect])
def test_no_sources(tmp_path: Path, combine: Callable[..., object]) -> None:
    """Sources are one or more, in a list: nothing has no parameters, and a path is none."""
    empty: list[Any] = [[], (), iter([]), {}]
    for sources in empty:
        with pytest.raises(ValueError, match="sources is empty"):
            combine(tmp_path / "out", sources)
    with pytest.raises(TypeError, match="expected a list of paths"):
        combine(tmp_path / "out", str(tmp_path / "one"))
    check_folder(tmp_path)
