"""The map in the package's docstring is the truth: imports only point down it.

Also which libraries a room may import. All is read from the sources, Python with `ast` and Cython
line by line; nothing is imported.
"""

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from kernels import MODULES as MODULES_BUILT

from mmbloom.cli.commands import MODULES as MODULES_OF_COMMANDS

ROOT = Path(__file__).parents[2] / "mmbloom"
FILES = sorted(ROOT.rglob("*.py"))
CYTHON = sorted(file for ending in ("pyx", "pxd") for file in ROOT.rglob(f"*.{ending}"))
TOP = ("__init__", "__main__")  # the package's face and `python -m mmbloom`: above all others

# What is imported where it is used, and not at the top: each takes milliseconds of every start.
LATE = {
    "filters.open": {"_storage.folder", "filters.growing", "filters.rotating"},  # for one file
    "filters.bloom": {
        "filters.grow",
        "filters.growing",
        "_storage.folder",
    },  # for files beside no manifest
    "filters.growable": {"filters.grow", "filters.growing"},  # for files that stay files
    "filters.shelf": {"filters.info"},  # for programs that never ask for it
    "operations.combine": {"_storage.folder"},  # for filters of one file
    "cli.main": {"format.header"},  # for files that are filters
    # For filters that are not past their plan, runs that are not dry, nor end at a full filter.
    "cli.filters": {"_storage.folder", "operations.copy", "filters.grow"},
    "logs.lines": {"logs.members"},  # for lines that are no JSON
    "cli.options": {"_engine", "format.folder"},  # for help; for commands without a duration
    "cli.lines": {"logs.rows"},  # for lines that are no CSV
    "logs.inputs": {"logs.rows"},  # for lines that are no CSV
    "logs.dedup": {"logs.rows"},  # the same
    # For outputs that are no CSV, and in a folder without a manifest.
    "logs.outputs": {"logs.rows", "_storage.folder"},
    # For runs that count nothing; in one process; that verify nothing.
    "cli.marking": {"logs.counts", "cli.workers", "operations.check"},
}


def name_of(file: Path) -> str:
    """Dotted name of a module below mmbloom: "filters.base", "_engine", "cli"."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


MODULES = {name_of(file): file for file in FILES}
CYTHON_MODULES = {name_of(file) for file in CYTHON}


@functools.cache
def tree_of(file: Path) -> ast.Module:
    """Parse a file, which many tests ask for."""
    return ast.parse(file.read_text())


@functools.cache
def nodes_of(file: Path) -> list[ast.AST]:
    """List all nodes of a file."""
    return [*ast.walk(tree_of(file))]


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    """What is kept of all files would be copied into each later fork of this process."""
    yield
    for kept in (tree_of, nodes_of, imports_of):
        kept.cache_clear()


def docstring_of(file: Path) -> str:
    return ast.get_docstring(tree_of(file)) or ""


def map_of_packages() -> dict[str, int]:
    """Read the table in the docstring of the package: package to its place, lowest first."""
    table = docstring_of(ROOT / "__init__.py").split("====\n")[2]
    names = re.findall(r"^(\w+)  +\S", table, re.MULTILINE)
    assert len(set(names)) == len(names), "no package twice"
    return {name: place for place, name in enumerate(names)}


PLACES = map_of_packages()


def place_of(module: str) -> int:
    return PLACES[module.split(".", maxsplit=1)[0]]


@functools.cache
def imports_of(file: Path) -> list[str]:
    """Dotted names that a file imports anywhere; `from mmbloom import x` is mmbloom.x."""
    found: list[str] = []
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


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


def test_something_is_read() -> None:
    """The tests below look at the whole package: these files and rows are among them."""
    assert {"errors", "_engine", "_engine.reference.bits", "filters.base"} <= MODULES.keys()
    assert "mmbloom._storage.mapped.MappedFilter" in set(imports_of(MODULES["filters.file"]))
    assert own_imports_of(MODULES["filters.file"]) >= {"_engine", "_storage.lock", "errors"}
    compiled = {file.name: file for file in CYTHON}
    assert {file.stem for file in CYTHON if file.suffix == ".pyx"} == {*MODULES_BUILT} - {"_arrays"}
    assert "mmbloom._engine.compiled.positions.shape_of" in {
        *cython_imports_of(compiled["bits.pyx"])
    }
    assert own_imports_of(compiled["hash.pyx"]) >= {"_engine.key_batch", "_engine.compiled.hashes"}


def test_every_package_is_on_the_map() -> None:
    on_disk = {module.split(".")[0] for module in MODULES} - set(TOP)
    assert PLACES.keys() == on_disk


FOLDERS = sorted({file.parent for file in FILES} - {ROOT})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_is_on_the_map_of_its_folder(folder: Path) -> None:
    rows = re.findall(r"^``(\w+)``  +\S", docstring_of(folder / "__init__.py"), re.MULTILINE)
    there = {file.stem for file in folder.iterdir() if file.suffix in (".py", ".pyx")}
    there |= {file.parent.name for file in folder.glob("*/__init__.py")}
    assert sorted(rows) == sorted(there - {"__init__"})


@pytest.mark.parametrize("module", sorted(set(MODULES) - set(TOP)))
def test_imports_point_down(module: str) -> None:
    """No package imports one that is below it in the table; the package's face is for `cli`."""
    for imported in own_imports_of(MODULES[module]):
        place = PLACES["cli"] if imported in TOP else place_of(imported)
        assert place <= place_of(module), f"{module} imports {imported}"


