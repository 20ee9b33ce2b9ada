"""Timing, the environment line, and tables: what every benchmark shares."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version


def environment(*packages: str) -> str:
    """Say what was measured where, in one line."""
    model = "unknown CPU"
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1] for line in file if line.startswith("model name")]
        model = " ".join(names[0].split()) if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    libraries = ", ".join(f"{name} {_version(name)}" for name in packages)
    return (
        f"{model}, {cores} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {libraries}"
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Print median, minimum and maximum."""
    if not values:
        return "-"
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """Say how many times as fast ours is, by medians."""
    if not theirs or not ours:
        return "-"
    return f"{statistics.median(theirs) / statistics.median(ours):.1f}x"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
