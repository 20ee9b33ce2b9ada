"""What can each library do that others cannot? The feature table, cell by cell.

Question: which features does each library have?

Method: for each cell a small probe uses the library's own documented calls and checks the result:
keys that are missing after two processes wrote at once, damaged files, wrong answers. Each runs in
its own process. Cells in italics come from the documentation and were not run: those about Windows
and several hosts, and all of RedisBloom's. Times are for small filters in cache, in a file where
the library has such a class; they are the best of five, to one significant digit.

Limits: a probe that finds nothing lost does not prove that nothing can be lost: without a lock,
that was luck. "-" means that there is no such call or that the question does not arise, "?" that
it was not measured.
"""

import argparse
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import _figure_probes as figures_of
import _probes as probes
import _shared_probes as shared
from _apart import DiedError, apart
from _libraries import LIBRARIES
from _library import Library
from _measure import Figures, Report, benchmark, table
from _probes import Cell
from _redisbloom import READ, VERSION

Probe = Callable[[Library, str], Cell]


def said(library: Library, folder: str, *, attribute: str) -> Cell:  # noqa: ARG001
    """Give a cell that is read."""
    return Cell(f"*{getattr(library, attribute)}*", {})


def rows(args: argparse.Namespace) -> dict[str, Probe]:
    """Name the rows, in the order in which users decide."""
    return {
        "reopens without reading the whole file": partial(probes.reopening, capacity=args.capacity),
        "`kill -9` of a writer loses no key": shared.killed_writer,
        "two concurrent writers lose no key": partial(shared.two_writers, files=args.files),
        "each key is new to exactly one writer": partial(shared.one_is_told, files=args.files),
        "damaged files that raise an error": probes.damage,
        "finds a flipped bit": probes.rot,
        "answers for each key of a batch: look up, add": probes.batches,
        "reads NumPy and Arrow without an object per key": probes.columns,
        "union, intersection": probes.set_operations,
        "removes keys": probes.removal,
        "grows": probes.growth,
        "forgets after a time": probes.expiry,
        "excludes known false positives": probes.exclusions,
        "reads a read-only file": probes.read_only,
        "same hash in every process": probes.same_hash,
        "command that prints new lines": probes.first_seen,
        "measured error rate, 1 % requested": partial(figures_of.false_positives, keys=args.keys),
        "µs per key, one key a call: add, look up": partial(figures_of.singly, keys=args.keys),
        "µs per key, in batches: add, look up": partial(figures_of.in_batches, keys=args.keys),
        "several hosts": partial(said, attribute="hosts"),
        "Windows": partial(said, attribute="windows"),
        "needs": probes.needs,
    }


def cell(title: str, probe: Probe, library: Library) -> Cell:
    """Run a probe; a process that dies is a finding."""
    try:
        found: Cell = apart(probes.in_new_folder, probe, library)
    except DiedError as what:
        return Cell(f"died: {what}", {"died": 1.0})
    except Exception as error:
        error.add_note(f"{library.package}: {title}")
        raise
    return found


def run(args: argparse.Namespace, folder: str) -> Report:  # noqa: ARG001
    """Fill the table row by row."""
    versions = {library: _version(library) for library in LIBRARIES}
    lines = []
    figures: Figures = {}
    for title, probe in rows(args).items():
        cells = []
        for library in LIBRARIES:
            found = cell(title, probe, library) if versions[library] else Cell("?", {})
            cells.append(found.text)
            if found.measured:
                measured = {name: [float(value)] for name, value in found.measured.items()}
                figures.setdefault(title, {})[library.package] = measured
        cells.append(f"*{READ[title].cell}*" if title in READ else "?")
        lines.append([title, *cells])
    names = [f"{library.package} {versions[library] or '?'}" for library in LIBRARIES]
    laid_out = table(["", *names, f"*RedisBloom, {VERSION}*"], lines)
    sources = [f"- {title}: {read.source}" for title, read in READ.items()]
    return Report(f"{laid_out}\n\nSources for RedisBloom:\n\n" + "\n".join(sources), figures)


def _version(library: Library) -> str:
    return version(library.package) if find_spec(library.module) else ""


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (50_000_000, "capacity of the file that is reopened"),
            "keys": (20_000, "keys of a probe that counts or times"),
            "files": (400, "files that two processes write to at once"),
        },
        [library.package for library in LIBRARIES if library.package != "mmbloom"],
    )
