"""mmbloom intersect: OUT of what all IN have in common, and failures with their line and code."""

from pathlib import Path

import pytest
from checks import check_folder
from cli_runner import inside, refused, started
from unions import make, make_two

from mmbloom import BloomFilter


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    return make_two(tmp_path, error_rate=1e-9)


def test_lines_of_both_logs(tmp_path: Path, two: list[str]) -> None:
    argv = ("intersect", "out", "--permissions", "640", "one", "./two")
    assert started(*argv, cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640
    with BloomFilter.open(tmp_path / "out") as seen:
        assert seen.contains_many(range(200, 300)).all()
        assert not seen.contains_many([*range(200), *range(300, 500)]).any()
    check_folder(tmp_path, "one", "two", "out")


def test_another_seed(tmp_path: Path, two: list[str]) -> None:
    other = make(tmp_path / "other", seed=6)
    seeds = "seed secret (fingerprint 966a28d3) and secret (fingerprint 5e9a5de4)"
    assert refused(inside("intersect", tmp_path / "out", two[0], other), 3, seeds, "--like")
    check_folder(tmp_path, "one", "other", "two")
