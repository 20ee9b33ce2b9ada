"""A picture of a plan: the error rate against the number of keys, for both layouts."""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmbloom.cli import _extras
from mmbloom.sizing import FilterParams, false_positive_rate

SUFFIXES = (".png", ".svg")
_MOST = 2.0  # keys, in multiples of the capacity
_POINTS = 200
_DECADES = 4  # below the planned rate: what is lower is as good as nothing


def image_path(text: str) -> Path:
    """Read where a picture goes; its suffix says what it will be."""
    if (path := Path(text)).suffix.lower() not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} is no picture: name it .png or .svg")
    return path


def draw(path: Path, plans: Sequence[FilterParams]) -> None:
    """Draw how the error rate of each planned filter grows; a picture that is there is replaced.

    Raises
    ------
    UsageError
        If matplotlib is missing.
    OSError
        If the picture cannot be written.
    """
    # Figure alone, without pyplot: no window, no display, no state that stays behind.
    figure = _extras.load("matplotlib.figure", "--plot").Figure(figsize=(8, 5))
    axes = figure.subplots()
    capacity, error_rate = plans[0].capacity, plans[0].error_rate
    keys = np.linspace(0, _MOST * capacity, _POINTS + 1)[1:]
    for params in plans:
        sizes = params.num_bits, params.num_hashes
        rates = [false_positive_rate(n, *sizes, layout=params.layout) for n in keys]
        megabytes = params.num_bytes / 1e6
        label = f"{params.layout}: {megabytes:.3g} MB, {params.num_hashes} hashes"
        axes.plot(keys, rates, label=label)
    axes.axvline(capacity, color="gray", linestyle=":")
    axes.axhline(error_rate, color="gray", linestyle=":")
    axes.set(
        title=f"Planned for {capacity:,} keys at an error rate of {error_rate:g}",
        xlabel="distinct keys added",
        ylabel="false-positive rate",
        yscale="log",
        xlim=(0, keys[-1]),
        ylim=(error_rate / 10**_DECADES, 1),
    )
    axes.grid(alpha=0.3)
    axes.legend()
    # Drawn in memory first: a drawing that fails leaves the old picture as it was.
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:].lower(), dpi=120)
    try:
        path.write_bytes(picture.getvalue())
    except OSError as error:  # of a write, which does not say where it was to go
        raise OSError(error.errno, error.strerror, str(path)) from error
