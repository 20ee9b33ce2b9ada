"""One process for the tests of this folder, from which their crawlers are forked."""

from collections.abc import Iterator
from typing import Literal

import pytest
from crawls import forking


def pytest_ignore_collect(config: pytest.Config) -> Literal[True] | None:
    """Leave these files closed where no slow test runs, as all of these are.

    They import Scrapy, and each fork of the other tests would copy the page tables of its 30 MB.
    """
    return None if config.option.slow else True


@pytest.fixture(scope="module", autouse=True)
def _forking() -> Iterator[None]:
    """Have it ready."""
    with forking():
        yield
