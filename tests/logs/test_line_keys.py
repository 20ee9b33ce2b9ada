"""Keys of lines: what uniq(1) compares, fields, and members of JSON."""

import itertools
import json
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from forms import bytes_of, chunk_of
from fuzz.lines import field_of
from hypothesis import example, given
from hypothesis import strategies as st

from mmbloom._keys.coerce import coerce_one
from mmbloom.logs.lines import Empty, LineKeys

UNIQ = shutil.which("uniq") or ""
GNU = UNIQ and b"GNU" in subprocess.run([UNIQ, "--version"], capture_output=True).stdout  # noqa: PLW1510
TOKENS = [b"a", b"A", b"b", b"B1", b" ", b"  ", b"\t", b" \t ", b"\xff", "É".encode(), b"\r", b"\v"]


def keys_of(keys: LineKeys, lines: Sequence[bytes]) -> list[bytes]:
    """The keys of some lines, as bytes; they lie somewhere within a block."""
    found = bytes_of(keys.find(chunk_of(lines, before=b"other\n")).keys)
    assert len(found) == len(lines)
    return found


def lines_like(rng: random.Random, other: bytes) -> list[bytes]:
    """Some lines, most of them alike, so that neighbours are often equal by some option."""
    lines: list[bytes] = []
    for _ in range(300):
        if rng.random() < 0.5:
            choice = [*TOKENS, other, b""]
            line = b"".join(rng.choice(choice) for _ in range(rng.randrange(7)))
        else:
            line = lines[-1] if lines else b""
            line = rng.choice([line.swapcase(), line + b" ", b" " + line, b"x" + line, line[:-1]])
        lines.append(line)
    return lines


@pytest.mark.skipif(not GNU, reason="there is no GNU uniq to compare with")
@pytest.mark.parametrize("terminator", [b"\n", b"\0"], ids=["newline", "nul"])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_same_as_uniq(terminator: bytes, ignore_case: bool, seed: int) -> None:
    """-f, -s, -w, -i and -z, in every combination, find the lines equal that uniq does."""
    other = b"\n" if terminator == b"\0" else b"\0"
    lines = lines_like(random.Random(seed), other)
    data = b"".join(line + terminator for line in lines)
    fewest, most = len(lines), 0
    counts: list[int | None] = [None, 0, 1, 2, 5]
    for fields, chars, width in itertools.product(range(4), range(4), counts):
        argv = [UNIQ, f"-f{fields}", f"-s{chars}", *([] if width is None else [f"-w{width}"])]
        argv += ["-i"] * ignore_case + ["-z"] * (terminator == b"\0")
        environment = {**os.environ, "LC_ALL": "C"}
        expected = subprocess.run(
            argv, input=data, capture_output=True, env=environment, check=True
        ).stdout
        options = LineKeys(
            skip_fields=fields, skip_chars=chars, compare_at_most=width, ignore_case=ignore_case
        )
        keys = bytes_of(options.find(chunk_of(lines, terminator=terminator)).keys)
        groups = itertools.groupby(zip(keys, lines, strict=True), lambda pair: pair[0])
        firsts = [next(group)[1] for _, group in groups]
        assert b"".join(line + terminator for line in firsts) == expected, argv
        fewest, most = min(fewest, len(firsts)), max(most, len(firsts))
    assert fewest == 1  # -w 0: all are equal
    assert most > len(lines) // 2


# Keys that no string and no field can have: other JSON values, and lines without the member.
NOT_TEXT, WHOLE_LINE = b"\xff", b"\xff\n\0"


@given(
    st.lists(st.sampled_from([b"a", b"b", b",", b",,", b"::", b":", b" ", b"\t", b"\xff"])),
    st.integers(1, 5),
    st.sampled_from([None, b",", b"::", b"\t", b" "]),
)
@example([], 1, b",")
@example([b" ", b"a", b" "], 2, None)
@example([b"a", b","], 2, b",")
def test_one_field(parts: list[bytes], number: int, separator: bytes | None) -> None:
    line = b"".join(parts)
    field = field_of(line, number, separator)
    expected = WHOLE_LINE + line if field is None else field
    assert keys_of(LineKeys(field=number, separator=separator), [line]) == [expected]


