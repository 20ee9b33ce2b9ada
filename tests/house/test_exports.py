"""What the package offers is what it says it offers, documented and typed."""

import ast
import importlib.metadata
import inspect
import pkgutil
import types
from pathlib import Path

import pytest

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
