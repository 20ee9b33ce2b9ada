"""Outputs that several runs append to, plain and compressed: whole lines, whole frames."""

import errno
import fcntl
import gzip
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, cast

import has
import numpy as np
import pytest
from checks import contents
from cli_runner import (
    COMMAND,
    EXACT,
    Ended,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    refused,
    running,
)
from forms import octets_of
from frames import COMPRESS, DECOMPRESS, held_by, zstd
from workers import in_child

from mmbloom import BloomFilter, GrowingFilter, InputError, RotatingFilter, dedup_files
from mmbloom._system import extras as _extras
from mmbloom.errors import ColumnError, MmbloomWarning
from mmbloom.logs import compressed
from mmbloom.logs.outputs import open_output
from mmbloom.logs.rows import RowWriter


def append(out: str | Path, lines: bytes, *options: str, seen: str = "seen") -> Ended:
    """Run dedup in the current folder, whose filter it makes."""
    return mmbloom("dedup", seen, "-o", out, *options, *EXACT, stdin=lines)


def test_line_cut_off_by_another_run_meanwhile(tmp_path: Path) -> None:
    """Law 6: a line that another, killed run leaves cut off does not swallow the next one."""
    path = tmp_path / "out"
    with open_output(str(path), b"\n") as writer:
        writer.write(octets_of(b"a\n"), terminated=True)
        with path.open("ab") as other:
            other.write(b"cut o")
        writer.write(octets_of(b"precious\n"), terminated=True)
    assert path.read_bytes() == b"a\ncut o\nprecious\n"


@pytest.mark.skipif(not has.PIPE_SIZES, reason="this system has no pipes of another size")
def test_a_pipe_holds_more(tmp_path: Path) -> None:
    """Of 64 KiB, the system's default, writer and reader wait for each other too often."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as pipe:
        sizes = [fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)]
        ended = mmbloom("dedup", tmp_path / "seen", *EXACT, stdin=b"a\na\n", stdout=pipe)
        sizes.append(fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ))
        assert (ended.code, os.read(reading, 100)) == (0, b"a\n")
    assert sizes == [1 << 16, 1 << 20]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    "options", ["--output-dir {}", "-o {}/out", "-j 2 --output-dir {}"], ids=["dir", "o", "jobs"]
)
@pytest.mark.parametrize("place", ["seen", "seen/in/it", "link"])
def test_output_in_the_folder_of_the_filter(
    here: Path, place: str, options: str, *, exists: bool
) -> None:
    """A folder of filters is for its own files: an input could have the name of one of them."""
    if exists:
        GrowingFilter.create("seen", 1000).close()
    Path("link").symlink_to("seen")
    Path("manifest.json").write_bytes(b"a\n")
    before = contents(here)
    made = () if exists else EXACT
    done = mmbloom("dedup", "seen", "manifest.json", *options.format(place).split(), *made)
    assert refused(done, 2, "is in the folder of a filter", place)
    assert contents(here) == before


def test_output_in_the_folder_of_another_filter(here: Path) -> None:
    """The same of any folder with a manifest of ours; one of others' is a folder like any."""
    RotatingFilter.create("other", capacity_per_period=1000).close()
    assert refused(append("other/out", b"a\n"), 2, "is in the folder of a filter")
    Path("site").mkdir()
    Path("site/manifest.json").write_bytes(b"{}")
    assert append("site/out", b"a\n").code == 0
    assert Path("site/out").read_bytes() == b"a\n"


def test_output_in_place_of_the_exclusions(here: Path) -> None:
    """Lines that are written there would be keys that the filter denies."""
    exact_filter("seen")
    Path("link").symlink_to("seen")
    done = mmbloom("dedup", "link", "-o", "seen.exclusions", stdin=b"a\n")
    assert refused(done, 2, "is the filter's file of exclusions")
    assert not Path("seen.exclusions").exists()


@pytest.mark.parametrize("words", [["dedup", "f", "--%s"], ["info", "-%s", "f"], ["%s"]])
def test_control_characters_in_options(words: list[str]) -> None:
    """Such words are shown escaped where argparse refuses them, too."""
    done = mmbloom(*(word.replace("%s", "\x1b[31mx\n\r\u202e") for word in words))
    assert done.code == 2
    assert r"\x1b[31mx\n\r\u202e" in done.err
    assert done.err[:-1].isprintable()


