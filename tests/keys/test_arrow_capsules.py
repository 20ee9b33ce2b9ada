"""What is handed over instead of Arrow data, and streams that fail, end in an error."""

import errno
import os

import pyarrow as pa
import pytest
from arrow_made import Array, Fill, MadeStream, Schema, capsule, strings

from mmbloom._keys.arrow import read


class Gives:
    """An object whose methods give what they should not."""

    def __init__(self, given: object) -> None:
        self._given = given

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._given


class GivesStream(Gives):
    """The same, of a stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._given


def test_wrong_capsules() -> None:
    """Whatever the methods give that is no capsule, or an empty or another one, is refused."""
    made, stream = strings(b"a"), MadeStream([])
    for given in (None, (), (1, 2, 3), capsule(made.array), [made.schema, made.array]):
        with pytest.raises(ValueError, match="did not return two capsules"):
            read(Gives(given))
    for pair in ((1, 2), (None, capsule(Array())), (capsule(made.array), capsule(made.schema))):
        with pytest.raises(ValueError, match="not an arrow_schema capsule"):
            read(Gives(pair))
    made = strings(b"a")
    with pytest.raises(ValueError, match="not an arrow_array capsule"):
        read(Gives((capsule(made.schema), None)))
    with pytest.raises(ValueError, match="arrow_schema capsule was used before"):
        read(Gives((capsule(Schema()), capsule(Array()))))
    with pytest.raises(ValueError, match="arrow_array capsule was used before"):
        read(Gives((capsule(strings().schema), capsule(Array()))))
    for one in (None, (), 7, capsule(made.array)):
        with pytest.raises(ValueError, match="not an arrow_array_stream capsule"):
            read(GivesStream(one))
    read(stream)
    with pytest.raises(ValueError, match="arrow_array_stream capsule was used before"):
        read(stream)
    with pytest.raises(ValueError, match="list does not export Arrow data"):
        read(["a"])


def test_used_stream_of_pyarrow() -> None:
    """A capsule whose stream somebody else has taken is refused."""
    given = pa.chunked_array([["a"]]).__arrow_c_stream__()
    assert pa.chunked_array(GivesStream(given)).to_pylist() == ["a"]
    with pytest.raises(ValueError, match="used before"):
        read(GivesStream(given))


def test_streams_that_fail() -> None:
    """Invalid data is a ValueError and a system's error an OSError, in the producer's words."""
    with pytest.raises(ValueError, match="stream failed: no luck"):
        read(MadeStream([strings(b"a")], codes=[0, errno.EINVAL]))
    with pytest.raises(OSError, match="no luck") as caught:
        read(MadeStream([strings(b"a")], codes=[errno.EIO]))
    assert caught.value.errno == errno.EIO
    failing = MadeStream([strings(b"a")])
    failing.schema_code, failing.message = errno.EIO, None
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        read(failing)


@pytest.mark.parametrize("function", ["get_schema", "get_next"])
def test_streams_without_functions(function: str) -> None:
    broken = MadeStream([strings(b"a")])
    setattr(broken.stream, function, Fill())
    with pytest.raises(ValueError, match=f"it has no {function}"):
        read(broken)


def test_stream_without_explanation() -> None:
    """An error without a callback for its text is still told."""
    broken = MadeStream([], codes=[errno.ENOSPC])
    broken.stream.get_last_error = type(broken.stream.get_last_error)()
    with pytest.raises(OSError, match="No space left"):
        read(broken)


def test_stream_without_schema() -> None:
    empty = strings()
    empty.schema = Schema()
    with pytest.raises(ValueError, match="it has no schema"):
        read(MadeStream([empty]))
