"""The pictures of docs/ are what the script draws today, and fit on their ground."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pages import DOCS

PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
_SVG = "{http://www.w3.org/2000/svg}"


def test_pictures_are_drawn_by_the_script(tmp_path: Path) -> None:
    """If not: `python docs/pictures/draw.py docs/pictures`."""
    script = DOCS / "pictures" / "draw.py"
    subprocess.run([sys.executable, "-B", "-P", script, tmp_path], check=True, timeout=60)
    drawn = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(drawn) == 6
    assert {file.name: file.read_bytes() for file in PICTURES}.keys() == drawn.keys()
    for file in PICTURES:
        assert _steady(file.read_bytes()) == _steady(drawn[file.name]), file.name


def _steady(picture: bytes) -> str:
    """Leave out what each run of a session has its own of: seconds, and an estimate.

    The hash has a random key, so that now and then two lines have a bit more in common.
    """
    words = re.sub(r"\b\d+\.\d\ss<", "N s<", picture.decode())
    return re.sub(r"(about\s+1,39)\d", r"\1N", words)


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.stem)
def test_a_picture_is_whole(file: Path) -> None:
    """It has a title and a ground that its parts do not leave, and a page shows it."""
    root = ET.parse(file).getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.findtext(f"{_SVG}title")
    texts = root.findall(f"{_SVG}text")
    assert len(texts) >= 4
    for text in texts:
        # As wide as letters of a sans-serif font of this size are at most, on average.
        wide = 8.0 * len(text.text or "")
        start = (
            float(text.attrib["x"])
            - wide * {"start": 0, "middle": 0.5, "end": 1}[text.attrib["text-anchor"]]
        )
        assert start >= 0, text.text
        assert start + wide <= width, text.text
        assert 0 < float(text.attrib["y"]) < height, text.text
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert f"(pictures/{file.name})" in pages
