"""Process several inputs in several processes that share one filter.

Workers receive jobs over pipes, one at a time. They share one more pipe, to which nobody writes and
of which only the parent has the other end: when the parent is gone, a worker reads its end and
stops, so that none stays behind.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from subprocess import Popen
from typing import Protocol, cast

from mmbloom._system.threads import process_limits, signals_deferred, start
from mmbloom.cli.process import TERMINATED, StoppedError, prepare, said_warnings
from mmbloom.errors import CapacityWarning, InputError
from mmbloom.logs.dedup import Tally

_REFUSED = f"the system allows no more processes ({process_limits()}): give a smaller -j"


class Job(Protocol):
    """The work of a worker process; it is pickled."""

    def run(self, tally: Tally) -> None:
        """Do the work, and count it, so that it is known after an error too."""


def run_jobs(
    jobs: Sequence[Job], processes: int, tallies: Sequence[Tally], done: Callable[[int], object]
) -> None:
    """Run all jobs in at most `processes` processes; the first error stops all of them.

    Parameters
    ----------
    jobs : sequence of Job
        In the order to start them.
    processes : int
        The number of processes at a time.
    tallies : sequence of Tally
        One for each job, which gets its figures when it has ended, also by an error.
    done : callable
        Called with the index of each job that has ended.

    Raises
    ------
    StoppedError
        If a job did: no other is begun then, but those that run come to their own end, so that
        what they have written is marked.
    """
    waiting = list(enumerate(jobs))[::-1]
    workers: dict[Connection, tuple[Popen[bytes], int]] = {}
    stopped = ""
    alive, held = Pipe(duplex=False)  # workers read its end when this process is gone
    try:
        for _ in range(min(processes, len(jobs))):
            ours, theirs = Pipe()
            index, job = waiting.pop()
            with signals_deferred():
                process = _started(theirs.fileno(), alive.fileno())
                workers[ours] = (process, index)
            theirs.close()
            _send(ours, process, job)
        while workers:
            for ready in wait(list(workers)):
                connection = cast("Connection", ready)
                process, index = workers[connection]
                tally, error = _receive(connection, process)
                tallies[index].add(tally)
                if isinstance(error, StoppedError):
                    stopped = stopped or str(error)
                    waiting.clear()
                elif error is not None:
                    raise error
                done(index)
                if waiting:
                    index, job = waiting.pop()
                    workers[connection] = (process, index)
                    _send(connection, process, job)
                else:
                    connection.close()
                    process.wait()
                    del workers[connection]
    finally:
        for connection, (process, _) in workers.items():
            process.terminate()
            process.wait()
            connection.close()
        alive.close()
        held.close()
    if stopped:
        raise StoppedError(stopped)


# What a worker runs. It needs nothing of its parent to begin, which may have died by then.
_RUN = "import sys; sys.path[:] = sys.argv[3:]; import mmbloom.cli.workers as w; w.work()"


def _started(*pipes: int) -> Popen[bytes]:
    """Start a worker: a fresh interpreter, which inherits stdin and ends of pipes, but no lock."""
    # Names of files mean the same in it, and what the import warns of has been said.
    options = [f"-Xutf8={sys.flags.utf8_mode}", "-Wignore"]
    command = [sys.executable, *options, "-c", _RUN, *map(str, pipes), *sys.path]
    try:
        return Popen(command, pass_fds=pipes)  # noqa: S603  this program
    except BlockingIOError:
        raise InputError(_REFUSED) from None


def _send(connection: Connection, process: Popen[bytes], job: Job) -> None:
    try:
        connection.send(job)
    except ConnectionError:
        raise _died(process) from None


def _died(process: Popen[bytes]) -> InputError:
    return InputError(f"a worker process died (exit code {process.wait()})")


Answer = tuple[Tally, Exception | None]


def _receive(connection: Connection, process: Popen[bytes]) -> Answer:
    try:
        return cast("Answer", connection.recv())
    except (EOFError, ConnectionError):
        raise _died(process) from None


def work() -> None:
    """Do jobs that come over a pipe, until it ends."""
    connection = Connection(int(sys.argv[1]))
    start(threading.Thread(target=_end_with_parent, args=(int(sys.argv[2]),), daemon=True))
    # The parent handles Ctrl-C. A worker begins with signals blocked, and SIGINT stays so.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})
    prepare()
    with said_warnings(), suppress(EOFError, ConnectionError):  # raised once the parent is gone
        warnings.simplefilter("ignore", CapacityWarning)  # the parent says it in the end
        while True:
            connection.send(_answer(connection))


def _end_with_parent(alive: int) -> None:
    """Exit at once when the parent is killed, even if an input never ends."""
    # Not by polling the connection: macOS does not report its end alone.
    os.read(alive, 1)
    os._exit(TERMINATED)


def _answer(connection: Connection) -> Answer:
    tally = Tally()
    try:
        job: Job = connection.recv()  # unpickling opens the filter, which can fail
        job.run(tally)
    except EOFError:
        raise
    except Exception as error:  # noqa: BLE001  the parent reports any error
        return tally, error
    return tally, None
