"""The tables of features are the one that was measured, and its probes can say no."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, README, ROOT

BENCHMARKS = ROOT / "benchmarks"
KEPT: dict[str, Any] = json.loads((BENCHMARKS / "figures" / "features.json").read_text("utf-8"))
TABLE = KEPT["markdown"].split("\n\n")[0]


def cells_of(table: str) -> dict[tuple[str, str], str]:
    """Return the cells of a table of Markdown by their row and column."""
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
    ]
    return {(row[0], name): cell for row in rows for name, cell in zip(head, row, strict=True)}


def test_pages_have_the_measured_table() -> None:
    """If not: paste the table of `benchmarks/run_all.py --only features` into the page."""
    assert TABLE in (DOCS / "comparison.md").read_text(encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    (short,) = re.findall(r"^\|  \| mmbloom.*\n(?:\|.*\n)+", readme, re.MULTILINE)
    found = cells_of(short)
    assert len({row for row, _ in found}) == 8
    assert found.items() <= cells_of(TABLE).items()


def test_table_was_measured_in_full() -> None:
    """No --quick, every library was there, and only figures of the server that was not run lack."""
    assert not KEPT["quick"]
    header, _, *rows = [line.split(" | ") for line in TABLE.splitlines()]
    assert len(header) == 10
    assert len(rows) >= 20
    assert not any("?" in cell for row in rows for cell in row[:-1])
    assert not any("died" in cell for row in rows for cell in row)
    assert sum("?" in row[-1] for row in rows) == 3


class _Forgetful(set[bytes]):
    """A "filter" that loses every other key and grows no wiser with batches."""

    def add(self, key: bytes) -> bool:  # type: ignore[override]
        if len(key) % 2:
            super().add(key)
        return True

    def close(self) -> None:
        """Nothing to close."""


class _Credulous(_Forgetful):
    """A "filter" that knows every key."""

    def __contains__(self, key: object) -> bool:
        return True


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The probes, as the benchmarks import them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    import _probes  # noqa: PLC0415

    yield _probes
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _library(made: type[_Forgetful]) -> Any:
    from _library import Library  # noqa: PLC0415

    bad: Any = Library()
    for name in ("create", "open", "open_read_only", "growing", "union", "intersection"):
        setattr(bad, name, lambda *_: made())
    bad.settle = lambda _, path: Path(path).write_bytes(bytes(200))
    bad.add_batch = lambda *_: None
    bad.add_batch_tells = lambda bloom, keys: [bloom.add(key) for key in keys]
    bad.query_batch = lambda bloom, keys: [key in bloom for key in keys]
    emptied = made()
    bad.removing = lambda _: (emptied, lambda _: emptied.clear())  # and the others with it
    return bad


@pytest.mark.parametrize("made", [_Forgetful, _Credulous])
def test_probes_say_no(probes: Any, made: type[_Forgetful]) -> None:
    """A library that loses keys, or finds all, gets no "yes" of any probe that looks at keys."""
    import _figure_probes  # noqa: PLC0415

    library = _library(made)
    cells = {
        probe.__name__: probes.in_new_folder(probe, library).text
        for probe in (probes.batches, probes.columns, probes.removal, probes.set_operations)
    }
    yes = {"batches": "no, no", "columns": "no", "removal": "no", "set_operations": "no, no"}
    if made is _Credulous:
        yes["columns"] = "NumPy and Arrow"  # nothing that it looks up is missing
        assert probes.in_new_folder(probes.growth, library).text == "100 % false positives"
        errors = probes.in_new_folder(_figure_probes.false_positives, library, 100)
        assert errors.text == "100.00 %"
    else:
        assert probes.in_new_folder(probes.read_only, library).text == "no"
    assert cells == yes


def test_a_flipped_bit_is_found_on_loading(probes: Any) -> None:
    """A library that refuses the file has noticed, and one that refuses none has not."""
    library = _library(_Forgetful)
    assert probes.in_new_folder(probes.rot, library).text == "no"

    def load(path: str) -> _Forgetful:
        assert Path(path).read_bytes() == bytes(200)
        return _Forgetful()

    library.open = load
    assert probes.in_new_folder(probes.rot, library).text == "on loading"


def test_what_a_library_lacks_is_a_cell(probes: Any) -> None:
    """No call for it is "no", or what there is instead."""
    library = _library(_Forgetful)
    library.expiring = lambda _: probes.lacking("by key count")
    assert probes.in_new_folder(probes.expiry, library).text == "by key count"
