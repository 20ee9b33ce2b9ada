"""Several inputs in several processes that share the one filter.

Jobs go to workers over pipes, one at a time. A worker whose parent is gone reads the end
of its pipe and stops: none stays behind.
"""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol, cast

from mmbloom.cli._errors import TERMINATED, InputError
from mmbloom.dedup import Tally


class Job(Protocol):
    """What a worker does; it is pickled."""

    def run(self) -> Tally:
        """Do it."""


def run_jobs(jobs: Sequence[Job], processes: int, done: Callable[[int], None]) -> Tally:
    """Run all jobs in at most `processes` processes; the first error ends them all.

    Parameters
    ----------
    jobs : sequence of Job
        In the order to start them.
    processes : int
        How many at a time.
    done : callable
        Called with the index of each job that has ended.

    Returns
    -------
    Tally
        Of all jobs together.
    """
    # spawn: a fresh interpreter holds nothing of ours, no descriptor, no thread, no lock.
    context = multiprocessing.get_context("spawn")
    total, waiting = Tally(), list(enumerate(jobs))[::-1]
    workers: dict[Connection, tuple[BaseProcess, int]] = {}
    asked_to_end = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        for _ in range(min(processes, len(jobs))):
            ours, theirs = context.Pipe()
            process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            index, job = waiting.pop()
            ours.send(job)
            workers[ours] = (process, index)
        while workers:
            for ready in wait(list(workers)):
                connection = cast("Connection", ready)
                process, index = workers[connection]
                total.add(_receive(connection, process))
                done(index)
                if waiting:
                    index, job = waiting.pop()
                    connection.send(job)
                    workers[connection] = (process, index)
                else:
                    connection.close()
                    process.join()
                    del workers[connection]
    finally:
        for connection, (process, _) in workers.items():
            process.terminate()
            process.join()
            connection.close()
        signal.signal(signal.SIGTERM, asked_to_end)
    return total


def _receive(connection: Connection, process: BaseProcess) -> Tally:
    try:
        answer = connection.recv()
    except (EOFError, ConnectionError):
        process.join()
        raise InputError(f"a worker process died (exit code {process.exitcode})") from None
    if isinstance(answer, BaseException):
        raise answer
    return cast("Tally", answer)


def _work(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C, and ends us
    while True:
        try:
            connection.send(_answer(connection.recv()))
        except (EOFError, ConnectionError):  # the parent is gone
            return


def _answer(job: Job) -> Tally | Exception:
    try:
        return job.run()
    except Exception as error:  # noqa: BLE001  whatever it is, the parent reports it
        return error
