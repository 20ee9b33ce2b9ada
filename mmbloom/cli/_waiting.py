"""Taking the write lock on the command line: as long as it takes, but not in silence."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from mmbloom.claim import Claiming
from mmbloom.cli._streams import say
from mmbloom.errors import LockTimeout

SILENT_SECONDS = 5.0


def patiently(seen: Claiming, timeout: float | None) -> Callable[[], AbstractContextManager[None]]:
    """Make the context manager that takes the lock, waiting `timeout` seconds, None for ever."""

    @contextmanager
    def hold() -> Iterator[None]:
        with ExitStack() as stack:
            try:
                first = SILENT_SECONDS if timeout is None else min(SILENT_SECONDS, timeout)
                stack.enter_context(seen.locked(first))
            except LockTimeout:
                if timeout is not None and timeout <= SILENT_SECONDS:
                    raise
                say(
                    f"{seen.path}: waiting for another writer to release the lock, which it "
                    "keeps until its output is taken (so never pipe two commands on one filter)"
                )
                rest = None if timeout is None else timeout - SILENT_SECONDS
                stack.enter_context(seen.locked(rest))
            yield

    return hold
