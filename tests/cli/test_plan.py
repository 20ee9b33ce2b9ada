"""mmbloom plan: the costs of a filter, before it is made."""

import json
import math
from pathlib import Path

import pytest
from cli_runner import inside, mmbloom

from mmbloom import sizing

# The table of the format's design: error rate, standard bits/key, blocked bits/key, its k and b.
EXPECTED = [
    ("10%", 4.79, 4.83, 3, 1),
    ("1%", 9.59, 9.90, 6, 1),
    ("0.1%", 14.38, 15.49, 9, 1),
    ("0.01%", 19.17, 19.86, 12, 2),
    ("0.0001%", 28.76, 31.18, 18, 2),
]


@pytest.mark.parametrize(("rate", "standard", "blocked", "num_hashes", "blocks"), EXPECTED)
def test_figures_of_both_layouts(
    rate: str, standard: float, blocked: float, num_hashes: int, blocks: int
) -> None:
    figures = json.loads(inside("plan", "-n", "1e9", "-p", rate, "--json").out)
    assert figures["standard"]["bits_per_key"] == pytest.approx(standard, abs=0.0051)
    assert figures["blocked"]["bits_per_key"] == pytest.approx(blocked, abs=0.0051)
    assert figures["blocked"]["num_hashes"] == num_hashes
    assert figures["blocked"]["blocks_per_key"] == blocks
    assert figures["standard"]["blocks_per_key"] == 1
    expected = round(figures["standard"]["bits_per_key"] * math.log(2))
    assert figures["standard"]["num_hashes"] == expected


def test_a_billion_keys() -> None:
    done = inside("plan", "-n", "1e9", "-p", "1%")
    assert (done.code, done.err) == (0, "")
    rows = {words[0]: words for words in map(str.split, done.out.decode().splitlines()) if words}
    assert rows["blocked"][1:4] == ["9.90", "6", "1"]
    assert rows["standard"][1:4] == ["9.59", "7", "-"]
    assert round(int(rows["blocked"][4].replace(",", "")) / 1e9, 2) == 1.24


def test_json_agrees_with_the_library() -> None:
    done = inside("plan", "-n", "5M", "-p", "0.002", "--json")
    figures = json.loads(done.out)
    assert (done.code, done.err, done.out.count(b"\n")) == (0, "", 1)
    assert (figures["capacity"], figures["error_rate"]) == (5_000_000, 0.002)
    for layout in ("blocked", "standard"):
        params = sizing.plan(5_000_000, 0.002, layout=layout)
        assert figures[layout]["num_hashes"] == params.num_hashes
        assert figures[layout]["file_bytes"] == 4096 + params.num_bytes
    assert figures["whole_bits"] == sizing.best_practice(0.002)._asdict()
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
