"""mmbloom info, compare and plan: figures for people and for programs."""

import io
import json
import re
import struct
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from checks import change_header, counters_of, seal, set_counters
from cli_runner import EXACT, code_of, inside, is_one_line, mmbloom, on_a_terminal, started
from unions import make

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter, compare, engine, sizing
from mmbloom.cli.showing import WIDTH, _fullest, bar


@pytest.fixture
def used(tmp_path: Path) -> Path:
    (tmp_path / "in").write_bytes(b"".join(b"%d\n" % i for i in range(1000)))
    assert inside("add", tmp_path / "seen", tmp_path / "in", *EXACT).code == 0
    return tmp_path / "seen"


def test_for_people(used: Path) -> None:
    done = mmbloom("info", used)
    assert (done.code, done.err) == (0, "")
    said, figures = done.out.decode(), ("100,000 keys", "1e-09", "1,000 were new")
    for expected in (str(used), *figures, "blocked", "siphash, seed secret"):
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
    counters = counters_of(str(used))
    begun, right = counters["batches_begun"] + 1, counters["positions_set"]
    set_counters(str(used), batches_begun=begun, positions_set=right // 2)
    done = inside("info", used)
    assert done.code == 0
    assert b"1 batches" in done.out or b"1 batch " in done.out
    assert b"--recount" in done.out
    assert json.loads(inside("info", used, "--json").out)["unfinished_batches"] == 1
    mended = inside("info", used, "--recount", "--json")
    assert mended.code == 0
    figures = json.loads(mended.out)
    assert (figures["unfinished_batches"], figures["positions_set"]) == (0, right)
    assert counters_of(str(used))["positions_set"] == right
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


@pytest.mark.parametrize("kind", ["", "--growing"])
def test_the_key_is_shown_only_if_asked_for(here: Path, kind: str) -> None:
    key = "0x000123456789abcdeffedcba98765432"
    assert inside("create", "made", "-n", "100", "--seed", key, *kind.split()).code == 0
    for form in ((), ("--json",)):
        hidden = inside("info", "made", *form).out.decode()
        for spelling in (key, key[5:], str(int(key, 0)), bytes.fromhex(key[2:])[::-1].hex()):
            assert spelling not in hidden
        assert "siphash" in hidden
        assert key in inside("info", "made", *form, "--show-key").out.decode()


def test_a_seed_that_is_no_secret(here: Path) -> None:
    made = ("create", "old", "-n", "100", "--hash", "murmur3", "--seed", "7")
    assert inside(*made).code == 0
    for options in ((), ("--show-key",)):
        assert b"murmur3, seed 7" in inside("info", "old", *options).out
    figures = json.loads(inside("info", "old", "--json").out)
    assert (figures["hash"], figures["seed"]) == ("murmur3", 7)


@pytest.mark.parametrize(
    ("share", "code"), [("90%", 0), ("0.9", 0), ("100%", 0), ("1", 0), ("70%", 1), ("0.7", 1)]
)
@pytest.mark.parametrize("json_too", [False, True])
def test_fail_above(tmp_path: Path, share: str, code: int, *, json_too: bool) -> None:
    path = tmp_path / "seen"
    with BloomFilter.create(path, 1000, 1e-6, seed=1) as seen:
        seen.update(range(800))
    options = ["--json"] * json_too
    done = inside("info", path, *options, "--fail-above", share)
    assert (done.code, done.out) == (code, inside("info", path, *options).out)
    said = f"{path}: is 80% full, above 70%: it holds about 80"
    assert is_one_line(done.err, said, "capacity of 1000") if code else done.err == ""


def test_fail_above_of_several(here: Path) -> None:
    """Each that is too full is named."""
    with GrowingFilter.create("grown", 100, 1e-6) as seen:
        seen.update(range(99))
    for name, keys in (("full", 95), ("empty", 0)):
        make(here / name, range(keys), capacity=100, error_rate=1e-6)
    done = inside("info", "empty", "full", "grown", "--fail-above", "80%")
    assert done.code == 1
    assert is_one_line(done.err, "mmbloom: full: is 9")
    assert done.out.count(b"holds about") == 3


def test_the_fullest_period_counts(tmp_path: Path) -> None:
    now = [0.0]
    sizes: dict[str, Any] = {"capacity_per_period": 100, "error_rate": 1e-6}
    with RotatingFilter.create(tmp_path / "week", **sizes, clock=lambda: now[0]) as seen:
        seen.update(range(90))
        now[0] = 86_400.0
        seen.update(range(1000, 1010))
        fullest = _fullest(seen.info())
    assert fullest is not None
    assert fullest.approx_count > 80


CREATED, CAPACITY = 64, 48  # offsets in the header
NOW = datetime(2031, 5, 17, 12, tzinfo=UTC)
DAY = 86_400
SECOND = 10**9


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> int:
    """Stop the clock that info looks at; gives what it shows, in nanoseconds."""
    stopped = int(NOW.timestamp()) * SECOND
    monkeypatch.setattr(time, "time_ns", lambda: stopped)
    return stopped


def rows(*argv: str) -> dict[str, str]:
    """What a command prints, by the name of the row."""
    done = inside(*argv)
    assert (done.code, done.err) == (0, "")
    return {line[:15].strip(): line[16:] for line in done.out.decode().splitlines()}


def aged(path: str, now: int, seconds: float) -> str | None:
    """What info says of the capacity of a filter that was made so long ago."""
    change_header(path, CREATED, "<Q", now - int(seconds * SECOND))
    return rows("info", path).get("capacity")


@pytest.mark.parametrize(
    ("keys", "age", "form", "ahead", "within"),
    [
        (500, 10 * DAY, "%Y-%m-%d", 10 * DAY, 1.3 * DAY),
        (250, 10 * DAY, "%Y-%m-%d", 30 * DAY, 1.9 * DAY),
        (100, 10 * DAY, "%Y-%m-%d", 90 * DAY, 3.7 * DAY),
        (10, 10 * DAY, "%Y-%m-%d", 990 * DAY, 30.7 * DAY),
        (500, 3600, "%Y-%m-%d %H:%M UTC", 3600, 180),
    ],
)
def test_date(
    tmp_path: Path, now: int, keys: int, age: int, form: str, ahead: int, within: float
) -> None:
    path = make(tmp_path / "a", range(keys), capacity=1000, error_rate=1e-9)
    said = aged(path, now, age) or ""
    found = re.fullmatch(r"will be passed around (.*), at the pace since it was created", said)
    assert found
    then = datetime.strptime(found[1], form).replace(tzinfo=UTC)
    assert abs(then - NOW - timedelta(seconds=ahead)) < timedelta(seconds=within)


@pytest.mark.parametrize("seconds", [-DAY, 0, 59.9])
def test_too_young(tmp_path: Path, now: int, seconds: float) -> None:
    path = make(tmp_path / "a", range(100))
    assert aged(path, now, seconds) is None
    assert aged(path, now, 60) is not None


def test_nothing_to_go_by(tmp_path: Path, now: int) -> None:
    """Without a key there is no pace; a sealed filter gets no more keys, and says so."""
    assert aged(make(tmp_path / "a"), now, 10 * DAY) is None
    path = make(tmp_path / "b", range(100))
    seal(path)
    assert aged(path, now, 10 * DAY) is None
    assert rows("info", path)["sealed"] == "permanently read-only"
    assert "sealed" not in rows("info", str(tmp_path / "a"))


def test_passed(tmp_path: Path, now: int) -> None:
    path = make(tmp_path / "a", range(800), capacity=1000)
    change_header(path, CAPACITY, "<Q", 500)
    passed = "passed: about 0.4 % of new lines are now reported as seen"
    assert aged(path, now, 0) == passed
    seal(path)
    assert aged(path, now, 10 * DAY) == passed


@pytest.mark.parametrize("created", [0, 1, 2**63, 2**64 - 1])
def test_any_time(tmp_path: Path, now: int, created: int) -> None:
    path = make(tmp_path / "a", range(1), capacity=100)
    change_header(path, CREATED, "<Q", created)
    change_header(path, CAPACITY, "<Q", 2**64 - 1)
    said = rows("info", path).get("capacity")
    never = "not passed in a thousand years, at the pace since it was created"
    assert said == (never if created < 2 else None)


def test_error_rates(tmp_path: Path) -> None:
    path = make(tmp_path / "a", range(1000), capacity=1000, error_rate=0.05)
    found = re.fullmatch(r"(\S+), at capacity 0.05", rows("info", path)["error rate now"])
    assert found
    assert float(found[1]) == pytest.approx(0.05, rel=0.25)


@pytest.mark.parametrize(
    ("encoding", "full", "empty"),
    [("utf-8", "█", "░"), ("ascii", "#", "-"), ("latin-1", "#", "-"), ("cp437", "█", "░")],
)
def test_bar_fits_the_encoding(tmp_path: Path, encoding: str, full: str, empty: str) -> None:
    """The bar is drawn with what stdout's encoding has, and never escaped."""
    path = make(tmp_path / "a", range(1000), capacity=1000)
    done = started("info", path, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert (done.code, done.err) == (0, "")
    drawn = rf"\nfill ratio +(0\.\d+) \[?({full}+)({empty}+)\]?\n"
    found = re.search(drawn, done.out.decode(encoding))
    assert found
    assert len(found[2]) + len(found[3]) == WIDTH
    assert len(found[2]) == round(WIDTH * float(found[1]))


def test_bar_is_full_and_empty_only_if_that_is_so() -> None:
    """A bar is always as wide; one key shows, and so does one clear bit."""
    for share, filled in ((0, 0), (1e-12, 1), (0.5, 20), (1 - 1e-12, 39), (1, 40)):
        assert bar(share, "ascii") == "[" + "#" * filled + "-" * (40 - filled) + "]"
        assert len(bar(share, "utf-8")) == WIDTH
    assert bar(0.5, "no-such-encoding").startswith("[#")


def test_times_are_read_from_the_header(tmp_path: Path) -> None:
    """The offset that these tests forge is the time of creation, by the format's text."""
    before = time.time_ns()
    path = make(tmp_path / "a")
    (created,) = struct.unpack_from("<Q", Path(path).read_bytes(), CREATED)
    assert before <= created <= time.time_ns()


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    one = make(tmp_path / "one", range(3000), capacity=10_000, error_rate=1e-6)
    return [one, make(tmp_path / "two", range(2000, 5000), one)]


def test_comparison_for_people(two: list[str]) -> None:
    found = rows("compare", *two)
    assert (found.pop("first"), found.pop("second")) == (two[0], two[1])
    assert re.fullmatch(r"0\.\d{4}", found["Jaccard"])
    assert float(found.pop("Jaccard")) == pytest.approx(1000 / 5000, abs=0.01)
    assert all(re.fullmatch(r"about \d(,\d{3}|\d{2})", row) for row in found.values()), found
    counts = {name: int(row[6:].replace(",", "")) for name, row in found.items()}
    keys = {"keys of first": 3000, "keys of second": 3000, "keys of either": 5000}
    assert counts == pytest.approx({**keys, "common keys": 1000}, abs=50)


def test_comparison_as_json(two: list[str]) -> None:
    done = inside("compare", two[0], "--json", two[1])
    assert (done.code, done.err, done.out.count(b"\n")) == (0, "", 1)
    assert json.loads(done.out) == {**asdict(compare(*two)), "differences": {}}


def test_other_parameters(tmp_path: Path, two: list[str]) -> None:
    other = make(tmp_path / "other", capacity=10_000, error_rate=1e-6, seed=6)
    seeds = [f"secret (fingerprint {print_})" for print_ in ("966a28d3", "5e9a5de4")]
    done = inside("compare", two[0], other)
    assert (done.code, done.err) == (1, "")
    assert f"seed            {seeds[0]} and {seeds[1]}\n" in done.out.decode()
    assert b"cannot be compared" in done.out
    done = inside("compare", two[0], other, "--json")
    assert (done.code, done.err) == (1, "")
    differences = {"differences": {"seed": seeds}}
    assert json.loads(done.out) == dict.fromkeys(asdict(compare(*two))) | differences


def test_a_billion_keys() -> None:
    done = inside("plan", "-n", "1e9", "-p", "1%")
    assert (done.code, done.err) == (0, "")
    rows = {words[0]: words for words in map(str.split, done.out.decode().splitlines()) if words}
    assert rows["blocked"][1:4] == ["9.90", "6", "1"]
    assert rows["standard"][1:4] == ["9.59", "7", "-"]
    assert round(int(rows["blocked"][4].replace(",", "")) / 1e9, 2) == 1.24


@pytest.mark.parametrize("rate", ["10%", "1%", "0.1%", "0.01%", "0.002", "0.0001%"])
def test_json_agrees_with_the_library(rate: str) -> None:
    done = inside("plan", "-n", "5M", "-p", rate, "--json")
    figures = json.loads(done.out)
    assert (done.code, done.err, done.out.count(b"\n")) == (0, "", 1)
    assert figures["capacity"] == 5_000_000
    number = figures["error_rate"]
    assert number == (float(rate[:-1]) / 100 if "%" in rate else float(rate))
    for layout in ("blocked", "standard"):
        params, found = sizing.plan(5_000_000, number, layout=layout), figures[layout]
        assert found["num_hashes"] == params.num_hashes
        assert found["blocks_per_key"] == params.blocks_per_key
        assert found["file_bytes"] == 4096 + params.num_bytes
        assert found["bits_per_key"] == pytest.approx(params.num_bits / 5_000_000, abs=0.0051)
    assert figures["whole_bits"] == sizing.best_practice(number)._asdict()
    row = next(row for row in figures["table"] if row["bits_per_key"] == 10)
    assert (row["num_hashes"], round(row["error_rate"], 5)) == (7, 0.00819)


@pytest.mark.parametrize("rate", ["0.1", "0.01", "1e-5", "1e-9"])
def test_the_row_that_is_enough_is_marked(rate: str) -> None:
    out = inside("plan", "-n", "1000", "-p", rate).out.decode()
    rows = [line.split() for line in out.split("error rate\n")[-1].splitlines()]
    marked = [row for row in rows if "enough" in row]
    assert len(marked) == 1
    assert float(marked[0][2]) <= float(rate)
    assert all(float(row[2]) > float(rate) for row in rows[: rows.index(marked[0])])


def test_size_is_the_size(tmp_path: Path) -> None:
    for layout in ("blocked", "standard"):
        sizes = ("-n", "12345", "-p", "0.5%")
        assert mmbloom("create", tmp_path / layout, *sizes, "--layout", layout).code == 0
        figures = json.loads(mmbloom("plan", *sizes, "--json").out)
        assert (tmp_path / layout).stat().st_size == figures[layout]["file_bytes"]


@pytest.mark.parametrize("rate", ["1e-18", "1e-19", "5e-20", "1e-30"])
def test_rates_next_to_nothing(tmp_path: Path, rate: str) -> None:
    sizes = ("-n", "1000", "-p", rate, "--layout", "blocked")
    assert mmbloom("create", tmp_path / "a", *sizes).code == 0
    for form in ([], ["--json"]):
        done = mmbloom("plan", *sizes[:4], *form)
        assert (done.code, done.err) == (0, "")
    figures = json.loads(done.out)
    assert figures["blocked"]["file_bytes"] == (tmp_path / "a").stat().st_size
    assert "use the blocked layout" in figures["standard"]["error"]
    assert (figures["whole_bits"] is None) == (float(rate) < 6e-20)


@pytest.mark.parametrize("rate", ["0.5", "0.01", "1e-6", "1e-9"])
def test_it_fits_a_window(rate: str) -> None:
    """The answer stays in sight in 24 rows of 80; around the row that is enough are others."""
    lines = inside("plan", "-n", "1e9", "-p", rate).out.decode().splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    (marked,) = (place for place, line in enumerate(lines) if "enough" in line)
    bits = [
        int(line.split()[0]) for line in lines[lines.index("") :] if line[:12].strip().isdigit()
    ]
    assert bits == list(range(bits[0], bits[-1] + 1))
    assert len(lines) - marked == 4
