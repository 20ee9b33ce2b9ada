"""What the package offers is what it says it offers, documented and typed."""

import ast
import importlib
import importlib.metadata
import inspect
import os
import pkgutil
import pydoc
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
from workers import in_child

import mmbloom
import mmbloom.cluster

ROOT = Path(mmbloom.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
NAMES = [name for name in dir(mmbloom) if name != "__version__"]


def submodules() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(mmbloom.__path__)}


LAZY = {"TYPE_CHECKING", "gc", "import_module"}  # what looking names up takes


def test_dir_is_what_is_public() -> None:
    for name in NAMES:  # from then on it is there
        assert hasattr(mmbloom, name)
    public = {
        name
        for name, value in vars(mmbloom).items()
        if not name.startswith("_")
        and name not in LAZY
        and not (isinstance(value, types.ModuleType) and name in submodules())
    }
    assert public | {"errors", "sizing"} == set(NAMES)
    assert sorted(set(NAMES)) == NAMES


def test_help_of_the_package_is_short() -> None:
    """help(mmbloom) fits on a few screens: what there is and for what, and no class in full."""
    lines = pydoc.plain(pydoc.render_doc(mmbloom)).splitlines()
    assert len(lines) < 200
    text = "\n".join(lines)
    for name in NAMES:  # records, which calls return, are described there; and errors
        value = getattr(mmbloom, name)
        if inspect.isfunction(value) or getattr(value, "create", None):
            assert re.search(rf"^     .*\b{name}\b", text, re.MULTILINE), name


@pytest.mark.parametrize(
    "name", ["BloomFilter", "CountingBloomFilter", "GrowingFilter", "RotatingFilter"]
)
def test_help_of_a_filter_begins_with_how_to_make_one(name: str) -> None:
    """Within a few lines it shows create and open, and no signature of a call that only raises."""
    shown = pydoc.plain(pydoc.render_doc(getattr(mmbloom, name))).splitlines()
    begins = "\n".join(shown[3:9])
    assert f"{name}.create(path, " in begins
    assert f"{name}.open(path)" in begins
    assert not any(line.startswith(f" |  {name}(") for line in shown)
    with pytest.raises(TypeError, match=rf"use {name}.create\(path, capacity\) or {name}.open"):
        getattr(mmbloom, name)("path")


def test_names_are_looked_up_where_type_checkers_find_them() -> None:
    """Each line of the stub is read as type checkers read it, and has its name from its module."""
    tree = ast.parse((ROOT / "__init__.pyi").read_text())
    found = {}
    for node in (node for node in tree.body if isinstance(node, ast.ImportFrom)):
        for alias in node.names:
            if alias.name != "*":
                assert alias.asname == alias.name, "type checkers take it for the package's own"
                value = getattr(importlib.import_module(node.module or ""), alias.name)
                assert getattr(mmbloom, alias.name) is value
                found[alias.name] = node.module
    assert found == vars(mmbloom)["_MODULES"]


