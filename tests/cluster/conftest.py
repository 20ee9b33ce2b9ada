"""One cluster for the tests of this folder: starting it takes seconds."""

from collections.abc import Iterator

import pytest
from dask_cluster import running_cluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of two processes; its address."""
    import dask.dataframe  # noqa: F401, PLC0415  the children then have it
    import distributed  # noqa: F401, PLC0415

    import mmbloom.dask  # noqa: F401, PLC0415

    with running_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address
