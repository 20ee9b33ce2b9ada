"""The map in the package's docstring is the truth: imports only point down it.

All is read from the sources, Python with `ast` and Cython line by line; nothing is imported.
"""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from kernels import PARTS

ROOT = Path(__file__).parents[1] / "mmbloom"
COMPILED = tuple(f"_compiled{part}" for part in PARTS)
FILES = sorted(ROOT.rglob("*.py"))
CYTHON = sorted(file for ending in ("pyx", "pxd") for file in ROOT.rglob(f"*.{ending}"))
TOP = ("__init__", "__main__")  # the package's face and `python -m mmbloom`: above all levels


def name_of(file: Path) -> str:
    """Dotted name of a module below mmbloom: "filter", "_engine._numpy", "cli"."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


MODULES = {name_of(file): file for file in FILES}
CYTHON_MODULES = {name_of(file) for file in CYTHON}


def level_table() -> dict[str, int]:
    """Read the table in the docstring of the package: module (or folder) to level."""
    text = ast.get_docstring(ast.parse((ROOT / "__init__.py").read_text())) or ""
    rows = re.findall(r"^(\d)\s+(\w+)\s+\S", text, re.MULTILINE)
    assert len({name for _, name in rows}) == len(rows), "no module twice"
    return {name: int(level) for level, name in rows}


LEVELS = level_table()


def imports_of(file: Path) -> Iterator[str]:
    """Dotted names that a file imports anywhere; `from mmbloom import x` is mmbloom.x."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def cython_imports_of(file: Path) -> Iterator[str]:
    """The same of a Cython file, which `ast` cannot read: what it imports and cimports."""
    text = re.sub(  # names in parentheses, over several lines
        r"import \(([^)]*)\)",
        lambda found: f"import {' '.join(found[1].split())}",
        file.read_text(),
    )
    for line in text.splitlines():
        if found := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(.*)", line):
            assert not found[1].startswith("."), f"{file}: relative import"
            names = found[2].rstrip(",").split(",")
            yield from (f"{found[1]}.{name.split()[0]}" for name in names)
        elif found := re.match(r"\s*c?import\s+(.*)", line):
            yield from (name.split()[0] for name in found[1].split(","))


def own_imports_of(file: Path) -> set[str]:
    """Modules of the package that a file imports, by their dotted name below it."""
    found = set()
    cython = file.suffix in (".pyx", ".pxd")
    for name in cython_imports_of(file) if cython else imports_of(file):
        if name == "mmbloom" or name.startswith("mmbloom."):
            own = name.removeprefix("mmbloom").removeprefix(".")
            while own and own not in MODULES.keys() | CYTHON_MODULES:  # a name within a module
                own = own.rpartition(".")[0]
            found.add(own or "__init__")
    return found


def level_of(module: str) -> int:
    return LEVELS[module.split(".", maxsplit=1)[0]]


def test_something_is_read() -> None:
    """The tests below look at the whole package: these files and rows are among them."""
    assert {"errors", "_engine", "_engine._numpy", "filter", "cli", "__init__"} <= MODULES.keys()
    assert "mmbloom._storage.Storage" in set(imports_of(MODULES["filter_file"]))
    assert own_imports_of(MODULES["_writer"]) >= {"_engine", "_lock", "_storage", "errors"}
    compiled = {file.name: file for file in CYTHON}
    assert sorted(file.stem for file in CYTHON if file.suffix == ".pyx") == sorted(COMPILED)
    assert "mmbloom._engine._bits.shape_of" in {*cython_imports_of(compiled["_compiled.pyx"])}
    assert "mmbloom._engine._compiled.contains_standard" in {
        *cython_imports_of(compiled["_compiled_claim.pyx"])
    }
    assert own_imports_of(compiled["_compiled_hash.pyx"]) >= {"_batch", "_engine._murmur"}


def test_every_module_is_on_the_map() -> None:
    """Each module, or the folder it is in, has a row in the table; each row has a module."""
    on_disk = {module.split(".")[0] for module in MODULES} - set(TOP)
    assert LEVELS.keys() == on_disk


def test_map_is_in_order() -> None:
    """The table goes from the lowest level to the highest, without a gap."""
    assert list(LEVELS.values()) == sorted(LEVELS.values())
    assert set(LEVELS.values()) == set(range(max(LEVELS.values()) + 1))


