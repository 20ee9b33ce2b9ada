"""mmbloom create and copy: a filter as asked for, or nothing, and never over what is there."""

import os
import stat
import struct
from pathlib import Path

import pytest
from checks import array_of, check_folder
from cli_runner import inside, is_one_line, mmbloom, refused
from damages import KEYS, MIB, filter_of, flip, sealed_of, untouched

from mmbloom import BloomFilter, verify
from mmbloom.cli.filters import LARGE


def field(path: Path, offset: int, code: str) -> int | float:
    """Read a field of the header, at its offset in the format's table."""
    found: int | float = struct.unpack_from("<" + code, path.read_bytes(), offset)[0]
    return found


@pytest.mark.parametrize(
    ("option", "texts", "offset", "code", "value"),
    [
        ("-n", "1e6", 48, "Q", 10**6),
        ("--capacity", "10K 10k 1e4 10_000", 48, "Q", 10_000),
        ("-n", "0.5M", 48, "Q", 500_000),
        ("-n", "2.5e3", 48, "Q", 2500),
        ("-n", "1", 48, "Q", 1),
        ("-n9 -p", "1% 0.01", 56, "d", 0.01),
        ("-n9 -p", "0.1%", 56, "d", 0.001),
        ("-n9 --error-rate", "1e-4", 56, "d", 0.0001),
    ],
)
def test_numbers(
    tmp_path: Path, option: str, texts: str, offset: int, code: str, value: float
) -> None:
    for text in texts.split():
        made = inside("create", tmp_path / text, *option.split(), text)
        assert made == (0, b"", "")
        assert field(tmp_path / text, offset, code) == pytest.approx(value, abs=0)


def key_of(path: Path) -> bytes:
    """The 16 bytes of SipHash's key."""
    return path.read_bytes()[112:128]


def test_layout_and_seed(here: Path) -> None:
    seeds = {
        "a": "4294967295 --layout standard --hash murmur3",
        "d": "0x0102030405060708090a0B0C0D0E0F10",
        "e": str(2**128 - 1),
    }
    for name in "abcde":
        seed = f"--seed {seeds[name]}".split() if name in seeds else []
        assert inside("create", name, "-n", "100", *seed).code == 0
        numbers = [field(Path(name), offset, "I") for offset in (20, 24, 40)]  # layout, hash, seed
        assert numbers == ([1, 1, 2**32 - 1] if name == "a" else [2, 2, 0])
        assert field(Path(name), 56, "d") == 1e-6
    a, b, c, d, e = (key_of(Path(name)) for name in "abcde")
    assert (a, d, e) == (bytes(16), bytes(range(16, 0, -1)), b"\xff" * 16)
    assert b != c


def test_like(tmp_path: Path) -> None:
    argv = ("-n", "1234", "-p", "0.003", "--layout", "standard", "--seed", "9")
    inside("create", tmp_path / "a", *argv)
    (tmp_path / "in").write_bytes(b"a\n")
    inside("add", tmp_path / "a", tmp_path / "in")
    assert inside("create", tmp_path / "b", "--like", tmp_path / "a").code == 0
    one, two = (tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()
    assert one[8:64] == two[8:64]  # version to error rate
    assert len(one) == len(two)
    assert not any(two[2048:2560])
    assert one[2560:4096] == two[2560:4096]
    assert not any(two[4096:])


def test_a_filter_of_its_own(tmp_path: Path) -> None:
    assert mmbloom("create", tmp_path / "seen", "-n1e7", "-p1%") == (0, b"", "")
    assert os.listdir(tmp_path) == ["seen"]
    status = (tmp_path / "seen").stat()
    assert status.st_mode & 0o7777 == 0o600
    assert 9.8 * 10**7 / 8 < status.st_size - 4096 < 10 * 10**7 / 8
    assert status.st_blocks * 512 >= status.st_size


def test_a_millionth_unless_told_otherwise(here: Path) -> None:
    """A false positive is a line that is lost: whatever makes a filter plans for 1e-6."""
    lines = b"".join(b"%d\n" % number for number in range(200_000))
    assert mmbloom("dedup", "dedup", "-n", "2e5", "--seed", "7", stdin=lines).out == lines
    assert mmbloom("add", "add", "-n", "1e3", stdin=b"a\n").code == 0
    for kind in ("counting", "growing", "rotate"):
        assert mmbloom("create", kind, "-n", "1e3", f"--{kind}").code == 0
    for made in here.iterdir():
        assert b"at capacity 1e-06" in mmbloom("info", made).out
    assert b"1e-06" in mmbloom("plan", "-n", "1e6", "--json").out
    assert mmbloom("create", "wide", "-n", "1e3", "-p", "1%").code == 0
    assert b"at capacity 0.01" in mmbloom("info", "wide").out


def test_a_filter_of_another_rate_is_not_taken_silently(tmp_path: Path) -> None:
    """One that was made for 0.01 loses lines: who asks for the default is told, and says which."""
    BloomFilter.create(tmp_path / "seen", 1000).close()
    done = mmbloom("dedup", tmp_path / "seen", "-n", "1000", stdin=b"a\n")
    assert (done.code, done.out) == (3, b"")
    assert "error_rate 0.01, expected 1e-06" in done.err
    assert mmbloom("dedup", tmp_path / "seen", stdin=b"a\n").out == b"a\n"
    assert mmbloom("dedup", tmp_path / "seen", "-n", "1000", "-p", "1%", stdin=b"b\n").code == 0


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]], ids=str)
@pytest.mark.parametrize("command", ["create", "dedup", "add"])
def test_permissions(tmp_path: Path, command: str, kind: list[str]) -> None:
    for name, options, mode in (("one", [], 0o600), ("all", ["--permissions", "666"], 0o666)):
        made = mmbloom(command, tmp_path / name, "-n", "1000", *options, *kind, stdin=b"a\n")
        assert made.code == 0
        for file in (tmp_path / name).glob("*.bloom") if kind else [tmp_path / name]:
            assert file.stat().st_mode & 0o777 == mode
    if command != "create":
        again = ("-n", "1000", "--permissions", "666", *kind)
        assert mmbloom(command, tmp_path / "one", *again, stdin=b"b\n").code == 0
        assert ((tmp_path / "one").stat().st_mode & 0o077) == 0, "it was there already"


