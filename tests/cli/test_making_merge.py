"""mmbloom merge and intersect, of files and folders: whole or not at all, failures in a line."""

import itertools
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import has
import pytest
from checks import array_of, check_folder, seal
from cli_runner import COMMAND, Ended, inside, is_one_line, refused, started
from golden import GOLDEN
from unions import check_merged, check_union, make, make_growing, make_rotating, make_two

from mmbloom import BloomFilter


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


def counters(path: Path) -> object:
    return path.write_bytes((GOLDEN / "standard-counters.bloom").read_bytes())


def damaged(path: Path) -> object:
    seal(make(path, range(9), path.with_name("one")))
    raw = bytearray(path.read_bytes())
    raw[4100] ^= 1
    return path.write_bytes(raw)


SEEDS = "seed secret (fingerprint 966a28d3) and secret (fingerprint "
BAD: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "dangling link": (lambda path: path.symlink_to("nowhere"), ["target does not exist"]),
    "folder": (Path.mkdir, ["kind a folder and a file"]),
    "counters": (counters, ["is a counting filter", "copy --plain"]),
    "damaged seal": (damaged, ["checksum of MiB 0"]),
    "unlike": (
        lambda path: make(path, capacity=1001, seed=77, error_rate=0.25),
        ["capacity 1000 and 1001", SEEDS, "error_rate 0.01 and 0.25", "--like"],
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


@pytest.mark.parametrize(
    ("limit", "times", "said"),
    [
        ((resource.RLIMIT_NOFILE, 24), 20, ["do it in steps", "ulimit -n"]),
        ((resource.RLIMIT_FSIZE, 5000), 1, ["out: cannot reserve {} bytes"]),
    ],
    ids=["too many inputs", "no space"],
)
def test_limits(
    tmp_path: Path, two: list[str], limit: tuple[int, int], times: int, said: list[str]
) -> None:
    kind, most = limit

    def keep() -> None:
        resource.setrlimit(kind, (most, most))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    size = 4096 + len(array_of(two[0]))
    done = started("merge", tmp_path / "out", *two * times, preexec_fn=keep)
    assert refused(done, 5, *(part.format(size) for part in said))
    check_folder(tmp_path, "one", "two")


def test_many_large_inputs_in_little_memory(tmp_path: Path) -> None:
    """Law 17: 60 inputs of 6 MiB each are united with no more memory than two."""
    one = make(tmp_path / "one", range(10), capacity=5_000_000)
    peaks = []
    code = (
        "import resource, sys; from mmbloom.cli import main; code = main(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
    )
    for number in (2, 60):
        argv = [*COMMAND[:-2], "-c", code]
        done = started("merge", tmp_path / f"{number}", *[one] * number, command=argv)
        assert done.code == 0
        peaks.append(int(done.out))
    assert peaks[1] < peaks[0] + (12 << 20) // has.RSS_UNIT


SIZES = ("-n", "1000", "-p", "1e-9")


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]])
def test_workers_with_a_filter_each(tmp_path: Path, kind: list[str]) -> None:
    names = [tmp_path / f"{i}" for i in range(3)]
    texts = [tmp_path / f"{i}.txt" for i in range(3)]
    lines = [b"".join(b"%d-%d\n" % (i, j) for j in range(300)) for i in range(3)]
    assert inside("create", names[0], *kind, *SIZES).code == 0
    for name, text, part in zip(names, texts, lines, strict=True):
        if name != names[0]:
            assert inside("create", name, "--like", names[0]).code == 0
        text.write_bytes(part)
        assert inside("add", name, text).code == 0
    out = tmp_path / "out"
    assert inside("merge", out, *names) == Ended(0, b"", "")
    if kind:
        check_merged(out, *names)
    else:
        check_union(str(out), *map(str, names))
    assert inside("check", out, *texts) == Ended(0, b"".join(lines), "")
    assert json.loads(inside("info", out, "--json").out)["keys_added"] == pytest.approx(900, 0.02)
    found = inside("verify", out, "--keys", texts[0], "--keys", texts[2])
    assert (found.code, b"600 looked up, 0 missing" in found.out) == (0, True)
    texts[0].write_bytes(b"another\n" + lines[1])
    assert inside("dedup", out, texts[0]) == Ended(0, b"another\n", "")


def test_folders_as_a_process(tmp_path: Path) -> None:
    make_growing(tmp_path / "one", range(30))
    assert started("merge", "out", "./one", cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o700
    argv = ("merge", "--permissions", "640", "--allow-network", "out2", "one", "one")
    assert started(*argv, cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out2").stat().st_mode & 0o7777 == 0o750
    for out in ("out", "out2"):
        check_merged(tmp_path / out, tmp_path / "one")


def test_more_keys_than_planned(tmp_path: Path) -> None:
    one = make_growing(tmp_path / "one", range(20), error_rate=0.01)
    two = make_growing(tmp_path / "two", range(20, 40), error_rate=0.01)
    done = inside("merge", tmp_path / "out", one, two)
    assert (done.code, done.out) == (0, b"")
    rate = json.loads(inside("info", tmp_path / "out", "--json").out)
    assert rate["past_plan"]
    said = f"about {100 * rate['current_error_rate']:.2g} % of new keys are now reported as seen"
    assert is_one_line(done.err, f"{tmp_path / 'out'}: 1 of 1 files are past their capacity", said)
    check_merged(tmp_path / "out", one, two)


def test_what_cannot_be_united(tmp_path: Path) -> None:
    one = make_growing(tmp_path / "one", range(30))
    make_growing(tmp_path / "seed", seed=6)
    make_rotating(tmp_path / "week", {1: ["a"]})
    make(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    gone = make_growing(tmp_path / "gone", range(30)) / "0000000001.bloom"
    gone.unlink()
    before = sorted(os.listdir(tmp_path))
    for other, *words in (
        ("seed", f"{SEEDS}5e9a5de4)", "--like"),
        ("week", "kind growing and rotating"),
        ("file", "kind a folder and a file", str(one)),
        ("empty", "manifest.json is missing"),
        ("gone", str(gone), "file is missing"),
        ("nothing", "no such filter"),
    ):
        done = inside("merge", tmp_path / "out", one, tmp_path / other)
        assert refused(done, 3, str(tmp_path / other), *words), other
    assert refused(inside("merge", one, one), 5, str(one), "there already")
    check_folder(tmp_path, *before)


@pytest.fixture
def alike(tmp_path: Path) -> list[str]:
    return make_two(tmp_path, error_rate=1e-9)


def test_lines_of_both_logs(tmp_path: Path, alike: list[str]) -> None:
    argv = ("intersect", "out", "--permissions", "640", "one", "./two")
    assert started(*argv, cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640
    with BloomFilter.open(tmp_path / "out") as seen:
        assert seen.contains_many(range(200, 300)).all()
        assert not seen.contains_many([*range(200), *range(300, 500)]).any()
    check_folder(tmp_path, "one", "two", "out")


def test_another_seed(tmp_path: Path, alike: list[str]) -> None:
    other = make(tmp_path / "other", seed=6)
    done = inside("intersect", tmp_path / "out", alike[0], other)
    assert refused(done, 3, f"{SEEDS}5e9a5de4)", "--like")
    check_folder(tmp_path, "one", "other", "two")
