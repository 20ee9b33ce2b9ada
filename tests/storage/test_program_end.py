"""The end of a program: daemon threads and functions of atexit still use its filters, rightly."""

import subprocess
import sys
from pathlib import Path

import pytest
from tally import Count
from workers import PATIENCE

from mmbloom import BloomFilter

KEYS = 20_000

# Registered before anything of mmbloom is imported, so that it runs after all that the package
# may have registered. The numbers of descriptors that are closed by then are taken by others.
ENDING = """
import atexit, fcntl, os, sys

def at_the_end():
    others = [os.open(sys.argv[2], os.O_RDWR) for _ in range(16)]
    assert seen.add("late") and "late" in seen and seen.add_many(["later"]).all()
    probe = os.open(sys.argv[1], os.O_RDWR)
    with seen.locked():
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("locked")
    seen.flush()

atexit.register(at_the_end)
import mmbloom
seen = mmbloom.open(sys.argv[1])
seen.add("early")
seen.add("by trust")
"""

# A daemon thread adds, and goes on for a while after all that the package may have registered.
DAEMON = """
import atexit, os, sys, time

def at_the_end():
    others = [os.open(sys.argv[2], os.O_RDWR | os.O_CREAT) for _ in range(16)]
    while not os.path.exists(sys.argv[3]):  # the other program is here as well
        time.sleep(0.0001)
    go_on.set()
    ended.wait()

atexit.register(at_the_end)
import threading
import mmbloom

seen = mmbloom.open(sys.argv[1])
go_on, ended = threading.Event(), threading.Event()
seen.add("opens the lock")

def work():
    go_on.wait()
    new = []
    try:
        for key in range(int(sys.argv[4])):
            if seen.add(f"key {key}"):
                new.append(key)
    except OSError as error:
        new.append(repr(error))
    print(*new, flush=True)
    ended.set()

threading.Thread(target=work, daemon=True).start()
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_function_of_atexit(path: str, tmp_path: Path) -> None:
    """It adds, asks, locks and flushes as at any time, and has the lock when it thinks so."""
    BloomFilter.create(path, 1000, 1e-9).close()
    other = tmp_path / "other"
    other.touch()
    out, err = start(ENDING, path, other).communicate(timeout=PATIENCE)
    assert err == ""
    assert out == "locked\n"
    with BloomFilter.open(path, "r") as seen:
        assert seen.contains_many(["early", "by trust", "late", "later"]).all()


@pytest.mark.laws("T11")
def test_daemon_threads_of_two_programs(path: str, tmp_path: Path, tally: Count) -> None:
    """Both add the same keys while they end: each key is new for one of them."""
    BloomFilter.create(path, 2 * KEYS, 1e-9).close()
    others = tmp_path / "a", tmp_path / "b"
    programs = [start(DAEMON, path, *each, KEYS) for each in (others, others[::-1])]
    new = list[str]()
    for program in programs:
        out, err = program.communicate(timeout=PATIENCE)
        assert err == ""
        new += out.split()
    assert len({*new}) == len(new), f"{len(new) - len({*new})} keys are new for both"
    assert {*new} == {*map(str, range(KEYS))}
    tally(keys=KEYS)
