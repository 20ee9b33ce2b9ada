"""The page "Install" names what there is to install."""

import re
import tomllib

from pages import DOCS, README, ROOT

OF_DEVELOPERS = {"bench", "docs", "fuzz", "lint", "test", "test-s3"}


def test_every_extra_is_named() -> None:
    """The table has the extras of users, and no other."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _, _, table = (DOCS / "install.md").read_text("utf-8").partition("## Extras\n")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = re.findall(r"`([\w-]+)`", " ".join(rows))
    assert {*named} == extras["optional-dependencies"].keys() - OF_DEVELOPERS


def test_the_first_pages_say_how() -> None:
    """The first page of the site has the README's command, and so has the page, in its words."""
    (command,) = re.findall(
        r"^sh setup.sh .*mmbloom dedup.*", README.read_text("utf-8"), re.MULTILINE
    )
    assert f"$ {command}\n" in (DOCS / "index.md").read_text("utf-8")
    page = (DOCS / "install.md").read_text("utf-8")
    for part in command.replace(".venv/bin/", "").split(" && "):
        assert f"$ {part}\n" in page
