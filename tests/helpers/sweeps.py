"""A way to make a file, tried with each call of the system failing or deadly, and without space.

Whatever happens, all of the file is there or nothing of it (laws 8 and 9).
"""

import errno
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from checks import check_folder
from descriptors import open_descriptors
from faults import (
    Hook,
    at_call,
    fail_with,
    ignore,
    kill_self,
    mount_tmpfs,
    names_of_calls,
    os_calls,
)
from workers import ChildDiedError, in_child


def calls_of(action: Callable[[Hook], object]) -> list[str]:
    """List the os calls of an action in a child, in order; it takes a hook for them."""

    def run() -> list[str]:
        made: list[str] = []
        action(made.append)
        return made

    return in_child(run)


@contextmanager
def _closing_all() -> Iterator[None]:
    """Check that a block leaves no descriptor open, whatever ends it."""
    there = open_descriptors()
    try:
        yield
    finally:
        left = open_descriptors() - there
        assert not left, f"{len(left)} descriptors left open"


@dataclass(frozen=True)
class Sweep:
    """What makes a file at a path, and what raises unless the file at a path is whole.

    No descriptor may be left open: `at_once`, or when the error is gone whose frames have it.
    """

    make: Callable[[Path], object]
    check: Callable[[Path], object]
    at_once: bool = True

    def run(self, path: Path, before: Hook = ignore, after: Hook = ignore) -> None:
        """In a child: make it with a hook at every os call; no descriptor may be left open."""
        with _closing_all() if self.at_once else nullcontext(), os_calls(before, after):
            self.make(path)

    def calls(self, folder: Path) -> list[str]:
        (folder / "counted").mkdir()
        calls = names_of_calls(partial(self.run, folder / "counted" / "made"))
        # Without these a file is not made as law 8 has it, and a sweep would show little.
        assert {"open", "posix_fallocate", "pwrite", "fsync", "link", "unlink"} <= set(calls)
        return calls

    def absent_or_whole(self, path: Path) -> bool:
        """Check that what is at the path is all of it, or nothing; True if it is there."""
        if not os.path.lexists(path):
            return False
        self.check(path)
        return True

    def killed_at_each_call(self, folder: Path, when: str) -> int:
        """Kill it "before" or "after" each os call in turn; gives how many there were."""
        outcomes = []
        for number, path in self._paths(folder):
            with pytest.raises(ChildDiedError) as caught:
                in_child(partial(self.run, path, **{when: at_call(number, kill_self)}))
            assert caught.value.signal == signal.SIGKILL
            outcomes.append(self.absent_or_whole(path))
            if not outcomes[-1]:  # what a killed run left behind is in nobody's way
                self.make(path)
        assert outcomes == sorted(outcomes)  # absent up to some call, there from then on
        assert set(outcomes) == {False, True}
        return len(outcomes)

    def failing_at_each_call(self, folder: Path, code: int) -> int:
        """Have each os call fail in turn: OSError, nothing left; gives how many there were."""
        paths = list(self._paths(folder))

        def fail_each() -> list[str]:
            return [self._failure(path, at_call(number, fail_with(code))) for number, path in paths]

        # One child for all: a call that fails does not end it.
        for (_, path), failure in zip(paths, in_child(fail_each), strict=True):
            assert failure == "" or f"Error: [Errno {code}]" in failure
            assert "descriptors left open" not in failure
            assert self.absent_or_whole(path) or failure
            left = sorted({*os.listdir(path.parent)} - {path.name})
            assert ".mmbloom-" not in failure.strip().rpartition("\n")[2]
            # A call that fails to remove it is the one that has to leave what is temporary.
            removing = path.parent.name.endswith(("-unlink", "-rmdir"))
            assert left == [] or (removing and left[0].startswith(".mmbloom-")), path
        return len(paths)

    def _failure(self, path: Path, before: Hook) -> str:
        """Make it with a hook at every os call; give the traceback of what was raised, if any."""
        failure = ""
        with _closing_all():
            try:
                self.run(path, before)
            except Exception:  # noqa: BLE001  looked at by the caller
                failure = traceback.format_exc()
        return failure

    def _paths(self, folder: Path) -> Iterator[tuple[int, Path]]:
        """Number the os calls, and give each a path in a folder of its own."""
        for number, name in enumerate(self.calls(folder)):
            own = folder / f"{number:03}-{name}"
            own.mkdir()
            yield number, own / "made"

    def second_on_a_small_disk(self, folder: Path, size: int) -> None:
        """Make two where there is space for one: ENOSPC with size and path, and nothing left."""
        if in_child(partial(self._two, folder, size)) == "not allowed":
            pytest.skip("this system allows no user namespaces")

    def _two(self, folder: Path, size: int) -> str:
        if not mount_tmpfs(folder, size):
            return "not allowed"
        self.make(folder / "first")
        with pytest.raises(OSError, match=r"cannot reserve \d+ bytes") as caught:
            self.make(folder / "second")
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(folder / "second"))
        check_folder(folder, "first")
        self.check(folder / "first")
        return "done"
