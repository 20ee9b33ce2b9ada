"""A function in a process of its own that may die or hang: which, is what is to be found out.

`_measure.apart` is for functions that are known to return.
"""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

# Afresh: a process of its own starts those of this one, and all begin with its imports alone.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["numpy", "mmbloom"])
_PATIENCE = 300.0  # seconds


def barrier(parties: int) -> Barrier:
    """Give a place where so many processes of `at_once` meet."""
    return _CONTEXT.Barrier(parties)


class DiedError(Exception):
    """The process gave no answer; the text says what became of it."""


def _answer(pipe: Connection, work: Callable[..., Any], args: Sequence[Any]) -> None:
    try:
        found = work(*args)
    except Exception as error:  # noqa: BLE001  raised again where it is waited for
        pipe.send((None, error))
    else:
        pipe.send((found, None))


def at_once(work: Callable[..., Any], calls: Sequence[Sequence[Any]], patience: float) -> list[Any]:
    """Call a function in several new processes at once; give the answers in order.

    Raises
    ------
    DiedError
        If a process was killed, ended without an answer, or took longer than `patience` seconds.
    """
    running = []
    for args in calls:
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(target=_answer, args=(theirs, work, args))
        process.start()
        theirs.close()
        running.append((process, ours))
    try:
        return [_received(process, pipe, patience) for process, pipe in running]
    finally:
        for process, pipe in running:
            process.kill()
            process.join()
            pipe.close()


def _received(process: Any, pipe: Connection, patience: float) -> Any:
    if not pipe.poll(patience):
        raise DiedError("hung")
    try:
        found, error = pipe.recv()
    except EOFError:
        process.join()
        code = process.exitcode
        raise DiedError(signal.Signals(-code).name if code < 0 else f"exit {code}") from None
    process.join(patience)  # a process that is killed amid its exit leaves things behind
    if error is not None:
        raise error
    return found


def apart(work: Callable[..., Any], *args: Any, patience: float = _PATIENCE) -> Any:
    """Call a function in one new process; see `at_once`."""
    return at_once(work, [args], patience)[0]
