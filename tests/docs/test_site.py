"""The site is built without a warning, asks no other host, and works in a browser.

Building it needs the extra ``docs``, and the browser is Debian's package chromium.
"""

import functools
import http.server
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, ROOT

import mmbloom
from mmbloom.cli import process
from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import parser_of

BAD = ("error", "warning")  # kinds of lines in a browser's console
# What has to be scrolled sideways; tables, blocks of code and pictures may be.
TOO_WIDE = """[...document.querySelectorAll("html, body, article, article *")]
    .filter(part => part.clientWidth > 0 && part.scrollWidth > part.clientWidth + 1)
    .filter(part => !part.closest("[class*=highlight], .pst-scrollable-table-container"))
    .filter(part => !part.matches("p:has(> img)"))
    .map(part => `${part.tagName}.${part.className} ${part.scrollWidth}`)"""
# The words of tables, and the names of parameters, that stand on two lines, one half on each.
HALVED = """[...document.querySelectorAll("article :is(td, th, dt > strong)")].flatMap(cell => {
    const halved = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const words = texts.currentNode.parentNode.closest("code") ? /\\S+/g : /\\w+/g;
        for (const word of texts.currentNode.data.matchAll(words)) {
            const range = document.createRange();
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            if (range.getClientRects().length > 1) halved.push(word[0]);
        }
    }
    return halved;
})"""
# On how many lines each cell of a table's first column stands.
LINES = """[...document.querySelectorAll("article td:first-child code")].map(code => {
    const range = document.createRange();
    range.selectNodeContents(code);
    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
})"""
# The blocks of code whose text would run under their copy button.
COVERED = """[...document.querySelectorAll("article pre")].filter(pre => {
    const button = pre.parentNode.querySelector("button.copybtn").getBoundingClientRect();
    const end = pre.getBoundingClientRect().left + pre.clientLeft + pre.clientWidth;
    return button.left < end || button.right > pre.getBoundingClientRect().right;
}).length"""
# How a first cell stands in its scrolled table: how far from its left side, and on what colour.
SCROLLED = """(() => {
    const cell = document.querySelector("article td:first-child"), box = cell.closest("div");
    box.scrollLeft = 50;
    const left = cell.getBoundingClientRect().left - box.getBoundingClientRect().left;
    return [box.scrollLeft, left, getComputedStyle(cell).backgroundColor];
})()"""
FILTER = "one => getComputedStyle(one).filter"
PHONE = 390  # pixels: the width of a small telephone
# What users type, and the page that must be among the first ten found.
SEARCHES = {
    "LockTimeoutError": "Errors and warnings",
    "capacity warning": "A full filter",
    "hugging face": "Training data",
}

