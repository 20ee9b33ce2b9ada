"""Dask for the tests of this folder, and one cluster: starting it takes seconds."""

from collections.abc import Iterator

import pytest
from dask_cluster import running_cluster


@pytest.fixture(scope="package", autouse=True)
def _dask() -> None:
    """Import it for the children, not with the tests: all forks before would copy its memory."""
    for module in ("dask.dataframe", "distributed"):
        pytest.importorskip(module, reason="needs Dask: pip install 'mmbloom[dask]'")
    import mmbloom.cluster.dask  # noqa: F401, PLC0415


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of two processes; its address."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address
