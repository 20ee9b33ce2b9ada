"""What is no filter, no lines or no sink is refused in words that say what to pass."""

import gzip
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mmbloom import BloomFilter
from mmbloom.logs.dedup import Discard, dedup
from mmbloom.logs.lines import LineWriter, read_chunks


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(b"a\nb\n")
    return tmp_path / "log"


def test_files_in_place_of_chunks_and_sink(tmp_path: Path, log: Path) -> None:
    anything: Any = dedup
    with (
        BloomFilter.create(tmp_path / "seen", 100) as seen,
        log.open("rb") as source,
        (tmp_path / "out").open("wb") as output,
    ):
        with pytest.raises(TypeError, match=r"sink is .*LineWriter\(file\)"):
            anything(seen, source, output)
        with pytest.raises(TypeError, match=r"gives b'a.n', .*read_chunks\(file\)"):
            anything(seen, source, Discard())
        with pytest.raises(TypeError, match=r"sink is None"):
            anything(seen, [], None)
        with pytest.raises(TypeError, match=r"seen is 'seen', .*mmbloom.open"):
            anything("seen", [], Discard())
        assert seen.approx_count == 0
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize(
    "wrong", ["log", b"log", None, io.StringIO("a"), [b"a"]], ids=lambda wrong: type(wrong).__name__
)
def test_what_cannot_be_cut(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a binary file"):
        next(read_chunks(wrong))


def test_what_cannot_be_written_to(tmp_path: Path) -> None:
    """A file with a buffer would have a line marked that is not written."""
    spooled: Any = tempfile.SpooledTemporaryFile
    with (
        (tmp_path / "a").open("wb") as buffered,
        (tmp_path / "b").open("w") as text,
        (tmp_path / "c").open("a+b") as both,
        gzip.open(tmp_path / "d", "wb") as compressed,
        tempfile.NamedTemporaryFile(dir=tmp_path) as wrapped,
        spooled(dir=tmp_path) as kept,
    ):
        files: list[Any] = [buffered, text, both, compressed, wrapped, kept]
        for wrong in (*files, "path", None):
            with pytest.raises(TypeError, match="buffering=0"):
                LineWriter(wrong)
    LineWriter(io.BytesIO())
    with tempfile.NamedTemporaryFile(dir=tmp_path, buffering=0) as raw:
        LineWriter(raw)
