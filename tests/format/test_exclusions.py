"""How exclusions are written down: any bytes come back, and people can read and type them."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mmbloom.errors import FormatError
from mmbloom.format.exclusions import exclusions_path, read_keys, write_keys

# Bytes that come in escapes, ends of lines, and UTF-8 cut in pieces.
AWKWARD = b"\\nrtxempty \t\r\n\0\x1b\x7f\xc2\x85\xe2\x80\xa8\xed\xa0\x80\xef\xbb\xbf\xff09aF"
KEYS = st.lists(
    st.binary() | st.text().map(str.encode) | st.lists(st.sampled_from(AWKWARD)).map(bytes)
)


@given(keys=KEYS)
@example(keys=[b"", b"\\empty", b"\\", b"\\\\empty", b"\\x41", b"\xef\xbb\xbfa", b" ", b"\n\n"])
def test_any_bytes_come_back(keys: list[bytes]) -> None:
    """What is written is read as the same keys, and has no line more or less."""
    raw = write_keys(keys)
    assert list(read_keys(raw, "where")) == keys
    assert raw.count(b"\n") == len(keys)


@given(keys=KEYS)
def test_a_terminal_and_an_editor_can_take_it(keys: list[bytes]) -> None:
    """All is UTF-8 that is seen: no control character, no space at an end, no strange newline."""
    lines = write_keys(keys).decode().split("\n")[:-1]
    for line in lines:
        assert line.isprintable()
        assert line == line.strip()
        assert line
    # As editors of the other world write it: with a mark, and two bytes at the end of a line.
    other = b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
    assert list(read_keys(other, "where")) == keys


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (b"aunt@example.org", "aunt@example.org"),
        (b"#1 //a b", "#1 //a b"),
        ("日本 é".encode(), "日本 é"),
        (b"a\nb\rc\td", r"a\nb\rc\td"),
        (b"C:\\new", r"C:\\new"),
        (b" a  ", r"\x20a\x20\x20"),
        (b"\x1b[2J\x7f", r"\x1b[2J\x7f"),
        (b"\xff\xc3(", r"\xff\xc3("),
        ("a\u2028\u202eb".encode(), r"a\xe2\x80\xa8\xe2\x80\xaeb"),
        ((5).to_bytes(8, "little"), r"\x05\x00\x00\x00\x00\x00\x00\x00"),
        (b"", r"\empty"),
    ],
)
def test_lines(key: bytes, line: str) -> None:
    assert write_keys([key]).decode() == line + "\n"
    assert list(read_keys(line.encode(), "where")) == [key]


def test_what_a_person_types() -> None:
    """Empty lines, a last line without its end, spaces, tabs, and escapes where none is needed."""
    raw = b"\n\na b \n\ta\n\\x41\\X\n".replace(b"\\X", b"\\x4a") + b"caf\\xC3\\xa9"
    assert list(read_keys(raw, "where")) == [b"a b ", b"\ta", b"AJ", "café".encode()]
    assert list(read_keys(b"", "where")) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (rb"a\q", "'\\\\q' is not an escape"),
        (b"a\\", "is not an escape"),
        (rb"\x4", "is not an escape"),
        (rb"\xzz", "is not an escape"),
        (rb"\N", "is not an escape"),
        (rb"\empty ", "is not an escape"),
        ("\\é".encode(), "is not an escape"),
        (b"a\xff", "not UTF-8"),
        (b"a\0b", "\\x00"),
        (b"a\x1b", "\\x1b"),
        (b"a\rb", "\\x0d"),
        (b"\x7f", "\\x7f"),
        ("ab".encode("utf-16"), "not UTF-8"),
    ],
)
def test_lines_that_are_no_key(line: bytes, found: str) -> None:
    """A line that cannot be meant so is an error with its number: nothing is guessed."""
    with pytest.raises(FormatError, match=r"^where: line 3 is") as caught:
        list(read_keys(b"fine\r\n\n" + line + b"\n\\q\n", "where"))
    assert found in caught.value.found


def test_links_share_a_file(tmp_path: Path) -> None:
    """The name is that of the filter itself, whichever symbolic link it was opened by."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "seen").touch()
    (tmp_path / "link").symlink_to("there/seen")
    expected = os.path.realpath(tmp_path / "there" / "seen") + ".exclusions"
    assert exclusions_path(str(tmp_path / "link")) == expected
    assert exclusions_path(str(tmp_path / "there" / "seen")) == expected
