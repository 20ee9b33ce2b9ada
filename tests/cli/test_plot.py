"""mmbloom plan --plot: a picture of how the error rate grows, or one line on why there is none."""

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli_runner import inside, is_one_line, mmbloom, started
from workers import in_child

from mmbloom.cli import extras
from mmbloom.cli.main import main

Capture = pytest.CaptureFixture[bytes]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("name", ["plan.png", "plan.PNG", "späße.svg"])
def test_pictures(tmp_path: Path, name: str) -> None:
    """The suffix says what is drawn; what is printed is the same as without a picture."""
    plain = mmbloom("plan", "-n", "1e6")
    display = {"DISPLAY": "", "MPLBACKEND": "TkAgg"}  # no window, whatever the user has set
    done = started("plan", "-n", "1e6", "--plot", tmp_path / name, env=display)
    assert done == plain
    raw = (tmp_path / name).read_bytes()
    if name.endswith("svg"):
        assert b"<svg" in raw[:1000]
    else:
        assert raw.startswith(PNG)
    assert len(raw) > 5000


def drawn(path: Path, *argv: str | Path) -> str:
    """Draw an SVG, and give the words that are in it."""
    assert mmbloom("plan", "--plot", path, *argv).code == 0
    return " ".join(re.findall("<!-- (.*?) -->", path.read_text("utf-8")))


def test_what_is_drawn(tmp_path: Path) -> None:
    """Both layouts are named with size and hashes; one that cannot be is left out."""
    path = tmp_path / "plan.svg"
    words = drawn(path, "-n", "1e6", "-p", "0.01")
    for expected in (
        "blocked: 1.24 MB, 6 hashes",
        "standard: 1.2 MB, 7 hashes",
        "1,000,000 keys",
        "0.01",
    ):
        assert expected in words
    words = drawn(path, "-n", "6.11e11", "-p", "1e-3")
    assert "standard: " in words
    assert "blocked" not in words


def curves(path: Path, rate: float) -> list[tuple[list[float], list[float]]]:
    """Draw a plan for 50,000 keys; give keys and rates of each curve."""
    kept: list[Any] = []
    kind = extras.load("matplotlib.figure", "a test").Figure
    savefig = kind.savefig

    def keep_and_save(figure: Any, *args: Any, **options: Any) -> None:
        kept.append(figure)
        savefig(figure, *args, **options)

    kind.savefig = keep_and_save
    assert main(["plan", "-n", "50000", "-p", str(rate), "--plot", str(path)]) == 0
    (axes,) = kept[0].axes
    assert axes.get_yscale() == "log"
    lines = [line.get_data() for line in axes.get_lines()[:2]]
    return [([*map(float, keys)], [*map(float, rates)]) for keys, rates in lines]


@pytest.mark.parametrize("rate", [0.3, 0.01, 1e-6])
def test_curves_pass_through_the_plan(tmp_path: Path, rate: float) -> None:
    """Each curve rises, and is at the planned rate when as many keys are in as planned."""
    # In a child: matplotlib never closes the fonts that it draws with.
    for keys, rates in in_child(partial(curves, tmp_path / "a.svg", rate)):
        assert sorted(rates) == rates
        assert keys[-1] == 100_000
        assert dict(zip(keys, rates, strict=True))[50_000] == pytest.approx(rate, rel=0.1)


def test_a_picture_is_replaced(tmp_path: Path) -> None:
    """As other tools do it: a picture that is there is drawn anew."""
    path = tmp_path / "plan.png"
    path.write_bytes(b"old" * 100_000)
    assert mmbloom("plan", "-n", "10", "--plot", path, "--json").code == 0
    assert path.read_bytes().startswith(PNG)
    assert not path.read_bytes().endswith(b"old")


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "seen.bloom", ".png", "-"])
def test_no_picture(tmp_path: Path, capfdbinary: Capture, name: str) -> None:
    """Any other suffix is exit 2, and what is there under that name stays."""
    (tmp_path / name).write_bytes(b"precious")
    done = inside(capfdbinary, "plan", "-n", "10", "--plot", tmp_path / name)
    assert (done.code, done.out) == (2, b"")
    assert ".png or .svg" in done.err
    assert (tmp_path / name).read_bytes() == b"precious"


def test_nowhere_to_draw(tmp_path: Path) -> None:
    """A picture that cannot be written is exit 5 with its name, and nothing is printed."""
    path = tmp_path / "nowhere" / "plan.png"
    done = mmbloom("plan", "-n", "10", "--plot", path)
    assert (done.code, done.out) == (5, b"")
    assert is_one_line(done.err, str(path), "No such file")


def test_a_full_disk(tmp_path: Path) -> None:
    """A picture for which there is no room is exit 5 with its name as well."""
    path = tmp_path / "plan.png"
    path.symlink_to("/dev/full")
    done = mmbloom("plan", "-n", "10", "--plot", path)
    assert (done.code, done.out) == (5, b"")
    assert is_one_line(done.err, str(path), "No space left")


def test_without_matplotlib(tmp_path: Path) -> None:
    """--plot says which extra to install; without it plan works."""
    hide = "import sys; sys.modules['matplotlib'] = None; import mmbloom.cli as m"
    command = [sys.executable, "-P", "-c", f"{hide}; sys.exit(m.main())"]
    path = tmp_path / "plan.png"
    done = started("plan", "-n", "10", "--plot", path, command=command)
    assert (done.code, done.out) == (2, b"")
    assert is_one_line(done.err, "--plot needs matplotlib", "pip install 'mmbloom[plot]'")
    assert not path.exists()
    done = started("plan", "-n", "10", "--json", command=command)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["capacity"] == 10
