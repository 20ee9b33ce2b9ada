"""Whole programs under each engine: the same bytes in the file, the same bytes on stdout."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_runner import EXACT, started
from kernels import needs_compiled

pytestmark = [needs_compiled, pytest.mark.slow]
HELPERS = Path(__file__).parents[1] / "helpers"
ENGINES = ("numpy", "compiled")
# What two files made of the same keys with the same seed may differ in: when, and who they are.
OWN = [(64, 88), (508, 512), (2080, 2088)]  # created, uuid; checksum; last flush


def bytes_of_file(path: Path) -> bytes:
    raw = bytearray(path.read_bytes())
    for start, stop in OWN:
        raw[start:stop] = bytes(stop - start)
    return bytes(raw)


def said_by(engine: str, script: str, *argv: str | Path) -> Any:
    command = [sys.executable, str(HELPERS / script)]
    done = started(*argv, env={"MMBLOOM_ENGINE": engine}, command=command)
    assert (done.code, done.err) == (0, "")
    served, answers = json.loads(done.out)
    assert served == engine
    return answers


def test_same_operations_give_the_same_file(tmp_path: Path, seed: int) -> None:
    """Forty operations at random, in all forms of keys: equal answers, files equal byte by byte.

    Twice, with a filter each.
    """
    seeds = [str((seed + number) % 2**32) for number in range(2)]
    said, files = [], []
    for engine in ENGINES:
        said.append(said_by(engine, "operations.py", tmp_path / engine, *seeds))
        assert [*map(len, said[-1])] == [40] * 2
        files.append([bytes_of_file(tmp_path / f"{engine}.{one}") for one in seeds])
    assert said[0] == said[1]
    assert files[0] == files[1]
    assert all(any(raw[4096:]) for raw in files[0])


class Commands:
    """Commands to run one after the other under each engine, on filters and inputs in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: list[tuple[str, str, list[str], str]] = []
        self._inputs: dict[bytes, str] = {}

    def add(self, command: str, filter_name: str, *options: str, data: bytes) -> int:
        """Note a command on a filter and an input; returns its number."""
        # A file: from a pipe lines come in other chunks each time, which the counters tell.
        if data not in self._inputs:
            self._inputs[data] = str(self._folder / f"input {len(self._inputs)}")
            Path(self._inputs[data]).write_bytes(data)
        self._jobs.append((command, filter_name, [*options], self._inputs[data]))
        return len(self._jobs) - 1

    def run(self) -> list[tuple[int, bytes]]:
        """Run all; check that both engines leave the same, and return codes and outputs."""
        ended, outputs, files = [], [], []
        for engine in ENGINES:
            folder = self._folder / engine
            folder.mkdir()
            jobs = [
                ([command, str(folder / f"{name}.bloom"), *options, "--", data], f"{folder}/{i}")
                for i, (command, name, options, data) in enumerate(self._jobs)
            ]
            (folder / "jobs").write_text(json.dumps(jobs))
            answers = said_by(engine, "commands.py", folder / "jobs")
            ended.append([(code, err.replace(str(folder), "")) for code, err in answers])
            outputs.append([Path(out).read_bytes() for _, out in jobs])
            files.append({path.name: bytes_of_file(path) for path in folder.glob("*.bloom")})
        assert ended[0] == ended[1]
        assert outputs[0] == outputs[1]
        assert files[0].keys() == files[1].keys() == {f"{job[1]}.bloom" for job in self._jobs}
        for name in files[0]:
            assert files[0][name] == files[1][name], name
        return [(code, out) for (code, _), out in zip(ended[0], outputs[0], strict=True)]


def lines_at_random(chance: random.Random, n: int, other: bytes) -> list[bytes]:
    """Lines of which many are alike by some option, JSON among them."""
    words = [b"a", b"A", b"bc", b" ", b"\t", b",", b"::", b"\xff", b"\r", b"1", "é".encode(), other]
    lines = []
    for i in range(n):
        if i % 4 == 0:
            value = chance.choice([1, "x", "X", None, ["x"], {"b": chance.randrange(3)}])
            lines.append(json.dumps({"a": value, "i": i % 50}).encode())
        else:
            lines.append(b"".join(chance.choices(words, k=chance.randrange(7))))
    return lines


