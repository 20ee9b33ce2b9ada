"""Charts of the figures: bars with values at their ends, or curves; mmbloom's in colour."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _measure import Figures

_OURS, _OTHERS, _LIMIT, _INK, _FAINT = "#c2410c", "#b8bec8", "#ffffff", "#1f2933", "#6b7480"
_CUT = 5  # bars longer than so many times the median bar are cut
_BAR = 0.62


class Panel(NamedTuple):
    """One set of bars: names in order, each with its figures."""

    title: str
    values: dict[str, list[float]]
    digits: int = 0


class Lines(NamedTuple):
    """Curves over a common axis, both axes logarithmic."""

    across: str
    up: str
    values: dict[str, dict[float, float]]


Sizes = dict[str, int]
"""A script's arguments."""

Drawing = tuple[str, str, list[Panel] | Lines]
"""Title, subtitle, panels or curves."""

Chart = Callable[[Figures, Sizes], Drawing]


def draw(path: Path, title: str, subtitle: str, panels: Sequence[Panel]) -> None:
    """Draw panels with common names side by side."""
    import matplotlib as mpl  # noqa: PLC0415  need not be installed

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    names = list(panels[0].values)
    height = 0.34 * len(names) + 1.25  # inches
    figure, axes = plt.subplots(
        1, len(panels), figsize=(10, height), sharey=True, squeeze=False, facecolor="white"
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        _bars(axis, names, panel)
    left, inch = 0.012, 1 / height
    figure.text(left, 1 - 0.16 * inch, title, va="top", fontsize=13, color=_INK, weight="bold")
    figure.text(left, 1 - 0.46 * inch, subtitle, va="top", fontsize=9.5, color=_FAINT)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.7 * inch), w_pad=2.5)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_lines(path: Path, title: str, subtitle: str, lines: Lines) -> None:
    """Draw curves, each named at its right end."""
    import matplotlib as mpl  # noqa: PLC0415  need not be installed

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axis = plt.subplots(figsize=(10, 4.5), facecolor="white")
    highest = max(lines.values, key=lambda name: list(lines.values[name].values())[-1])
    for name, points in lines.values.items():
        beside = "bottom" if name == highest else "top"  # so that two close ends can be read
        colour = _OURS if name.startswith("mmbloom") else _FAINT
        across, up = list(points), list(points.values())
        axis.plot(across, up, marker="o", color=colour, linewidth=2 if colour == _OURS else 1.2)
        axis.text(across[-1] * 1.08, up[-1], name, va=beside, fontsize=9, color=colour)
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks = list(next(iter(lines.values.values())))
    axis.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(lines.across, color=_INK)
    axis.set_ylabel(lines.up, color=_INK)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.grid(axis="y", color="#e5e8ec", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlim(min(ticks) * 0.85, max(ticks) * 2.6)
    figure.text(0.012, 0.975, title, va="top", fontsize=13, color=_INK, weight="bold")
    figure.text(0.012, 0.915, subtitle, va="top", fontsize=9.5, color=_FAINT)
    figure.tight_layout(rect=(0, 0, 1, 0.88))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _bars(axis: Any, names: Sequence[str], panel: Panel) -> None:
    middles = [statistics.median(panel.values[name]) for name in names]
    end = min(max(middles), _CUT * statistics.median(middles)) or 1
    for place, (name, middle) in enumerate(zip(names, middles, strict=True)):
        ours, limit = name.startswith("mmbloom"), name.startswith("the C limit")
        colour = _OURS if ours else _LIMIT if limit else _OTHERS
        edge = {"edgecolor": _FAINT, "linewidth": 0.8} if limit else {}
        axis.barh(place, min(middle, end), _BAR, color=colour, **edge)
        text = f"{middle:,.{panel.digits}f}" + (" \u25b8" if middle > end else "")
        low, high = min(panel.values[name]), max(panel.values[name])
        if middle <= end and high > low:
            axis.plot([low, min(high, end)], [place] * 2, color=_INK, linewidth=0.9, alpha=0.6)
        axis.text(
            min(max(middle, high), end) + end / 60,
            place,
            text,
            va="center",
            fontsize=9,
            color=_OURS if ours else _INK,
        )
    axis.set_title(panel.title, loc="left", fontsize=10, color=_INK)
    axis.set_xlim(0, end * 1.18)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names, fontsize=9.5, color=_INK)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _insert_query(place: str, where: str) -> Chart:
    def chart(figures: Figures, sizes: Sizes) -> Drawing:
        rows = figures[place]
        columns = {"add": "add", "hit": "query, present", "miss": "query, absent"}
        names = sorted(rows, key=lambda name: statistics.median(rows[name]["add"]))
        panels = [
            Panel(title, {name: rows[name][column] for name in names})
            for column, title in columns.items()
        ]
        title = f"Nanoseconds per key, {where.format(**sizes)}"
        note = "Medians, from minimum to maximum; shorter is better; \u25b8 longer than drawn"
        return title, note, panels

    return chart