@pytest.mark.parametrize(
    ("path", "line", "key"),
    [
        ("a", b'{"a": "x", "b": 1}', b"x"),
        ("a", b'{"b": 1, "a": "x"}\r', b"x"),
        ("a.b", b'{"a": {"b": "x"}}', b"x"),
        ("a.1.b", b'{"a": [0, {"b": "x"}]}', b"x"),
        ("0", b'["x", "y"]', b"x"),
        ("0", b'{"0": "x"}', b"x"),
        ("a", '{"a": "é€😀"}'.encode(), "é€😀".encode()),
        ("a", rb'{"a": "\u00e9\ud83d\ude00"}', "é😀".encode()),
        ("é", '{"é": "x"}'.encode(), b"x"),
        (r"a\.b", b'{"a.b": "x", "a": {"b": "y"}}', b"x"),
        ("a.b", b'{"a.b": "x", "a": {"b": "y"}}', b"y"),
        (r"l.a\.b\.io/c.0", b'{"l": {"a.b.io/c": ["x"]}}', b"x"),
        (r"\.a\.", b'{".a.": "x"}', b"x"),
        (r"a\b", rb'{"a\\b": "x"}', b"x"),
        ("/a", b'{"/a": "x"}', b"x"),
        ('"a"', rb'{"\"a\"": "x"}', b"x"),
        ("a", b'{"a": 1}', NOT_TEXT + b"1"),
        ("a", b'{"a": true}', NOT_TEXT + b"true"),
        ("a", b'{"a": false}', NOT_TEXT + b"false"),
        ("a", b'{"a": []}', NOT_TEXT + b"[]"),
        ("a", b'{"a": " "}', b" "),
        ("a", b'{"a": {"y": 1, "x": [ 2 ]}}', NOT_TEXT + b'{"x":[2],"y":1}'),
        ("a", b'{"a": {"x": [2], "y": 1}}', NOT_TEXT + b'{"x":[2],"y":1}'),
        ("a", b'{"a": 12345678901234567890123}', NOT_TEXT + b"12345678901234567890123"),
    ],
)
def test_json_member(path: str, line: bytes, key: bytes) -> None:
    """--json-key takes strings as UTF-8 and all else as compact JSON, order of members aside."""
    assert keys_of(LineKeys(json_key=path), [line]) == [key]


LACKING = [
    *(b"", b"not JSON", b"null", b'"a"', b"1", b"[1]", b"[]", b"{}", b"\xff\xfe", b"\0\0\0\0"),
    *(b'{"a": ', b'{"b": 1}', b'{"a": {"c": 1}}', b'{"a": "b"}', b'{"a": 5}', b'{"a": [1]}'),
    *(b'{"a": null}', b'{"a": {"b": null}}', b'{"a": {"b": ""}}', b'{"a": {"b": NaN}}'),
    b'{"a": {"b": "\xff"}}',
]


@pytest.mark.parametrize("line", LACKING, ids=lambda line: f"{line[:12]!r}+{len(line)}")
def test_json_lines_without_the_member(line: bytes) -> None:
    assert keys_of(LineKeys(json_key="a.b"), [line]) == [WHOLE_LINE + line]


NUMBERS = [
    *("1234567890123456789.0", "1234567890123456788.0", "0", "-0", "0.0", "-0.0", "0e0", "1e999"),
    *("1e1000", "-1e999", "Infinity", "-Infinity", "1", "1.0", "1.00", "1e0", "1E0", "1e+0"),
    *("0.1", "0.10", "0.1000000000000000055511151231257827", "5e-324", "4e-324", "1e-999"),
    *("9007199254740993", "9007199254740992", "9007199254740993.0", "9007199254740992.0"),
    *("7" * 5000, "7" * 4999 + "8", "-" + "7" * 5000),  # more digits than Python makes an int of
]


