"""Process several inputs in several processes that share one filter.

Workers receive jobs over pipes, one at a time. When the parent is gone, a worker reads the
end of its pipe and stops, so that none stays behind.
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol, cast

from mmbloom._threads import signals_deferred, start
from mmbloom.cli.process import TERMINATED, StoppedError, prepare, said_warnings
from mmbloom.dedup import Tally
from mmbloom.errors import CapacityWarning, InputError

_REFUSED = "the system allows no more processes (ulimit -u, or pids.max of a cgroup): lower -j"


class Job(Protocol):
    """The work of a worker process; it is pickled."""

    def run(self, tally: Tally) -> None:
        """Do the work, and count it, so that it is known after an error too."""


def run_jobs(
    jobs: Sequence[Job], processes: int, tallies: Sequence[Tally], done: Callable[[int], None]
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
    # spawn: a fresh interpreter inherits no descriptor, no thread and no lock.
    context = multiprocessing.get_context("spawn")
    waiting = list(enumerate(jobs))[::-1]
    workers: dict[Connection, tuple[BaseProcess, int]] = {}
    stopped = ""
    resource_tracker.ensure_running()  # starting it unblocks SIGINT in the starting process
    try:
        for _ in range(min(processes, len(jobs))):
            ours, theirs = context.Pipe()
            process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=True)
            index, job = waiting.pop()
            with signals_deferred():
                try:
                    process.start()
                except BlockingIOError:
                    raise InputError(_REFUSED) from None
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
                    process.join()
                    del workers[connection]
    finally:
        for connection, (process, _) in workers.items():
            process.terminate()
            process.join()
            connection.close()
    if stopped:
        raise StoppedError(stopped)


def _send(connection: Connection, process: BaseProcess, job: Job) -> None:
    try:
        connection.send(job)
    except ConnectionError:
        raise _died(process) from None


def _died(process: BaseProcess) -> InputError:
    process.join()
    return InputError(f"a worker process died (exit code {process.exitcode})")


Answer = tuple[Tally, Exception | None]


def _receive(connection: Connection, process: BaseProcess) -> Answer:
    try:
        return cast("Answer", connection.recv())
    except (EOFError, ConnectionError):
        raise _died(process) from None


def _work(connection: Connection) -> None:
    start(threading.Thread(target=_end_with_parent, daemon=True))
    # The parent handles Ctrl-C. A worker begins with signals blocked, and SIGINT stays so.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})
    prepare()
    with said_warnings(), suppress(EOFError, ConnectionError):  # raised once the parent is gone
        warnings.simplefilter("ignore", CapacityWarning)  # the parent says it in the end
        while True:
            connection.send(_answer(connection))


def _end_with_parent() -> None:
    """Exit at once when the parent is killed, even if an input never ends."""
    if parent := multiprocessing.parent_process():
        parent.join()
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