def test_no_cycles() -> None:
    """Within a package too, no module imports itself by way of others."""
    graph: dict[str, set[str]] = {}
    for file in [*FILES, *CYTHON]:  # a .pxd and its .pyx are one module
        module = name_of(file)
        graph.setdefault(module, set()).update(own_imports_of(file) - {module})
    assert {*TopologicalSorter(graph).static_order()} == MODULES.keys() | CYTHON_MODULES


@pytest.mark.parametrize("library", ["mmh3", "filelock", "mmap", "ctypes", "fsspec", "dask"])
def test_one_importer(library: str) -> None:
    """Each of these is imported in one module for one purpose, which hides it from the others."""
    importers = {
        module
        for module, file in MODULES.items()
        if library in {name.split(".")[0] for name in imports_of(file)}
    }
    home = {
        "mmh3": {"_engine.reference.hash"},
        "filelock": {"_storage.lock"},
        "mmap": {"_system.memory"},
        "fsspec": {"cluster.places"},
        "dask": {"cluster.dask"},  # the module of the package whose users have it
        "ctypes": {"_keys.arrow_c", "_system.disk"},  # Arrow's structs; calls of the system
    }
    assert importers == home[library]


@pytest.mark.parametrize("library", ["tqdm", "shtab", "argparse_manpage"])
def test_extras_stay_in_the_command_line(library: str) -> None:
    """The optional libraries are imported by the command line only."""
    for module, file in MODULES.items():
        if library in {name.split(".")[0] for name in imports_of(file)}:
            assert module.startswith("cli.")


@pytest.mark.parametrize(
    ("module", "libraries"),
    [("cluster.dask", {"dask", "distributed", "tlz"}), ("cluster.spark", {"pyspark", "pyarrow"})],
)
def test_engines_stay_in_their_module(module: str, libraries: set[str]) -> None:
    """The library of a cluster is imported at the top of one public module, and that by nothing.

    Its users import it by its name, and have the library; nobody else waits for it, or needs it.
    """
    for name, file in MODULES.items():
        assert module not in own_imports_of(file), name
        if libraries & {each.split(".")[0] for each in imports_of(file)}:
            assert name == module
    tops = [node for node in tree_of(MODULES[module]).body if isinstance(node, ast.Try)]
    found = {each.module for node in tops for each in node.body if isinstance(each, ast.ImportFrom)}
    assert {str(name).split(".")[0] for name in found} <= libraries
    assert found


def test_persistent_queue_is_the_callers() -> None:
    """The library of the extra `crawl` is imported by nothing of the package."""
    for module, file in MODULES.items():
        assert "diskcache" not in {name.split(".")[0] for name in imports_of(file)}, module


@pytest.mark.parametrize("library", ["scrapy"])
def test_modules_for_other_libraries(library: str) -> None:
    """The public module of this name alone imports the library, and nothing imports it."""
    for module, file in MODULES.items():
        tops = {name.split(".")[0] for name in imports_of(file)}
        assert (library in tops) == (module == f"crawl.{library}"), module
        assert f"crawl.{library}" not in own_imports_of(file), module


