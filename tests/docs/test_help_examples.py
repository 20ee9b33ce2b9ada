"""The examples of each command's help run as they stand."""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runner import environment
from pages import ROOT

from mmbloom import BloomFilter, CountingBloomFilter, export_guava
from mmbloom.cli.commands import COMMANDS

LOG = (ROOT / "examples" / "access.log").read_bytes()
LINES = LOG.splitlines(keepends=True)
# Their examples make filters themselves, or need none.
MAKES = {"create", "dedup", "plan", "help", "completion", "manual"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that examples name."""
    half = len(LINES) // 2
    (tmp_path / "access.log").write_bytes(LOG)
    (tmp_path / "monday.log").write_bytes(b"".join(LINES[:half]))
    (tmp_path / "tuesday.log").write_bytes(b"".join(LINES[half:]))
    for town in ("north", "south"):
        (tmp_path / town).mkdir()
        (tmp_path / town / "a.log").write_bytes(LOG)
    (tmp_path / "taken-back.txt").write_bytes(b"aunt@mail.example\n")
    (tmp_path / "users.csv").write_bytes(b"id,user\n1,ann\n")
    with gzip.open(tmp_path / "events.jsonl.gz", "wb") as events:
        events.writelines(b'{"user": {"id": %d}}\n' % (i % 7) for i in range(100))
    home = tmp_path / "home"
    for name in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        (home / name).mkdir(parents=True)
    (home / ".local/share/man/man1").mkdir(parents=True)
    return tmp_path


def make_filters(folder: Path) -> None:
    """Make the filters that examples name, with the lines of the log in them."""
    keys = [line.rstrip(b"\n") for line in LINES]
    with BloomFilter.create(folder / "seen.bloom", 1_000_000, 1e-6) as seen:
        seen.add_many(keys)
        BloomFilter.create(folder / "like.bloom", like=seen).close()
        with BloomFilter.open(folder / "like.bloom") as like:
            like.add_many(keys[:100])
    with BloomFilter.create(folder / "addresses.bloom", 1_000_000, 1e-6) as addresses:
        addresses.add_many([b"10.0.0.0"])
    with CountingBloomFilter.create(folder / "counts.bloom", 1_000_000, 1e-6) as counts:
        counts.add_many(keys)
    secret = 0x00112233445566778899AABBCCDDEEFF
    headless = folder / "headless.bloom"
    BloomFilter.create(headless, 1_000_000, 1e-6, seed=secret).close()
    with headless.open("r+b") as file:
        file.write(bytes(100))
    of_java = folder / "java.bloom"
    with BloomFilter.create(of_java, 1000, 0.01, layout="standard", hash="murmur3", seed=0) as java:
        java.add_many([b"a"])
    export_guava(of_java, folder / "guava.bin")
    if (folder / "guava.bin").exists():
        of_java.unlink()


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_run(folder: Path, name: str) -> None:
    """One after the other, in a folder with the files that they name."""
    examples = COMMANDS[name].examples
    assert any(f"mmbloom {name} " in f"{example} " for example in examples)
    if name not in MAKES:
        make_filters(folder)
    if name == "export":
        (folder / "guava.bin").unlink()
    if name == "manual" and not shutil.which("man"):
        pytest.skip("man is not installed")
    calls = f"mmbloom() {{ '{sys.executable}' -P -m mmbloom \"$@\"; }}\nset -eo pipefail\n"
    for example in examples:
        done = subprocess.run(
            ["bash", "-c", calls + example],
            cwd=folder,
            env={**environment(), "HOME": str(folder / "home")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

        assert done.returncode == 0, (example, done.stderr)
