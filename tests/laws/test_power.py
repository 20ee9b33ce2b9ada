"""Laws 6, 12: what a power cut leaves of a run of dedup, on a disk that can be cut off."""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from cli_runner import forked, mmbloom, wait_until
from power import Mount, after_reboot, cut, make_image, mounts
from tally import Count

from mmbloom import BloomFilter
from mmbloom import open as open_filter

LINES = [b"line %d\n" % number for number in range(20_000)]
MORE = ("-n", "1M", "-p", "1e-9", "--seed", "11")
INPUTS = 40  # a mark or two for each
LONGEST = 0.05  # seconds from the first write to a cut; a run takes longer
CUTS = 2
ATTEMPTS = 20  # rounds, until a cut hits a running process


def write_marks_back(seen: Path) -> None:
    """Do what the system may do at any time: write all marks to the disk, and nothing else."""
    with open_filter(seen, lock_timeout=0) as marked:
        marked.flush()


def lost_on(disk: Path, outputs: Sequence[str], lines: Sequence[bytes]) -> tuple[int, int]:
    """Count the lines that the filter of a disk knows, and those of them that no output has."""
    printed: set[bytes] = set()
    for output in outputs:
        path = disk / output
        printed.update(path.read_bytes().splitlines(keepends=True) if path.exists() else ())
    with after_reboot(), open_filter(disk / "seen", "r") as seen:
        known = seen.contains_many([line[:-1] for line in lines])
    marked = [line for line, is_known in zip(lines, known, strict=True) if is_known]
    return len(marked), len({*marked} - printed)


def all_marked(seen: Path, lines: Sequence[bytes]) -> bool:
    with open_filter(seen, "r") as marked:
        return bool(marked.contains_many([line[:-1] for line in lines]).all())


def size_of(*outputs: Path) -> int:
    return sum(output.stat().st_size for output in outputs if output.exists())


@contextmanager
def fed(path: Path) -> Iterator[int]:
    """Open a named pipe for writing, made if it is not there; it does not end."""
    if not path.exists():
        os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def at_work(*argv: str | Path, stdout: Path) -> Iterator[int]:
    """Start a command, and kill its group in the end; give its pid."""
    with (
        open(os.devnull, "r+b") as null,
        stdout.open("ab") as out,
        forked(*argv, streams=[null.fileno(), out.fileno(), null.fileno()]) as process,
    ):
        yield process.pid
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


TO = {
    "-o": (["-o", "out"], ["out"]),
    ">>": ([], ["stdout"]),
    "-j": (["--output-dir", "out/new", "-j", "2"], ["out/new/fifo"]),
}
CASES = [
    ("-o", "file", True),
    (">>", "file", True),
    ("-j", "file", True),
    ("-o", "growing", True),
    ("-o", "file", False),
]


@pytest.mark.laws("T17")
@pytest.mark.parametrize(("to", "kind", "durable"), CASES)
def test_marks_that_the_system_writes_first(
    tmp_path: Path, image: Path, mount: Mount, tally: Count, to: str, kind: str, *, durable: bool
) -> None:
    """Law 6: amid a run all marks reach the disk: with --durable every line is there before.

    Without it the lines are lost: that the cut takes them is the control of this test.
    """
    disk, (options, outputs) = mount(image), TO[to]
    wanted = LINES[:5000]
    make = ["-n", "1000", "--growing"] if kind == "growing" else ["-n", "1M"]
    assert mmbloom("create", disk / "seen", "-p", "1e-9", *make).code == 0
    options = [str(disk / word) if "out" in word and word[0] != "-" else word for word in options]
    argv: list[str | Path] = [
        "dedup",
        disk / "seen",
        tmp_path / "fifo",
        *options,
        *["--durable"] * durable,
    ]
    with fed(tmp_path / "fifo") as fifo, at_work(*argv, stdout=disk / "stdout"):
        os.write(fifo, b"".join(wanted))
        wait_until(lambda: all_marked(disk / "seen", wanted), "all lines to be marked")
        assert size_of(disk / outputs[0]) == len(b"".join(wanted))
        write_marks_back(disk / "seen")
        left = cut(image)
    marked, lost = lost_on(mount(left), outputs, wanted)
    assert marked == len(wanted)
    assert lost == (0 if durable else len(wanted))
    tally(cuts=1, **{"marked_lines": marked, "lost": 0} if durable else {"control_lost": lost})