@pytest.mark.parametrize("make", [BloomFilter.create, GrowingFilter.create], ids=["file", "folder"])
def test_control_characters_in_paths(tmp_path: Path, make: Any) -> None:
    """A name that would clear the screen, or make a line of its own, is shown escaped."""
    name = "a\x1b[2J\nverdict         not sound\r\x7f\u202e\udcff"
    make(tmp_path / name, 1000, seed=1).close()
    make(tmp_path / "other", 1000, seed=2).close()
    commands = [["info", name], ["verify", name]]
    if make == BloomFilter.create:
        commands += [
            ["compare", name, name],
            ["compare", name, "other"],
            ["compare", "other", name],
        ]
    for command, *paths in commands:
        done = mmbloom(command, *(tmp_path / path for path in paths))
        said = done.out.decode()
        assert r"a\x1b[2J\nverdict         not sound\r\x7f\u202e\xff" in said, said
        assert all(line.isprintable() for line in said.split("\n"))
        assert "verdict         not sound" not in said.split("\n")


EACH_KIND = pytest.mark.parametrize("kind", COMPRESS)


@EACH_KIND
def test_lines_of_several_runs(here: Path, kind: str) -> None:
    """A line without its end is ended first, as in a plain file; the other output is compressed."""
    out = Path(f"out.{kind}")
    for lines in (b"a\nb\na\nc", b"", b"c\nd\n", b"d"):
        assert append(out, lines, "--repeats-to", "rest.GZ") == (0, b"", "")
    assert held_by(out) == b"a\nb\nc\nd\n"
    assert gzip.decompress(Path("rest.GZ").read_bytes()) == b"a\nc\nd"
    assert mmbloom("check", "seen", "-vc", out).out == b"0\n"


@EACH_KIND
@pytest.mark.parametrize("there", ["whole", "padded", "empty"])
def test_what_others_have_written(here: Path, kind: str, there: str) -> None:
    """Files of the usual tools are appended to; zeros are set aside unless the kind allows them."""
    out, held = Path(f"out.{kind}"), b"x" * 10_000_000
    whole = COMPRESS[kind](held) + COMPRESS[kind](b"")
    out.write_bytes({"whole": whole, "padded": whole + bytes(50_000), "empty": b""}[there])
    done = append(out, b"a\n")
    assert done.code == 0
    set_aside = there == "padded" and kind != "xz"
    assert set_aside == ("these 50000 bytes were moved to" in done.err)
    assert append(out, b"b\n") == (0, b"", "")
    assert held_by(out) == (b"a\nb\n" if there == "empty" else held + b"\na\nb\n")


@EACH_KIND
def test_a_run_without_new_lines(here: Path, kind: str) -> None:
    """Its output is a file of the kind, that holds nothing; another such run leaves it as it is."""
    out, found = Path(f"out.{kind}"), set()
    for _ in range(2):
        assert append(out, b"").code == 0
        assert held_by(out) == b""
        found.add(out.read_bytes())
    assert len(found) == 1
    assert append(out, b"a\n").code == 0
    assert held_by(out) == b"a\n"


@EACH_KIND
def test_half_a_frame_is_set_aside(here: Path, kind: str) -> None:
    out, aside = Path(f"out.{kind}"), Path(f"out.{kind}.half")
    first, second = COMPRESS[kind](b"a\nb\n"), COMPRESS[kind](b"c\nd\n")
    Path("in").write_bytes(b"c\nd\n")
    for end in range(len(first) + len(second)):
        out.write_bytes((first + second)[:end])
        aside.unlink(missing_ok=True)
        done = inside("dedup", str(end), "in", "-o", out, "-n10")
        assert (done.code, done.out) == (0, b"")
        whole = len(first) if end >= len(first) else 0
        assert held_by(out) == (b"a\nb\n" if whole else b"") + b"c\nd\n"
        assert aside.exists() == (end > whole)
        if end > whole:
            assert aside.read_bytes() == (first + second)[whole:end]
            assert is_one_line(done.err, f"these {end - whole} bytes were moved to {aside}")