@pytest.mark.parametrize(
    "command", ["create f -n 2K", "dedup f in -n 2K", "add f in -n 2K", "create f -n 2K --rotate"]
)
def test_a_large_file_is_announced(
    here: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Before a file of more than a gigabyte is made one line says how large, and how to undo it.

    Not again when it is there, not with -q, and not of a smaller one.
    """
    Path("in").write_bytes(b"a\n")
    assert LARGE == 2**30
    monkeypatch.setattr("mmbloom.cli.filters.LARGE", 8192)
    argv = command.split()
    done = inside(*argv)
    assert done.code == 0
    each = " per period" if "--rotate" in argv else ""
    assert is_one_line(
        done.err, f"creating f: 12.3 kB{each} for 2,000 keys at an error rate of 1e-06"
    )
    assert is_one_line(done.err, "press Ctrl-C or remove it, and give a smaller -n")
    if argv[0] != "create":
        assert inside(*argv).err == ""
    again = ["other" if word == "f" else word for word in argv]
    assert inside(*again, "-q").err == ""
    small = ["small" if word == "f" else "100" if word == "2K" else word for word in argv]
    assert inside(*small).err == ""


@pytest.mark.parametrize("seal", [False, True])
def test_copy(path: str, tmp_path: Path, seal: bool) -> None:
    filter_of(path, MIB + 64)
    with untouched(path):
        done = mmbloom("copy", path, tmp_path / "b", *(["--seal"] if seal else []))
    assert done == (0, b"", "")
    found = verify(tmp_path / "b", keys=list(KEYS))
    assert (found.problems, found.sealed_segments) == ((), 2 if seal else 0)
    assert stat.S_IMODE(os.stat(tmp_path / "b").st_mode) == 0o600


def test_copy_of_a_filter_in_use(path: str, tmp_path: Path) -> None:
    filter_of(path, 4096)
    with BloomFilter.open(path) as seen, seen.locked():
        seen.add("a")
        assert inside("copy", path, tmp_path / "b").code == 0
    with BloomFilter.open(tmp_path / "b", "r") as copied:
        assert "a" in copied


def test_permissions_of_a_copy(path: str, tmp_path: Path) -> None:
    filter_of(path, 64)
    assert inside("copy", path, tmp_path / "b", "--permissions", "640").code == 0
    assert stat.S_IMODE(os.stat(tmp_path / "b").st_mode) == 0o640
    check_folder(tmp_path, "b", "seen.bloom")


def test_source_that_is_sealed_and_damaged(tmp_path: Path) -> None:
    flip(sealed_of(tmp_path / "a", MIB), 5000)
    assert refused(inside("copy", tmp_path / "a", tmp_path / "b"), 3, str(tmp_path / "a"))
    assert os.listdir(tmp_path) == ["a"]


def test_unsealed_again(tmp_path: Path) -> None:
    path = sealed_of(tmp_path / "a", 4096)
    (tmp_path / "in").write_bytes(b"x\n")
    assert inside("add", path, tmp_path / "in").code == 3
    assert inside("copy", path, tmp_path / "b").code == 0
    assert array_of(str(tmp_path / "b")) == array_of(path)[:4096]
    assert inside("add", tmp_path / "b", tmp_path / "in").code == 0


def test_replace(path: str, tmp_path: Path) -> None:
    filter_of(path, 4096)
    assert inside("copy", path, tmp_path / "copy").code == 0
    with BloomFilter.open(path) as seen:
        seen.add("since then")
    done = inside("copy", path, tmp_path / "copy")
    assert refused(done, 5, str(tmp_path / "copy"), "--replace replaces a filter")
    assert inside("copy", path, tmp_path / "copy", "--replace") == (0, b"", "")
    with BloomFilter.open(tmp_path / "copy", "r") as seen:
        assert "since then" in seen


def test_replace_what_is_none(path: str, tmp_path: Path) -> None:
    """What is no filter stays: exit 5, and one line; a plain copy takes no place at all."""
    filter_of(path, 4096)
    (tmp_path / "text").write_text("precious")
    done = inside("copy", "--replace", path, tmp_path / "text")
    assert refused(done, 5, str(tmp_path / "text"), "is not a sound filter", "choose another")
    assert (tmp_path / "text").read_text() == "precious"
