"""Law 6, test T15: dedup killed at any instant repeats lines at worst, and never loses one."""

import os
import random
import signal
import time
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
from cli_runner import PATIENCE, mmbloom, read_soon, running

from mmbloom import BloomFilter

MORE = ("-n", "2M", "-p", "1e-9", "--seed", "11")
KILLS = 2
ATTEMPTS = 60


def make_input(path: Path, rng: random.Random, count: int) -> set[bytes]:
    """Write so many short lines, a third of them repeats; return the distinct ones."""
    lines = [b"%d" % rng.randrange(count) for _ in range(count)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return set(lines)


def size_of(outputs: list[Path]) -> int:
    return sum(output.stat().st_size for output in outputs if output.exists())


def kill_at_random(
    argv: list[str | Path], rng: random.Random, outputs: list[Path], longest: float = 0.08
) -> bool:
    """Start a run and kill -9 its whole group soon after it began to write; was it running?"""
    before = size_of(outputs)
    with outputs[0].open("ab") as stdout:
        to = DEVNULL if "-o" in argv or "--output-dir" in argv else stdout
        streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": to, "stderr": DEVNULL}
        with running(*argv, start_new_session=True, **streams) as process:
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and size_of(outputs) == before:
                assert time.monotonic() < deadline
                time.sleep(0.0005)
            time.sleep(rng.random() ** 2 * longest)
            if process.poll() is not None:
                return False
            os.killpg(process.pid, signal.SIGKILL)
            return process.wait(PATIENCE) == -signal.SIGKILL


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


@pytest.mark.stress
@pytest.mark.parametrize("to", ["-o", ">>", "--output-dir"])
def test_killed_at_random_and_run_again(tmp_path: Path, seed: int, stress: int, to: str) -> None:
    """After any number of kills, a run that ends has every distinct line in the output."""
    rng, seen = random.Random(seed), tmp_path / "seen"
    inputs = [tmp_path / "in1", tmp_path / "in2"]
    distinct = set.union(*(make_input(path, rng, 200_000) for path in inputs))
    argv: list[str | Path] = ["dedup", seen, *inputs]
    outputs = [tmp_path / "out"]
    if to == "-o":
        argv += ["-o", outputs[0]]
    elif to == "--output-dir":
        argv += ["--output-dir", tmp_path / "out", "-j", "2"]
        (tmp_path / "out").mkdir()
        outputs = [tmp_path / "out" / path.name for path in inputs]
    assert mmbloom("create", seen, *MORE).code == 0
    hits = attempts = 0
    while hits < KILLS * stress and attempts < ATTEMPTS * stress:
        attempts += 1
        hits += kill_at_random(argv, rng, outputs)
        if size_of(outputs) > 0:
            with BloomFilter.open(seen) as filter_file:
                info = filter_file.info()
                assert 0 <= info.unfinished_batches <= 2 * hits
    print(f"{hits} kills in {attempts} runs")
    assert hits > 0, "no kill hit a running process"
    with outputs[0].open("ab") as stdout:
        assert mmbloom(*argv, stdout=stdout if to == ">>" else DEVNULL).code == 0
    check_nothing_lost(outputs, distinct, hits)
    assert mmbloom("check", seen, *inputs, "-v", "-c") == (1, b"0\n", "")
    assert mmbloom("dedup", seen, *inputs) == (0, b"", "")


def kill_while_it_writes(argv: list[str | Path], rng: random.Random, output: Path) -> bool:
    """Append to `output` through a pipe, and kill -9 the run while it waits for the pipe."""
    if output.exists() and not output.read_bytes().endswith(b"\n"):
        with output.open("ab") as file:
            file.write(b"\n")  # through a pipe a run cannot see how its output ends
    with (
        output.open("ab") as file,
        running(*argv, stdin=DEVNULL, stderr=DEVNULL, bufsize=0) as process,
    ):
        assert process.stdout
        file.write(read_soon(process.stdout, rng.randrange(1, 30_000)))
        time.sleep(0.02)  # until the pipe is full again
        hit = process.poll() is None
        process.kill()
        file.write(process.stdout.read())
    return hit


@pytest.mark.stress
def test_killed_within_a_write(tmp_path: Path, seed: int, stress: int) -> None:
    """A kill that cuts the output off in the middle of a chunk loses no line of that chunk."""
    rng, seen, output = random.Random(seed), tmp_path / "seen", tmp_path / "out"
    distinct = make_input(tmp_path / "in", rng, 200_000)
    argv: list[str | Path] = ["dedup", seen, tmp_path / "in"]
    assert mmbloom("create", seen, *MORE).code == 0
    hits = cut_off = 0
    for _ in range(4 * stress):
        hits += kill_while_it_writes(argv, rng, output)
        cut_off += not output.read_bytes().endswith(b"\n")
        hits += kill_at_random([*argv, "-o", output], rng, [output], 0.02)
    print(f"{hits} kills, {cut_off} lines cut off")
    assert hits > 0, "no kill hit a running process"
    assert mmbloom(*argv, "-o", output).code == 0
    check_nothing_lost([output], distinct, hits)
    assert mmbloom(*argv) == (0, b"", "")
