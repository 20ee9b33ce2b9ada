"""What docs/scrapy.md says of its crawl, besides what its blocks print."""

from pathlib import Path

from pages import DOCS, examples, run_python


def test_a_second_run_fetches_the_start(tmp_path: Path) -> None:
    """The crawl of the page, run again, has the start page alone to fetch."""
    crawl, _ = examples(DOCS / "scrapy.md")
    crawl.check(tmp_path)
    assert run_python(crawl.code, tmp_path).splitlines()[0] == "pages 1"