@pytest.mark.parametrize("there", ["link", "dangling link", "hard link", "fifo", "file"])
def test_what_has_the_name_of_half_a_frame(here: Path, there: str) -> None:
    """It is neither written to nor waited for; what is moved has the permissions of the output."""
    out, other, aside = Path("out.gz"), Path("other"), Path("out.gz.half")
    whole, rest = gzip.compress(b"a\n"), gzip.compress(b"b\n")[:12]
    out.write_bytes(whole + rest)
    out.chmod(0o640)
    other.write_bytes(b"other")
    make: dict[str, Callable[[], object]] = {
        "link": partial(aside.symlink_to, "other"),
        "dangling link": partial(aside.symlink_to, "missing"),
        "hard link": partial(aside.hardlink_to, other),
        "fifo": partial(os.mkfifo, aside),
        "file": partial(aside.write_bytes, b"an earlier half"),
    }
    make[there]()
    before = os.lstat(aside)
    done = append(out, b"c\n")
    assert done.code == 0
    assert is_one_line(done.err, f"these 12 bytes were moved to {aside}2")
    moved = Path("out.gz.half2")
    assert (moved.read_bytes(), moved.stat().st_mode) == (rest, out.stat().st_mode)
    after = os.lstat(aside)
    assert (after.st_mode, after.st_size) == (before.st_mode, before.st_size)
    assert (other.read_bytes(), Path("missing").exists()) == (b"other", False)
    assert held_by(out) == b"a\nc\n"


def as_another_user(out: Path) -> str:
    """In a child: append as a user who is not the owner of the output; return what is said."""
    os.setegid(65534)
    os.seteuid(65534)
    with pytest.raises(PermissionError) as error, open_output(str(out), b"\n") as output:
        output.write(np.frombuffer(b"c\n", np.uint8), terminated=True)
    return str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (0o666, "it ends in half a frame, which cannot be moved to out.gz.half: it belongs"),
        (0o222, "Permission denied"),  # nothing is appended where what is there cannot be seen
    ],
)
def test_half_a_frame_in_an_output_of_another_user(mode: int, said: str) -> None:
    """It stays where it is: a file of somebody else would hold what is the owner's."""
    with tempfile.TemporaryDirectory() as folder:  # that of pytest is the owner's only
        Path(folder).chmod(0o777)
        out, there = Path(folder, "out.gz"), gzip.compress(b"b\n")[:-1]
        out.write_bytes(there)
        out.chmod(mode)
        error = in_child(partial(as_another_user, out))
        assert said in error
        assert str(out) in error
        assert (out.read_bytes(), os.listdir(folder)) == (there, ["out.gz"])


ROWS = pytest.mark.parametrize(
    ("there", "given", "options", "delimiter"),
    [(b"id,a\n1,x\n2,", b"id,a\n3,z\n", ["--csv", "-ka"], b","), (b"hal", b"line\n", [], None)],
    ids=["rows", "lines"],
)
HEADER_UNKNOWN = "cannot be read ({}), so its header is unknown: {}, or use another file"
END_UNKNOWN = (
    "cannot be read ({}), so if a killed run left half a line, the next line is joined to it: {}"
)


@ROWS
def test_an_output_that_may_not_be_read(
    there: bytes, given: bytes, options: list[str], delimiter: bytes | None
) -> None:
    """Rows are refused, as there may be a header; lines are appended, with a warning."""

    def as_another(out: Path) -> str:
        if os.geteuid() == 0:
            os.setegid(65534)
            os.seteuid(65534)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                with open_output(str(out), b"\n", delimiter=delimiter) as output:
                    output.write(octets_of(given), terminated=True)
            except InputError as error:
                return str(error)
        return " ".join(str(warning.message) for warning in warned)

    with tempfile.TemporaryDirectory() as folder:  # that of pytest is the owner's only
        Path(folder).chmod(0o777)
        out = Path(folder, "out")
        out.write_bytes(there)
        out.chmod(0o222)
        said = in_child(partial(as_another, out))
        out.chmod(0o644)
        assert out.read_bytes() == (there if delimiter else there + given)
    why, remedy = "Permission denied", "make it readable"
    expected = (HEADER_UNKNOWN if delimiter else END_UNKNOWN).format(why, remedy)
    assert said == f"{out}: {expected}"


