"""What `LineKeys` says of itself: the same text only for the same keys, whatever is chosen."""

import argparse
import shlex
from typing import Any

import hypothesis
from forms import bytes_of, chunk_of
from hypothesis import strategies as st

from mmbloom.cli.lines import line_keys
from mmbloom.cli.options import KEYS, add_options
from mmbloom.format.header import encode_key_rule
from mmbloom.logs.lines import KeyRule, LineKeys

NUMBER = st.integers(1, 3) | st.sampled_from([10, 2**40])
NAME = st.sampled_from(
    ["a", "b.c", "--json-key", "a b", "'", "", "-k 1", "é", "\udcff", "x" * 2000]
)
SEPARATOR = st.sampled_from(
    [b",", b";", b"\\", b"\t", b"\\t", b"\0", b"\n", b"' '", b"\xff", b"--"]
)
OPTIONS: dict[str, Any] = {
    "field": NUMBER | st.lists(NUMBER, min_size=1, max_size=3).map(tuple),
    "separator": SEPARATOR,
    "json_key": NAME | st.lists(NAME, min_size=1, max_size=3).map(tuple),
    "skip_fields": st.integers(0, 2),
    "skip_chars": st.integers(0, 2),
    "compare_at_most": st.integers(0, 2),
    "ignore_case": st.booleans(),
    "crlf": st.booleans(),
    "empty": st.sampled_from(["whole", "skip", "key"]),
}
CHOSEN = st.fixed_dictionaries({}, optional=OPTIONS)
LINES = [b"a,b;c a", b"A\tb\\c\r", b"a\tb,c\0d", b'{"a": "x", "b": {"c": "X"}}', b'{"a": ["y"]}\r']
CHUNK = chunk_of([*LINES, b"a' 'b\xffc--d", b"  a  b ", b"aa\\tbb", b""], terminator=b"\n")


def keys_of(chosen: KeyRule) -> list[bytes]:
    return bytes_of(chosen.find(CHUNK).keys)


@hypothesis.given(CHOSEN, CHOSEN)
def test_same_rule_same_keys(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = LineKeys(**one), LineKeys(**{**one, **other})
    for each in (first, second):
        encode_key_rule(each.rule)
    if first.rule == second.rule:
        assert keys_of(first) == keys_of(second)


def options_of(rule: str) -> KeyRule:
    """What the command line makes of a rule."""
    parser = argparse.ArgumentParser()
    add_options(parser, KEYS)
    return line_keys(parser.parse_args(shlex.split(rule)))


@hypothesis.given(CHOSEN)
def test_the_rule_is_pasted(chosen: dict[str, Any]) -> None:
    """What the commands can choose is spelled as the options that choose it."""
    made = LineKeys(**chosen)
    names = chosen.get("json_key", ())
    for several in (names, chosen.get("field", (1, 2))):
        hypothesis.assume(not isinstance(several, tuple) or len(several) != 1)
    words = [names] if isinstance(names, str) else names
    hypothesis.assume(not any(word.startswith("-") or len(word) > 99 for word in words))
    hypothesis.assume(not any("\udcff" in word for word in words))
    hypothesis.assume(chosen.get("separator") not in {b"\xff", b"--"})  # which no text has
    hypothesis.assume(made.rule != "whole lines")
    assert options_of(made.rule).rule == made.rule
    assert keys_of(options_of(made.rule)) == keys_of(made)


def test_examples() -> None:
    spelled = {
        "whole lines": LineKeys(),
        "-k 2": LineKeys(field=2),
        "-k 1,3 -t ,": LineKeys(field=(1, 3), separator=b","),
        r"-k 1 -t '\t'": LineKeys(field=1, separator=b"\t"),
        "--json-key user.id --json-key day -i": LineKeys(
            json_key=("user.id", "day"), ignore_case=True
        ),
        "-f 1 -s 2 -w 0 --crlf": LineKeys(
            skip_fields=1, skip_chars=2, compare_at_most=0, crlf=True
        ),
    }
    assert {keys.rule: keys for keys in spelled.values()} == spelled
    assert LineKeys(separator=b",").rule == "whole lines"  # it separates nothing
    assert LineKeys(field=(1,)).rule != LineKeys(field=1).rule  # the key is that of a tuple
    long = LineKeys(json_key="x" * 5000), LineKeys(json_key="x" * 5001)
    assert long[0].rule != long[1].rule
