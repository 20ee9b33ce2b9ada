"""A Dask cluster of two worker processes on this host, and programs that use it.

The cluster is a child of the test's process, and each driver is another one: Dask leaves threads
behind, which no process that forks should have.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from workers import in_child

T = TypeVar("T")

_START = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
        silence_logs="ERROR",
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """Run a cluster for a block; gives its address. All its processes are gone after it."""
    script = folder / "cluster.py"
    script.write_text(_START)
    environment = {
        **os.environ,
        "DASK_TEMPORARY_DIRECTORY": str(folder),
        # How long a worker waits for one that was killed; 30 s by default.
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
        # Of workers, two and those in the place of killed ones: else each imports all anew.
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",
    }
    with (folder / "cluster.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().decode().strip()
        assert address, (folder / "cluster.log").read_text()
        yield address
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:  # the session has the workers, too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdin.close()
        process.stdout.close()


def driver(address: str, program: Callable[[Any], T], timeout: float = 60.0) -> T:
    """Run a program in a process of its own, with a client of the cluster."""

    def run() -> T:
        from distributed import Client  # noqa: PLC0415  see above

        with Client(address, set_as_default=True) as client:
            client.wait_for_workers(2, timeout=30)
            return program(client)

    return in_child(run, timeout)


def stall(client: Any, where: str, calls: int, note: Path) -> None:
    """Have the worker that first has made so many calls of a method stand still for ever.

    The method is named as "module:Class.method". The worker writes its pid to `note`. Which worker
    it is Dask decides: now and then it gives one of two all tasks of a kind.
    """

    def patch(where: str, calls: int, note: str) -> None:
        import contextlib  # noqa: PLC0415  all of it is sent to the workers
        import importlib  # noqa: PLC0415
        import os  # noqa: PLC0415
        import time  # noqa: PLC0415

        module, _, name = where.partition(":")
        owner, _, method = name.partition(".")
        cls = getattr(importlib.import_module(module), owner)
        original = getattr(cls, method)
        done: list[None] = []

        def stalling(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            done.append(None)
            if len(done) == calls:
                with contextlib.suppress(FileExistsError), open(note, "x") as file:
                    file.write(f"{os.getpid()}\n")
                    file.flush()
                    while True:
                        time.sleep(1)
            return result

        setattr(cls, method, stalling)

    client.run(patch, where, calls, str(note))


def kill_when_noted(note: Path, timeout: float = 40.0) -> None:
    deadline = time.monotonic() + timeout
    while not (note.exists() and note.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "no worker was given so many tasks"
        time.sleep(0.01)
    os.kill(int(note.read_text()), signal.SIGKILL)
