"""Which engine serves, and with which vectors: by what is asked for, built, and the machine."""

import importlib.machinery
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import BUILT, ENGINES, KINDS, MODULES, VECTORS, needs_compiled

import mmbloom
from mmbloom import _engine
from mmbloom._engine.compiled import COMPILED, choose, remedy

FOLDER = Path(_engine.__file__).parent / "compiled"
FAULTS = ("", "was not built", "fails to import (x)")
ANY = [(fault, order) for fault in FAULTS for order in ("little", "big")]


@pytest.mark.parametrize(("fault", "byteorder"), ANY)
@pytest.mark.parametrize("asked", [None, "", "numpy"])
def test_free_choice(asked: str | None, fault: str, byteorder: str) -> None:
    """Unset or empty, the compiled engine serves where it was built, on little-endian machines.

    The reference serves wherever it is asked for.
    """
    free = not asked and not fault and byteorder == "little"
    expected = "compiled" if free else "numpy"
    assert choose(asked, fault=fault, byteorder=byteorder) == expected


def test_compiled_where_it_can_serve() -> None:
    """The compiled engine serves when asked for, or says in one sentence why it cannot."""
    assert choose("compiled", fault="", byteorder="little") == "compiled"
    for fault in FAULTS[1:]:
        with pytest.raises(ImportError, match=rf"MMBLOOM_ENGINE=compiled, .* {re.escape(fault)}: "):
            choose("compiled", fault=fault, byteorder="little")
    with pytest.raises(ImportError, match=r"MMBLOOM_ENGINE=compiled, .* needs a little-endian"):
        choose("compiled", fault="", byteorder="big")


