"""The exception tree is as drawn, catchable as builtins, and travels between processes."""

import ast
import copy
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checks import check_pickles

from mmbloom import errors
from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import parser_of
from mmbloom.errors import MmbloomError

EXAMPLES: list[MmbloomError] = [
    MmbloomError("something"),
    errors.FormatError("/f/seen", "kind", "7", "1 or 2"),
    errors.NewerFormatError("/f/seen", "format version", "2", "1"),
    errors.ParameterMismatchError("/f/seen", "num_hashes", "6", "7"),
    errors.FileChangedError("/f/seen", "removed"),
    errors.ReadOnlyError("/f/seen", "it is sealed"),
    errors.ClosedFilterError("/f/seen"),
    errors.LockTimeoutError("/f/seen", 2.5),
    errors.DurabilityError("/f/seen", "Input/output error"),
    errors.NetworkFileSystemError("/f/seen", "nfs4"),
    errors.KeyTypeError("float cannot be a key", 3),
    errors.KeyTypeError("float cannot be a key"),
    errors.KeyEncodingError(5),
    errors.KeyEncodingError(),
    errors.IncompatibleFiltersError(
        "/f/a", "/f/b", (("seed", "1", "2"), ("num_bits", "64", "128"))
    ),
    errors.LostBitsError("/f/seen"),
    errors.FilterFullError("/f/seen", 1000, 1001, 7, "make it grow"),
    errors.ReentryError("/f/seen", "another task has the lock"),
    errors.ParameterMismatchError("/f/seen", "seed", "6", "0", "has seed 6, Guava's 0"),
    errors.CommitConflictError("/f/state", 4, "another run has made it"),
    errors.FilterFullError("/f/state", 1000, 101, None, "begin another state"),
    errors.NoFilterError("/f/seen", "length", "7 bytes", "at least 4096"),
    errors.DamagedHeaderError("/f/seen", "header checksum", "0x1", "0x2"),
    errors.OtherKindError("/f/seen", "counters", "2 (counters)", "1 (bits)"),
    errors.ColumnError("the column 'a' is not in the header (id, b)"),
    errors.OpenQuoteError(7, "by the end of the input"),
    errors.InputError("/f/a.gz: damaged or cut off"),
    errors.LockTimeoutError("/f/seen", 2.5, lock="the lock of its exclusions"),
    errors.MissingLibraryError("reading needs backports.zstd, which is not installed"),
]
BUILTIN = {
    "FormatError": ValueError,
    "NewerFormatError": ValueError,
    "ParameterMismatchError": ValueError,
    "FileChangedError": RuntimeError,
    "IncompatibleFiltersError": ValueError,
    "LostBitsError": RuntimeError,
    "CommitConflictError": RuntimeError,
    "FilterFullError": RuntimeError,
    "ReentryError": RuntimeError,
    "ReadOnlyError": io.UnsupportedOperation,
    "ClosedFilterError": ValueError,
    "LockTimeoutError": TimeoutError,
    "DurabilityError": OSError,
    "NetworkFileSystemError": OSError,
    "KeyTypeError": TypeError,
    "KeyEncodingError": ValueError,
    "ColumnError": ValueError,
    "OpenQuoteError": ValueError,
    "InputError": ValueError,
    "MissingLibraryError": ImportError,
    "MmbloomWarning": UserWarning,
}


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Read the tree in the module's docstring: name to (parent drawn above it, builtin)."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([ |`-]*)([A-Z]\w+)(?: \(([\w.]+)\))?", line)
        if not found:
            continue
        depth, name, builtin = len(found[1]), found[2], found[3]
        above = [(level, one) for level, one in above if level < depth]
        tree[name] = (above[-1][1] if above else None, builtin)
        above.append((depth, name))
    return tree


def real_classes() -> dict[str, type[BaseException]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }


def test_drawn_tree_has_every_class() -> None:
    assert drawn_tree().keys() == real_classes().keys()
    assert len(drawn_tree()) == 28


@pytest.mark.parametrize("name", drawn_tree())
def test_class_hangs_where_it_is_drawn(name: str) -> None:
    parent, builtin = drawn_tree()[name]
    bases = [base.__name__ for base in real_classes()[name].__bases__]
    drawn = [base for base in (parent, builtin and builtin.rpartition(".")[2]) if base]
    assert bases == drawn


@pytest.mark.parametrize("name", BUILTIN)
def test_builtin_second_base(name: str) -> None:
    """Code that knows nothing of mmbloom can catch each error as the builtin it is like."""
    assert issubclass(real_classes()[name], BUILTIN[name])


