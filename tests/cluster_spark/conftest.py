"""One Spark session for the tests of this folder: starting it takes seconds.

Where pyspark or Java is missing, only `test_session` is there, which says so.
"""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LACKING = [
    what
    for what, there in {
        "pyspark (pip install 'mmbloom[spark]')": importlib.util.find_spec("pyspark"),
        "Java (Debian's openjdk-17-jre-headless)": shutil.which("java"),
    }.items()
    if not there
]
HELPERS = Path(__file__).parents[1] / "helpers"

if LACKING:
    collect_ignore_glob = ["test_[!s]*.py", "test_seen.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.spark)
            # Of pyspark's own: it knows pandas 3 and says so, and leaves sockets to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not:FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(scope="package", autouse=True)
def _java_of_short_life() -> Iterator[None]:
    """For every Java that is started from here, and the one that reads the options of Spark.

    All end before what the optimising compiler makes has paid for its time. Java says on stderr
    that it has such options: the tests of other folders start theirs without.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of two threads, in which a task is tried four times, as it is on a cluster."""
    if LACKING:
        pytest.skip(f"not installed: {', '.join(LACKING)}")
    from pyspark.sql import SparkSession  # noqa: PLC0415  it may be missing

    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("PYTHONPATH", str(HELPERS))  # for the workers: `fuses`, `spark_daemon`
    home = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(home),
        "spark.log.level": "OFF",
        "spark.python.daemon.module": "spark_daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # upon which Java ends
    assert gateway.proc.wait(60) is not None
    patch.undo()


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """In place of the one for all tests: sockets and threads are of the session, which ends."""


@pytest.fixture
def state(tmp_path: Path) -> str:
    """Where a state may be made."""
    return str(tmp_path / "state")
