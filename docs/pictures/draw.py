"""Draw the pictures of the documentation: ``python docs/pictures/draw.py FOLDER``.

Each picture has a ground of its own, so that it is readable on light pages and dark ones. The
error rates are computed, the session is what a terminal shows of the commands in it, and all else
is drawn as the pages say it; a test compares the files with this.
"""

import fcntl
import math
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mmbloom import engine
from mmbloom.sizing import false_positive_rate, plan

WIDTH = 640
INK, GREY, BLUE, PALE, GOLD, RED, GREEN = (
    "#1f2933", "#7b8794", "#24567a", "#dbe7f0", "#f2b632", "#b3261e", "#2e7d4f",
)  # fmt: skip


SANS = 'font-family="sans-serif" font-size="15"'
MONO = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13"'


class Picture:
    """An SVG of a width that telephones show as well."""

    def __init__(
        self, height: int, title: str, *, letters: str = SANS, ground: str = "#fbfcfd"
    ) -> None:
        self._parts = [  # rounded as the site's theme rounds the white that it puts behind
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
            f'width="{WIDTH}" height="{height}" {letters}>',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="4" fill="{ground}"/>',
        ]

    def text(
        self, x: float, y: float, words: str, *, fill: str = INK, anchor: str = "start"
    ) -> None:
        """Write a line; `anchor` is "start", "middle" or "end"."""
        safe = words.replace("&", "&amp;").replace("<", "&lt;")
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}">{safe}</text>'
        )

    def box(self, x: float, y: float, w: float, h: float, *, fill: str, edge: str = GREY) -> None:
        """Draw a rectangle."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'fill="{fill}" stroke="{edge}"/>'
        )

    def line(
        self, points: list[tuple[float, float]], *, stroke: str = GREY, width: float = 1.5
    ) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width}"/>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float, *, stroke: str = GREY) -> None:
        """Draw a line with a head at its end."""
        self.line([(x, y), (to_x, to_y)], stroke=stroke)
        turn = math.atan2(to_y - y, to_x - x)
        wings = [
            (to_x - 8 * math.cos(turn + a), to_y - 8 * math.sin(turn + a)) for a in (0.45, -0.45)
        ]
        self.line([wings[0], (to_x, to_y), wings[1]], stroke=stroke)

    def svg(self) -> str:
        """Give the file."""
        return "\n".join((*self._parts, "</svg>", ""))


def choice() -> str:
    """Draw how to choose a member of the family."""
    picture = Picture(330, "Which one do I need?")
    questions = [
        ("Do you remove single keys?", "CountingBloomFilter"),
        ("Should keys expire after a time?", "RotatingFilter"),
        ("Is the number of keys unknown?", "GrowingFilter"),
        ("Do you need a queue of new URLs?", "Sieve on a BloomFilter"),
    ]
    for number, (question, answer) in enumerate(questions):
        y = 20 + 62 * number
        picture.box(24, y, 320, 36, fill=PALE)
        picture.text(184, y + 23, question, anchor="middle")
        picture.arrow(344, y + 18, 410, y + 18, stroke=GREEN)
        picture.text(377, y + 12, "yes", fill=GREEN, anchor="middle")
        picture.box(412, y, 204, 36, fill="#fdf3da", edge=GOLD)
        picture.text(514, y + 23, answer, anchor="middle")
        picture.arrow(184, y + 36, 184, y + 60)
        picture.text(196, y + 54, "no", fill=GREY)
    picture.box(82, 268, 204, 36, fill="#fdf3da", edge=GOLD)
    picture.text(184, 291, "BloomFilter", anchor="middle")
    return picture.svg()


def layouts() -> str:
    """Draw where the bits of one key lie in each layout."""
    picture = Picture(300, "The two layouts")
    cell, columns = 14.0, 42
    placed = {
        "standard: anywhere in the file, one cache line per hash": (1, 8, 15, 19, 26, 33, 40),
        "blocked: in one block of 512 bits, which is one cache line": (22, 23, 25, 26, 27),
    }
    for number, (words, bits) in enumerate(placed.items()):
        y = 40 + 135 * number
        picture.text(26, y - 14, words)
        for column in range(columns):
            set_here = column in bits
            picture.box(26 + column * cell, y + 52, cell, 26, fill=GOLD if set_here else "#ffffff")
        for block in range(columns // 7 + 1):  # seven cells stand for a block of 512 bits
            x = 26 + block * 7 * cell
            picture.line([(x, y + 46), (x, y + 84)], stroke=BLUE, width=3)
        picture.box(280, y, 80, 24, fill=PALE)
        picture.text(320, y + 17, "one key", anchor="middle")
        for column in bits:
            picture.arrow(320, y + 24, 26 + (column + 0.5) * cell, y + 50)
    picture.text(
        26, 282, "Between two blue lines: one block of 512 bits (64 bytes, a cache line)", fill=GREY
    )
    return picture.svg()


def rotation() -> str:
    """Draw ten days of a folder that keeps seven."""
    picture = Picture(300, "A rotating folder over ten days: keep 7 days, one file a day")
    left, day, row = 150.0, 44.0, 22
    for number in range(10):
        picture.text(left + number * day, 30, str(number + 1), fill=GREY, anchor="middle")
    picture.text(left - 130, 30, "day", fill=GREY)
    for number in range(9):
        y = 44 + row * number
        picture.text(left - 130, y + 14, f"file of day {number + 1}")
        start, end = left + (number - 0.5) * day, left + 9.5 * day
        picture.box(start, y, day, 16, fill=GOLD)
        known = min(end, start + 8 * day)
        if known > start + day:
            picture.box(start + day, y, known - start - day, 16, fill=PALE)
        if known < end:
            picture.text(known + 6, y + 14, "deleted", fill=RED)
    for x, fill, words in (
        (20, GOLD, "takes new keys"),
        (180, PALE, "only answers queries"),
    ):
        picture.box(x, 262, 16, 16, fill=fill)
        picture.text(x + 24, 275, words)
    return picture.svg()


def _percent(rate: float) -> str:
    return f"{100 * rate:.6f}".rstrip("0").rstrip(".") + " %"


def error_rates() -> str:
    """Draw how the error rate grows past the planned number of keys."""
    picture = Picture(340, "Error rate past the capacity")
    left, right, top, bottom, most = 110.0, 600.0, 30.0, 280.0, 5.0

    def place(share: float, rate: float) -> tuple[float, float]:
        height = (math.log10(rate) + 8) / 8
        return left + (right - left) * share / most, bottom - (bottom - top) * height

    for power in range(-8, 1, 2):
        y = place(0, 10.0**power)[1]
        picture.line([(left, y), (right, y)], stroke="#d5dbe1", width=1)
        picture.text(left - 8, y + 5, _percent(10.0**power), fill=GREY, anchor="end")
    for share in range(6):
        picture.text(place(share, 1)[0], bottom + 20, f"{share}", fill=GREY, anchor="middle")
    picture.text(
        (left + right) / 2, bottom + 42, "keys added, in multiples of the capacity", anchor="middle"
    )
    picture.line([place(1, 1e-8), place(1, 1)], stroke=GREEN, width=2)
    picture.text(place(1, 1)[0] + 6, bottom - 10, "capacity", fill=GREEN)
    for asked, stroke in ((1e-2, RED), (1e-6, BLUE)):
        params = plan(1_000_000, asked)
        points = []
        for step in range(1, 101):
            share = most * step / 100
            keys = share * params.capacity
            rate = false_positive_rate(
                keys,
                params.num_bits,
                params.num_hashes,
                blocks_per_key=max(1, params.blocks_per_key),
            )
            if rate >= 1e-8:
                points.append(place(share, rate))
        picture.line(points, stroke=stroke, width=2.5)
        x, y = place(*((1.1, 0.35) if asked == 1e-2 else (2.3, 1e-4)))
        picture.text(x, y, f"sized for {_percent(asked)}", fill=stroke)
    return picture.svg()


def kills() -> str:
    """Draw what a kill leaves of dedup, at each moment."""
    picture = Picture(250, "Write, then mark: what a kill leaves")
    steps = ["claim the line", "write the line", "mark the line"]
    after = [
        ("not written:", "still new next time"),
        ("written, not marked:", "printed again"),
        ("written and marked:", "done"),
    ]
    for number, step in enumerate(steps):
        x, middle = 24 + 180 * number, 184 + 180 * number
        picture.box(x, 30, 140, 40, fill=PALE)
        picture.text(x + 70, 55, step, anchor="middle")
        picture.arrow(x + 140, 50, x + 178, 50, stroke=INK)
        picture.arrow(middle, 60, middle, 140, stroke=RED)
        picture.text(middle + 8, 122, "kill", fill=RED)
        for row, words in enumerate(after[number]):
            picture.text(middle, 162 + 20 * row, words, anchor="middle")
    picture.text(24, 228, "No line is marked before it is written, so none is lost.", fill=GREEN)
    return picture.svg()


SESSION = (
    "mmbloom dedup seen.bloom -n 1e6 access.log -o unique.log",
    "mmbloom dedup seen.bloom access.log -o unique.log    # the next night",
    "wc -l < unique.log",
    "mmbloom info seen.bloom | grep -E '^(sized|holds|fill)'",
)


def session() -> str:
    """Draw what a terminal shows of some commands, run one after the other on a log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(__file__).parents[2] / "examples" / "access.log"
        shutil.copy(log, folder)
        rows = [
            row for command in SESSION for row in (f"$ {command}", *_shown(command, folder), "")
        ]
    rows[-1] = "$ "
    picture = Picture(56 + 20 * len(rows), "A terminal session", letters=MONO, ground=INK)
    for number, colour in enumerate((RED, GOLD, GREEN)):
        picture.box(20 + 20 * number, 16, 10, 10, fill=colour, edge=INK)
    for number, row in enumerate(rows):
        # Spaces that cannot be taken for the end of a word: a row keeps its columns.
        words = row.replace(" ", "\N{NO-BREAK SPACE}")
        fill = "#ffffff" if row.startswith("$ ") else "#a9d6b8"
        picture.text(20, 56 + 20 * number, words, fill=fill)
    return picture.svg()


def _shown(command: str, folder: str) -> list[str]:
    """Run a command at a terminal of 80 columns; give the rows that stand there in the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Whichever engine serves, chosen by name it does so without a warning.
    env = {"PATH": path, "LANG": "C.UTF-8", "TERM": "xterm", "MMBLOOM_ENGINE": engine}
    with subprocess.Popen(  # noqa: S603  the commands above
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        written = b""
        with suppress(OSError):  # how Linux tells that nobody has the other end any more
            while part := os.read(ours, 4096):
                written += part
        os.close(ours)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {written.decode()}")
    # A bar is written over itself, and wiped out in the end.
    lines = written.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines]


PICTURES: dict[str, Callable[[], str]] = {
    "session": session,
    "choice": choice,
    "layouts": layouts,
    "rotation": rotation,
    "error-rates": error_rates,
    "kills": kills,
}

if __name__ == "__main__":
    for name, drawn in PICTURES.items():
        (Path(sys.argv[1]) / f"{name}.svg").write_text(drawn(), encoding="utf-8")
