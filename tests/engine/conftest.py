"""The kinds of vectors that the compiled kernels are tested with."""

from collections.abc import Iterator

import pytest
from kernels import KINDS, VECTORS


@pytest.fixture(scope="module", params=KINDS)
def each_vectors(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the tests of a module with each kind of vectors that this machine has."""
    if VECTORS is None:  # the module's tests are skipped
        yield request.param
        return
    before = VECTORS.used()
    VECTORS.use(request.param)
    yield request.param
    VECTORS.use(before)
