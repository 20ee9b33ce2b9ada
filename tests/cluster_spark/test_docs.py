"""The page on Spark, and the examples of the module's docstrings, run in the tests' session."""

import doctest
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, examples

import mmbloom.cluster.spark


def test_the_page(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = examples(DOCS / "spark.md")
    assert len(page) == 6
    # Workers have a folder of their own, which on a cluster is on another host.
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for example in page:
        said = io.StringIO()
        code = example.code.replace('open("seen.bloom"', f'open("{tmp_path}/seen.bloom"')
        for folder in ("new", "stream-new", "incoming", "checkpoint"):
            code = code.replace(f'"{folder}', f'"{tmp_path}/{folder}')
        with redirect_stdout(said):
            exec(compile(code, "spark.md", "exec"), names)
        assert said.getvalue().splitlines() == example.promised()


def test_the_docstrings(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = doctest.testmod(mmbloom.cluster.spark, optionflags=doctest.REPORT_NDIFF)
    assert result.attempted > 15
    assert result.failed == 0
