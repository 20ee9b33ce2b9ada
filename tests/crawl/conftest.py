"""One process for the tests of this folder, from which their crawlers are forked."""

from collections.abc import Iterator

import pytest
from crawls import forking


@pytest.fixture(scope="module", autouse=True)
def _forking() -> Iterator[None]:
    """Have it ready."""
    with forking():
        yield
