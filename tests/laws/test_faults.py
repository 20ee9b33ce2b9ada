"""Each call of the system fails, or is a kill: of open, lock, add, flush and close (T7).

The file keeps its size, its header and every acknowledged key, whatever happens. An error comes
out, and a flush that failed is final (laws 5, 10, 11, 12).
"""

import errno
import itertools
import mmap
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from checks import flock_is_free
from descriptors import open_descriptors
from faults import Hook, at_call, fail_with, kill_self, os_calls
from reference import NaiveFilter
from tally import Count
from workers import PATIENCE, ChildDiedError, in_child

from mmbloom import BloomFilter, DurabilityError, verify

OLD = [f"old-{i}" for i in range(50)]
MANY = [f"many-{i}" for i in range(50)]
CLAIMED = [f"claimed-{i}" for i in range(50)]
Mode = Literal["r", "r+"]
Step = tuple[Callable[[BloomFilter], object], list[str]]


def claim(seen: BloomFilter) -> None:
    with seen.claim(CLAIMED):
        pass


def hold(seen: BloomFilter) -> None:
    with seen.locked():
        seen.add("held")


# What a program does with a filter, and the keys that are acknowledged when it has done so.
STEPS: list[Step] = [
    (lambda seen: seen.add("one"), ["one"]),
    (lambda seen: seen.add_many(MANY), MANY),
    (claim, CLAIMED),
    (lambda seen: seen.flush(), []),
    (hold, ["held"]),
    (lambda seen: seen.flush(), []),
    (lambda seen: seen.contains_many(OLD), []),
]


# What these calls must have been among, or these tests would show little.
CALLS = {
    "r": {"stat", "open", "fstat", "pread", "mmap", "close"},
    "r+": {"stat", "open", "fstat", "pread", "mmap", "close", "flock", "unlock", "msync", "fsync"},
}
# Advice; how the file system is called on which the file is; what else each key would look at.
TOLERATED = {"madvise", "lstat", "stat of trust"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "seen.bloom"
    with BloomFilter.create(path, 1000) as seen:
        seen.add_many(OLD)
    return path


def steps_of(mode: Mode) -> list[Step]:
    return STEPS if mode == "r+" else STEPS[-1:]


def check_file(path: Path, original: bytes, keys: list[str]) -> None:
    """Check that a file is whole, alone, unlocked, and has these keys."""
    data = path.read_bytes()
    naive = NaiveFilter(data)  # of the right size, too
    assert data[:2048] == original[:2048]
    assert all(key in naive for key in [*OLD, *keys])
    assert os.listdir(path.parent) == [path.name]
    assert flock_is_free(path)
    verified = verify(path, keys=[*OLD, *keys])
    assert verified.ok, verified.problems


def put_back(path: Path, original: bytes) -> None:
    path.unlink()
    path.write_bytes(original)


def check_told(error: OSError, code: int) -> None:
    assert error.errno == code


def use(path: Path, mode: Mode, code: int) -> tuple[list[str], list[str]]:
    """Do all steps, whatever fails; the outcome of each, and the keys that are acknowledged."""
    try:
        seen = BloomFilter.open(path, mode)
    except OSError as error:
        check_told(error, code)
        return ["failed"], []
    outcomes, acknowledged = ["done"], list[str]()
    for step, keys in steps_of(mode):
        try:
            step(seen)
        except DurabilityError as error:
            outcomes.append(f"refused for good: {error.reason}")
        except OSError as error:
            check_told(error, code)
            outcomes.append("failed")
        else:
            outcomes.append("done")
            acknowledged += keys
    try:
        seen.close()
    except OSError as error:
        check_told(error, code)
        outcomes.append("failed")
        seen.close()
    assert seen.closed
    return outcomes, acknowledged


def fail_at_call(path: Path, mode: Mode, code: int, number: int) -> tuple[str, list[str]]:
    """Use a filter while one call of the system fails; which call, and the outcome of each step."""
    calls: list[str] = []
    fault, original = at_call(number, fail_with(code)), path.read_bytes()

    def hook(name: str) -> None:
        calls.append(name)
        fault(name)

    descriptors = open_descriptors()
    with os_calls(hook):
        outcomes, acknowledged = use(path, mode, code)
    assert open_descriptors() == descriptors, f"left open after {calls[number:][:1]}"
    check_file(path, original, acknowledged)
    put_back(path, original)
    return calls[number] if number < len(calls) else "", outcomes


@pytest.mark.laws("T7")
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EINTR, errno.EMFILE])
def test_any_failing_call_is_told_and_costs_no_key(
    path: Path, mode: Mode, code: int, tally: Count
) -> None:
    """Laws 10, 11, 12: each call fails in turn: an error, once, or for good where it was a flush.

    No acknowledged key is lost, no descriptor and no lock is left, and nothing but keys and
    counters changes in the file.
    """

    def fail_each() -> list[tuple[str, list[str]]]:
        found = [fail_at_call(path, mode, code, 0)]
        while found[-1][0]:
            found.append(fail_at_call(path, mode, code, len(found)))
        return found

    *found, without_fault = in_child(fail_each)
    assert CALLS[mode] <= {call for call, _ in found}
    assert set(without_fault[1]) == {"done"}
    tally(faults=len(found), of_flush=sum(call in {"msync", "fsync"} for call, _ in found))
    for call, outcomes in found:
        if call in TOLERATED:
            assert set(outcomes) == {"done"}
        elif call in {"msync", "fsync"}:
            # From then on all is refused, but the question at the end.
            refused = f"refused for good: {os.strerror(code)}"
            first = outcomes.index(refused)
            assert outcomes[first:] == [refused] * (len(STEPS) - first) + ["done"]
            assert set(outcomes[:first]) == {"done"}
        else:
            assert outcomes.count("failed") == 1, (call, outcomes)
            assert set(outcomes) <= {"failed", "done"}, (call, outcomes)


