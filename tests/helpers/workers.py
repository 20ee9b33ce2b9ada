"""Child processes for tests: started, waited for, and always gone when the test ends.

A child is a plain fork that runs one function and reports its value, its exception, or the
signal that killed it. A child that takes too long shows its stacks and is killed, so that
nothing can hang.
"""

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from mmbloom import BloomFilter

T = TypeVar("T")

# Seconds until a wait counts as a hang. It is no measure of speed: on a busy machine what takes a
# second can take minutes. Stacks are shown earlier, see conftest.py.
PATIENCE = 600.0


class ChildFailedError(Exception):
    """The child raised, and the message holds its traceback; or it ended without a report.

    It is the cause of the error that the child raised, and stands in for one that cannot be
    pickled or would end the tests, such as SystemExit.
    """


class ChildDiedError(Exception):
    """A signal ended the child, or it hung and was killed.

    Attributes
    ----------
    signal : int
        The signal.
    """

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"{why}: {signal.Signals(number).name}")
        self.signal = number


class Child(Generic[T]):
    """A forked process that runs one function.

    Parameters
    ----------
    function : callable
        Runs in the child; what it returns must pickle.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        read, write = os.pipe()
        self._output = os.fdopen(read, "rb", 0)
        self.pid = os.fork()
        if self.pid == 0:
            self._run(function, write)
        os.close(write)
        self.exit_status: int | None = None

    def _run(self, function: Callable[[], T], write: int) -> None:
        exit_code = 1
        try:
            self._output.close()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            faulthandler.register(signal.SIGUSR1, file=2)
            try:
                report: tuple[str, Any] = ("value", function())
            except BaseException as error:  # noqa: BLE001  reported to the parent, whatever it is
                report = ("error", (_portable(error), traceback.format_exc()))
            with open(write, "wb") as stream:
                pickle.dump(report, stream)
            exit_code = 0
        finally:
            os._exit(exit_code)

    def kill(self) -> None:
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGKILL)

    def alive(self) -> bool:
        """Tell whether the child still runs."""
        return self._wait(os.WNOHANG) is None

    def show_stacks(self) -> None:
        """Have a child that hangs print where, on stderr."""
        print(f"child {self.pid} hangs; its threads:", file=sys.stderr, flush=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
            time.sleep(0.5)

    def result(self, timeout: float = PATIENCE) -> T:
        """Wait for the child and return its value; raise what it raised, or ChildDiedError."""
        report, in_time = self._read(timeout)
        if not in_time:
            self.show_stacks()
            self.kill()
        status = self.wait()
        if status < 0:
            raise ChildDiedError(-status, "ended by" if in_time else f"hung for {timeout:g} s")
        if status:
            raise ChildFailedError(f"exit code {status}, and no report")
        kind, value = pickle.loads(report)
        if kind == "error":
            error, where = value
            if error is None:
                raise ChildFailedError(where)
            raise error from ChildFailedError(where)
        return cast("T", value)

    def wait(self) -> int:
        """Wait for the end; exit code, or minus the signal."""
        status = self._wait(0)
        assert status is not None
        self._output.close()
        return status

    def _wait(self, options: int) -> int | None:
        if self.exit_status is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.exit_status = os.waitstatus_to_exitcode(status)
        return self.exit_status

    def _read(self, timeout: float) -> tuple[bytes, bool]:
        deadline, report = time.monotonic() + timeout, b""
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._output], [], [], left)[0]:
                piece = self._output.read(1 << 20)
                if not piece:
                    return report, True
                report += piece
        return report, False


def _portable(error: BaseException) -> Exception | None:
    """Give an error that the parent can raise as its own; None if it cannot."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  whatever a class of errors does when it is copied
        return None
    return error if isinstance(error, Exception) else None


def in_child(function: Callable[[], T], timeout: float = PATIENCE) -> T:
    """Run one function in a child of its own; return its value, or raise what it raised."""
    child = Child(function)
    try:
        return child.result(timeout)
    finally:
        end(child)


def peak_memory(action: Callable[[], object]) -> int:
    """Run an action in a child, and count the bytes of Python that it has at most at a time."""

    def run() -> int:
        tracemalloc.start()
        action()
        return tracemalloc.get_traced_memory()[1]

    return in_child(run)


def as_user(user: int, function: Callable[[], T]) -> T:
    """Run a function in a child that is another user, as only root can."""

    def run() -> T:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        return function()

    return in_child(run)


def ended_by(number: int, function: Callable[[], object]) -> None:
    """Run one function in a child of its own, which this signal must end."""
    try:
        in_child(function)
    except ChildDiedError as died:
        found = died.signal
    else:
        found = 0  # it ended by itself
    assert found == number


def together(functions: Sequence[Callable[[], T]], timeout: float = PATIENCE) -> list[T]:
    """Run each function in a child of its own, all started at one moment."""
    waiting, go = os.pipe()
    children: list[Child[T]] = []

    def start_with_others(function: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            os.close(go)
            os.read(waiting, 1)  # returns when the parent, the last to hold it, closes `go`
            return function()

        return run

    try:
        try:
            children.extend(Child(start_with_others(function)) for function in functions)
        finally:
            os.close(go)
            os.close(waiting)
        return [child.result(timeout) for child in children]
    finally:
        for child in children:
            end(child)


def end(child: "Child[Any]") -> None:
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    child.wait()


@contextlib.contextmanager
def running(function: Callable[[], Any]) -> Iterator[int]:
    """Keep a child running for a block; killed after it. Gives its pid."""
    child: Child[Any] = Child(function)
    try:
        yield child.pid
    finally:
        end(child)


@contextlib.contextmanager
def locked_elsewhere(path: str | Path) -> Iterator[None]:
    """Have another process hold the write lock of a filter for a block."""
    told, tell = os.pipe()

    def hold() -> None:
        with BloomFilter.open(path) as seen, seen.locked():
            os.write(tell, b"x")
            signal.pause()

    with open(told, "rb", buffering=0) as reports, running(hold):
        os.close(tell)
        assert reports.read(1), "the holder ended"
        yield


def wait_for(path: Path, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.001)


def add_range(seen: BloomFilter, start: int, stop: int) -> int:
    """Add the ints of a range, some in a batch and some one by one; module-level, for spawn."""
    middle = (start + stop) // 2
    new = int(seen.add_many(list(range(start, middle))).sum())
    return new + sum(seen.add(key) for key in range(middle, stop))