@pytest.mark.parametrize(
    "around",
    ["%s", "[%s]", "[0,%s]", '{"b": %s}', '{"b": ["-0", %s], "c": 1.5}', '[[[{"x": {"y": %s}}]]]'],
)
def test_json_numbers_are_as_they_are_written(around: str) -> None:
    """No two are one key, wherever they stand: as doubles many would be, and lines lost."""
    values = [around % number for number in NUMBERS] + [around % f'"{n}"' for n in NUMBERS]
    keys = keys_of(LineKeys(json_key="a"), [f'{{"a": {value}}}'.encode() for value in values])
    assert len({*keys}) == len(values)
    assert not any(key.startswith(WHOLE_LINE) for key in keys)
    spaced = keys_of(
        LineKeys(json_key="a"), [f'{{"x": -0.5,\r"a" :  {value} }}'.encode() for value in values]
    )
    assert spaced == keys
    if around == "%s":
        assert keys[: len(NUMBERS)] == [NOT_TEXT + number.encode() for number in NUMBERS]


def test_json_nan_is_missing_where_it_is_the_value() -> None:
    """Within a value it is compared as it is written."""
    lines = [b'{"a":[NaN]}', b'{"a":[null]}', b'{"a":"NaN"}', b'{"b":NaN,"a":1}']
    keys = keys_of(LineKeys(json_key="a"), lines)
    assert keys == [NOT_TEXT + b"[NaN]", NOT_TEXT + b"[null]", b"NaN", NOT_TEXT + b"1"]


@pytest.mark.parametrize("empty", ["whole", "skip", "key"])
@pytest.mark.parametrize("path", ["id", ("id", "n")])
def test_json_nested_too_deep_is_compared_whole(empty: Empty, path: str | tuple[str, ...]) -> None:
    """Such a line may have the member: it is neither skipped nor the same as lines without it."""
    deep = [b'{"id":%d,"n":%b}' % (n, b"[" * 100_000 + b"]" * 100_000) for n in range(3)]
    keys = LineKeys(json_key=path, empty=empty, compare_at_most=1)
    found = keys.find(chunk_of([*deep, b'{"id":7,"n":1}', b'{"n":7}']))
    assert len({*bytes_of(found.keys)}) == 5 - (empty == "skip")
    assert found.lacking == 1


def test_json_nesting_near_the_limit_of_recursion() -> None:
    """At each depth the value is parsed and printed, or the line is its key."""
    for depth in (10, 400, *range(900, 1020), 5000):
        line = b'{"a":' + b"[" * depth + b"-1.50" + b"]" * depth + b"}"
        (key,) = keys_of(LineKeys(json_key="a"), [line])
        whole = key.endswith(line) and not key.startswith(WHOLE_LINE) and depth > 400
        assert whole or key == NOT_TEXT + line[len(b'{"a":') : -1]


def test_json_lone_surrogates_are_told_apart() -> None:
    lines = [rb'{"a": "\ud800"}', rb'{"a": "\udfff"}', rb'{"a": "?"}', rb'{"a": ["\ud800"]}']
    assert len(set(keys_of(LineKeys(json_key="a"), lines))) == len(lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON, st.integers(0, 3))
def test_json_key_ignores_how_it_is_written(value: object, indent: int) -> None:
    compact = json.dumps({"x": 0, "a": value}, separators=(",", ":"))
    spaced = json.dumps({"a": value, "x": 0}, indent=indent, ensure_ascii=False)
    lines = [compact.encode(), spaced.encode("utf-8", "surrogatepass")]
    first, second = keys_of(LineKeys(json_key="a"), lines)
    if value in (None, "") or repr(value) == "nan":
        assert [first, second] == [WHOLE_LINE + line for line in lines]
        return
    assert first == second
    if not isinstance(value, str):
        assert repr(json.loads(first.removeprefix(NOT_TEXT))) == repr(
            json.loads(json.dumps(value, sort_keys=True))
        )


