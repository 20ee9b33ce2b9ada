"""The session that the other tests of this folder have."""

import platform
from typing import Any


def test_workers_run_this_python(spark: Any) -> None:
    def versions(rows: Any) -> Any:
        import mmbloom  # noqa: PLC0415  in the worker

        yield platform.python_version(), mmbloom.__file__

    import mmbloom  # noqa: PLC0415

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(versions).collect()
    assert found == [(platform.python_version(), mmbloom.__file__)]