def test_names_are_found_in_a_zip_file(tmp_path: Path) -> None:
    """They need no stub, which programs that are frozen do not have."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in FILES:
            archive.write(file, file.relative_to(ROOT.parent))
    command = [sys.executable, "-P", "-c", "import mmbloom; print(mmbloom.sizing.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "all.zip")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith(str(tmp_path))


def test_every_error_is_exported() -> None:
    for name, value in vars(mmbloom.errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert getattr(mmbloom, name) is value


def test_public_names_are_at_home() -> None:
    """What is exported comes from a public module: its repr and its pickle name no private one."""
    for name in NAMES:
        value = getattr(mmbloom, name)
        if inspect.isclass(value):
            assert not any(part.startswith("_") for part in value.__module__.split("."))


def test_version() -> None:
    assert mmbloom.__version__ == importlib.metadata.version("mmbloom")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mmbloom.nothing  # type: ignore[attr-defined]


FRESH = """
import mmbloom
print(*dir(mmbloom))
import mmbloom.operations.copy, mmbloom.operations.combine, mmbloom.cli.making
print(mmbloom.copy.__name__, mmbloom.compare.__name__, mmbloom.merge.__name__)
print(*dir(mmbloom))
"""


def test_dir_shows_what_is_public() -> None:
    command = [sys.executable, "-P", "-c", FRESH]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names, functions, again = done.stdout.splitlines()
    assert names.split() == sorted([*NAMES, "__version__"])
    assert functions.split() == ["copy", "compare", "merge"]
    assert again == names
    assert {"BloomFilter", "Key", "Keys", "copy", "engine", "sizing"} <= {*names.split()}


def test_user_program_runs(tmp_path: Path) -> None:
    """What a type checker must accept is what runs: the program does both.

    That it is accepted, mypy and basedpyright say, which check this file with all others.
    """

    def run() -> None:
        # In a child: it imports pandas and polars, which would be copied into each later one.
        from house import user_program  # noqa: PLC0415

        user_program.main(tmp_path)

    in_child(run)


def test_signatures_are_short() -> None:
    """help() shows the names of types, such as Keys, where it showed all that they stand for."""
    assert str(inspect.signature(mmbloom.Sieve.push_many)) == (
        "(self, urls: 'Iterable[Url]') -> 'Bools'"
    )
    assert str(inspect.signature(mmbloom.BloomFilter.add_many)) == (
        "(self, keys: 'Keys', *, nulls: 'Nulls' = 'error') -> 'Bools'"
    )
    assert str(inspect.signature(mmbloom.hash_many)) == (
        "(keys: 'Keys', params: 'HasHash', *, threads: 'int | None' = None) -> 'HashHalves'"
    )


def test_mode_bits_are_shown_as_they_are_written() -> None:
    """help() says permissions: 0o600, where it said 384."""
    assert "permissions: 'int' = 0o600" in str(inspect.signature(mmbloom.BloomFilter.create))
    for function in (mmbloom.copy, mmbloom.merge, mmbloom.repair, mmbloom.GrowingFilter.create):
        assert repr(inspect.signature(function).parameters["permissions"].default) == "0o600"


def public_callables() -> dict[str, Any]:
    """Functions of the package, and the methods of its classes, wherever they are defined."""
    found: dict[str, Any] = {}
    for module in (mmbloom, mmbloom.sizing, mmbloom.cluster):
        for name in NAMES if module is mmbloom else vars(module)["__all__"]:
            value = getattr(module, name)
            if inspect.isfunction(value):
                found[name] = value
            elif inspect.isclass(value) and not issubclass(value, Exception):
                for member in dir(value):
                    raw = inspect.getattr_static(value, member)
                    raw = getattr(raw, "__func__", raw)  # of a class method
                    own = inspect.isfunction(raw) and raw.__module__.startswith("mmbloom.")
                    if own and not member.startswith("_"):
                        found[f"{name}.{member}"] = raw
    return found


CALLABLES = public_callables()
RAISE_NOTHING = {"FilterParams.expected_error_rate", "best_practice_table", "Claim.within"}


def sections_of(doc: str) -> set[str]:
    return set(re.findall(r"^(\w+)\n-+$", doc, re.MULTILINE))


@pytest.mark.parametrize("name", CALLABLES)
def test_sections_of_docstrings(name: str) -> None:
    """A docstring is one line, or says all: parameters, what comes out, and what is raised.

    One line is enough where there is nothing to pass, or where it names the method, such as the
    one for a batch, whose docstring has the sections; or for a value that its line explains.
    """
    doc = inspect.getdoc(CALLABLES[name]) or ""
    signature = inspect.signature(CALLABLES[name])
    takes = [each for each in signature.parameters if each not in ("self", "cls")]
    if "\n" in doc:
        sections = sections_of(doc)
        assert not takes or "Parameters" in sections, sections
        assert not takes or "Raises" in sections or name in RAISE_NOTHING, sections
        gives = signature.return_annotation not in (None, "None")
        assert not gives or sections & {"Returns", "Yields"}, sections
    else:
        named = [each for each in re.findall(r"`(\w+)`", doc) if each]
        assert not takes or named, "one line that names no method which says more"
        owner = name.rpartition(".")[0]
        for other in named:
            full = CALLABLES.get(f"{owner}.{other}") or CALLABLES.get(other)
            assert full is None or "Parameters" in sections_of(inspect.getdoc(full) or "")


EXAMPLES = [
    *(name for name in CALLABLES if "." not in name),
    *("BloomFilter", "CountingBloomFilter", "GrowingFilter", "RotatingFilter"),
    *("Claim", "Exclusions", "Sieve", "FilterParams", "Slice", "SlicePlan", "Generations"),
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_there(name: str) -> None:
    """Each function and each class that users make or use has an example; all of them are run."""
    places = (mmbloom, mmbloom.sizing, mmbloom.cluster)
    value = next(getattr(place, name) for place in places if hasattr(place, name))
    assert "Examples" in sections_of(inspect.getdoc(value) or "")


def test_formulas_name_their_source() -> None:
    for name in ("plan", "false_positive_rate", "estimate_count"):
        doc = inspect.getdoc(getattr(mmbloom.sizing, name)) or ""
        assert re.search(r", (19|20)\d\d", doc), name


def test_typed() -> None:
    """The package carries the marker that type checkers look for."""
    assert (ROOT / "py.typed").is_file()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree), "the module"
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


@pytest.mark.parametrize("name", NAMES)
def test_public_members_are_documented(name: str) -> None:
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
    for function in (mmbloom.BloomFilter.create, mmbloom.BloomFilter.open, mmbloom.sizing.plan):
        for parameter in inspect.signature(function).parameters:
            assert parameter in (function.__doc__ or "")
    for parameter in inspect.signature(mmbloom.RotatingFilter.open).parameters:
        assert re.search(rf"\b{parameter}\b", mmbloom.open.__doc__ or ""), parameter


def test_threads_and_processes_are_spoken_of() -> None:
    """Each public class that holds a file says what threads and processes may do."""
    names = ("Slice", "SlicePlan", "Generations", "Run")
    slices = (getattr(mmbloom.cluster, name) for name in names)
    for cls in (mmbloom.BloomFilter, mmbloom.Claim, mmbloom.Sieve, *slices):
        notes = (inspect.getdoc(cls) or "").partition("Notes\n-----")[2]
        assert "thread" in notes
        assert "process" in notes