BIG = 2**64
OPTIONS = st.builds(
    LineKeys,
    field=st.none() | st.integers(1, 4),
    separator=st.none() | st.binary(min_size=1, max_size=2),
    json_key=st.none() | st.text(max_size=4),
    skip_fields=st.integers(0, 4) | st.just(BIG),
    skip_chars=st.integers(0, 4) | st.just(BIG),
    compare_at_most=st.none() | st.integers(0, 4) | st.just(BIG),
    ignore_case=st.booleans(),
)


@given(OPTIONS, st.lists(st.binary(max_size=20), max_size=5))
def test_any_option_takes_any_line(keys: LineKeys, lines: list[bytes]) -> None:
    """No line and no number that the command line accepts raises; each line gets its key."""
    found = keys_of(keys, lines)
    assert found == [key for line in lines for key in keys_of(keys, [line])]


def test_a_field_beyond_any_line_is_missing() -> None:
    for field in (1000, 2**31, 2**63, BIG):
        assert keys_of(LineKeys(field=field), [b"a b c"]) == [WHOLE_LINE + b"a b c"]
        by_comma = LineKeys(field=field, separator=b",")
        assert keys_of(by_comma, [b"a,b"]) == [WHOLE_LINE + b"a,b"]


def test_order_of_the_steps() -> None:
    keys = LineKeys(field=2, separator=b",", skip_fields=1, skip_chars=1, compare_at_most=3)
    assert keys_of(keys, [b"x,one TwoThree,y"]) == [b"Two"]
    folded = LineKeys(json_key="a", ignore_case=True)
    assert keys_of(folded, ['{"a": "XÉ"}'.encode()]) == ["xÉ".encode()]
    assert keys_of(LineKeys(), [b" A "]) == [b" A "]


def test_lines_without_the_part_share_no_key() -> None:
    assert len(set(keys_of(LineKeys(field=2, separator=b","), [b"1,foo", b"foo"]))) == 2
    lines = [b'{"a":"null"}', b'{"a":null}', b"null", b'{"a":5}', b'{"a":"5"}', b"5"]
    lines += [b'{"a":"[1]"}', b'{"a":[1]}']
    assert len(set(keys_of(LineKeys(json_key="a"), lines))) == len(lines)
    skipping = LineKeys(json_key="a", skip_chars=3)
    assert len(set(keys_of(skipping, [b'{"a":"123x"}', b"x", b"123x"]))) == 3


@pytest.mark.parametrize(
    ("narrowing", "key"),
    [
        ({}, b"one two  three"),
        ({"skip_fields": 1}, b" two  three"),
        ({"skip_fields": 2}, b"  three"),
        ({"skip_chars": 1}, b"ne two  three"),
        ({"skip_chars": 2}, b"e two  three"),
        ({"compare_at_most": 1}, b"o"),
        ({"compare_at_most": 2}, b"on"),
        ({"skip_fields": 1, "skip_chars": 2}, b"wo  three"),
        ({"skip_fields": 2, "skip_chars": 1}, b" three"),
        ({"skip_fields": 1, "compare_at_most": 3}, b" tw"),
        ({"skip_chars": 3, "compare_at_most": 1}, b" "),
        ({"skip_fields": 1, "skip_chars": 2, "compare_at_most": 3}, b"wo "),
    ],
    ids=str,
)
def test_narrowed_json_member(narrowing: dict[str, Any], key: bytes) -> None:
    line = b'{"b": 0, "a": "one two  three"}'
    assert keys_of(LineKeys(json_key="a", **narrowing), [line]) == [key]
    assert keys_of(LineKeys(**narrowing), [b"one two  three"]) == [key]