def test_every_private_file_is_imported() -> None:
    """A file that no other imports is public, or has commands."""
    imported = set[str]().union(*map(own_imports_of, [*FILES, *CYTHON]))
    for file in FILES:  # by `import_module`
        values = (node.value for node in nodes_of(file) if isinstance(node, ast.Constant))
        imported |= {value.removeprefix("mmbloom.") for value in values if isinstance(value, str)}
    for module, file in MODULES.items():
        private = module.startswith(("_", "format.", "cli."))
        commands = module in {f"cli.{name}" for name in MODULES_OF_COMMANDS}
        if private and file.stem not in TOP and not commands:
            assert module in imported, module


@pytest.mark.parametrize("file", CYTHON, ids=lambda file: file.name)
def test_cython_imports_point_down(file: Path) -> None:
    """Compiled modules import down the map too; of the engine, compiled ones and key forms."""
    for imported in own_imports_of(file):
        assert place_of(imported) <= PLACES["_engine"], f"{file.name} imports {imported}"
        if imported.startswith("_engine") and imported != "_engine.key_batch":
            assert imported in CYTHON_MODULES, f"{file.name} imports {imported}"


@pytest.mark.parametrize("file", CYTHON, ids=lambda file: file.name)
def test_cython_stays_within_the_package(file: Path) -> None:
    """Compiled modules use numpy, Cython's own words, and C that needs no include of theirs."""
    tops = {name.split(".")[0] for name in cython_imports_of(file)}
    assert tops <= {"mmbloom", "numpy", "libc", "cpython", "cython"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_hidden_imports(module: str) -> None:
    """A module of the package is imported within a function only as listed above."""
    hidden = set()
    for function in nodes_of(MODULES[module]):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    hidden |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    hidden.add(node.module or "")
    late = {f"mmbloom.{name}" for name in LATE.get(module, ())}
    assert {name for name in hidden if name.split(".")[0] == "mmbloom"} == late


def test_reasons_stand_in_words() -> None:
    """No comment and no docstring cites a law by its number, which a reader must look up."""
    for file in [*FILES, *CYTHON]:
        found = re.findall(r"\blaws? \d+", file.read_text())
        assert not found, file


def test_nothing_dangerous_is_used() -> None:
    """No file content can become code: no pickle, eval or exec anywhere."""
    for module, file in MODULES.items():
        names = {name.split(".")[0] for name in imports_of(file)}
        assert not names & {"pickle", "marshal", "shelve"}, module
        calls = [node.func for node in nodes_of(file) if isinstance(node, ast.Call)]
        called = {func.id for func in calls if isinstance(func, ast.Name)}
        assert not called & {"eval", "exec", "__import__"}, module


def test_systems_differ_in_one_place() -> None:
    """Nothing above `_system` asks which system this is, or reads what only Linux has."""
    asked = re.compile(r"(sys\.platform|os\.name|os\.uname|\bplatform\.)|^/(proc|sys|dev)/")
    for module, file in MODULES.items():
        if module.startswith("_system."):
            continue
        for node in nodes_of(file):
            what = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
            if isinstance(node, ast.Attribute | ast.Constant) and isinstance(what, str):
                assert not asked.match(what), f"{module}: {what}"


def test_one_place_opens_files() -> None:
    """A file opened elsewhere could have the number of a standard stream that is closed."""
    for module, file in MODULES.items():
        calls = [node for node in nodes_of(file) if isinstance(node, ast.Call)]
        if module != "_system.descriptors":
            assert "os.open" not in {ast.unparse(call.func) for call in calls}, module
        for call in calls:
            # Commands fill the streams when they begin, and what is known of the machine is read.
            if not module.startswith(("cli.", "_system.")) and (
                ast.unparse(call.func) in {"open", "io.open", "FileIO", "io.FileIO"}
            ):
                assert {keyword.arg for keyword in call.keywords} & {"opener", "closefd"}, module


def test_no_signal_handler_and_no_memmap() -> None:
    """No handler for SIGBUS is ever installed, and np.memmap is never used: it extends files."""
    for module, file in MODULES.items():
        used = {node.attr for node in nodes_of(file) if isinstance(node, ast.Attribute)}
        assert "memmap" not in used, module
        assert "SIGBUS" not in used, module
