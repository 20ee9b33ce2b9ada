"""Members of lines of JSON: what the scan says, Python's parser says; or the scan declines."""

import json
from typing import Any

import hypothesis
import numpy as np
import pytest
from forms import octets_of
from hypothesis import strategies as st
from kernels import COMPILED, NUMPY, needs_compiled

from mmbloom._engine import WHOLE_LINE
from mmbloom.logs.members import member_taker, names_of

NAMES = st.sampled_from(["a", "b", "id", "user", "", "é", "a b", "0", "\ud83d\ude00", 'q"', "\n"])
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0, -0.0, 10**30, 1e300, 1e-7]))
TEXT = st.one_of(st.text(max_size=8), st.sampled_from(["", "x" * 40, "\u2028", "\x7f", "\ud800"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(
    lambda names: ".".join(name.replace(".", r"\.") for name in names)
)
STYLES: list[dict[str, Any]] = [
    {},
    {"ensure_ascii": False},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"indent": "\t"},
]
OCTETS = st.one_of(
    st.sampled_from(list(b'{}[],:"\\ \t\r\n\0-+.eE0123tfnu/aib')), st.integers(0, 255)
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line of JSON, or one that a few changes of bytes have made of it."""
    value = draw(st.one_of(OBJECTS, OBJECTS, OBJECTS, VALUES))
    text = json.dumps(value, **draw(st.sampled_from(STYLES)))
    line = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 4]))):
        at = draw(st.integers(0, len(line)))
        kind = draw(st.sampled_from(["put", "drop", "change", "repeat"]))
        if kind == "put":
            line.insert(at, draw(OCTETS))
        elif kind == "repeat":
            line[at:at] = line[at : at + draw(st.integers(1, 12))]
        elif at < len(line):
            line[at : at + 1] = b"" if kind == "drop" else bytes([draw(OCTETS)])
    return bytes(line)


def said(path: str, batch: list[bytes]) -> list[bytes | None]:
    """Ask the scan for the key of each line; None where it declines."""
    data = b"".join(batch)
    ends = np.cumsum([len(line) for line in batch], dtype=np.int64)
    starts = ends - np.array([len(line) for line in batch], dtype=np.int64)
    names = [name.encode("utf-8", "surrogatepass") for name in names_of(path)]
    keys, first, last, declined = COMPILED.find_members(octets_of(data), starts, ends, names)
    whole = keys.tobytes()
    return [None if declined[i] else whole[first[i] : last[i]] for i in range(len(batch))]


def expected(path: str, line: bytes) -> bytes:
    part = member_taker(path)(line)
    return WHOLE_LINE + line if part is None else part


@needs_compiled
@hypothesis.given(st.lists(lines(), min_size=1, max_size=4), PATHS)
def test_as_the_parser_or_declined(batch: list[bytes], path: str) -> None:
    """Whatever the lines: no answer but the parser's."""
    for line, key in zip(batch, said(path, batch), strict=True):
        assert key in (None, expected(path, line)), (path, line)


PLAIN = [
    (b'{"a":1}', b"\xff1"),
    (b'{"a": -1.50E+3 , "b":[1,{"a":2}]}', b"\xff-1.50E+3"),
    (b' {"b" : {"a":7}, "a" :\t"x"}\r', b"x"),
    (b'{"a":true,"c":"\\u00e9\\n"}', b"\xfftrue"),
    ('{"é":[],"a":"\U0001f600é"}'.encode(), "\U0001f600é".encode()),
    (b'{"a":null}', WHOLE_LINE + b'{"a":null}'),
    (b'{"a":""}', WHOLE_LINE + b'{"a":""}'),
    (b"{}", WHOLE_LINE + b"{}"),
    (b'{"b":{"a":1},"c":[{"a":2}]}', WHOLE_LINE + b'{"b":{"a":1},"c":[{"a":2}]}'),
    (b'{"a":-0}', b"\xff-0"),
]


@needs_compiled
@pytest.mark.parametrize(("line", "key"), PLAIN)
def test_plain_lines_are_found(line: bytes, key: bytes) -> None:
    """Lines as loggers write them need no parser, and have its answer."""
    assert said("a", [line]) == [key] == [expected("a", line)]


@needs_compiled
def test_a_path_through_objects() -> None:
    """Each name of a path is looked for in the object of the one before, and nowhere else."""
    line = b'{"id":1,"user":{"name":{"id":2},"id":"three"},"b":{"user":{"id":4}}}'
    assert said("user.id", [line]) == [b"three"]
    assert said("user.name.id", [line]) == [b"\xff2"]
    assert said("user.none", [line]) == [WHOLE_LINE + line]
    assert said("b.user.id", [line]) == [b"\xff4"]


DECLINED = [
    *(b"", b"plain text", b"[1]", b'{"a":{}}', b'{"a":[1]}', b'{"a":1,"a":2}', b'{"\\u0061":1}'),
    *(b'{"a":"\\n"}', b'{"a":1', b'{"a":1}}', b'{"a":1,}', b'{"a":01}', b'{"a":1.}'),
    *(b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\t"}'),
    *(b'{"a":1}\0', b'\xef\xbb\xbf{"a":1}', b'{"b":' + b"[" * 64 + b"]" * 64 + b"}"),
    b'{"a":' + b"1" * 700 + b"}",
    '{"a":1}'.encode("utf-16"),
]


@needs_compiled
@pytest.mark.parametrize("line", DECLINED)
def test_what_is_left_to_the_parser(line: bytes) -> None:
    """What needs more than a scan, and what is no JSON, is declined; lines around it are not."""
    plain = b'{"a":5}'
    assert said("a", [plain, line, plain]) == [b"\xff5", None, b"\xff5"]


@needs_compiled
def test_bad_spans() -> None:
    """Spans beyond the buffer are refused before a byte is read."""
    octets = octets_of(b'{"a":1}')
    for start, end in ((-1, 3), (3, 2), (0, 8)):
        starts, ends = np.array([start], dtype=np.int64), np.array([end], dtype=np.int64)
        with pytest.raises(ValueError, match="line 0 is bytes"):
            COMPILED.find_members(octets, starts, ends, [b"a"])


def test_the_reference_leaves_all_to_the_parser() -> None:
    one = np.array([[0], [7]], dtype=np.int64)
    keys, _, _, declined = NUMPY.find_members(octets_of(b'{"a":1}'), one[0], one[1], [b"a"])
    assert (len(keys), declined.tolist()) == (0, [True])
