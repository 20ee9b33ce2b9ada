"""A small run of the benchmark of engines, so that Spark's part of it cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cluster.py"


def test_rows_of_spark(tmp_path: Path) -> None:
    """What is ours is timed beside Spark's own, and each filter is asked for absent keys."""
    kept = tmp_path / "kept.json"
    sizes = ["--rows", "4000", "--files", "3", "--absent", "100", "--rounds", "1"]
    # As if started by hand: a script finds its neighbours (see conftest).
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *sizes, "--json", str(kept), "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"BENCHMARKS_QUICK": "1"},
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    assert "pyspark 4" in report["environment"]
    rows = report["figures"]["cluster"]
    measured = {name: {*columns} for name, columns in rows.items() if name.startswith("Spark")}
    own = {"build, s", "false of 10^6"}
    assert measured == {
        "Spark, mmbloom": own | {"ask, s", "new rows, s", "before", "MiB a worker"},
        "Spark, dropDuplicates": {"new rows, s"},
        "Spark, its Bloom filter": own,
        "Spark, its Bloom filter, limits raised": own,
    }
    assert rows["Spark, mmbloom"]["MiB a worker"][0] > 10
    assert {path.name for path in tmp_path.iterdir()} == {"kept.json"}
