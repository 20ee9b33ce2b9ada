"""Archives and files of tables have no lines: they are refused before anything is marked."""

import bz2
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
from cli_runner import EXACT, exact_filter, is_one_line, mmbloom
from compressors import zstd_library

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


def zstd(data: bytes) -> bytes:
    packed: bytes = zstd_library().compress(data)
    return packed


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
    "day.tzst": (lambda: zstd(tar_of(LINES)), "compressed by zst", "tar --zstd -xOf {} |"),
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
            done.err, f"{shown}: is ", what, opener.format(file), "not read as lines"
        )
        assert (seen.read_bytes() if seen.exists() else b"") == before
        seen.unlink(missing_ok=True)


TEXT = [
    b"PK\n",
    b"PAR1,x\n",
    b"ORCHID\n",
    b"ORC\nPK\n",
    b"ARROW1\n",
    b"FEA1,2\n",
    b"7z\n",
    b"P",
]


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
    command = said.partition("in it: ")[2].partition(" |")[0].split()
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert mmbloom("dedup", tmp_path / "seen", *EXACT, stdin=printed).out == LINES
