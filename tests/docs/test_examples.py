"""Every example in a docstring of the installed package runs and gives what it shows."""

import doctest
import importlib
import os
import pkgutil
from pathlib import Path

import pytest

import mmbloom

# What needs an engine that is no part of the extra `test` is run where that engine is.
ELSEWHERE = {"mmbloom.cluster.spark": "tests/cluster_spark/test_docs"}
# __main__ is the command line itself: importing it has nothing to show.
NAMES = [
    "mmbloom",
    *(
        module.name
        for module in pkgutil.walk_packages(mmbloom.__path__, "mmbloom.")
        if not module.name.endswith("__main__") and module.name not in ELSEWHERE
    ),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let examples make their files where they are cleaned up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.REPORT_NDIFF)
    assert result.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [test for name in NAMES for test in finder.find(importlib.import_module(name))]
    examples = [example for test in tests for example in test.examples]
    assert len(examples) >= 20
    assert {"mmbloom.filters.bloom", "mmbloom.sizing.params", "mmbloom.filters.claim"} <= {
        test.name.rpartition(".")[0] or test.name for test in tests
    }
    assert not any(doctest.SKIP in example.options for example in examples)


def test_examples_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    assert doctest.testmod(importlib.import_module("mmbloom.filters.bloom")).attempted > 3
    assert os.listdir() == []
