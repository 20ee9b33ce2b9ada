"""mmbloom merge: OUT of all IN, whole or not at all, and each failure with its line and code."""

import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import array_of, check_folder, counters_of, seal
from cli_runner import COMMAND, inside, is_one_line, mmbloom, refused, started
from golden import GOLDEN
from unions import check_union, make
from workers import PATIENCE

from mmbloom import BloomFilter


def test_workers_with_a_filter_each(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{i}") for i in range(3)]
    assert inside("create", names[0], "-n", "10000", "-p", "1e-6").code == 0
    lines = [b"".join(b"%d-%d\n" % (i, j) for j in range(500)) for i in range(3)]
    for name, text in zip(names, lines, strict=True):
        if name != names[0]:
            assert inside("create", name, "--like", names[0]).code == 0
        Path(name + ".txt").write_bytes(text)
        assert inside("add", name, name + ".txt").code == 0
    out = str(tmp_path / "out")
    assert inside("merge", out, *names) == (0, b"", "")
    check_union(out, *names)
    assert counters_of(out)["keys_added"] == pytest.approx(1500, rel=0.02)
    texts = [name + ".txt" for name in names]
    assert inside("check", out, *texts) == (0, b"".join(lines), "")


def test_as_a_process(tmp_path: Path, two: list[str]) -> None:
    sealed = make(tmp_path / "sealed", range(9), two[0])
    seal(sealed)
    assert started("merge", "out", "one", "./two", "sealed", cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o600
    check_union(str(tmp_path / "out"), *two)  # which hold all of the sealed one
    check_folder(tmp_path, "one", "two", "sealed", "out")


def test_options_stand_anywhere(tmp_path: Path, two: list[str]) -> None:
    options = ["--permissions", "640", "--allow-network"]
    for number, sources in itertools.product(range(4), (two[:1], two, [*two, two[0]])):
        out = tmp_path / f"out-{number}-{len(sources)}"
        argv = [str(out), *sources]
        argv[number:number] = options
        assert inside("merge", *argv) == (0, b"", ""), argv
        assert out.stat().st_mode & 0o7777 == 0o640
        check_union(str(out), *sources)


def test_names_that_look_like_options(here: Path, two: list[str]) -> None:
    os.rename("two", "-d")
    assert inside("merge", "--", "-out", "one", "-d") == (0, b"", "")
    check_union("-out", "one", "-d")


def unlike(path: Path) -> object:
    return make(path, capacity=1001, seed=77, error_rate=0.25)


def counters(path: Path) -> object:
    return path.write_bytes((GOLDEN / "standard-counters.bloom").read_bytes())


def damaged(path: Path) -> object:
    seal(make(path, range(9), path.with_name("one")))
    raw = bytearray(path.read_bytes())
    raw[4100] ^= 1
    return path.write_bytes(raw)


BAD: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "dangling link": (
        lambda path: path.symlink_to("nowhere"),
        ["link whose target does not exist"],
    ),
    "folder": (Path.mkdir, ["kind a folder and a file"]),
    "counters": (counters, ["is a counting filter", "copy --plain"]),
    "damaged seal": (damaged, ["checksum of MiB 0"]),
    "unlike": (
        unlike,
        [
            "capacity 1000 and 1001",
            "seed secret (fingerprint 966a28d3) and secret (fingerprint ",
            "error_rate 0.01 and 0.25",
            "--like",
        ],
    ),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("place", [1, 2])
def test_bad_inputs(tmp_path: Path, two: list[str], kind: str, place: int) -> None:
    bad = tmp_path / "bad"
    BAD[kind][0](bad)
    before = sorted(os.listdir(tmp_path))
    done = inside("merge", tmp_path / "out", *two[:place], bad, *two[place:])
    assert refused(done, 3, str(bad), *BAD[kind][1])
    check_folder(tmp_path, *before)


def limited(kind: int, limit: int) -> Callable[[], None]:
    """Make what a child does before its start: keep to a limit."""

    def keep() -> None:
        resource.setrlimit(kind, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    return keep


def test_too_many_inputs(tmp_path: Path, two: list[str]) -> None:
    keep = limited(resource.RLIMIT_NOFILE, 24)
    done = started("merge", tmp_path / "out", *two * 20, preexec_fn=keep)
    assert refused(done, 5, "do it in steps", "ulimit -n")
    check_folder(tmp_path, "one", "two")


def test_no_space(tmp_path: Path, two: list[str]) -> None:
    keep = limited(resource.RLIMIT_FSIZE, 5000)
    done = started("merge", tmp_path / "out", *two, preexec_fn=keep)
    assert (done.code, done.out) == (5, b"")
    size = 4096 + len(array_of(two[0]))
    assert is_one_line(done.err, str(tmp_path / "out"), f"cannot reserve {size} bytes")
    check_folder(tmp_path, "one", "two")


def test_many_large_inputs_in_little_memory(tmp_path: Path) -> None:
    """Law 17: 60 inputs of 6 MiB each are united with no more memory than two."""
    one = make(tmp_path / "one", range(10), capacity=5_000_000)
    peaks = []
    for number in (2, 60):
        code = (
            "import resource, sys; from mmbloom.cli import main; code = main(sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
        )
        argv = [*COMMAND[:-2], "-c", code, "merge", str(tmp_path / f"{number}"), *[one] * number]
        peaks.append(
            int(subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE).stdout)
        )
    assert peaks[1] < peaks[0] + 12 * 1024  # in KiB
    assert sys.platform == "linux"


def test_lines_marked_while_merging_are_not_lost(tmp_path: Path, two: list[str]) -> None:
    """A live input goes on: after the merge a second one has what came in between."""
    with BloomFilter.open(two[0]) as seen:
        for number in range(3):
            seen.add_many(range(1000 * number, 1000 * number + 100))
            assert mmbloom("merge", tmp_path / f"{number}", *two).code == 0
            with BloomFilter.open(tmp_path / f"{number}", "r") as united:
                assert united.contains_many(range(1000 * number, 1000 * number + 100)).all()