@ROWS
def test_an_output_whose_path_is_not_known(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: bytes,
    given: bytes,
    options: list[str],
    delimiter: bytes | None,
) -> None:
    """As in a container that has no /proc: what is opened by its path needs none."""

    def unknown(fd: int, _: int) -> int:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/self/fd/{fd}")

    monkeypatch.setattr("mmbloom.logs.outputs.reopen", unknown)
    why, remedy = "its path is not known", "give its path"
    said = (HEADER_UNKNOWN if delimiter else END_UNKNOWN).format(why, remedy)
    out = Path("out")
    exact_filter("seen")
    Path("in").write_bytes(given)
    for of_command in (True, False):
        out.write_bytes(there)
        with out.open("ab", buffering=0) as file, BloomFilter.open("seen") as seen:
            if of_command:
                done = mmbloom("dedup", "seen", "in", *options, stdout=file)
                assert (done.code, done.out) == (5 if delimiter else 0, b"")
                assert is_one_line(done.err, f"stdout: {said}\n")
            elif delimiter:
                with pytest.raises(InputError, match=re.escape(f"the open file: {said}")):
                    dedup_files(seen, "in", file, csv=True, key="a")
            else:
                with pytest.warns(MmbloomWarning, match=re.escape(f"the open file: {said}")):
                    dedup_files(seen, io.BytesIO(b"line 2\n"), file)
    assert out.read_bytes() == (there if delimiter else there + b"line 2\n")
    for _ in range(2):
        out.write_bytes(there)
        assert append(out, given, *options, seen="other").code == 0
        Path("other").unlink()
        assert out.read_bytes() == there + b"\n" + given.removeprefix(b"id,a\n")
    Path("empty").touch()  # of which all is known
    with Path("empty").open("ab") as empty:
        assert mmbloom("dedup", "new", "in", *options, *EXACT, stdout=empty) == (0, b"", "")
    assert Path("empty").read_bytes() == given


@pytest.mark.parametrize("there", [b"", gzip.compress(bytes(range(256)) * 9 + b"\n")])
def test_emptied_by_others(tmp_path: Path, there: bytes) -> None:
    """A file that is emptied, and may be longer by the next look, is read from its beginning."""
    out = tmp_path / "out.gz"
    with out.open("ab+", buffering=0) as file:
        output = compressed.CompressedFile(file, "gz", str(out))
        for lines in (b"a\n", b"b\n"):
            assert output.write(memoryview(lines)) == 2
        out.write_bytes(there)
        held = gzip.decompress(there)
        assert (output.size(), output.last()) == (len(held), held[-1:])
        output.write(memoryview(b"c\n"))
    assert held_by(out) == held + b"c\n"


def test_a_link_has_the_kind_of_its_file(here: Path) -> None:
    """Plain lines behind frames could not be read; a link to a plain file gets plain lines."""
    for link, target in [("current", "out.gz"), ("other.gz", "plain")]:
        Path(link).symlink_to(target)
        assert append(link, b"a\n", seen=f"{link}.bloom").code == 0
    assert held_by(Path("out.gz")) == Path("plain").read_bytes() == b"a\n"


def with_a_length_that_hides_others() -> Any:
    options = {zstd.CompressionParameter.content_size_flag: 0}
    frame = zstd.compress(os.urandom(200_000), options=options)
    second = 6 + 3 + (1 << 17)  # the header of the second block: behind that of the frame, and one
    longest = ((1 << 17) << 3 | 1).to_bytes(3, "little")  # the last block, as it is
    return frame[:second] + longest + frame[second + 3 :] + zstd.compress(b"b\n") * 2


# What is there, by its kind, and what is said of it: before a filter is made, if it is no frame.
REFUSED: list[tuple[str, Callable[[], bytes], str]] = [
    (
        "zst",
        with_a_length_that_hides_others,
        "cannot be read from byte 0 on (half a frame, longer t",
    ),
    # A large file that lacks its end is another program's, which may be writing it.
    ("gz", lambda: gzip.compress(os.urandom(17 << 20), 1)[:-4], "longer than any that a killed"),
]
for each in COMPRESS:
    first, second, third = (COMPRESS[each](b"%d\n" % number * 99) for number in range(3))
    behind_the_first = f"cannot be read from byte {len(first)} on"
    REFUSED += [
        (each, partial(bytes, 5000), f"so it is not a .{each} file"),
        (
            each,
            partial(bytes, b"plain lines\n" * 9),
            "begins with b'plain lines\\nplai', so it is n",
        ),
        (each, partial(bytes, first + b"no frame, but some other bytes"), behind_the_first),
        (each, partial(bytes, first + second[:-9] + third), behind_the_first),
    ]