needs_sphinx = pytest.mark.skipif(
    not importlib.util.find_spec("sphinx"), reason="Sphinx is not installed: pip install '.[docs]'"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CONTRIBUTING.md says, but outside of the source tree."""
    folder = tmp_path_factory.mktemp("site")
    (command,) = re.findall(
        r"^\.venv/bin/python -m (sphinx .+?) docs (\S+)", _contributing(), re.MULTILINE
    )
    assert command == ("sphinx -W -n -q", "build/site")
    options = [*command[0].split(), "-d", str(folder / "doctrees")]
    before = _tree()
    done = subprocess.run(
        [sys.executable, "-B", "-P", "-m", *options, "docs", str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert _tree() == before
    return folder / "html"


def pages_of(site: Path) -> list[Path]:
    """The pages, without what the theme has among its own files."""
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    assert len(pages) > 30
    return sorted(pages)


def _contributing() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _tree() -> set[tuple[Path, int]]:
    """The files of docs/, and when they were written."""
    return {(file, file.stat().st_mtime_ns) for file in DOCS.rglob("*")}


@needs_sphinx
def test_no_page_asks_another_host(site: Path) -> None:
    """No script, style, picture or font of a page comes from elsewhere; links may lead there."""
    for page in pages_of(site):
        assert not asked(page.read_text(encoding="utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text("utf-8")), (
            style
        )


def asked(html: str) -> list[str]:
    """The addresses on other hosts that a browser fetches to show a page."""
    tags = re.findall(r"<(?!a\b)\w+\b[^>]*>", html)
    return [tag for tag in tags if re.search(r"\b(src|href|srcset)=\"(https?:)?//", tag)]


def test_other_hosts_are_noticed() -> None:
    """A script and a style are, a link is not."""
    assert asked('<script async src="https://cdn.example/x.js"></script>')
    assert asked('<link rel="stylesheet" href="//cdn.example/x.css">')
    assert not asked('<a href="https://example.org/">there</a><script src="_static/x.js">')


@needs_sphinx
def test_no_sidebar_is_empty(site: Path) -> None:
    """A page without one has no other page beside or below it."""
    for page in pages_of(site):
        _, begun, sidebar = page.read_text(encoding="utf-8").partition('class="bd-docs-nav')
        assert not begun or "toctree-l1" in sidebar.partition("</nav>")[0], page


@needs_sphinx
def test_every_public_name_is_described(site: Path) -> None:
    """The reference has what the package exports, and no page more than one version."""
    described = set()
    for page in (site / "reference").glob("*.html"):
        described |= set(re.findall(r'id="(mmbloom\.[\w.]+)"', page.read_text(encoding="utf-8")))
    names = {f"mmbloom.{name}" for name in dir(mmbloom)} - {
        "mmbloom.__version__",
        "mmbloom.errors",
        "mmbloom.sizing",
    }
    names |= {f"mmbloom.sizing.{name}" for name in mmbloom.sizing.__all__ if name != "FilterParams"}
    names -= {"mmbloom.sizing.Layout"}  # a type, which is written out wherever it is taken
    assert names <= described
    assert {"mmbloom.BloomFilter.add_many", "mmbloom.logs.lines.LineKeys"} <= described
    assert f"mmbloom {mmbloom.__version__}</title>" in (site / "index.html").read_text("utf-8")


@needs_sphinx
def test_every_option_is_described(site: Path) -> None:
    """The page of the command line has each command, each of its options and its examples."""
    page = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"<h2>mmbloom {name}<" in page
        usage = parser_of(name).format_usage()
        for option in set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", usage)) - {"-h"}:
            assert f'id="cmdoption-mmbloom-{name}-{option.lstrip("-")}"' in page or (
                f'"#cmdoption-mmbloom-{name}-{option.lstrip("-")}"' in page
            ), (name, option)


def test_exit_codes_are_all_there() -> None:
    """The page lists the codes of the command line, and no other."""
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    codes = {
        value for name, value in vars(process).items() if name.isupper() and type(value) is int
    }
    assert len(codes) > 8
    assert {int(code) for cell in cells for code in cell.split(",")} == codes


def test_environment_variables_are_all_there() -> None:
    """The page lists the variables that the package and its build read, and no other."""
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    files = [ROOT / "setup.py", *(ROOT / "mmbloom").rglob("*.py")]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    asked_for = re.findall(r"environ(?:\.\w+\(|\[)\s*\"(\w+)\"|getenv\(\s*\"(\w+)\"", code)
    read = {one or other for one, other in asked_for}
    assert len(re.findall(r"\benviron\b|\bgetenv\b", code)) == len(asked_for)  # none is overlooked
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == read


@pytest.fixture
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    if not importlib.util.find_spec("playwright"):
        pytest.skip("playwright is not installed: pip install '.[docs]'")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # root has none
        started = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        yield started
        started.close()
    # asyncio has one, which ends a moment after the driver that it awaits.
    for thread in threading.enumerate():
        if thread.name.startswith("asyncio-waitpid"):
            thread.join(60)


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where a server on this machine serves the site."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    serve = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def ours(answer: Any, address: str) -> bool:
    """Whether the site gave an answer, and one that is no error."""
    return int(answer.status) < 400 and str(answer.url).startswith(address)


class Asked:
    """What a page has asked for, and has no answer to yet."""

    def __init__(self, page: Any) -> None:
        self._page, self._requests = page, set[Any]()
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)

    def settle(self) -> None:
        """Wait for all, such as an icon: it may come after the page, and to leave would end it."""
        deadline = time.monotonic() + 30
        while self._requests:
            assert time.monotonic() < deadline, [request.url for request in self._requests]
            self._page.wait_for_timeout(5)

    def _begin(self, request: Any) -> None:
        self._requests.add(request)

    def _end(self, request: Any) -> None:
        self._requests.discard(request)


@needs_sphinx
def test_in_a_browser(site: Path, address: str, browser: Any) -> None:
    """Every page loads on a telephone without an error and is no wider; search and copying work."""
    troubles: list[str] = []
    page = browser.new_context(viewport={"width": PHONE, "height": 800}).new_page()
    asked = Asked(page)
    page.on("console", lambda said: troubles.extend([said.text] if said.type in BAD else []))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda failed: troubles.append(failed.url))
    page.on("response", lambda got: troubles.extend([] if ours(got, address) else [got.url]))
    for file in pages_of(site):
        where = f"{address}/{file.relative_to(site).as_posix()}"
        answer = page.goto(where, wait_until="load")
        assert answer.ok
        assert page.locator("h1").first.is_visible(), where
        assert not page.evaluate(TOO_WIDE), (where, page.evaluate(TOO_WIDE))
        assert not page.evaluate(HALVED), (where, page.evaluate(HALVED))
        asked.settle()
    page.goto(f"{address}/install.html")
    page.wait_for_selector("button.copybtn", state="attached")
    assert page.evaluate(COVERED) == 0
    assert page.locator("button.copybtn").count() == page.locator("article pre").count()
    shown = page.locator("button.copybtn").first.evaluate("one => getComputedStyle(one).opacity")
    assert shown == "1"  # with no mouse over it
    asked.settle()
    page.goto(f"{address}/command-line.html")
    assert max(page.evaluate(LINES)) == 2
    asked.settle()
    page.goto(f"{address}/search.html?q=install")  # last: to leave it ends what it asks for
    page.wait_for_selector("#search-results li a[href^=install]")
    page.wait_for_selector("#search-results li:nth-child(3)")
    assert page.locator("#search-results li > a").first.inner_text() == "Install"
    assert troubles == []


@needs_sphinx
def test_on_a_wide_screen_in_the_dark(address: str, browser: Any) -> None:
    """Nothing is wider than its page, commands take one line, and pictures are dark."""
    dark = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"}
    page = browser.new_context(**dark).new_page()
    for name in ("index", "guarantees", "reference/slices", "reference/errors"):
        page.goto(f"{address}/{name}.html")
        assert not page.evaluate(TOO_WIDE), (name, page.evaluate(TOO_WIDE))
    page.goto(f"{address}/index.html")
    page.wait_for_selector("button.copybtn", state="attached")
    assert page.evaluate(COVERED) == 0
    assert page.locator("article img").evaluate(FILTER) == "none"  # a terminal is dark
    cards = page.locator("article .cards").first.locator("li").all()
    assert len({card.bounding_box()["y"] for card in cards}) == 1  # side by side
    page.goto(f"{address}/how-it-works.html")
    assert "invert" in page.locator("article img").first.evaluate(FILTER)
    page.goto(f"{address}/command-line.html")
    assert max(page.evaluate(LINES)) == 1
    page.goto(f"{address}/comparison.html")
    scrolled, left, colour = page.evaluate(SCROLLED)
    assert (scrolled, round(left)) == (50, -1)
    assert colour.startswith("rgb(")  # what is scrolled doesn't show through


@needs_sphinx
def test_the_search_leads_to_remedies(address: str, browser: Any) -> None:
    """The words of an error or a problem lead to the page that says what to do."""
    page = browser.new_page()
    for words, title in SEARCHES.items():
        page.goto(f"{address}/search.html?q={words}")
        found = page.locator("#search-results li > a")
        found.get_by_text(title, exact=True).first.wait_for()
        assert title in found.all_inner_texts()[:10], words
