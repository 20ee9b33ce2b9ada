"""Law 13 for what comes from elsewhere: any bytes as a Guava file are an error or a filter."""

import os
import random
import struct
from pathlib import Path

import pytest
from checks import array_of, check_folder, check_settled
from damages import untouched
from guava_files import GOLDEN, GuavaFile, parse
from workers import in_child

from mmbloom import BloomFilter, FormatError, import_guava, verify

ONE_LONG = struct.pack(">bBiQ", 1, 7, 1, 5)
WRONG: dict[str, tuple[bytes, str, str, str]] = {  # the file, then field, found and expected
    "empty": (b"", "length", "0 bytes", "at least 14"),
    "cut in the prefix": (ONE_LONG[:5], "length", "5 bytes", "at least 14"),
    "old strategy": (b"\0" + ONE_LONG[1:], "strategy", "0 (MURMUR128_MITZ_32)", "1 (MURMUR"),
    "unknown strategy": (b"\2" + ONE_LONG[1:], "strategy", "2", "1 (MURMUR128_MITZ_64)"),
    "negative strategy": (b"\xff" + ONE_LONG[1:], "strategy", "255", "1 (MURMUR128_MITZ_64)"),
    "java serialization": (b"\xac\xed\0\5sr\0\x2a" + bytes(99), "strategy", "172", "writeTo"),
    "mmbloom": (b"\x89MMBLM\r\n" + bytes(5000), "strategy", "137", "1 (MURMUR128_MITZ_64)"),
    "no hash": (b"\1\0" + ONE_LONG[2:], "number of hashes", "0", "1 to 64"),
    "65 hashes": (b"\1\x41" + ONE_LONG[2:], "number of hashes", "65", "1 to 64, the most"),
    "255 hashes": (b"\1\xff" + ONE_LONG[2:], "number of hashes", "255", "(Guava: 255)"),
    "no long": (struct.pack(">bBi", 1, 7, 0), "number of longs", "0", "1 to 2147483647"),
    "negative longs": (struct.pack(">bBiQ", 1, 7, -1, 0), "number of longs", "-1", "1 to"),
    "least longs": (struct.pack(">bBiQ", 1, 7, -(2**31), 0), "number of longs", "-2147483648", ""),
    "most longs": (
        struct.pack(">bBiQ", 1, 7, 2**31 - 1, 0),
        "file size",
        "14 bytes",
        "17179869182",
    ),
    "prefix only": (ONE_LONG[:6], "file size", "6 bytes", "14"),
    "a byte short": (ONE_LONG[:-1], "file size", "13 bytes", "14"),
    "a byte more": (ONE_LONG + b"\0", "file size", "15 bytes", "14"),
    "little-endian": (struct.pack("<bBiQ", 1, 7, 1, 5), "file size", "14 bytes", "134217734"),
    "text": (b"these are no longs, and no filter", "strategy", "116", "1 (MURMUR128_MITZ_64)"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, kind: str) -> None:
    """Each rule that does not hold is a FormatError with path, field, found and expected."""
    data, field, found, expected = WRONG[kind]
    (tmp_path / "a").write_bytes(data)
    with untouched(tmp_path / "a"), pytest.raises(FormatError) as caught:
        import_guava(tmp_path / "a", tmp_path / "b")
    assert (caught.value.path, caught.value.field) == (str(tmp_path / "a"), field)
    assert caught.value.found == found
    assert expected in caught.value.expected
    check_folder(tmp_path, "a")


def test_more_hashes_than_mmbloom_has(tmp_path: Path) -> None:
    """A file of the real Guava with 100 hashes is refused by their number."""
    with pytest.raises(FormatError, match="number of hashes is 100, expected 1 to 64"):
        import_guava(GOLDEN / "100-hashes.guava", tmp_path / "b")
    check_folder(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "dangling link", "nothing"])
def test_special_files(tmp_path: Path, kind: str) -> None:
    """What is no regular file is refused at once, and neither opened nor waited for."""
    source = tmp_path / "a"
    if kind == "folder":
        source.mkdir()
    elif kind == "fifo":
        os.mkfifo(source)
    elif kind == "device":
        source = Path("/dev/zero")
    elif kind == "dangling link":
        source.symlink_to("nowhere")
    missing = kind in {"dangling link", "nothing"}
    with pytest.raises(FileNotFoundError if missing else FormatError):
        in_child(lambda: import_guava(source, tmp_path / "b"))  # which ends if it hangs
    assert not os.path.lexists(tmp_path / "b")


def mutant(chance: random.Random) -> bytes:
    """Damage a small file anywhere: its prefix, its longs, its length; sometimes not at all."""
    words = tuple(chance.getrandbits(64) for _ in range(chance.choice([1, 1, 2, 3, 33, 600])))
    data = bytearray(GuavaFile(chance.choice([1, 2, 7, 63, 64]), words).pack())
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        how = chance.random()
        if how < 0.2:
            data[chance.randrange(2) : 2] = b""
        elif how < 0.4 and len(data) > 1:
            data[chance.randrange(2)] = chance.choice([0, 1, 2, 64, 65, 127, 128, 255])
        elif how < 0.6 and len(data) >= 6:
            near = len(words) + chance.choice([-1, 1, 2])
            longs = chance.choice([near, -1, 0, 1, 2**24, 2**31 - 1, -(2**31)])
            struct.pack_into(">i", data, 2, longs)
            if 0 < longs < 1000 and chance.random() < 0.7:  # a file that fits what it says
                data = data[: 6 + 8 * longs].ljust(6 + 8 * longs, b"\x11")
        elif how < 0.75:
            data = data[: chance.randrange(len(data) + 1)]
        elif how < 0.85:
            data += chance.randbytes(chance.choice([1, 7, 8, 64]))
        elif data:
            place = chance.randrange(len(data))
            data[place : place + 8] = chance.randbytes(len(data[place : place + 8]))
    return bytes(data)


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
def test_mutants(tmp_path: Path, seed: int, stress: int) -> None:
    """Of 2,000 damaged files each is a FormatError, or the filter that its bytes describe."""
    chance, outcomes = random.Random(seed), {True: 0, False: 0}
    source, target = tmp_path / "a", tmp_path / "b"
    for number in range(2000 * stress):
        data = mutant(chance)
        source.write_bytes(data)
        held = parse(data)
        outcomes[held is not None] += 1
        if held is None:
            with pytest.raises(FormatError):
                import_guava(source, target)
            check_folder(tmp_path, "a")
            continue
        import_guava(source, target)
        assert array_of(str(target)) == held.array, number
        check_settled(str(target))
        with BloomFilter.open(target) as seen:
            assert (seen.params.num_hashes, seen.params.seed) == (held.num_hashes, 0)
            keys = list(range(20))
            assert seen.contains_many(keys).tolist() == [held.has(key) for key in keys]
        if number % 20 == 0:
            assert verify(target).ok
        assert source.read_bytes() == data
        target.unlink()
    assert min(outcomes.values()) > 200, outcomes
