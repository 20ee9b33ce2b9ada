"""mmbloom info: what a filter says of itself."""

import io
import json
import re
import struct
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from cli_runner import EXACT, code_of, inside, is_one_line, mmbloom, on_a_terminal, started

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter, engine
from mmbloom.cli.showing import _fullest

BATCHES_BEGUN, POSITIONS_SET = 2048 + 16, 2048 + 8


@pytest.fixture
def used(tmp_path: Path) -> Path:
    (tmp_path / "in").write_bytes(b"".join(b"%d\n" % i for i in range(1000)))
    assert inside("add", tmp_path / "seen", tmp_path / "in", *EXACT).code == 0
    return tmp_path / "seen"


def read_counter(path: Path, offset: int) -> int:
    found: int = struct.unpack_from("<Q", path.read_bytes(), offset)[0]
    return found


def write_counter(path: Path, offset: int, value: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack("<Q", value))


def test_for_people(used: Path) -> None:
    done = mmbloom("info", used)
    assert (done.code, done.err) == (0, "")
    said = done.out.decode()
    for expected in (
        str(used),
        "100,000 keys",
        "1e-09",
        "1,000 were new",
        "blocked",
        "siphash, seed secret",
    ):
        assert expected in said
    assert f"{used.stat().st_size:,} bytes" in said
    assert "recount" not in said


def test_on_a_narrow_terminal(used: Path) -> None:
    """Values go on below themselves, at words, and the bar is shorter; not so in a pipe."""
    whole = mmbloom("info", used).out.decode()
    _, shown = on_a_terminal("info", used, stdout_too=True, columns=50)
    rows = shown.removesuffix("|END|").replace("\r\n", "\n").splitlines()
    assert any(row.startswith(" " * 16) for row in rows)
    assert all(len(row) <= 50 or str(used) in row or row.startswith("uuid") for row in rows)
    assert shown.count("░") < whole.count("░")
    joined = re.sub(r"\n {16}", " ", "\n".join(rows))
    assert joined.replace("░", "") == whole.rstrip("\n").replace("░", "")


def test_json(used: Path) -> None:
    done = inside("info", "--json", used)
    assert (done.code, done.err, done.out.count(b"\n")) == (0, "", 1)
    figures = json.loads(done.out)
    with BloomFilter.open(used, "r") as seen:
        info = seen.info().as_dict()
        assert figures == json.loads(json.dumps({**info, "engine": engine}))
    assert (figures["keys_added"], figures["unfinished_batches"]) == (1000, 0)
    assert figures["file_bytes"] == used.stat().st_size
    assert figures["positions_set"] == int.from_bytes(used.read_bytes()[4096:]).bit_count()
    assert abs(figures["approx_count"] - 1000) <= 2


def test_after_a_killed_writer(used: Path) -> None:
    begun, right = read_counter(used, BATCHES_BEGUN), read_counter(used, POSITIONS_SET)
    write_counter(used, BATCHES_BEGUN, begun + 1)
    write_counter(used, POSITIONS_SET, right // 2)
    done = inside("info", used)
    assert done.code == 0
    assert b"1 batches" in done.out or b"1 batch " in done.out
    assert b"--recount" in done.out
    assert json.loads(inside("info", used, "--json").out)["unfinished_batches"] == 1
    mended = inside("info", used, "--recount", "--json")
    assert mended.code == 0
    figures = json.loads(mended.out)
    assert (figures["unfinished_batches"], figures["positions_set"]) == (0, right)
    assert read_counter(used, POSITIONS_SET) == right
    assert b"recount" not in inside("info", used).out


@pytest.mark.parametrize("name", ["späße", "a\udcffb", "blank here"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["", "--json"])
def test_any_file_name(tmp_path: Path, name: str, encoding: str, options: list[str]) -> None:
    """A name that the terminal cannot show is no error: it is shown in some other way."""
    path = tmp_path / name
    BloomFilter.create(path, 100, seed=1).close()
    strict = io.TextIOWrapper(io.BytesIO(), encoding, "strict")
    with redirect_stdout(strict):
        assert code_of(["info", str(path), *options]) == 0
    strict.seek(0)
    assert "blocked" in strict.read()


def test_any_file_name_of_a_process(tmp_path: Path) -> None:
    path = tmp_path / "späße"
    BloomFilter.create(path, 100, seed=1).close()
    done = started("info", path, env={"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "1"})
    assert (done.code, done.err) == (0, "")
    assert b"blocked" in done.out


def test_the_key_is_shown_only_if_asked_for(tmp_path: Path) -> None:
    key = "0x000123456789abcdeffedcba98765432"
    for name, options in (("file", ()), ("folder", ("--growing",))):
        argv = ("create", tmp_path / name, "-n", "100", "--seed", key, *options)
        assert inside(*argv).code == 0
        for form in ((), ("--json",)):
            hidden = inside("info", tmp_path / name, *form).out.decode()
            shown = inside("info", tmp_path / name, *form, "--show-key").out.decode()
            for spelling in (key, key[5:], str(int(key, 0)), bytes.fromhex(key[2:])[::-1].hex()):
                assert spelling not in hidden
            assert key in shown
            assert "siphash" in hidden
    made = ("create", tmp_path / "old", "-n", "100", "--hash", "murmur3", "--seed", "7")
    assert inside(*made).code == 0
    for options in ((), ("--show-key",)):
        said = inside("info", tmp_path / "old", *options).out.decode()
        assert "murmur3, seed 7" in said
    figures = json.loads(inside("info", tmp_path / "old", "--json").out)
    assert (figures["hash"], figures["seed"]) == ("murmur3", 7)


@pytest.mark.parametrize(
    ("share", "code"), [("90%", 0), ("0.9", 0), ("100%", 0), ("1", 0), ("70%", 1), ("0.7", 1)]
)
@pytest.mark.parametrize("json_too", [False, True])
def test_fail_above(tmp_path: Path, share: str, code: int, *, json_too: bool) -> None:
    path = tmp_path / "seen"
    with BloomFilter.create(path, 1000, 1e-6, seed=1) as seen:
        seen.update(range(800))
    options = ["--json"] if json_too else []
    done = inside("info", path, *options, "--fail-above", share)
    plain = inside("info", path, *options)
    assert (done.code, done.out) == (code, plain.out)
    if code:
        assert is_one_line(
            done.err, f"{path}: is 80% full, above 70%: it holds about 80", "planned for 1000"
        )
    else:
        assert done.err == ""


def test_fail_above_of_several(tmp_path: Path) -> None:
    """Each that is too full is named; of a rotating folder its fullest period counts."""
    now = [0.0]
    with RotatingFilter.create(
        tmp_path / "week", capacity_per_period=100, error_rate=1e-6, clock=lambda: now[0]
    ) as seen:
        seen.update(range(90))
        now[0] = 86_400.0
        seen.update(range(1000, 1010))
    with GrowingFilter.create(tmp_path / "grown", 100, 1e-6) as seen:
        seen.update(range(99))
    for name, keys in (("full", 95), ("empty", 0)):
        with BloomFilter.create(tmp_path / name, 100, 1e-6) as one:
            one.update(range(keys))
    names = [tmp_path / name for name in ("empty", "full", "grown")]
    done = inside("info", *names, "--fail-above", "80%")
    assert done.code == 1
    assert is_one_line(done.err, f"{tmp_path / 'full'}: is 9")
    assert done.out.count(b"holds about") == 3
    with RotatingFilter.open(tmp_path / "week", "r", clock=lambda: now[0]) as seen:
        fullest = _fullest(seen.info())
    assert fullest is not None
    assert fullest.approx_count > 80