@pytest.mark.parametrize(("kind", "make", "said"), REFUSED)
def test_what_cannot_be_appended_to(
    here: Path, kind: str, make: Callable[[], bytes], said: str
) -> None:
    """It stays as it is, and nothing is marked."""
    out, there = Path(f"out.{kind}"), make()
    out.write_bytes(there)
    done = append(out, b"a\n")
    assert refused(done, 5, f"{out}: ", said, "nothing is appended to it: write to another file")
    assert out.read_bytes() == there
    assert Path("seen").exists() == ("so it is n" not in said)
    if Path("seen").exists():
        assert mmbloom("check", "seen", "-c", stdin=b"a\n").out == b"0\n"


def test_rows_have_one_header(here: Path) -> None:
    """Whatever ends what is there: a row with its newline, one without, one with an open quote."""
    out, held = Path("out.csv.gz"), b"id,a\n"
    for rows, kept in [
        (b'1,"x\ny"\n', b'1,"x\ny"\n'),
        (b'2,"x\ny"\n3,z', b"3,z"),
        (b"4,w\n", b"\n4,w\n"),
    ]:
        assert append(out, b"id,a\n" + rows, "--csv", "-ka").code == 0
        held += kept
        assert held_by(out) == held
    with out.open("ab") as file:
        file.write(gzip.compress(b'5,"open'))
    held += b'5,"open"\n6,v\n'
    assert append(out, b"id,a\n6,v\n", "--csv", "-ka").code == 0
    done = append(out, b"id,a,b\n6,v,w\n", "--csv", "-ka")
    assert is_one_line(done.err, f"{out}: begins with 'id,a', but these rows have the header")
    assert held_by(out) == held


def test_two_runs_and_one_file(tmp_path: Path) -> None:
    """With a filter each, no lock but that of the file keeps their frames apart."""
    out = tmp_path / "out.zst"
    lines = [[b"%d %d" % (who, number) for number in range(100_000)] for who in range(2)]
    runs = []
    for who in range(2):
        (tmp_path / f"in{who}").write_bytes(b"\n".join([*lines[who], b""]))
        argv = ("dedup", tmp_path / f"seen{who}", tmp_path / f"in{who}", "-o", out)
        runs.append(subprocess.Popen([*COMMAND, *argv, "-n1e6", "-p1e-9"]))
    assert [run.wait() for run in runs] == [0, 0]
    assert sorted(held_by(out).splitlines()) == sorted(lines[0] + lines[1])


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
def test_a_header_that_another_run_has_written(tmp_path: Path, name: str) -> None:
    """Both have opened the file when it was empty; the second sees what the first has written."""
    out = tmp_path / name
    opened = partial(open_output, str(out), b"\n", delimiter=b",")
    with opened() as ours, opened() as theirs:
        for writer, row in [(ours, b"1,x\n"), (theirs, b"2,y\n")]:
            assert isinstance(writer, RowWriter)
            writer.begin(b"id,a\n")
            writer.write(np.frombuffer(row, np.uint8), terminated=True)
        with pytest.raises(ColumnError):
            cast("RowWriter", theirs).begin(b"id,b\n")
    assert held_by(out) == b"id,a\n1,x\n2,y\n"