def test_examples_cover_every_error() -> None:
    classes = {cls for cls in real_classes().values() if issubclass(cls, MmbloomError)}
    assert {type(error) for error in EXAMPLES} == classes


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_error_survives_pickle_and_copy(error: MmbloomError) -> None:
    check_pickles(error)
    for again in (copy.copy(error), copy.deepcopy(error)):
        assert (type(again), str(again)) == (type(error), str(error))
        assert vars(again) == vars(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_message_names_what_the_error_knows(error: MmbloomError) -> None:
    public = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    assert set(public) == set(documented_attributes(type(error)))
    differences = [word for found in public.pop("differences", ()) for word in found]
    for value in [*public.values(), *differences]:
        assert value is None or f"{value}" in str(error)


def documented_attributes(cls: type) -> list[str]:
    """Read the Attributes section of a class, or of the base that has one."""
    for one in cls.__mro__:
        # Without the indentation of the source, which Python keeps up to 3.12.
        doc = inspect.cleandoc(one.__dict__.get("__doc__") or "")
        if found := re.search(r"Attributes\n-+\n((?:.*\n?)*)", doc):
            lines = re.findall(r"^([\w, ]+) : ", found[1], re.MULTILINE)
            return [name for line in lines for name in line.split(", ")]
    return []


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (EXAMPLES[1], {"path": "/f/seen", "field": "kind", "found": "7", "expected": "1 or 2"}),
        (EXAMPLES[3], {"path": "/f/seen", "field": "num_hashes", "found": "6", "expected": "7"}),
        (EXAMPLES[4], {"path": "/f/seen", "found": "removed"}),
        (EXAMPLES[5], {"path": "/f/seen", "reason": "it is sealed"}),
        (EXAMPLES[6], {"path": "/f/seen"}),
        (EXAMPLES[7], {"path": "/f/seen", "seconds": 2.5}),
        (EXAMPLES[8], {"path": "/f/seen", "reason": "Input/output error"}),
        (EXAMPLES[9], {"path": "/f/seen", "file_system": "nfs4"}),
        (EXAMPLES[10], {"found": "float cannot be a key", "position": 3}),
        (EXAMPLES[11], {"found": "float cannot be a key", "position": None}),
        (EXAMPLES[12], {"position": 5}),
        (EXAMPLES[13], {"position": None}),
        (EXAMPLES[14], {"path": "/f/a", "other": "/f/b"}),
        (EXAMPLES[14], {"differences": (("seed", "1", "2"), ("num_bits", "64", "128"))}),
        (EXAMPLES[15], {"path": "/f/seen"}),
        (EXAMPLES[16], {"path": "/f/seen", "capacity": 1001, "fits": 7}),
        (EXAMPLES[17], {"path": "/f/seen", "reason": "another task has the lock"}),
        (EXAMPLES[19], {"path": "/f/state", "generation": 4, "reason": "another run has made it"}),
        (EXAMPLES[20], {"path": "/f/state", "keys": 1000, "capacity": 101, "fits": None}),
        (EXAMPLES[23], {"field": "kind", "kind": "counters", "expected": "1 (bits)"}),
    ],
)
def test_attributes(error: MmbloomError, attributes: dict[str, object]) -> None:
    assert {name: getattr(error, name) for name in attributes} == attributes


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.KeyTypeError("a null", 3, "leave it out"), "key at position 70: a null; leave it"),
        (errors.KeyTypeError("float cannot be a key"), "key at position 70: float cannot"),
        (errors.KeyEncodingError(3), "key at position 70: a str with a lone surrogate"),
    ],
)
def test_same_error_at_another_position(
    error: errors.KeyTypeError | errors.KeyEncodingError, message: str
) -> None:
    """`at` makes an error that differs in its position only, and leaves the first as it is."""
    before = str(error)
    moved = error.at(70)
    assert type(moved) is type(error)
    assert moved.position == 70
    assert str(moved).startswith(message)
    check_pickles(moved)
    assert str(error) == before
    assert str(error.at(7)) == str(moved).replace("70", "7")


def test_message_reads_as_a_sentence() -> None:
    """A format error says file, field, found and expected in this order."""
    assert str(EXAMPLES[1]) == "/f/seen: kind is 7, expected 1 or 2"


ROOT = Path(errors.__file__).parent
OF_THE_COMMANDS = {
    option
    for name in COMMANDS
    for option in re.findall(r"--[a-z][\w-]+", parser_of(name).format_usage())
}
A_COMMAND = re.compile(rf"`?\b(mmbloom ({'|'.join(COMMANDS)})|({'|'.join(COMMANDS)}) --?[a-z])\b")


def sentences() -> Iterator[tuple[str, str]]:
    """Each text of more than one word outside the command line, without what parentheses hold."""
    for file in ROOT.rglob("*.py"):
        if file.is_relative_to(ROOT / "cli"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = re.sub(r"\([^)]*\)", "", node.value)
                if id(node) not in docs and " " in text:
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def test_messages_of_the_library_name_calls_of_python() -> None:
    """An option or a command stands in parentheses, after the call that a Python user makes."""
    assert {"--like", "--csv", "--recount"} <= OF_THE_COMMANDS
    found = dict(sentences())
    assert len(found) > 300
    for place, text in found.items():
        assert not OF_THE_COMMANDS & set(re.findall(r"--[a-z][\w-]+", text)), (place, text)
        assert not A_COMMAND.search(text), (place, text)