@pytest.mark.laws("T7")
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_at_any_call_costs_no_key(path: Path, mode: Mode, when: str, tally: Count) -> None:
    """Laws 5, 12: kill -9 before or after each call of open, lock, add, flush and close."""
    original, done = path.read_bytes(), np.frombuffer(mmap.mmap(-1, 8), np.int64)

    def use_and_die(number: int) -> int:
        calls: list[str] = []
        kill = at_call(number, kill_self)
        hooks: dict[str, Hook] = {"before": calls.append, when: kill}
        with os_calls(**hooks), BloomFilter.open(path, mode) as seen:
            for step, _ in steps_of(mode):
                step(seen)
                done[0] += 1
        return len(calls)

    number = 0
    while True:
        done[0] = 0
        try:
            in_child(partial(use_and_die, number))
        except ChildDiedError as died:
            ended_by = died.signal
        else:
            break
        assert ended_by == signal.SIGKILL
        acknowledged = [key for _, keys in steps_of(mode)[: done[0]] for key in keys]
        check_file(path, original, acknowledged)
        put_back(path, original)
        number += 1
    tally(kills=number)
    assert number >= (10 if mode == "r" else 40)


@pytest.mark.stress
@pytest.mark.laws("T7")
def test_signals_make_no_call_fail(tmp_path: Path, stress: int, tally: Count) -> None:
    """Law 12: signals that arrive all the time interrupt calls (EINTR), and nothing fails."""

    def work_under_signals() -> int:
        arrived = itertools.count()
        signal.signal(signal.SIGALRM, lambda *_: next(arrived))
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        for number in range(20 * stress):
            path = tmp_path / f"{number}.bloom"
            with BloomFilter.create(path, 10_000) as seen:
                pid = os.fork()  # for a lock that is waited for
                try:
                    seen.add_many(range(pid and 5000, 10_000 if pid else 5000))
                    seen.flush()
                finally:
                    if pid == 0:
                        os._exit(0 if seen.contains_many(range(5000)).all() else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert verify(path, keys=range(10_000)).ok
            path.unlink()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return next(arrived)

    signals = in_child(work_under_signals, timeout=PATIENCE * stress)
    tally(signals=signals)
    assert signals > 100
    assert os.listdir(tmp_path) == []
