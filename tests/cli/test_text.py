"""Text without lines of bytes is refused in each form of input; NULs and returns else are bytes."""

import codecs
import gzip
import io
from pathlib import Path

import pytest
from cli_runner import EXACT, exact_filter, mmbloom, refused

from mmbloom import BloomFilter, InputError, dedup_files
from mmbloom.logs.lines import read_chunks
from mmbloom.logs.rows import read_rows

FORMS: dict[str, tuple[list[str], str]] = {
    "lines": ([], "\u4e0a 1\nsecond line\nthird\n"),  # U+4E0A has the byte of a newline
    "fields": (["-t;", "-k2"], "\u4e0a;first\nb;second\n"),
    "widths": (["-s2", "-w5"], "\u4e0a 1\nsecond line\n"),
    "JSON": (["--json-key", "id"], '{"id":"\u4e0a"}\n{"id":"seven"}\n'),
    "CSV": (["--csv", "-k", "id"], 'id,name\n\u4e0a,"Ann, 7"\n2,"Zoe"\n'),
    "rows": (["--csv", "-k1", "--no-header"], '\u4e0a,"Ann, 7"\n2,"Zoe"\n'),
}
TEXTS = {
    "UTF-16": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16 ": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "UTF-32": lambda text: codecs.BOM_UTF32_LE + text.encode("utf-32-le"),
    "UTF-32 ": lambda text: codecs.BOM_UTF32_BE + text.encode("utf-32-be"),
    "UTF-16LE": lambda text: text.encode("utf-16-le"),
    "UTF-16BE": lambda text: text.encode("utf-16-be"),
    "UTF-32LE": lambda text: text.encode("utf-32-le"),
    "UTF-32BE": lambda text: text.encode("utf-32-be"),
    "carriage return alone": lambda text: text.replace("\n", "\r").encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", TEXTS)
def test_text_without_lines(tmp_path: Path, form: str, what: str) -> None:
    options, text = FORMS[form]
    data = TEXTS[what](text)
    (tmp_path / "in").write_bytes(data)
    to_do = "tr '\\r' '\\n'" if "return" in what else f"iconv -f {what.strip()} -t UTF-8"
    done = mmbloom("dedup", tmp_path / "seen", tmp_path / "in", *options, *EXACT)
    assert refused(done, 5, f"{tmp_path / 'in'}: ", what.strip(), to_do)
    assert not (tmp_path / "seen").exists()
    done = mmbloom("dedup", tmp_path / "seen", *options, *EXACT, stdin=data)
    assert refused(done, 5, "stdin: ", what.strip(), to_do)
    with BloomFilter.open(tmp_path / "seen") as seen:
        assert seen.info().keys_added == 0


@pytest.mark.parametrize("what", ["UTF-16", "UTF-32BE", "carriage return alone"])
@pytest.mark.parametrize("form", ["lines", "CSV"])
def test_each_command_and_call(tmp_path: Path, form: str, what: str) -> None:
    """All that read lines or rows refuse them alike, from a pipe also."""
    options, text = FORMS[form]
    data, seen, counts = TEXTS[what](text), exact_filter(tmp_path / "seen"), tmp_path / "counts"
    assert mmbloom("create", counts, "-n", "1e3", "--counting").code == 0
    (tmp_path / "in.gz").write_bytes(gzip.compress(data))
    done = mmbloom("dedup", tmp_path / "new", *options, *EXACT, tmp_path / "in.gz")
    assert (done.code, (tmp_path / "new").exists()) == (5, False)
    commands: list[list[str | Path]] = [
        ["add", seen],
        ["check", seen],
        ["remove", counts],
        ["exclude", seen, "--add"],
        ["verify", seen, "--keys", "-"],
    ]
    if form == "lines":
        commands.append(["dedup", seen, "-c"])
    for command in commands:
        assert refused(mmbloom(*command, *options, stdin=data), 5, "stdin: ", what)
    (tmp_path / "in").write_bytes(data)
    with BloomFilter.open(seen) as opened, pytest.raises(InputError, match=f"in: .*{what}"):
        dedup_files(opened, tmp_path / "in", None, csv=form == "CSV")
    with BloomFilter.open(seen) as opened:
        assert (opened.info().keys_added, len(opened.exclusions)) == (0, 0)
    with pytest.raises(InputError, match=what):
        next(read_rows(io.BytesIO(data)) if form == "CSV" else read_chunks(io.BytesIO(data)))


BYTES: list[tuple[list[str], bytes]] = [
    ([], b"a\0b\nc\0\0d\n"),
    ([], b"whole line\n" + bytes(5000) + b"next\n"),  # as a crash leaves a file
    ([], bytes(64)),
    ([], b"ab\0\ncd\0\nef\0\ngh\0\n"),
    ([], b"ab\0cd\nef\0gh\n"),
    ([], b"a\0b\0c\n\0d\0e\0f\n"),
    (["-t\\0", "-k2"], b"1\x002\x003\n4\x005\x006\n7\x008\x009\n"),
    (["-z"], b"a\0b\0c\0d\0e\0"),
    (["-z"], b"\0a\0b\0c\0d\0e\0f\0"),
    ([], b"10%\r20%\r30%\ndone\n"),
    ([], b"a\r\nb\r\n"),
    ([], b"a line that waits\r"),
    ([], "\u0430\u0431\u0432 \u4e0a\n".encode() * 3),
    (["--csv"], b'"i\rd","a,\r"\n1,2\n'),
    (["--csv"], b'"a,","\r,",""",\r"\n1,2,3\n'),
    (["--csv", "-t;"], b'i;"\r;"\n1;2\n'),
    (["--csv"], b'\xef\xbb\xbf"i\rd",a\r\n1,2\r\n'),
    (["--csv", "--no-header"], b'\xef\xbb\xbf"i\rd",a\r\n1,2\r\n'),
    (["--csv"], b'5" pipe,"a\rb"\n1,2\n'),
    (["--csv"], b"id,a\r\n"),
    (["--csv"], b"id,a\r"),
    (["--csv"], b"id,a\r\r\n1,2\n"),
    (["--csv", "--no-header"], b'1,2\n3,a\rb\n"4\r",\0\n'),
]


@pytest.mark.parametrize(("options", "data"), BYTES)
def test_bytes_like_others(tmp_path: Path, options: list[str], data: bytes) -> None:
    """No NUL and no carriage return else makes a text another; it comes through as it is."""
    done = mmbloom("dedup", tmp_path / "seen", *options, *EXACT, stdin=data)
    expected = data
    if not options and data.startswith("\u0430".encode()):
        expected = data[: len(data) // 3]
    assert (done.code, done.err, done.out) == (0, "", expected)
