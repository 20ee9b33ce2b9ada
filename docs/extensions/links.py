"""Links that leave docs/: on GitHub to the file, on the site to the page that includes it."""

from sphinx.application import Sphinx

PAGES = {
    "../benchmarks/RESULTS.md": "/reference/benchmarks.md",
    "../CHANGELOG.md": "/reference/changelog.md",
}


def to_pages(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Let the links of a page, in `source`, lead to the pages of the site."""
    for file, page in PAGES.items():
        source[0] = source[0].replace(f"]({file}", f"]({page}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to call this."""
    app.connect("source-read", to_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