@pytest.mark.parametrize(
    ("platform", "apk", "words"),
    [
        ("linux", False, "on Debian `apt install gcc libc6-dev python3-dev`"),
        ("linux", True, "`apk add gcc musl-dev python3-dev`"),
        ("darwin", False, "`xcode-select --install`"),
    ],
)
def test_remedy_of_a_system(
    platform: str, apk: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to do names what the system has: Debian's packages, Alpine's, or Apple's tools."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os.path, "exists", lambda path: apk and path == "/sbin/apk")
    assert f"a C compiler and Python's headers ({words})" in remedy()


@pytest.mark.parametrize("asked", ["nonsense", "Numpy", "COMPILED", " numpy", "0"])
@pytest.mark.parametrize(("fault", "byteorder"), ANY)
def test_no_engine(asked: str, fault: str, byteorder: str) -> None:
    """Any other word is an error that quotes it and names both engines."""
    with pytest.raises(ValueError, match="expected 'numpy' or 'compiled'") as caught:
        choose(asked, fault=fault, byteorder=byteorder)
    assert repr(asked) in str(caught.value)


def python(code: str, **variables: str | None) -> "subprocess.CompletedProcess[str]":
    """Run code in a new interpreter with these variables, those of None unset."""
    env = {name: value for name, value in os.environ.items() if name not in variables}
    env |= {name: value for name, value in variables.items() if value is not None}
    command = [sys.executable, "-P", "-W", "error", "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


# Where the functions that serve come from, module by module.
TELL = """
import mmbloom, sys
from mmbloom import _engine
names = [name for name in vars(_engine) if name[0] != "_" and callable(getattr(_engine, name))]
shared = ("import_module", "Words", "lines_of", "narrower", "union", "count_nonzero",
          "counted_claim", "nonzero_bits", "bytes_of", "described", "fields_of")
homes = {getattr(_engine, name).__module__ for name in names if name not in shared}
homes.discard("types"), homes.discard("builtins"), homes.discard("numpy")
print(mmbloom.engine, _engine.engine, all(".compiled." in home for home in homes))
print(any(".compiled." in name for name in sys.modules))
"""


@pytest.mark.parametrize("engine", [None, "", "numpy", "compiled"])
def test_what_is_said_is_used(engine: str | None) -> None:
    """`mmbloom.engine` is the engine whose functions serve; numpy's loads nothing compiled."""
    done = python(TELL, MMBLOOM_ENGINE=engine)
    if engine == "compiled" and not BUILT:
        assert "was not built" in done.stderr
        return
    if engine != "numpy" and not BUILT:  # python -W error prints it
        assert "using the numpy engine" in done.stderr
        done.stderr = ""
    expected = engine or ("compiled" if BUILT else "numpy")
    assert done.stderr == ""
    compiled = expected == "compiled"
    assert done.stdout.split() == [expected, expected, str(compiled), str(compiled)]


def test_nonsense_in_the_environment() -> None:
    """A word that is no engine stops the import, library or command, whatever is built."""
    command = "import sys; from mmbloom.cli import main; sys.exit(main(['plan', '-n', '9']))"
    for code, returncode in (("import mmbloom; mmbloom.open", 1), (command, 2)):
        done = python(code, MMBLOOM_ENGINE="nonsense")
        assert done.returncode == returncode
        assert "MMBLOOM_ENGINE is 'nonsense', expected 'numpy' or 'compiled'" in done.stderr


HIDE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "mmbloom._engine.compiled.{}":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import importlib.util
real, absent = importlib.util.find_spec, "mmbloom._engine.compiled.{}"
importlib.util.find_spec = lambda name: None if name == absent else real(name)
import mmbloom
print(mmbloom.engine)
"""


@pytest.mark.parametrize("absent", MODULES)
def test_one_module_that_was_not_built(absent: str) -> None:
    """If one module of the compiled engine is absent numpy serves; asked for, it is an error."""
    code = HIDE.format(absent, absent)
    done = python(code, MMBLOOM_ENGINE=None)
    assert done.stdout == "numpy\n"
    assert "using the numpy engine, several times slower" in done.stderr
    done = python(code, MMBLOOM_ENGINE="compiled")
    assert done.returncode == 1
    assert "MMBLOOM_ENGINE=compiled, but the compiled engine was not built" in done.stderr


@needs_compiled
def test_built_with_the_package() -> None:
    """The compiled modules are in the package's own folder, as this interpreter names them."""
    for name in MODULES:
        found = [FOLDER / (name + suffix) for suffix in importlib.machinery.EXTENSION_SUFFIXES]
        assert any(file.exists() for file in found)


def test_all_modules_are_looked_for() -> None:
    """What must be there for the compiled engine to serve is each of its modules."""
    assert sorted(COMPILED) == sorted(MODULES)
    sources = Path(__file__).parents[2] / "mmbloom/_engine/compiled"  # no wheel has them
    assert {file.stem for file in sources.glob("*.pyx")} == {*MODULES} - {"_arrays"}


def test_this_run() -> None:
    assert os.environ.get("MMBLOOM_ENGINE", mmbloom.engine) in ("", mmbloom.engine)
    served = next(engine for engine in ENGINES if engine.name == mmbloom.engine)
    for name in ("hash_keys", "find_lines", "OneKey"):
        assert getattr(_engine, name) is getattr(served, name)


ALL = ("scalar", "neon", "avx2", "avx512")
LACKING = [kind for kind in ALL if kind not in KINDS]


def used(vectors: str | None, engine: str = "compiled") -> "subprocess.CompletedProcess[str]":
    """Name the vectors of a new process, which was asked for some by the variable."""
    code = "import mmbloom; print(mmbloom.engine)"
    if engine == "compiled":
        code += "; from mmbloom._engine.compiled.vectors import used; print(used())"
    return python(code, MMBLOOM_ENGINE=engine, MMBLOOM_VECTORS=vectors)


@needs_compiled
@pytest.mark.parametrize("asked", [None, "", *KINDS])
def test_choice_of_vectors(asked: str | None) -> None:
    """Each kind that this machine can run is used where it is asked for; the best if none is."""
    assert KINDS[0] == "scalar"
    assert used(asked).stdout == f"compiled\n{asked or KINDS[-1]}\n"


@needs_compiled
@pytest.mark.parametrize("kind", [*LACKING, "sse9", "AVX2", " scalar"])
def test_vectors_that_are_not_there(kind: str) -> None:
    """What this machine cannot run is an error that says so, and what there is."""
    why = "which this processor lacks" if kind in ALL else "which is no kind of vectors"
    said = f"MMBLOOM_VECTORS is {kind!r}, {why}: expected one of {', '.join(KINDS)}, or unset it"
    done = used(kind)
    assert done.returncode == 1
    assert done.stderr.endswith(f"ValueError: {said}\n")
    assert VECTORS is not None
    before = VECTORS.used()
    with pytest.raises(ValueError, match="expected one of"):
        VECTORS.use(kind)
    assert VECTORS.used() == before


def test_numpy_has_no_vectors() -> None:
    assert used("sse9", engine="numpy").stdout == "numpy\n"
