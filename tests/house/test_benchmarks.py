"""A small run of every benchmark, so that none can rot; speed is not looked at."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kernels import needs_compiled

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = {
    "insert_query": "| mmbloom, int64 array |",
    "single": "| mmbloom, within locked() |",
    "engines": "| list of bytes |",
    "dedup_log": "| mmbloom dedup |",
    "start_up": "| mmbloom dedup, 3 lines, existing filter |",
    "durable": "| -o --durable |",
    "open_filter": "| mmbloom: open, query one key, close |",
    "memory": "### 2 workers",
    "contention": "| add, in locked() |",
    "threads": "| add_many, int64 array |",
    "cores": "| mmbloom dedup -j |",
    "members": "| absent, list of bytes |",
    "huge": "| create(...) | create + add 1,000 |",
    "counting": "| remove, int64 array |",
    "blocks": "| claim |",
    "cliff": "| 1e-6, in shared memory |",
    "features": "| union, intersection | yes, yes |",
    "cluster": "| one process |",
    "billion": "| false positives when full |",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all scripts once, with tiny sizes."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, str(BENCHMARKS / "run_all.py"), "--quick", "--results", str(folder)]
    # As if started by hand: a script finds its neighbours (see conftest).
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    environment["DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"] = "forkserver"  # sooner there
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert ("no charts" in done.stderr) == (find_spec("matplotlib") is None)
    return folder


def test_every_script_is_run() -> None:
    helpers = {"make_log", "run_all", "walk"}
    scripts = {path.stem for path in BENCHMARKS.glob("[!_]*.py")} - helpers
    assert scripts == set(SCRIPTS)


@pytest.mark.parametrize(
    ("engine", "most_rooms", "most_stays"),
    [
        pytest.param("compiled", 7, 27, marks=needs_compiled),
        ("numpy", 14, 60),  # the lock and the hash are Python too, in files of their own
    ],
)
def test_path_of_a_batch_is_short(engine: str, most_rooms: int, most_stays: int) -> None:
    """add_many enters few files, and goes straight from one to the next."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "walk.py")],
        env={**os.environ, "MMBLOOM_ENGINE": engine},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"({engine} engine)" in done.stdout
    found = re.search(r"BloomFilter.add_many` \| (\d+) \| (\d+) \|", done.stdout)
    assert found, done.stdout
    rooms, stays = map(int, found.groups())
    assert 5 <= rooms <= most_rooms
    assert 15 <= stays <= most_stays  # fewer are those of a call that was not made


@pytest.mark.parametrize(("script", "expected"), SCRIPTS.items())
def test_benchmark_runs(script: str, expected: str, results: Path) -> None:
    """Each script prints its table, says what it ran on, and leaves its figures as data."""
    kept: dict[str, Any] = json.loads((results / "figures" / f"{script}.json").read_text("utf-8"))
    assert expected in kept["markdown"]
    assert "Python 3" in kept["environment"]
    values = [
        values
        for rows in kept["figures"].values()
        for row in rows.values()
        for values in row.values()
    ]
    assert values
    assert all(isinstance(value, float) for some in values for value in some)
    assert kept["markdown"] in (results / "RESULTS.md").read_text("utf-8")


def test_results_compare_with_what_was_asked(results: Path) -> None:
    """A goal is judged where both sides were measured; a chart is drawn where it can be."""
    text = (results / "RESULTS.md").read_text("utf-8")
    assert "Run with --quick" in text
    assert re.search(r"^\| dedup \| awk \| at least 10x \| [0-9.]+x \| ", text, re.MULTILINE)
    assert "| not measured |" in text or find_spec("pyarrow")
    for chart in re.findall(r"\]\((charts/.*)\)", text):
        assert (results / chart).stat().st_size > 1000


@pytest.mark.parametrize("end", [b"\n", b""], ids=["whole", "cut off"])
def test_the_limit_in_c_does_the_same_work(tmp_path: Path, end: bytes) -> None:
    """The C program prints each line once, as mmbloom does, whatever its length."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = str(tmp_path / "limit")
    source = str(BENCHMARKS / "dedup_limit.c")
    subprocess.run([compiler, "-O1", "-std=gnu11", "-o", program, source], check=True)
    lines = (BENCHMARKS.parent / "examples" / "access.log").read_bytes().splitlines()
    lines += [b"x" * length for length in (*range(40), 5000)] * 2 + [b"the last"]
    log = b"\n".join(lines) + end
    limit = subprocess.run([program, "5000"], input=log, capture_output=True, check=True)
    expected = b"\n".join(dict.fromkeys(lines)) + end
    assert limit.stdout == expected


def test_sample_log_is_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "make_log.py"), "2000", "7"],
        capture_output=True,
        check=True,
    )
    assert done.stdout == (BENCHMARKS.parent / "examples" / "access.log").read_bytes()


def test_log_repeats_three_lines_in_ten() -> None:
    lines = (BENCHMARKS.parent / "examples" / "access.log").read_bytes().splitlines()
    assert 0.65 < len(set(lines)) / len(lines) < 0.75
