"""Every link of the documentation to a file or heading of the project leads somewhere."""

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest
from pages import DOCS, README, ROOT

PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """Give the anchors that a page's headings get: lower case, hyphens, no punctuation."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in found}


def broken(page: Path) -> list[str]:
    """Give the links of a page that lead nowhere."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    lost = []
    for name, anchor in _LINK.findall(text):
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            lost.append(f"{name}#{anchor}")
    return lost


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    """No page has a broken link."""
    assert not broken(page)


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A missing file and a missing heading are; what is there, and code, is not."""
    page = tmp_path / "page.md"
    page.write_text(
        "# What, then?\n[a](no.md) [b](page.md#what-then) [c](#what) [d](https://x.example)\n"
        "```python\nf[0](1)\n# [e](no.md)\n```\n",
        encoding="utf-8",
    )
    assert broken(page) == ["no.md#", "#what"]


def test_the_package_index_shows_no_paths() -> None:
    """There a path of the repository leads nowhere, and a picture is broken."""
    shown = str(metadata("mmbloom").json["description"])
    assert shown.startswith("# mmbloom\n")
    assert len(shown) > 0.8 * len(README.read_text(encoding="utf-8"))
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", _CODE.sub("", shown))


def test_every_page_has_a_title_of_its_own() -> None:
    """In a search or a sidebar two pages of one name cannot be told apart."""
    pages = [page for kind in ("md", "rst") for page in DOCS.rglob(f"*.{kind}")]
    titles = [re.match(r"(?:# )?(.+)\n", page.read_text(encoding="utf-8")) for page in pages]
    found = [title[1] for title in titles if title]
    assert len(found) == len(pages) == len({*found}), sorted(found)
