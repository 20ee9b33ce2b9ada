"""How lines became keys, in the header: written whole or not there, whatever bytes are found."""

import shutil
import zlib
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from reference import RULE_OFFSET, pack_key_rule, parse_key_rule

import mmbloom
from mmbloom import BloomFilter, verify
from mmbloom.errors import MmbloomError
from mmbloom.format.header import encode_key_rule, read_key_rule

HEAD = bytes(RULE_OFFSET)
TEXTS = ["-k 1,3 -t ,", "whole lines", "--json-key ü.ñ", "x" * 1532]


@pytest.mark.parametrize("rule", TEXTS)
@pytest.mark.parametrize("before", [b"", b"\xff", pack_key_rule("-k 2")[:6]])
def test_every_cut(rule: str, before: bytes) -> None:
    """A write that was cut at any byte, over zeros or over what another cut left, is no rule."""
    whole = encode_key_rule(rule)
    assert whole == pack_key_rule(rule)
    before = before.ljust(len(whole), b"\0")
    for cut in range(len(whole) + 1):
        for torn in (whole[:cut] + before[cut:], before[:cut] + whole[cut:]):  # in either order
            expected = rule if torn == whole else None
            assert read_key_rule(HEAD + torn) == parse_key_rule(HEAD + torn) == expected, cut


@hypothesis.given(
    st.binary(max_size=1536)
    | st.text(max_size=40).map(lambda text: text.encode())
    | st.sampled_from([b"", b"\0", b"a\0b", b"\xff", b"a\0"])
)
def test_any_bytes(octets: bytes) -> None:
    """Whatever bytes are there, with a right checksum too, give a rule or none, in both readers."""
    text = octets[:1532].ljust(1532, b"\0")
    checked = HEAD + np.array([zlib.crc32(text)], "<u4").tobytes() + text
    for raw in (HEAD + octets.ljust(1536, b"\0"), checked):
        found = read_key_rule(raw)
        assert found == parse_key_rule(raw)
        if found is not None:
            assert HEAD + encode_key_rule(found) == raw
    assert (read_key_rule(checked) is None) == (parse_key_rule(checked) is None)
    assert read_key_rule(octets) is None  # a file that was cut off there


@pytest.mark.parametrize("rule", ["", "a\0b", "x" * 1533, "ü" * 767])
def test_no_rule(rule: str, tmp_path: Path) -> None:
    with BloomFilter.create(tmp_path / "a", 100) as seen:
        with pytest.raises(ValueError, match="1 to 1532 bytes"):
            seen.note_key_rule(rule)
        assert seen.key_rule is None


def test_a_torn_rule_is_written_anew(tmp_path: Path) -> None:
    """The file of a writer that was killed amid it is sound; the next writer writes the rule."""
    path = tmp_path / "a"
    with BloomFilter.create(path, 100) as seen:
        seen.add("x")
    torn = pack_key_rule("-k 1")[:6]
    with path.open("r+b") as file:
        file.seek(RULE_OFFSET)
        file.write(torn)
    before = path.read_bytes()
    found = verify(path)
    assert found.ok
    assert "the key rule is incomplete" in found.notes[0]
    with mmbloom.open(path, "r") as seen:
        assert seen.key_rule is None
        assert seen.info().key_rule is None
        with pytest.raises(MmbloomError):
            seen.note_key_rule("-k 2")
    assert path.read_bytes() == before
    with mmbloom.open(path) as seen:
        seen.note_key_rule("-k 2")
        seen.note_key_rule("-k 3")  # noted already
        assert seen.key_rule == "-k 2"
    assert parse_key_rule(path.read_bytes()) == "-k 2"
    assert not verify(path).notes
    shutil.copy(path, tmp_path / "b")
    with mmbloom.open(tmp_path / "b", "r") as seen:
        assert (seen.key_rule, "x" in seen) == ("-k 2", True)