def _single(figures: Figures, _: Sizes) -> Drawing:
    rows = figures["single"]
    columns = {
        "in, bytes, present": "in, bytes",
        "in, str, present": "in, str",
        "add": "add, bytes",
    }
    names = sorted(rows, key=lambda name: statistics.median(rows[name]["add"]))
    panels = [
        Panel(title, {name: rows[name][column] for name in names})
        for column, title in columns.items()
    ]
    note = "Medians, from minimum to maximum; shorter is better; \u25b8 longer than drawn"
    return "Nanoseconds per key, one key a call, keys that are there", note, panels


def _dedup(figures: Figures, sizes: Sizes) -> Drawing:
    rows = figures["dedup"]
    panels = [
        Panel("wall seconds", {name: row["wall"] for name, row in rows.items()}, 2),
        Panel("CPU seconds", {name: row["cpu"] for name, row in rows.items()}, 2),
        Panel("peak MiB", {name: row["peak"] for name, row in rows.items()}),
    ]
    title = f"Deduplicating an access log of {sizes['lines']:,} lines"
    return title, "Medians, from minimum to maximum; shorter is better", panels


def _contention(figures: Figures, sizes: Sizes) -> Drawing:
    rows = figures["writers"]
    names = {name: f"mmbloom, {name} writer{'' if name == '1' else 's'}" for name in rows}
    values = {names[name]: values for name, row in rows.items() for values in row.values()}
    panel = Panel("million keys per second in total", values, 2)
    title = f"Writers that share one filter, batches of {sizes['batch']:,} keys"
    return title, "Medians, from minimum to maximum; longer is better", [panel]


def _cliff(figures: Figures, sizes: Sizes) -> Drawing:
    rows = figures["cliff"]
    panel = Panel("nanoseconds per key", {name: row["add"] for name, row in rows.items()})
    title = f"Adding to a filter for {sizes['capacity']:,} keys, batches of {sizes['batch']:,}"
    return title, "Medians, from the fastest batch to the slowest; shorter is better", [panel]


_BY_SIZE = {
    "zeros written": "zeros written first",
    "mapped": "changed in the file",
    "default": "mmbloom, default",
}


def _sizes(figures: Figures, sizes: Sizes) -> Drawing:
    rows = figures["sizes"]
    values = {
        said: {float(size): found[0] for size, found in rows[name].items()}
        for name, said in _BY_SIZE.items()
    }
    note = f"Batches of {sizes['batch']:,} int64 keys, error rate 1e-6, medians of a steady state"
    lines = Lines("size of the filter, GB", "nanoseconds per key", values)
    return "Adding keys to ever larger filters", note, lines


CHARTS: dict[str, dict[str, Chart]] = {
    "insert_query": {
        "insert_query_cache": _insert_query("cache", "filter sized for {keys:,} keys"),
        "insert_query_large": _insert_query("large", "filter sized for {large:,} keys"),
    },
    "single": {"single": _single},
    "dedup_log": {"dedup": _dedup},
    "contention": {"contention": _contention},
    "cliff": {"cliff": _cliff, "cliff_sizes": _sizes},
}
"""Script to file name to chart."""


def draw_all(script: str, figures: Figures, sizes: Sizes, folder: Path) -> list[Path]:
    """Draw the charts of a script; none without matplotlib, which raises ImportError."""
    drawn = []
    for name, chart in CHARTS.get(script, {}).items():
        path = folder / f"{name}.png"
        folder.mkdir(exist_ok=True)
        title, subtitle, drawn_from = chart(figures, sizes)
        if isinstance(drawn_from, Lines):
            draw_lines(path, title, subtitle, drawn_from)
        else:
            draw(path, title, subtitle, drawn_from)
        drawn.append(path)
    return drawn
