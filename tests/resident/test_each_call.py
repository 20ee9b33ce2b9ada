"""Each call of the system fails, or is a kill, while an array moves to shared memory and back."""

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from checks import flock_is_free
from copies import NEW, OLD, copies, missing, name_in
from faults import Hook, at_call, fail_with, kill_self, os_calls
from tally import Count
from workers import ChildDiedError, in_child

from mmbloom import BloomFilter, DurabilityError, MmbloomWarning, verify

pytestmark = pytest.mark.slow

STEPS: list[tuple[Callable[[BloomFilter], object], list[int]]] = [
    (lambda seen: seen.add(900), [900]),
    (lambda seen: seen.add_many(NEW), NEW.tolist()),
    (lambda seen: seen.flush(), []),
    (lambda seen: seen.add(901), [901]),
    (lambda seen: seen.contains_many(OLD), []),
]
CALLS = {"open", "fstat", "pread", "pwrite", "preadv", "fsync", "flock", "close", "unlink"}
ADVICE = {"posix_fadvise"}  # which may fail


def check_after(file: str, acknowledged: list[int]) -> None:
    """Check that all keys are there at once, and in the file once a writer has closed it."""
    keys = np.array([*OLD.tolist(), *acknowledged])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MmbloomWarning)  # a copy that was not finished
        with BloomFilter.open(file, "r") as reader:
            assert missing(reader, keys) == 0
        BloomFilter.open(file).close()  # adds nothing
    assert name_in(file) == bytes(32)
    assert flock_is_free(Path(file))
    with BloomFilter.open(file, resident=False) as seen:
        assert missing(seen, keys) == 0
        seen.recount()
    assert verify(file, keys=keys).ok
    with BloomFilter.open(file, resident=True) as seen:
        seen.add("afterwards")
    assert copies() == []  # nor any that was never named


def use(file: str, told: Callable[[int], object]) -> list[str]:
    """Do all steps, whatever fails, and tell of each that was done; gives their outcomes."""
    outcomes = []
    try:
        seen = BloomFilter.open(file, resident=True)
    except OSError:
        return ["failed"]
    for number, (step, _) in enumerate(STEPS):
        try:
            step(seen)
        except (DurabilityError, OSError):
            outcomes.append("failed")
        else:
            outcomes.append("done")
            told(number)
    for _ in range(2):
        try:
            seen.close()
        except (DurabilityError, OSError):
            outcomes.append("failed")
    assert seen.closed
    return outcomes


def keys_of(steps: list[int]) -> list[int]:
    return [key for number in steps for key in STEPS[number][1]]


def in_turn(file: str, run: Callable[[int], str]) -> Iterator[str]:
    original = Path(file).read_bytes()
    number = 0
    while name := run(number):
        yield name
        Path(file).unlink()
        Path(file).write_bytes(original)
        number += 1


@pytest.mark.laws("T7")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_call_that_fails(file: str, code: int, tally: Count) -> None:
    """It costs no key that was acknowledged, no descriptor, no lock and no memory."""

    def run(number: int) -> str:
        calls, done, fault = list[str](), list[int](), at_call(number, fail_with(code))

        def hook(name: str) -> None:
            calls.append(name)
            fault(name)

        descriptors = os.listdir("/proc/self/fd")
        with warnings.catch_warnings(), os_calls(hook):
            warnings.simplefilter("ignore", MmbloomWarning)
            outcomes = use(file, done.append)
        assert os.listdir("/proc/self/fd") == descriptors, calls[number:][:1]
        check_after(file, keys_of(done))
        failed = "" if number >= len(calls) else calls[number]
        if failed in {"", *ADVICE}:
            assert set(outcomes) == {"done"}
        return failed

    found = in_child(lambda: list(in_turn(file, run)))
    assert set(found) >= CALLS | ADVICE
    tally(faults=len(found))


@pytest.mark.laws("T7")
@pytest.mark.parametrize("when", ["before", "after"])
def test_call_that_is_a_kill(file: str, when: str, tally: Count) -> None:
    """It costs no key that was acknowledged, and no memory once the file is opened again."""

    def killed(number: int, write: int) -> None:
        hooks: dict[str, Hook] = {when: at_call(number, kill_self)}
        with os_calls(**hooks):
            use(file, lambda done: os.write(write, bytes([done])))

    def run(number: int) -> str:
        read, write = os.pipe()
        try:
            in_child(partial(killed, number, write))
            name = ""
        except ChildDiedError:
            name = "killed"
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            done = list(pipe.read())
        check_after(file, keys_of(done))
        return name

    kills = len(list(in_turn(file, run)))
    assert kills > 30
    tally(kills=kills)