@pytest.mark.laws("T17")
def test_worker_that_ends_first(tmp_path: Path, image: Path, mount: Mount, tally: Count) -> None:
    """Law 6: when a worker is done, the marks of the others are not forced to the disk.

    Their lines are in memory still, and would be lost.
    """
    disk, out, wanted = mount(image), "out", LINES[:5000]
    assert mmbloom("create", disk / "seen", *MORE).code == 0
    first, second, third = [tmp_path / name for name in ("first", "second", "third")]
    third.write_bytes(b"third\n")
    os.mkfifo(second)  # the run looks for its inputs; it must not inherit the open end
    argv: list[str | Path] = [
        "dedup",
        disk / "seen",
        first,
        second,
        third,
        "-j",
        "2",
        "--output-dir",
        disk / out,
    ]
    with (
        fed(first) as at_first,
        ExitStack() as second_open,
        at_work(*argv, stdout=tmp_path / "stdout"),
    ):
        at_second = second_open.enter_context(fed(second))
        os.write(at_first, b"".join(wanted))
        wait_until(lambda: all_marked(disk / "seen", wanted), "the first worker")
        os.write(at_second, b"second\n")
        wait_until(lambda: all_marked(disk / "seen", [b"second\n"]), "the second worker")
        second_open.close()  # its input ends
        wait_until(lambda: all_marked(disk / "seen", [b"third\n"]), "the second worker")
        left = cut(image)
    after = mount(left)
    _, lost = lost_on(after, ["out/first", "out/second"], [*wanted, b"second\n"])
    assert lost == 0
    assert (after / out / "second").read_bytes() == b"second\n"  # so it had been forced to the disk
    tally(cuts=1, lost=lost)


def ended_or_cut(
    argv: Sequence[str | Path], image: Path, disk: Path, rng: random.Random, number: int
) -> Path | None:
    """Start a run, stop it at any moment, and cut the power; None if it had ended."""
    before = size_of(disk / "out")
    with at_work(*argv, stdout=disk / "stdout") as pid:
        state = Path(f"/proc/{pid}/stat")

        def is_now() -> str:
            return state.read_text().rpartition(")")[2].split()[0]

        wait_until(lambda: size_of(disk / "out") > before or is_now() == "Z", "the first write")
        time.sleep(rng.random() * LONGEST)
        os.killpg(pid, signal.SIGSTOP)
        wait_until(lambda: is_now() in "TZ", "the stop")
        if is_now() == "Z":
            return None
        write_marks_back(disk / "seen")
        return cut(image, number)


def cut_round(folder: Path, rng: random.Random, tally: Count, mount: Mount) -> int:
    """Cut a run off over and over, let the last one end, and check; how many cuts hit one?"""
    image, hits = make_image(folder / "disk"), 0
    disk, inputs = mount(image), [folder / f"in{number}" for number in range(INPUTS)]
    lines = rng.choices(LINES, k=300 * INPUTS)
    for number, path in enumerate(inputs):
        path.write_bytes(b"".join(lines[number::INPUTS]))
    BloomFilter.create(disk / "seen", 1_000_000, 1e-9, seed=11).close()
    for number in range(CUTS):
        argv: list[str | Path] = ["dedup", disk / "seen", *inputs, "--durable", "-o", disk / "out"]
        left = ended_or_cut(argv, image, disk, rng, number)
        if left is None:
            break
        hits += 1
        disk, image = mount(left), left
        marked, lost = lost_on(disk, ["out"], [*{*lines}])
        assert lost == 0, f"{lost} of {marked} lines lost"
        tally(cuts=1, marked_lines=marked, lost=lost)
    assert mmbloom("dedup", disk / "seen", *inputs, "--durable", "-o", disk / "out").code == 0
    printed = (disk / "out").read_bytes()
    assert printed.endswith(b"\n")
    assert {*printed.splitlines(keepends=True)} >= {*lines}
    return hits


@pytest.mark.stress
@pytest.mark.laws("T17")
def test_cut_at_any_moment_and_run_again(
    tmp_path: Path, seed: int, stress: int, tally: Count
) -> None:
    """Laws 6, 12: a durable run that the power ends repeats lines at worst, and loses none."""
    rng, hit = random.Random(seed), 0
    for number in range(ATTEMPTS * stress):
        folder = tmp_path / str(number)
        folder.mkdir()
        with mounts() as mount:
            hit += cut_round(folder, rng, tally, mount) > 0
        shutil.rmtree(folder)
        if hit == stress:
            break
    assert hit == stress, f"cuts hit a running process in {hit} rounds only"
