"""The tally of the laws' tests, T1 to T17: what each did in this run, as a table at its end.

F1 shows of counters and of folders of filters what T1 shows of a plain filter, and so on.

A test says whose it is with ``@pytest.mark.laws("T1")``. It is selected then by ``-m laws`` and
by ``-m T1``, and says what it did with the fixture `tally`. A row says "passed" only if each of
its tests that was started has passed, setup and teardown included.
"""

import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

WHAT = {
    "T1": "writers killed among writers and readers",
    "T2": "each bit set once by one process",
    "T3": "mutated headers",
    "T4": "mutated files, opened and used",
    "T5": "bit flips, truncations, trailing bytes",
    "T6": "processes create one path",
    "T7": "system calls that fail or kill",
    "T8": "full disks",
    "T9": "the file changes under the filter",
    "T10": "forks, spawns, pickles",
    "T11": "keys that all workers add",
    "T12": "golden files, independent reader",
    "T13": "read-only, other users",
    "T14": "holders of the lock",
    "T15": "dedup killed, and run again",
    "T16": "lines of strangers that collide",
    "T17": "power cuts during dedup",
    "F1": "as T1: counters, folders",
    "F2": "as T2: counters",
    "F6": "as T6: folders",
    "F7": "as T7: counters, folders",
    "F11": "as T11: counters, folders",
}
_COUNTS_WIDTH = 56
# Properties that a test's reports bring from the process that ran it: its id, and what it did.
_LAW, _DID = "law", "did"

Count = Callable[..., None]


@dataclass
class Row:
    """What came of the tests of one id."""

    started: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def record(self, report: pytest.TestReport) -> None:
        """Take in the report of a phase of a test: setup, call or teardown."""
        self.seconds += report.duration
        self.started.add(report.nodeid)
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.skipped:
            self.skipped.add(report.nodeid)
        elif report.when == "teardown":  # the last phase: a test that never came so far is cut off
            self.passed.add(report.nodeid)
        if report.when == "teardown":
            for name, counts in report.user_properties:
                if name == _DID:
                    self.counts.update(cast("dict[str, int]", counts))

    def result(self) -> str:
        skipped = self.skipped - self.failed
        passed = self.passed - self.failed - skipped
        cut_off = self.started - self.failed - skipped - passed
        named = {"FAILED": self.failed, "CUT OFF": cut_off, "passed": passed, "skipped": skipped}
        return ", ".join(f"{len(tests)} {name}" for name, tests in named.items() if tests)


class Tally:
    """The rows of one run; a plugin of pytest."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    @pytest.hookimpl(tryfirst=True)  # before -m selects
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Make a marker of each id, and let the reports tell it."""
        for item in items:
            if law := id_of(item):
                item.add_marker(law)
                item.user_properties.append((_LAW, law))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a phase ended, in whichever process."""
        if law := dict(report.user_properties).get(_LAW):
            self._rows.setdefault(str(law), Row()).record(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._rows:
            terminalreporter.section("tests of the laws")
            for line in self.table():
                terminalreporter.write_line(line)

    def table(self) -> list[str]:
        """Lay out the rows: id, what, counts, seconds, result."""
        wide = max(map(len, WHAT.values()))
        lines = [f"{'id':4} {'what':{wide}}  {'counts':{_COUNTS_WIDTH}} {'seconds':>8}  result"]
        for law, what in WHAT.items():
            if law not in self._rows:
                continue
            row = self._rows[law]
            # No break between a number and its name.
            said = ", ".join(f"{count:,}\0{name}" for name, count in row.counts.items())
            first, *more = textwrap.wrap(said, _COUNTS_WIDTH) or [""]
            lines.append(
                f"{law:4} {what:{wide}}  {first:{_COUNTS_WIDTH}} {row.seconds:8.1f}  {row.result()}"
            )
            lines += [f"{'':4} {'':{wide}}  {counts}" for counts in more]
        return [line.replace("\0", " ").replace("_", " ") for line in lines]


def id_of(item: pytest.Item) -> str:
    """Give the id that a test is marked with, "" if it is none of these tests."""
    marker = item.get_closest_marker("laws")
    if marker is None:
        return ""
    if len(marker.args) != 1 or marker.args[0] not in WHAT:
        raise pytest.UsageError(f"{item.nodeid}: no such test of the laws: {marker.args}")
    return str(marker.args[0])


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and count anew."""
    config.addinivalue_line(
        "markers", "laws(id): a test of docs/laws.md, and which: T1 to T17, F1 ..."
    )
    for law, what in WHAT.items():
        config.addinivalue_line("markers", f"{law}: {what}; set by laws({law!r})")
    config.pluginmanager.register(Tally())


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Count:
    """Count what the test did: tally(kills=3, keys=100); before the asserts, so that it shows."""

    def count(**counts: int) -> None:
        if not id_of(request.node):
            raise LookupError(f"{request.node.nodeid} has no marker laws")
        request.node.user_properties.append((_DID, counts))

    return count
