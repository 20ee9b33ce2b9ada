"""Every Python example of the pages of docs/ runs as it stands and prints what the page says."""

from pathlib import Path

import pytest
from pages import DOCS, RECIPES, Example, examples

# These need something else besides; each has a test of its own.
NOT_ALONE = {
    "interchange.md": "Java: test_commands",
    "long-work.md": "killed workers: test_long_work",
    "spark.md": "a session: tests/cluster_spark/test_docs",
}
PAGES = [page for page in sorted(DOCS.glob("*.md")) if examples(page) and page.name not in RECIPES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page(tmp_path: Path, page: Path) -> None:
    """All examples of a page, in order, in one new folder."""
    if page.name not in NOT_ALONE:
        for example in examples(page):
            example.check(tmp_path)


def test_pages_are_found() -> None:
    """The test above is not idle: examples are found, and so is what they print."""
    names = {page.name for page in PAGES}
    assert {"asyncio.md", "sieve.md"} | NOT_ALONE.keys() <= names
    (combined,) = examples(DOCS / "set-operations.md")
    assert combined.promised() == ["10000 50000", "0.2 False", "True True", "True"]
    (crawl,) = examples(DOCS / "sieve.md")
    assert crawl.output


PAGE = """
```python
print([True], 'a')  # [True] 'a'
print(1)  # one
print(2.5e-3, None)  # 2.5e-3 None
```
```python
print(3)
```

```text
3
```
"""


def test_what_a_page_gives(tmp_path: Path) -> None:
    """Values behind a print are its output, words are a remark, and a block is all of it."""
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    first, second = examples(tmp_path / "page.md")
    assert (first.promised(), first.output) == (["[True] 'a'", "2.5e-3 None"], None)
    assert (second.promised(), second.output) == ([], "3\n")
    second.check(tmp_path)


@pytest.mark.parametrize(
    "example",
    [
        Example("print(1 + 1)  # 3\n", None),
        Example("print(1)  # 1\nprint(2)\n", "1\n"),
        Example("print(2)  # 2\nprint(1)  # 2\n", None),
        Example("import sys\nprint(1, file=sys.stderr)\n", None),
        Example("import warnings\nwarnings.warn('old')\n", None),
        Example("print(open('nothing'))\n", None),
    ],
    ids=["another value", "more output", "value not twice", "stderr", "warning", "error"],
)
def test_examples_that_do_not_hold(tmp_path: Path, example: Example) -> None:
    """An example that fails, warns, or prints something else is an error."""
    with pytest.raises(AssertionError):
        example.check(tmp_path)
