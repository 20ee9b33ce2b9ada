"""mmbloom compare: what two filters share, for people and for programs."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from cli_runner import inside, mmbloom
from unions import make

from mmbloom import compare


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    one = make(tmp_path / "one", range(3000), capacity=10_000, error_rate=1e-6)
    return [one, make(tmp_path / "two", range(2000, 5000), one)]


def test_for_people(two: list[str]) -> None:
    done = mmbloom("compare", *two)
    assert (done.code, done.err) == (0, "")
    rows = {line[:15].strip(): line[16:] for line in done.out.decode().splitlines()}
    assert (rows.pop("first"), rows.pop("second")) == (two[0], two[1])
    assert re.fullmatch(r"0\.\d{4}", rows["Jaccard"])
    assert float(rows.pop("Jaccard")) == pytest.approx(1000 / 5000, abs=0.01)
    assert all(re.fullmatch(r"about \d(,\d{3}|\d{2})", row) for row in rows.values()), rows
    counts = {name: int(row[6:].replace(",", "")) for name, row in rows.items()}
    keys = {"keys of first": 3000, "keys of second": 3000, "keys of either": 5000}
    assert counts == pytest.approx({**keys, "common keys": 1000}, abs=50)


def test_json(two: list[str]) -> None:
    done = inside("compare", two[0], "--json", two[1])
    assert (done.code, done.err, done.out.count(b"\n")) == (0, "", 1)
    assert json.loads(done.out) == {**asdict(compare(*two)), "differences": {}}


def test_other_parameters(tmp_path: Path, two: list[str]) -> None:
    other = make(tmp_path / "other", capacity=10_000, error_rate=1e-6, seed=6)
    done = inside("compare", two[0], other)
    assert (done.code, done.err) == (1, "")
    assert (
        "seed            secret (fingerprint 966a28d3) and secret (fingerprint 5e9a5de4)\n"
        in done.out.decode()
    )
    assert b"cannot be compared" in done.out
    done = inside("compare", two[0], other, "--json")
    assert (done.code, done.err) == (1, "")
    figures = json.loads(done.out)
    assert figures.pop("differences") == {
        "seed": ["secret (fingerprint 966a28d3)", "secret (fingerprint 5e9a5de4)"]
    }
    assert figures == dict.fromkeys(asdict(compare(*two)))