OPTIONS = [
    *("", "-i", "-f 1", "-s 2", "-w 3", "-w 0", "-f 1 -s 1 -w 2 -i", f"-f {2**64 - 1}"),
    *(f"-s {2**31} -w {2**63}", "-k 2", "-k 2 -t ,", "-k 1 -t :: -i -s 1", "-k 3 -f 1 -w 1"),
    *(f"-k {2**31} -t , --empty whole", "--json-key a", "--json-key a.b -i -w 1"),
]


@pytest.mark.parametrize("zero", [False, True], ids=["newline", "nul"])
def test_same_lines_from_the_command_line(tmp_path: Path, seed: int, zero: bool) -> None:
    """dedup, its -d, add and check print the same and leave the same file, with any options."""
    end, other = (b"\0", b"\n") if zero else (b"\n", b"\0")
    chance, commands, firsts, nothing = random.Random(seed), Commands(tmp_path), [], []
    lines = lines_at_random(chance, 1500, other)
    data = end.join(lines)  # the last one unfinished
    more = end.join([*lines_at_random(chance, 700, other), *lines[:300], b""])
    for number, options in enumerate(OPTIONS):
        argv, name = [*options.split(), *(["-z"] if zero else [])], str(number)
        firsts.append(commands.add("dedup", name, *EXACT, *argv, data=data))
        commands.add("dedup", name, *argv, "-d", "--stats", data=more)
        commands.add("check", name, *argv, data=more)
        commands.add("add", name, *argv, "--stats", data=more)
        commands.add("check", name, "-v", *argv, data=data)
        nothing.append(commands.add("dedup", name, *argv, data=more + end + data))
    ended = commands.run()
    assert {code for code, _ in ended} == {0, 1}
    for first, last in zip(firsts, nothing, strict=True):
        assert ended[first][0] == ended[last][0] == 0
        assert 0 < ended[first][1].count(end) < len(lines)
        assert ended[first + 1][1]
        assert ended[last][1] == b""


MIB = 1 << 20


def inputs() -> dict[str, bytes]:
    """Make them anew: 25 MB, which else were copied into each fork of this run."""
    return {
        "nothing": b"",
        "an empty line": b"\n",
        "no newline": b"abc",
        "blank lines": b"\n" * 70_000,
        "many short lines": b"".join(b"%d\n" % (i % 40_000) for i in range(100_000)),
        "lines of MiB": b"".join(
            b"%c" % (97 + i % 3) * (MIB * (i % 3 + 1)) + b"\n" for i in range(7)
        ),
        "a long last line": b"x\nx\n" + b"y" * (5 * MIB + 3),
        "lines that end at the edge of blocks": (b"z" * (2 * MIB - 1) + b"\n") * 2 + b"w" * 2 * MIB,
    }


def test_same_lines_of_any_length(tmp_path: Path) -> None:
    """Nothing, one line, 100,000 lines or one of 5 MiB: the first of each, and the same file.

    With MurmurHash3, as the numpy engine takes a quarter of a second for each MiB of SipHash.
    """
    options = (*EXACT, "--hash", "murmur3")
    commands = Commands(tmp_path)
    made = inputs()
    for name, data in made.items():
        commands.add("dedup", name, *options, "--stats", data=data)
        commands.add("check", name, "-c", data=data)
        commands.add("dedup", f"{name}, folded", *options, "-w", "1", "-i", data=data)
    ended = iter(commands.run())
    for data in made.values():
        *finished, rest = data.split(b"\n")
        lines = dict.fromkeys([*finished, *filter(None, [rest])])
        expected = b"".join(line + b"\n" for line in lines)
        if rest and rest not in finished:
            expected = expected.removesuffix(b"\n")
        assert next(ended) == (0, expected)
        found = len(finished) + bool(rest)
        assert next(ended) == (int(not found), b"%d\n" % found)
        assert next(ended)[0] == 0
