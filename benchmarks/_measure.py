"""Timing, memory, processes, tables, and the frame of a script: what every benchmark shares.

A script is a docstring (question, method, limits), its arguments, and a function `run` that
measures and returns a `Report`; `benchmark` does the rest.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

Rows = dict[str, dict[str, list[float]]]
"""A table as plain data: row, column, one value a round."""

Figures = dict[str, Rows]
"""The tables of a script by name."""


class Report(NamedTuple):
    """What a script found out, to read and to compute with."""

    markdown: str
    figures: Figures


Run = Callable[[argparse.Namespace, str], Report]

QUICK = "BENCHMARKS_QUICK"
"""The environment variable that `run_all.py --quick` sets for the scripts."""


def benchmark(
    doc: str | None,
    run: Run,
    arguments: Mapping[str, tuple[int, str]],
    packages: Iterable[str] = ("numpy", "mmh3"),
) -> None:
    """Parse arguments, run, print the report; `--json` keeps it for `run_all.py`.

    Parameters
    ----------
    doc : str
        The script's docstring.
    run : callable
        Gets the arguments and a folder for files; gives the report.
    arguments : mapping
        Name to default and help: all arguments are whole numbers, written 1000000 or 1e6.
    packages : iterable of str
        Distributions whose versions belong in the environment line.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, (default, text) in arguments.items():
        parser.add_argument(
            f"--{name}", type=_count, default=default, help=f"{text} (default: {default:,})"
        )
    parser.add_argument("--folder", help="where files are made (default: a temporary one)")
    parser.add_argument("--json", help="write the report to this file as well")
    args = parser.parse_args()
    where = environment("mmbloom", *packages)
    print(where, end="\n\n")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        report = run(args, folder)
    print(report.markdown)
    if args.json:
        given = {name: getattr(args, name.replace("-", "_")) for name in arguments}
        kept = {"environment": where, "date": time.strftime("%Y-%m-%d"), "arguments": given}
        Path(args.json).write_text(json.dumps({**kept, **report._asdict()}), encoding="utf-8")


def _count(text: str) -> int:
    return int(float(text))


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
        f"Python {platform.python_version()}, {libraries}, {engine()} engine"
    )


def engine() -> str:
    """Name the engine that mmbloom chose at its import: "compiled" or "numpy"."""
    import mmbloom  # noqa: PLC0415  a child that measures a peer need not have it in memory

    return mmbloom.engine


def engine_is_built(name: str) -> bool:
    """Say whether a new process gets the engine that it asks for."""
    command = [sys.executable, "-c", "import _measure; print(_measure.engine())"]
    with forced(name):
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    return done.returncode == 0 and done.stdout.strip() == name


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


def whole(command: Sequence[str], stdin: str, stdout: str) -> dict[str, float]:
    """Run a command from file to file: seconds on the wall and of all its CPUs, peak MiB.

    Python may keep the bytecode that it compiles, as it does for users: where the environment
    forbids that, a package that pip did not compile would be compiled anew each time.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(stdin, "rb") as source, open(stdout, "wb") as target:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=source, stdout=target, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} failed with {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return {"wall": elapsed, "cpu": cpu, "peak": usage.ru_maxrss / 1024}


def memory(pid: int | str = "self") -> dict[str, float]:
    """Give a process's memory in MiB: Rss, Pss, Pss_Anon, Pss_File and the rest."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        lines = [line.split() for line in file.readlines()[1:]]
    return {name.rstrip(":"): int(size) / 1024 for name, size, _ in lines}


def start_method() -> str:
    """How processes are started: afresh.

    In a run with --quick, whose figures mean nothing, by a fork: some 20 of them cost what one
    process costs that imports all anew.
    """
    return "spawn" if QUICK not in os.environ else "fork"


def apart(work: Callable[..., Any], *args: Any, engine: str | None = None) -> Any:
    """Call a function of a module in a process of its own, started afresh.

    Its memory starts empty, and mmbloom chooses its engine anew: the one asked for.
    """
    context = multiprocessing.get_context(start_method() if engine is None else "spawn")
    with forced(engine), ProcessPoolExecutor(1, context) as pool:
        return pool.submit(work, *args).result()


@contextmanager
def forced(engine: str | None) -> Iterator[None]:
    """Make processes that are started meanwhile use this engine."""
    before = os.environ.get("MMBLOOM_ENGINE")
    if engine:
        os.environ["MMBLOOM_ENGINE"] = engine
    try:
        yield
    finally:
        if before is not None:
            os.environ["MMBLOOM_ENGINE"] = before
        elif engine:
            del os.environ["MMBLOOM_ENGINE"]


def compile_c(source: str, folder: str) -> str | None:
    """Compile a program that lies beside this file; None without a compiler."""
    compiler = which("cc")
    if compiler is None:
        return None
    program = os.path.join(folder, source.removesuffix(".c"))
    options = ["-O3", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    path = str(Path(__file__).parent / source)
    subprocess.run([compiler, *options, "-o", program, path], check=True)
    return program


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Print median, minimum and maximum."""
    if not values:
        return "-"
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """Say how many times as fast ours is, by medians."""
    if not theirs or not ours:
        return "-"
    times = statistics.median(theirs) / statistics.median(ours)
    return f"{times:,.{1 if times >= 1 else 2}f}x"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table: names to the left, figures to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def layout(corner: str, rows: Rows, digits: int | Mapping[str, int] = 0) -> str:
    """Lay out rows of figures as they are; `digits` after the point, for all or by column."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    places = {column: digits if isinstance(digits, int) else digits[column] for column in columns}
    cells = [
        [name, *(spread(row.get(column, []), places[column]) for column in columns)]
        for name, row in rows.items()
    ]
    return table([corner, *columns], cells)