ROWS = [b"ann,1,mon", b"ann,2,mon", b"ann,1,tue", b"a,nn,mon", b"ann", b"", b",,", b"ann,1,mon"]


@pytest.mark.parametrize("fields", [(1, 2), (2, 1), (1, 3), (3,), (1, 1), (1, 2, 3)])
def test_several_fields(fields: tuple[int, ...]) -> None:
    """Their key is that of the tuple of them; a line that lacks one is its own key."""
    expected = []
    for row in ROWS:
        parts = row.split(b",") + [b""] * 3
        if not all(parts[field - 1] for field in fields):  # one is missing, or empty
            expected.append(b"\xff\n\0" + row)
        else:
            expected.append(coerce_one(tuple(parts[field - 1].decode() for field in fields)))
    keys = LineKeys(field=fields, separator=b",")
    assert keys_of(keys, ROWS) == expected
    lacking = sum(key.startswith(WHOLE_LINE) for key in expected)
    assert keys.find(chunk_of(ROWS, before=b"other\n")).lacking == lacking


def test_several_fields_are_narrowed_each() -> None:
    keys = LineKeys(field=(1, 3), ignore_case=True, skip_chars=1, compare_at_most=2)
    assert keys_of(keys, [b"xABc y zDEf"]) == [coerce_one(("ab", "de"))]


def test_several_members() -> None:
    """Of strings the key is that of the tuple of them; other values are as they are written."""
    lines = [
        b'{"user": {"id": "ann"}, "day": "mon"}',
        b'{"day": "mon", "user": {"id": "ann", "x": 1}}',
        b'{"user": {"id": 5}, "day": "5"}',
        b'{"user": {"id": "5"}, "day": 5}',
        b'{"user": {"id": "ann"}}',
        b"no JSON",
    ]
    keys = LineKeys(json_key=("user.id", "day"))
    found = keys_of(keys, lines)
    assert found[0] == found[1] == coerce_one(("ann", "mon"))
    assert found[2] == coerce_one((b"\xff5", "5"))
    assert found[3] == coerce_one(("5", b"\xff5"))
    assert found[4:] == [b"\xff\n\0" + line for line in lines[4:]]
    assert keys.find(chunk_of(lines, before=b"")).lacking == 2


TEXTS = st.sampled_from(["p", "q", "", 'say "x"', "\u00e9", "a\\b", "new\nline"])


@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12),
    st.sampled_from(["whole", "skip", "key"]),
    st.booleans(),
)
@example([("\u00e9", "1"), ("p", "1"), ("q", "1"), ("r", "2")], "whole", True)
def test_several_members_with_and_without_escapes(
    rows: list[tuple[str, str]], empty: Any, ascii_only: bool
) -> None:
    """What the parser finds and what is found without it stand in one chunk, in any order."""
    lines = [json.dumps({"a": a, "b": b}, ensure_ascii=ascii_only).encode() for a, b in rows]
    expected = [
        coerce_one((a, b)) if (a and b) or empty == "key" else WHOLE_LINE + line
        for line, (a, b) in zip(lines, rows, strict=True)
        if empty != "skip" or (a and b)
    ]
    keys = LineKeys(json_key=("a", "b"), empty=empty)
    assert bytes_of(keys.find(chunk_of(lines, before=b"other\n")).keys) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"field": 0},
        {"field": (1, -1)},
        {"field": ()},
        {"field": 1, "separator": b""},
        {"json_key": ()},
        {"field": 1, "empty": "keep"},
        {"json_key": "a", "empty": None},
    ],
)
def test_options_that_are_none(wrong: dict[str, Any]) -> None:
    """Refused at once, whichever engine finds the keys."""
    with pytest.raises(ValueError, match=r"^(field|separator|json_key|empty) is .*, expected "):
        LineKeys(**wrong)