@pytest.mark.parametrize("module", sorted(set(MODULES) - set(TOP)))
def test_imports_point_down(module: str) -> None:
    """No module imports one of a higher level; the package's face is below the top one only."""
    top = max(LEVELS.values())
    for imported in own_imports_of(MODULES[module]):
        level = top if imported in TOP else level_of(imported)
        assert level <= level_of(module), f"{module} imports {imported}"


def test_no_cycles() -> None:
    """Within a level too, no module imports itself by way of others."""
    graph: dict[str, set[str]] = {}
    for file in [*FILES, *CYTHON]:  # a .pxd and its .pyx are one module
        module = name_of(file)
        graph.setdefault(module, set()).update(own_imports_of(file) - {module})
    assert {*TopologicalSorter(graph).static_order()} == MODULES.keys() | CYTHON_MODULES


@pytest.mark.parametrize("library", ["mmh3", "filelock", "mmap", "ctypes"])
def test_one_importer(library: str) -> None:
    """Each of these is imported in exactly one module, which hides it from the others."""
    importers = {
        module
        for module, file in MODULES.items()
        if library in {name.split(".")[0] for name in imports_of(file)}
    }
    home = {
        "mmh3": "_engine._numpy_hash",
        "filelock": "_lock",
        "mmap": "_storage",
        "ctypes": "_arrow_c",
    }
    assert importers == {home[library]}


@pytest.mark.parametrize("library", ["tqdm", "xopen", "matplotlib"])
def test_extras_stay_in_the_command_line(library: str) -> None:
    """The optional libraries are imported by the command line only."""
    for module, file in MODULES.items():
        if library in {name.split(".")[0] for name in imports_of(file)}:
            assert module.startswith("cli.")


def test_persistent_queue_is_the_callers() -> None:
    """The library of the extra `crawl` is imported by nothing of the package."""
    for module, file in MODULES.items():
        assert "diskcache" not in {name.split(".")[0] for name in imports_of(file)}, module


OTHERS = [file for name in ("tests", "benchmarks") for file in (ROOT.parent / name).rglob("*.py")]


@pytest.mark.parametrize("file", [*FILES, *CYTHON, *OTHERS], ids=lambda file: file.name)
def test_short_files(file: Path) -> None:
    """Every file is under 300 lines."""
    assert len(file.read_text().splitlines()) < 300


@pytest.mark.parametrize("file", CYTHON, ids=lambda file: file.name)
def test_cython_imports_point_down(file: Path) -> None:
    """Compiled modules import down the map too, and of the engine's only compiled ones."""
    for imported in own_imports_of(file):
        assert level_of(imported) <= LEVELS["_engine"], f"{file.name} imports {imported}"
        if imported.startswith("_engine"):
            assert imported in CYTHON_MODULES, f"{file.name} imports {imported}"


@pytest.mark.parametrize("file", CYTHON, ids=lambda file: file.name)
def test_cython_stays_within_the_package(file: Path) -> None:
    """Compiled modules use numpy, and of Python and C what needs no include of their own."""
    tops = {name.split(".")[0] for name in cython_imports_of(file)}
    assert tops <= {"mmbloom", "numpy", "libc", "cpython"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_hidden_imports(module: str) -> None:
    """No module of the package is imported within a function, where the map would not show."""
    for function in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    assert not any(alias.name.startswith("mmbloom") for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    assert not (node.module or "").startswith("mmbloom")


def test_nothing_dangerous_is_used() -> None:
    """No file content can become code: no pickle, eval or exec anywhere (law 15)."""
    for module, file in MODULES.items():
        names = {name.split(".")[0] for name in imports_of(file)}
        assert not names & {"pickle", "marshal", "shelve"}, module
        calls = [
            node.func
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Call)
        ]
        called = {func.id for func in calls if isinstance(func, ast.Name)}
        assert not called & {"eval", "exec", "__import__"}, module


def test_no_signal_handler_and_no_memmap() -> None:
    """No handler for SIGBUS is ever installed (law 16), and np.memmap is never used (law 3)."""
    for module, file in MODULES.items():
        used = {
            node.attr
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Attribute)
        }
        assert "memmap" not in used, module
        assert "SIGBUS" not in used, module
