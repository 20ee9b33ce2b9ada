"""mmbloom plan --plot: a picture of how the error rate grows, or one line on why there is none."""

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli_runner import Ended, inside, is_one_line, mmbloom, started
from workers import in_child

from mmbloom import _extras
from mmbloom.cli.main import main

Capture = pytest.CaptureFixture[bytes]
PNG = b"\x89PNG\r\n\x1a\n"
Curve = tuple[list[float], list[float]]


class Pictures(NamedTuple):
    """How each command ended, and the file that it left; the curves for each rate."""

    drawn: dict[str, tuple[Ended, bytes]]
    curves: dict[float, list[Curve]]


COMMANDS = {
    "plan.png": ["-n", "1e6"],
    "plan.PNG": ["-n", "1e6"],
    "späße.svg": ["-n", "1e6"],
    "both.svg": ["-n", "1e6", "-p", "0.01"],
    "large.svg": ["-n", "6.11e11", "-p", "1e-3"],
    "replaced.png": ["-n", "10", "--json"],
    "nowhere/plan.png": ["-n", "10"],
    "full.png": ["-n", "10"],
}
RATES = (0.3, 0.01, 1e-6)


def curves(path: Path, rate: float) -> list[Curve]:
    """Draw a plan for 50,000 keys; give keys and rates of each curve."""
    kept: list[Any] = []
    kind = _extras.load("matplotlib.figure", "a test").Figure
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are drawn: one is there already, and for one there is no room."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "replaced.png").write_bytes(b"old" * 100_000)
    (folder / "full.png").symlink_to("/dev/full")
    return folder


@pytest.fixture(scope="module")
def pictures(folder: Path) -> Pictures:
    """Draw all, in one child and forks of it: to import matplotlib takes most of a second.

    Not in this process, where matplotlib never closes the fonts that it draws with.
    """

    def run() -> Pictures:
        for name in ("figure", "backends.backend_agg", "backends.backend_svg"):
            _extras.load(f"matplotlib.{name}", "a test")
        drawn = {}
        for name, argv in COMMANDS.items():
            ended, path = mmbloom("plan", *argv, "--plot", folder / name), folder / name
            drawn[name] = ended, path.read_bytes() if path.is_file() else b""
        return Pictures(drawn, {rate: curves(folder / "a.svg", rate) for rate in RATES})

    return in_child(run)


@pytest.mark.parametrize("name", ["plan.png", "plan.PNG", "späße.svg"])
def test_pictures(pictures: Pictures, name: str) -> None:
    """The suffix says what is drawn; what is printed is the same as without a picture."""
    done, raw = pictures.drawn[name]
    assert done == mmbloom("plan", "-n", "1e6")
    if name.endswith("svg"):
        assert b"<svg" in raw[:1000]
    else:
        assert raw.startswith(PNG)
    assert len(raw) > 5000


def test_no_window(tmp_path: Path) -> None:
    """A picture is drawn without a display, whatever the user has set."""
    display, path = {"DISPLAY": "", "MPLBACKEND": "TkAgg"}, tmp_path / "plan.png"
    done = started("plan", "-n", "1e6", "--plot", path, env=display)
    assert done == mmbloom("plan", "-n", "1e6")
    assert path.read_bytes().startswith(PNG)


def test_what_is_drawn(pictures: Pictures) -> None:
    """Both layouts are named with size and hashes; one that cannot be is left out."""
    words = words_of(pictures, "both.svg")
    for expected in (
        "blocked: 1.24 MB, 6 hashes",
        "standard: 1.2 MB, 7 hashes",
        "1,000,000 keys",
        "0.01",
    ):
        assert expected in words
    words = words_of(pictures, "large.svg")
    assert "standard: " in words
    assert "blocked" not in words


def words_of(pictures: Pictures, name: str) -> str:
    """Give the words that are in an SVG."""
    done, raw = pictures.drawn[name]
    assert done.code == 0
    return " ".join(re.findall("<!-- (.*?) -->", raw.decode()))


@pytest.mark.parametrize("rate", RATES)
def test_curves_pass_through_the_plan(pictures: Pictures, rate: float) -> None:
    """Each curve rises, and is at the planned rate when as many keys are in as planned."""
    assert len(pictures.curves[rate]) == 2
    for keys, rates in pictures.curves[rate]:
        assert sorted(rates) == rates
        assert keys[-1] == 100_000
        assert dict(zip(keys, rates, strict=True))[50_000] == pytest.approx(rate, rel=0.1)


def test_a_picture_is_replaced(pictures: Pictures) -> None:
    """As other tools do it: a picture that is there is drawn anew."""
    done, raw = pictures.drawn["replaced.png"]
    assert done.code == 0
    assert raw.startswith(PNG)
    assert not raw.endswith(b"old")


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "seen.bloom", ".png", "-"])
def test_no_picture(tmp_path: Path, capfdbinary: Capture, name: str) -> None:
    """Any other suffix is exit 2, and what is there under that name stays."""
    (tmp_path / name).write_bytes(b"precious")
    done = inside(capfdbinary, "plan", "-n", "10", "--plot", tmp_path / name)
    assert (done.code, done.out) == (2, b"")
    assert ".png or .svg" in done.err
    assert (tmp_path / name).read_bytes() == b"precious"


def test_nowhere_to_draw(pictures: Pictures, folder: Path) -> None:
    """A picture that cannot be written is exit 5 with its name, and nothing is printed."""
    done, _ = pictures.drawn["nowhere/plan.png"]
    assert (done.code, done.out) == (5, b"")
    assert is_one_line(done.err, str(folder / "nowhere" / "plan.png"), "No such file")


def test_a_full_disk(pictures: Pictures, folder: Path) -> None:
    """A picture for which there is no room is exit 5 with its name as well."""
    done, _ = pictures.drawn["full.png"]
    assert (done.code, done.out) == (5, b"")
    assert is_one_line(done.err, str(folder / "full.png"), "No space left")


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
