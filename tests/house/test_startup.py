"""What is imported when: a program waits for what it uses, and for nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import has
import pytest

import mmbloom
from mmbloom import BloomFilter

# Modules that take long to import, and what only a part of all programs needs.
HEAVY = {"numpy", "json", "multiprocessing", "argparse", "asyncio", "logging", "filelock"}
HEAVY |= {"importlib.metadata", "numpy.typing"}
ROTATING = "mmbloom.filters.rotating"
OF_FOLDERS = {"mmbloom.filters.growing", ROTATING, "mmbloom.format.folder"}
WATCHED = HEAVY | OF_FOLDERS | {"mmbloom.cli.workers", "mmbloom.operations.check"}

LOOK = """
import sys
{}
print(*{{*sys.modules}} & {}, file=sys.stderr)
"""
RUN = "from mmbloom.cli import main\ntry: main({})\nexcept SystemExit: pass"


def imported(code: str) -> set[str]:
    """Run a program; which of the modules watched it has imported by its end."""
    command = [sys.executable, "-P", "-c", LOOK.format(code, WATCHED)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {*done.stderr.splitlines()[-1].split()}


def test_import_of_the_package() -> None:
    """`import mmbloom` alone imports none of them, and the names are there all the same."""
    assert imported("import mmbloom; assert mmbloom.errors.MmbloomError") == set()
    assert imported("import mmbloom; mmbloom.BloomFilter") <= {"numpy", "filelock", "logging"}
    assert not imported("import mmbloom; mmbloom.open") & OF_FOLDERS
    assert imported("import mmbloom; mmbloom.GrowingFilter") >= OF_FOLDERS - {ROTATING}


def test_import_of_slices() -> None:
    """Their arrays have the types of the package; `numpy.typing` would be imported for nothing."""
    assert "numpy.typing" not in imported("import mmbloom.cluster")


@pytest.mark.skipif(mmbloom.engine == "numpy", reason="numpy's engine locks with filelock")
def test_locks_of_the_compiled_engine() -> None:
    """It takes its locks without filelock, whose import takes as long as the package's."""
    add = """
import mmbloom, os, tempfile
path = os.path.join(tempfile.mkdtemp(), "seen")
with mmbloom.BloomFilter.create(path, 1000) as seen: assert seen.add("a")
os.unlink(path)
os.rmdir(os.path.dirname(path))
"""
    assert imported(add) == {"numpy"}


OF_ITSELF = ["--help", "-V", "help", "help check", "dedup --help", "nonsense", ""]


@pytest.mark.parametrize("asked", [words.split() for words in OF_ITSELF], ids=OF_ITSELF)
def test_command_line_tells_of_itself_without_numpy(asked: list[str]) -> None:
    """Help, the version and what is no command need nothing of the library."""
    looked_up = {"importlib.metadata"} if asked == ["-V"] else set()
    assert imported(RUN.format(asked)) - {"logging", "json"} == {"argparse"} | looked_up


def test_a_command_imports_what_it_needs(tmp_path: Path) -> None:
    """One process needs no multiprocessing, and no command the others' files."""
    path = str(tmp_path / "seen")
    BloomFilter.create(path, 1000).close()
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    had = imported(RUN.format(["dedup", path, str(lines), "-o", str(tmp_path / "out")]))
    assert "numpy" in had
    assert not had & {"multiprocessing", "asyncio", "mmbloom.operations.check", *OF_FOLDERS}
    assert "mmbloom.operations.check" in imported(RUN.format(["verify", path]))


def test_few_looks_for_garbage(tmp_path: Path) -> None:
    """The collector looks through what is imported a few times, not sixty."""
    path = str(tmp_path / "seen")
    BloomFilter.create(path, 1000).close()
    run = "import gc, sys; from mmbloom.__main__ import main; main()"
    count = "; print('runs', sum(one['collections'] for one in gc.get_stats()))"
    command = [sys.executable, "-P", "-c", run + count, "info", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 25


@pytest.mark.parametrize("name", ["BloomFilter", "sizing"])
def test_the_collector_is_as_it_was(name: str) -> None:
    """It rests while modules are imported, and then does what it did; also after an error."""
    look = f"""
import gc, numpy, sys
if {name!r} == "sizing": sys.modules["mmbloom.sizing"] = None  # whose import is an error then
gc.set_threshold(321, 5, 7)
before = sum(one["collections"] for one in gc.get_stats())
import mmbloom
try: getattr(mmbloom, {name!r})
except ImportError: print("error")
print(*gc.get_threshold(), sum(one["collections"] for one in gc.get_stats()) - before)
"""
    command = [sys.executable, "-P", "-c", look]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *error, first, second, third, runs = done.stdout.split()
    assert error == ["error"] * (name == "sizing")
    assert (first, second, third) == ("321", "5", "7")
    assert int(runs) <= 5


@pytest.mark.skipif(not has.PROC, reason="this system does not list threads")
def test_no_threads_for_linear_algebra(tmp_path: Path) -> None:
    """numpy would start one a core, which no command has a use for."""
    path = str(tmp_path / "seen")
    BloomFilter.create(path, 1000).close()
    count = "\nprint('threads', len(__import__('os').listdir('/proc/self/task')))"
    command = [sys.executable, "-P", "-c", RUN.format(["info", path]) + count]
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "threads 1"
