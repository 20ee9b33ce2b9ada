"""What has no lines of bytes, archives or other text, is refused before anything is marked."""

import bz2
import codecs
import gzip
import importlib
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runner import EXACT, exact_filter, is_one_line, mmbloom, refused
from frames import zstd

from mmbloom import BloomFilter, InputError, dedup_files
from mmbloom.logs.lines import read_chunks
from mmbloom.logs.rows import read_rows

LINES = b"first\nsecond\n"


def tar_of(lines: bytes, form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        member = tarfile.TarInfo("day1.log")
        member.size = len(lines)
        archive.addfile(member, io.BytesIO(lines))
    return made.getvalue()


def without_magic(archive: bytes) -> bytes:
    """As tar wrote it in 1979: no "ustar", and so another checksum."""
    old = bytearray(archive[:257] + bytes(255) + archive[512:])
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old[:512])
    return bytes(old)


def zip_of(lines: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        if lines:
            archive.writestr("day1.log", lines)
    return made.getvalue()


def of_arrow(module: str, function: str) -> Callable[[], bytes]:
    def make() -> bytes:
        # When it is run: it would be copied into each fork of other tests.
        made, arrow = io.BytesIO(), importlib.import_module("pyarrow")
        table = arrow.table({"line": ["first", "second"] * 400})
        getattr(importlib.import_module(f"pyarrow.{module}"), function)(table, made)
        return made.getvalue()

    return make


# What the file is called, how it is made, what is said of it, and what opens it.
FILES: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "day.tar": (lambda: tar_of(LINES), "a tar archive", "tar xOf {} |"),
    "gnu.tar": (lambda: tar_of(LINES, tarfile.GNU_FORMAT), "a tar archive", "tar xOf {} |"),
    "old.tar": (lambda: without_magic(tar_of(LINES)), "a tar archive", "tar xOf {} |"),
    "day.tar.gz": (
        lambda: gzip.compress(tar_of(LINES)),
        "a tar archive, compressed by gz",
        "tar xOzf {} |",
    ),
    "day": (lambda: bz2.compress(tar_of(LINES)), "compressed by bz2", "tar xOjf {} |"),
    "day.txz": (lambda: lzma.compress(tar_of(LINES)), "compressed by xz", "tar xOJf {} |"),
    "day.tzst": (lambda: zstd.compress(tar_of(LINES)), "compressed by zst", "tar --zstd -xOf {} |"),
    "day.zip": (lambda: zip_of(LINES), "a zip archive", "unzip -p {} |"),
    "empty.zip": (lambda: zip_of(b""), "a zip archive", "unzip -p {} |"),
    "zip.gz": (lambda: gzip.compress(zip_of(LINES)), "compressed by gz", "unzip -p {} |"),
    "day.7z": (lambda: b"7z\xbc\xaf\x27\x1c\0\4" + LINES, "a 7z archive", "7z x -so {} |"),
    "day.lz4": (lambda: b"\x04\x22\x4d\x18\x64\x40\xa7\x0d", "by lz4", "lz4 -dc {} |"),
    "old.lz4": (lambda: b"\x02\x21\x4c\x18\x0f\0\0\0" + LINES, "by lz4", "lz4 -dc {} |"),
    "day.parquet": (of_arrow("parquet", "write_table"), "a Parquet file", 'duckdb -csv -c "FROM '),
    "day.feather": (of_arrow("feather", "write_feather"), "Feather file", "dataframes.md"),
    "day.orc": (of_arrow("orc", "write_table"), "an ORC file", "dataframes.md"),
}
AT_ONCE = {"a tar archive", "an ORC file"}
EACH = pytest.mark.parametrize("name", FILES)


@EACH
@pytest.mark.parametrize("how", ["file", "redirected", "pipe", "slow pipe"])
def test_refused_before_anything_is_marked(tmp_path: Path, name: str, how: str) -> None:
    make, what, opener = FILES[name]
    path, seen = tmp_path / name, tmp_path / "seen"
    path.write_bytes(make())
    is_file = how == "file"
    for command in ("dedup", "add", "check"):
        if command == "check" or not is_file:
            exact_filter(seen)
        before = seen.read_bytes() if seen.exists() else b""
        sizes = [] if command == "check" else EXACT
        (tmp_path / "plain").write_bytes(LINES)
        inputs = [tmp_path / "plain", path] if is_file else []
        if how == "redirected":
            with path.open("rb") as redirected:
                done = mmbloom(command, seen, *inputs, *sizes, stdin=redirected)
        else:
            stdin = b"" if is_file else path.read_bytes()[: 600 if how == "slow pipe" else None]
            # Of tar and ORC more bytes tell, and what writes them writes these at once.
            pause = 0.0001 if how == "slow pipe" and what not in AT_ONCE else 0
            done = mmbloom(command, seen, *inputs, *sizes, stdin=stdin, pause=pause)
        assert done.code == 5, done.err
        assert done.out == b""
        shown, file = (str(path), str(path)) if is_file else ("stdin", "FILE")
        assert is_one_line(
            done.err, f"{shown}: is ", what, opener.format(file), "not a file of lines"
        )
        assert (seen.read_bytes() if seen.exists() else b"") == before
        seen.unlink(missing_ok=True)


TEXT = [b"PK\n", b"PAR1,x\n", b"ORCHID\n", b"ORC\nPK\n", b"ARROW1\n", b"FEA1,2\n", b"7z\n", b"P"]


NO_SUM = b"\x80\x80" + bytes(600)  # which are -256 as signed bytes, and the checksum is 0


@pytest.mark.parametrize("text", [*TEXT, b"name\0" + b"0" * 600, b"\0" * 512, b"0\n" * 400, NO_SUM])
@pytest.mark.parametrize("packed", [False, True])
def test_text_that_begins_alike_is_read(tmp_path: Path, text: bytes, packed: bool) -> None:
    """Words that are a part of such a beginning, and bytes that are no header, are lines."""
    (tmp_path / "in").write_bytes(gzip.compress(text) if packed else text)
    done = mmbloom("dedup", tmp_path / "seen", *EXACT, tmp_path / "in")
    assert (done.code, done.err) == (0, "")
    assert done.out == b"".join(dict.fromkeys(text.splitlines(keepends=True)))
    piped = mmbloom("dedup", tmp_path / "other", *EXACT, stdin=(tmp_path / "in").read_bytes())
    assert (piped.code, piped.out) == (0, done.out)


def test_what_it_says_works(tmp_path: Path) -> None:
    if shutil.which("tar") is None:
        pytest.skip("no tar on this machine")
    path = tmp_path / "day.tar.gz"
    path.write_bytes(gzip.compress(tar_of(LINES)))
    said = mmbloom("dedup", tmp_path / "seen", *EXACT, path).err
    command = said.partition("contents in: ")[2].partition(" |")[0].split()
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert mmbloom("dedup", tmp_path / "seen", *EXACT, stdin=printed).out == LINES


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
    commands = [
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
