"""In a checkout's root every way to start Python gets the checkout's code, and its built engine.

Each test works in a copy of this checkout with the compiled modules that serve this run. IPython
is not started: what it does is to put the current folder first on the path, and so does a test.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kernels import BUILT, MODULES, needs_compiled

from mmbloom import _engine

ROOT = Path(__file__).parents[2]
COMPILED = Path(_engine.__file__).parent / "compiled"
LOOK = "import mmbloom; print(mmbloom.__file__, mmbloom.engine)\n"
PYTEST = "import mmbloom\ndef test_it(): print(mmbloom.__file__, mmbloom.engine)\n"
FOUND = "{}/mmbloom/__init__.py {}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a copy of the checkout, as built as the package of this run."""
    copy = tmp_path / "checkout"
    unwanted = shutil.ignore_patterns("__pycache__", "*.c", "*.so")
    shutil.copytree(ROOT / "mmbloom", copy / "mmbloom", ignore=unwanted)
    shutil.copy2(ROOT / "setup.sh", copy)
    for part in MODULES if BUILT else ():
        for module in COMPILED.glob(f"{part}.*.so"):
            shutil.copy(module, built(copy))  # as if built now: not with its time
    return copy


def built(root: Path) -> Path:
    return root / "mmbloom" / "_engine" / "compiled"


def python(
    root: Path, *arguments: str, engine: str = "", stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Start Python in the root as a user does, who has no variables of this suite."""
    ours = ("PYTHONSAFEPATH", "MMBLOOM_ENGINE", "PYTHONWARNINGS", "PYTEST_ADDOPTS")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"MMBLOOM_ENGINE": engine} if engine else {}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=env, input=stdin, capture_output=True, text=True, check=False
    )


FORMS = {
    "-c": (["-c", LOOK], ""),
    "script": (["look.py"], ""),
    "script given": ([], LOOK),
    "as IPython": (["-P", "-c", f"import sys; sys.path.insert(0, ''); {LOOK}"], ""),
    "-m pytest": (["-m", "pytest", "-p", "no:cacheprovider", "-qs", "test_it.py"], ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_start(form: str, root: Path) -> None:
    """The code of the checkout runs, with the engine that was built in it, and says nothing."""
    (root / "look.py").write_text(LOOK)
    (root / "test_it.py").write_text(PYTEST)
    arguments, stdin = FORMS[form]
    done = python(root, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert FOUND.format(root, "compiled" if BUILT else "numpy") in done.stdout
    # pytest collects warnings, and shows them with its results.
    said = done.stdout + done.stderr
    assert said.count("EngineWarning: ") == (0 if BUILT else 1), said
    assert len(done.stderr.splitlines()) <= (0 if BUILT else 1)


def test_the_command(root: Path) -> None:
    assert python(root, "-m", "mmbloom", "create", "f.bloom", "-n", "10").returncode == 0
    done = python(root, "-m", "mmbloom", "info", "f.bloom")
    assert f"\nengine          {'compiled' if BUILT else 'numpy'} " in done.stdout
    assert len(done.stderr.splitlines()) == (0 if BUILT else 1)


def remove(folder: Path) -> str:
    for module in folder.glob("*.so"):
        module.unlink()
    return "was not built"


def remove_one(folder: Path) -> str:
    next(folder.glob("hash.*.so")).unlink()
    return "was not built"


def of_another_python(folder: Path) -> str:
    for module in folder.glob("*.so"):
        module.rename(folder / f"{module.name.split('.')[0]}.cpython-39-x86_64-linux-gnu.so")
    return f"was built for another Python ({MODULES[0]}.cpython-39-x86_64-linux-gnu.so, not "


def touch(folder: Path, name: str) -> str:
    last = max(module.stat().st_mtime for module in folder.glob("*.so")) + 1
    os.utime(folder / name, (last, last))
    return f"is older than its source {name}"


def edit(folder: Path) -> str:
    return touch(folder, "hash.pyx")


def edit_shared(folder: Path) -> str:
    return touch(folder, "positions.pxd")


def damage(folder: Path) -> str:
    next(folder.glob("lines.*.so")).write_bytes(b"")
    return "fails to import ("


WRONG = [remove, remove_one, of_another_python, edit, edit_shared, damage]


@needs_compiled
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_what_is_wrong_is_said(wrong: Callable[[Path], str], root: Path) -> None:
    """One line tells why numpy serves and what to do; the compiled engine asked for, an error."""
    reason = wrong(built(root))
    done = python(root, "-W", "error", "-c", LOOK)
    assert done.stdout == FOUND.format(root, "numpy\n")
    assert done.stderr.startswith(
        "mmbloom: warning: using the numpy engine, several times slower: "
    )
    asked = python(root, "-c", LOOK, engine="compiled")
    assert asked.returncode == 1
    assert "ImportError: MMBLOOM_ENGINE=compiled, but the compiled" in asked.stderr
    for line in (done.stderr, asked.stderr.splitlines()[-1]):
        assert reason in line
        assert f"run `sh {root}/setup.sh {sys.prefix}`" in line
    assert done.stderr.count("\n") == 1


def test_a_warning_as_others(root: Path) -> None:
    """The line is a warning of the package, said once, which filters and the variable silence."""
    remove(built(root))
    done = python(root, "-c", LOOK * 2)
    assert done.stderr.startswith("mmbloom:1: EngineWarning: using the numpy engine")
    assert done.stderr.count("\n") == 1
    quiet = python(root, "-W", "ignore", "-c", LOOK)
    asked = python(root, "-W", "error", "-c", LOOK, engine="numpy")
    assert quiet.stderr == asked.stderr == ""
    assert quiet.stdout == asked.stdout == FOUND.format(root, "numpy\n")


@needs_compiled
def test_sound_under_errors(root: Path) -> None:
    """Where warnings are errors a built checkout says nothing, and so does one installed."""
    done = python(root, "-W", "error", "-c", LOOK)
    assert (done.stdout, done.stderr) == (FOUND.format(root, "compiled\n"), "")


@needs_compiled
def test_times_of_an_installation_say_nothing(root: Path) -> None:
    """Only in a checkout is a source newer than the built module an edit."""
    (root / "setup.sh").unlink()
    edit(built(root))
    done = python(root, "-W", "error", "-c", LOOK)
    assert (done.stdout, done.stderr) == (FOUND.format(root, "compiled\n"), "")


def test_setup_says_how_it_is_used() -> None:
    """Without arguments, or with what is no folder, it prints its usage and does nothing."""
    for arguments in ([], ["--help"], ["a", "b", "c"]):
        command = ["sh", str(ROOT / "setup.sh"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("usage: sh setup.sh FOLDER [EXTRAS]\n")
