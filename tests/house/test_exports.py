"""What the package offers is what it says it offers, documented and typed."""

import ast
import importlib.metadata
import inspect
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from house import user_program

import mmbloom

ROOT = Path(mmbloom.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def submodules() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(mmbloom.__path__)}


def test_all_is_what_is_public() -> None:
    """__all__ names every public name of the package, and no other; sorted, none twice."""
    public = {
        name
        for name, value in vars(mmbloom).items()
        if not name.startswith("_")
        and not (isinstance(value, types.ModuleType) and name in submodules())
    }
    assert public | {"errors", "sizing"} == set(mmbloom.__all__)
    assert list(mmbloom.__all__) == sorted(set(mmbloom.__all__))
    for name in mmbloom.__all__:
        assert hasattr(mmbloom, name)


def test_every_error_is_exported() -> None:
    """Each exception and warning of errors.py can be had from the package itself."""
    for name, value in vars(mmbloom.errors).items():
        if inspect.isclass(value):
            assert getattr(mmbloom, name) is value


def test_public_names_are_at_home() -> None:
    """What is exported comes from a public module: its repr and its pickle name no private one."""
    for name in mmbloom.__all__:
        value = getattr(mmbloom, name)
        if inspect.isclass(value):
            assert not any(part.startswith("_") for part in value.__module__.split("."))


def test_version() -> None:
    """The version is that of the installed distribution; other unknown names are errors."""
    assert mmbloom.__version__ == importlib.metadata.version("mmbloom")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mmbloom.nothing


FRESH = """
import mmbloom
print(*dir(mmbloom))
import mmbloom.operations.copy, mmbloom.operations.compare, mmbloom.cli.commands.merge
print(mmbloom.copy.__name__, mmbloom.compare.__name__, mmbloom.merge.__name__)
print(*dir(mmbloom))
"""


def test_dir_shows_what_is_public() -> None:
    """dir() has the public names and the version, and no module hides a function of its name."""
    command = [sys.executable, "-P", "-c", FRESH]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names, functions, again = done.stdout.splitlines()
    assert names.split() == sorted([*mmbloom.__all__, "__version__"])
    assert functions.split() == ["copy", "compare", "merge"]
    assert again == names
    assert {"BloomFilter", "Key", "Keys", "copy", "engine", "sizing"} <= {*names.split()}


def test_user_program_runs(tmp_path: Path) -> None:
    """What a type checker must accept is what runs: the program does both."""
    user_program.main(tmp_path)


def test_user_program_is_accepted(tmp_path: Path) -> None:
    """mypy in its strict mode accepts each call that runs, and refuses those marked as wrong."""
    pytest.importorskip("mypy")
    program = Path(user_program.__file__)
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores"]
    options = ["--config-file=", f"--cache-dir={tmp_path}", str(program)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_signatures_are_short() -> None:
    """help() shows the names of types, such as Keys, where it showed all that they stand for."""
    assert str(inspect.signature(mmbloom.Sieve.push_many)) == (
        "(self, urls: 'Iterable[Url]') -> 'Bools'"
    )


def test_typed() -> None:
    """The package carries the marker that type checkers look for, and stubs of what is compiled."""
    assert (ROOT / "py.typed").is_file()
    stubs = {file.stem for file in (ROOT / "_engine" / "compiled").glob("*.pyi")}
    assert stubs == {file.stem for file in (ROOT / "_engine" / "compiled").glob("*.pyx")}
    assert len(stubs) == 7


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings(file: Path) -> None:
    """Every module, and every public class and function at its top, has a docstring."""
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree), "the module"
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


@pytest.mark.parametrize("name", mmbloom.__all__)
def test_public_members_are_documented(name: str) -> None:
    """Every public method and property of an exported class has a docstring of its own."""
    value = getattr(mmbloom, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value) and not issubclass(value, (Exception, Warning)):
        for cls in value.__mro__[:-1]:
            for member, found in vars(cls).items():
                if not member.startswith("_") and (
                    inspect.isroutine(found) or isinstance(found, property)
                ):
                    assert inspect.getdoc(getattr(cls, member)), f"{cls.__name__}.{member}"


def test_parameters_of_public_calls_are_documented() -> None:
    """The docstrings of create and open name each of their parameters."""
    for function in (mmbloom.BloomFilter.create, mmbloom.BloomFilter.open, mmbloom.sizing.plan):
        for parameter in inspect.signature(function).parameters:
            assert parameter in (function.__doc__ or "")


def test_threads_and_processes_are_spoken_of() -> None:
    """Each public class that holds a file says what threads and processes may do."""
    for cls in (mmbloom.BloomFilter, mmbloom.Claim, mmbloom.Sieve):
        notes = (inspect.getdoc(cls) or "").partition("Notes\n-----")[2]
        assert "thread" in notes
        assert "process" in notes
