"""Law 6, T15: dedup killed at any instant repeats lines at worst, and never loses one."""

import os
import random
import shutil
import time
from pathlib import Path
from subprocess import DEVNULL

import pytest
from cli_runner import forked, inside, kill_at_random, mmbloom, read_soon, started
from tally import Count

from mmbloom import BloomFilter, verify

MORE = ("-n", "2M", "-p", "1e-9", "--seed", "11")
KILLS = 2
ATTEMPTS = 20  # rounds, until a kill hits a running process


def make_input(path: Path, rng: random.Random, count: int) -> set[bytes]:
    """Write so many short lines, a third of them repeats; return the distinct ones."""
    lines = [b"%d" % rng.randrange(count) for _ in range(count)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return set(lines)


def check_nothing_lost(outputs: list[Path], distinct: set[bytes], kills: int) -> None:
    """Check that each distinct line is there whole; what else is there are cut-off starts."""
    printed = b"".join(path.read_bytes() for path in outputs)
    assert printed.endswith(b"\n")
    lines = printed.split(b"\n")[:-1]
    missing = distinct.difference(lines)
    assert not missing, f"{len(missing)} lines lost, {sorted(missing)[:5]}"
    foreign = [line for line in lines if line not in distinct]
    assert len(foreign) <= kills * len(outputs)
    for start in foreign:  # never two lines glued together
        assert any(line.startswith(start) for line in distinct), start


def killed_round(folder: Path, rng: random.Random, to: str, tally: Count) -> bool:
    """Kill a run over and over, let the last one end, and check; was a running one hit?"""
    seen, inputs = folder / "seen", [folder / "in1", folder / "in2"]
    distinct = set.union(*(make_input(path, rng, 200_000) for path in inputs))
    argv: list[str | Path] = ["dedup", seen, *inputs]
    outputs = [folder / "out"]
    if to == "-o":
        argv += ["-o", outputs[0]]
    elif to == "--output-dir":
        argv += ["--output-dir", folder / "out", "-j", "2"]
        (folder / "out").mkdir()
        outputs = [folder / "out" / path.name for path in inputs]
    assert inside("create", seen, *MORE).code == 0
    hits = 0
    # A run that ends before it is killed has written all: nothing is left to be killed in.
    while hits < KILLS and kill_at_random(argv, rng, outputs):
        hits += 1
        with BloomFilter.open(seen) as filter_file:
            assert 0 <= filter_file.info().unfinished_batches <= 2 * hits
    with outputs[0].open("ab") as stdout:
        assert started(*argv, stdout=stdout if to == ">>" else DEVNULL).code == 0
    tally(kills=hits, distinct_lines=len(distinct))
    check_nothing_lost(outputs, distinct, hits)
    assert verify(seen, keys=distinct).ok
    assert inside("check", seen, *inputs, "-v", "-c") == (1, b"0\n", "")
    assert inside("dedup", seen, *inputs) == (0, b"", "")
    return hits > 0


@pytest.mark.stress
@pytest.mark.laws("T15")
@pytest.mark.parametrize("to", ["-o", ">>", "--output-dir"])
def test_killed_at_random_and_run_again(
    tmp_path: Path, seed: int, stress: int, to: str, tally: Count
) -> None:
    """Law 6: after any number of kills, a run that ends has every distinct line in the output."""
    rng, hit = random.Random(seed), 0
    for number in range(ATTEMPTS * stress):
        folder = tmp_path / str(number)
        folder.mkdir()
        hit += killed_round(folder, rng, to, tally)
        shutil.rmtree(folder)
        if hit == stress:
            break
    assert hit == stress, f"kills hit a running process in {hit} rounds only"


def kill_while_it_writes(argv: list[str | Path], rng: random.Random, output: Path) -> bool:
    """Append to `output` through a pipe, and kill -9 the run while it waits for the pipe."""
    if output.exists() and not output.read_bytes().endswith(b"\n"):
        with output.open("ab") as file:
            file.write(b"\n")  # through a pipe a run cannot see how its output ends
    reading, writing = os.pipe()
    with (
        output.open("ab") as file,
        open(reading, "rb", buffering=0) as ours,
        open(writing, "wb", buffering=0) as theirs,
        open(os.devnull, "r+b") as null,
        forked(*argv, streams=(null.fileno(), writing, null.fileno())) as process,
    ):
        theirs.close()
        file.write(read_soon(ours, rng.randrange(1, 30_000)))
        time.sleep(0.02)  # until the pipe is full again
        hit = process.alive()
        process.kill()
        file.write(ours.read())
    return hit


def cut_off_round(folder: Path, rng: random.Random, tally: Count) -> bool:
    """Kill runs within a write, let the last one end, and check; was a line cut off?"""
    seen, output = folder / "seen", folder / "out"
    distinct = make_input(folder / "in", rng, 200_000)
    argv: list[str | Path] = ["dedup", seen, folder / "in"]
    assert inside("create", seen, *MORE).code == 0
    hits = cut_off = 0
    for _ in range(4):
        hits += kill_while_it_writes(argv, rng, output)
        cut_off += not output.read_bytes().endswith(b"\n")
        hits += kill_at_random([*argv, "-o", output], rng, [output], 0.02)
    assert mmbloom(*argv, "-o", output).code == 0
    tally(kills=hits, cut_off=cut_off, distinct_lines=len(distinct))
    check_nothing_lost([output], distinct, hits)
    assert verify(seen, keys=distinct).ok
    assert inside(*argv) == (0, b"", "")
    return hits > 0 and cut_off > 0


@pytest.mark.stress
@pytest.mark.laws("T15")
def test_killed_within_a_write(
    tmp_path: Path,
    seed: int,
    stress: int,
    tally: Count,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law 6: a kill that cuts the output off amid a chunk loses no line of that chunk."""
    rng, hit = random.Random(seed), 0
    # A page: each write waits for a reader, amid some line.
    monkeypatch.setattr("mmbloom.logs.outputs._PIPE_BYTES", 4096)
    for number in range(ATTEMPTS * stress):
        folder = tmp_path / str(number)
        folder.mkdir()
        hit += cut_off_round(folder, rng, tally)
        shutil.rmtree(folder)
        if hit == stress:
            break
    assert hit == stress, f"kills hit a running process in {hit} rounds only"