def test_nothing_comes_between_a_look_and_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line without its end, that another run writes after we have looked, waits for our line."""
    out, look = tmp_path / "out.gz", compressed.CompressedFile.last
    with open_output(str(out), b"\n") as ours, open_output(str(out), b"\n") as theirs:
        x = np.frombuffer(b"x", np.uint8)
        other = Thread(target=lambda: theirs.write(x, terminated=False))

        def slow(file: compressed.CompressedFile) -> bytes:
            last = look(file)
            if other.ident is None:
                other.start()
                other.join(0.3)
            return last

        monkeypatch.setattr(compressed.CompressedFile, "last", slow)
        ours.write(np.frombuffer(b"a\n", np.uint8), terminated=True)
        other.join()
    assert held_by(out) == b"a\nx"


def test_a_frame_that_another_run_writes(here: Path) -> None:
    out, theirs = Path("out.gz"), gzip.compress(b"theirs\n")
    with out.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(theirs[:9])
        with running("dedup", "seen", *EXACT, "-o", out) as run:
            assert run.stdin is not None
            run.stdin.write(b"ours\n")
            run.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(0.6)
            file.write(theirs[9:])
            fcntl.flock(file, fcntl.LOCK_UN)
            assert run.wait() == 0
    assert held_by(out) == b"theirs\nours\n"


@pytest.mark.parametrize("options", ["", "--csv", "-d", "-c", "-u", "-cu", "--repeats-to=rest.gz"])
def test_the_filter_is_free_while_a_run_waits_for_its_output(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """Whoever may read an output can lock it, and keep up no other run with the filter by that."""
    seen, others, lock = exact_filter(here / "seen"), [], compressed.CompressedFile._lock

    def wait(file: compressed.CompressedFile) -> None:
        others.append(mmbloom("add", seen, "--lock-timeout=0", stdin=b"of another run\n"))
        lock(file)

    monkeypatch.setattr(compressed.CompressedFile, "_lock", wait)
    Path("in").write_bytes(b"a\nb\nb\n")
    assert inside("dedup", seen, "in", "-o", "out.gz", *options.split()).code == 0
    assert {other.code for other in others} == {0}
    assert held_by(Path("out.gz"))


def test_two_outputs_are_waited_for_in_one_order(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two runs that name them in another order would wait for each other."""
    waits, lock = list[str](), compressed.CompressedFile._lock

    def wait(file: compressed.CompressedFile) -> None:
        waits.append(file._name)
        lock(file)

    Path("in").write_bytes(b"a\na\n")
    orders = set()
    for out, rest in [("a.gz", "b.gz"), ("b.gz", "a.gz")]:
        argv = ("dedup", exact_filter(here / out[0]), "in", "-o", out, "--repeats-to", rest)
        waits.clear()
        with monkeypatch.context() as patched:
            patched.setattr(compressed.CompressedFile, "_lock", wait)
            assert inside(*argv).code == 0
        orders.add(tuple(waits[:2]))
    assert len(orders) == 1
    assert {*orders.pop()} == {"a.gz", "b.gz"}


def test_a_pipe(here: Path) -> None:
    """What has such a name and is no file gets whole frames, and is not looked at."""
    os.mkfifo("pipe.gz")
    with subprocess.Popen(["cat", "pipe.gz"], stdout=subprocess.PIPE) as cat:
        assert append("pipe.gz", b"a\na\nb").code == 0
        assert gzip.decompress(cat.communicate()[0]) == b"a\nb"


def test_without_the_library(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python has itself needs no extra; for zstd the error says what to install."""
    for library in ("backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, library, None)
    for kind in ("gz", "bz2", "xz"):
        assert append(f"out.{kind}", b"a\n", seen=kind) == (0, b"", "")
        assert held_by(Path(f"out.{kind}")) == b"a\n"
    done = append("out.zst", b"a\n")
    assert is_one_line(done.err, "writing compressed files needs backports.zstd", "mmbloom[cli]")


def test_a_write_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half frame is taken back at once, so that others read the file as it is."""
    with (tmp_path / "out.gz").open("ab+", buffering=0) as file:
        output = compressed.CompressedFile(file, "gz", "out.gz")
        assert output.write(memoryview(b"a\n")) == 2

        def broken(data: memoryview) -> None:
            os.write(file.fileno(), data[:9])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(output, "_file", Broken(file.fileno(), broken))
        with pytest.raises(OSError, match="No space"):
            output.write(memoryview(b"b\n"))
        assert held_by(tmp_path / "out.gz") == b"a\n"


class Broken:
    """A file of which a write breaks."""

    def __init__(self, fd: int, write: Any) -> None:
        self.fileno, self.write = (lambda: fd), write


@EACH_KIND
def test_compressors_are_those_of_readers(kind: str) -> None:
    """Of each kind a frame is one, and its decompressor knows where it ends."""
    library = _extras.compression(kind, "a test")
    frame = library.compress(b"a" * 1000)
    stream = library.decompressor()
    assert DECOMPRESS[kind](frame) == stream.decompress(frame + b"more") == b"a" * 1000
    assert (stream.eof, stream.unused_data) == (True, b"more")
    assert kind != "zst" or frame[4] & 4  # of a checksum, as others always have
