"""What every test gets: no leaked descriptor, child or thread; printed seeds; --stress."""

import os

# Before numpy is imported: it takes memory by huge pages, and of large arrays tests write a word
# here and there, for each of which 2 MB were cleared.
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")

import argparse
import ctypes
import gc
import importlib.util
import multiprocessing
import random
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import has
import hypothesis
import pytest
from descriptors import file_of, open_descriptors

import mmbloom
from mmbloom import BloomFilter
from mmbloom._engine.compiled import FAULT, remedy
from mmbloom._storage import moving
from mmbloom._system import memory
from mmbloom._system.threads import usable_cores
from mmbloom.filters import options

pytest_plugins = ["excluding", "folders", "power", "tally", "unions"]

# T1 for 30 minutes: what --stress without a number stands for.
LONG = 360
FORKING = ("cli", "folders", "laws", "operations", "slices", "storage")
STACKS_AFTER = 120.0  # seconds until the stacks of a test that hangs are shown, times --stress

# Children test the package that this process tests, wherever they are started, with its engine.
os.environ["PYTHONSAFEPATH"] = "1"
os.environ["MMBLOOM_ENGINE"] = mmbloom.engine

# numpy starts a thread a core for linear algebra, which nothing here does: that takes half of the
# time of a short child.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A process of xdist has it, and it would go before the size of a test's own terminal.
os.environ.pop("COLUMNS", None)

# A shell has what it starts in the background ignore Ctrl-C, and so would all children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# New examples and seeds at every run; on CI the same ones, as a failure must be the change's there.
ON_CI = bool(os.environ.get("CI"))
# No example database: a test run writes nothing outside its own folder.
hypothesis.settings.register_profile(
    "mmbloom",
    database=None,
    deadline=None,
    print_blob=True,
    derandomize=ON_CI,
)
hypothesis.settings.register_profile(  # for .ci/sanitize
    "few", hypothesis.settings.get_profile("mmbloom"), max_examples=25
)
hypothesis.settings.load_profile("mmbloom")


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is tested, and how to repeat it."""
    where = "in shared memory" if config.getoption("--resident") else "mapped"
    tested = f"{mmbloom.engine} engine, files {where}, {os.path.dirname(mmbloom.__file__)}"
    return f"mmbloom: {tested}, repeat with --seed={config.getoption('--seed')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption(
        "--stress",
        type=_multiplier,
        nargs="?",
        const=LONG,
        default=1,
        metavar="N",
        help=f"multiply the length of stress tests; {LONG} if no number is given",
    )
    parser.addoption(
        "--slow",
        action="store_true",
        help="run also the tests that are marked slow, as where files or marks are named",
    )
    parser.addoption(
        "--resident",
        action="store_true",
        help="keep every filter that can be kept in shared memory there, however small it is",
    )
    parser.addoption(
        "--seed",
        type=int,
        default=0 if ON_CI else secrets.randbits(32),
        help="repeat a run, or one test of it, with the seed that it printed",
    )


def _multiplier(text: str) -> int:
    if int(text) < 1:  # which would run nothing, and pass
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an engine that is not this code's; give longer tests more time to show stacks."""
    if FAULT not in ("", "was not built"):
        raise pytest.UsageError(f"the compiled engine {FAULT}: {remedy()}")
    _draw_seeds_again(config)
    if hasattr(config, "workerinput"):  # of xdist
        config.option.slow = config.workerinput["slow"]
    else:
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        config.option.slow |= named or bool(config.option.markexpr or config.option.keyword)
    patience = STACKS_AFTER * config.getoption("--stress")
    config._inicache["faulthandler_timeout"] = patience  # what -o does, which comes too early
    assert config.getini("faulthandler_timeout") == patience
    if config.getoption("--resident"):  # in this process and those that it forks
        if not has.WORKING_COPIES:
            raise pytest.UsageError("this system keeps no arrays in shared memory")
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        patch.setattr(moving, "is_wanted", lambda resident, *_: resident is not False)
        patch.setattr(moving, "_FEW_CHANGES", 0)
        shared = tempfile.mkdtemp(prefix="mmbloom-tests-", dir=memory.SHARED)
        config.add_cleanup(partial(shutil.rmtree, shared))
        patch.setattr(memory, "SHARED", shared)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass on to a process of xdist whether slow tests run: it has the command's words alone."""
    node.workerinput["slow"] = node.config.option.slow


_DRAWN = random.Random()  # where filters that are made without a seed have theirs from, in a test


def _draw_seeds_again(config: pytest.Config) -> None:
    """Have a filter made without a seed draw the same one whenever its test is repeated.

    A filter tells a few absent keys that they are there, other ones with each seed: a test that
    asks for thousands would fail now and then, and would not when it is run again to see why. In
    its children, of which two may not draw alike, seeds come from the system as ever.
    """
    here = os.getpid()

    def drawn(size: int) -> bytes:
        return _DRAWN.randbytes(size) if os.getpid() == here else os.urandom(size)

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(options, "os", SimpleNamespace(urandom=drawn))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run what is named in this process, where it can be looked at; all tests in several.

    One more than there are cores: a sixth of the time of a test it waits, for children, for locks
    and for the disk.
    """
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return 0 if named else usable_cores() + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process a file at a time, or a folder whose tests share a cluster."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  it may be missing

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            folder, file = nodeid.partition("::")[0].rsplit("/", 1)
            return folder if "/cluster" in folder else f"{folder}/{file}"

    config.option.loadscopereorder = False  # in the order below
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless it is asked for; begin with the folders that fork most.

    Columns come at the end.

    A fork copies the page tables of all that the process holds, which grows from test to test (the
    first column of pyarrow imports pandas), and these tests fork some thousand times.
    """

    def place(item: pytest.Item) -> tuple[bool, bool, bool]:
        folder = item.path.parent.name
        cluster = folder.startswith("cluster")  # whose engines import pandas, and which takes long
        columns = isinstance(item, pytest.Function) and "pa" in vars(item.module)
        return columns or cluster, folder not in FORKING, not cluster

    if not config.option.slow:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over the tests from now on, and over what they import."""
    _collect_once()


def _collect_once() -> None:
    """Collect garbage, and pass over all else from now on: a tenth of a second each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin with the test's own seeds; skip it if it needs an object store that is not there."""
    its_own = f"{item.config.getoption('--seed')} {item.nodeid}"
    _DRAWN.seed(its_own)
    random.seed(its_own)
    # 200 MB, which not everybody installs.
    needs = ("flask", "moto", "s3fs") if item.get_closest_marker("object_store") else ()
    if not all(map(importlib.util.find_spec, needs)):
        pytest.skip("needs an object store: pip install 'mmbloom[test-s3]'")


@pytest.fixture
def stress(request: pytest.FixtureRequest) -> int:
    """Multiplier of the length of concurrency tests, 1 unless --stress says otherwise."""
    return int(request.config.getoption("--stress"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Seed for a random generator, of this test in this run; the run's is printed."""
    of_run = request.config.getoption("--seed")
    print(f"seed: repeat with --seed={of_run}")
    return random.Random(f"{of_run} {request.node.nodeid}").getrandbits(32)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a filter may be made."""
    return str(tmp_path / "seen.bloom")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def create(path: str) -> Iterator[Callable[..., BloomFilter]]:
    """Make filters that are closed when the test ends: create(capacity, ..., name=...)."""
    made: list[BloomFilter] = []

    def make(
        capacity: int | None = 1000, *args: Any, name: str = "", **options: Any
    ) -> BloomFilter:
        where = os.path.join(os.path.dirname(path), name) if name else path
        made.append(BloomFilter.create(where, capacity, *args, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


_TRACKER = resource_tracker._resource_tracker
_TASKS = "/proc/self/task"


def _descriptors() -> set[int]:
    """Open descriptors; those that multiprocessing keeps are left out."""
    return open_descriptors() - {vars(_TRACKER).get("_fd")}


def _children() -> set[int]:
    """Pids of the children of this process; multiprocessing's resource tracker is left out.

    Where the system does not list them, 0 stands for any that there are.
    """
    pids: set[int] = set()
    if has.WAITID and not has.PROC and vars(_TRACKER).get("_pid") is None:
        with suppress(ChildProcessError):  # there is none
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            pids.add(0)
    for task in os.listdir(_TASKS) if has.PROC else ():
        # A thread that has just ended has none.
        with (
            suppress(FileNotFoundError, ProcessLookupError),
            open(f"{_TASKS}/{task}/children") as listing,
        ):
            pids.update(map(int, listing.read().split()))
    pids |= {child.pid for child in multiprocessing.active_children() if child.pid}
    return pids - {vars(_TRACKER).get("_pid")}


@pytest.fixture(scope="module", autouse=True)
def _give_memory_back() -> Iterator[None]:
    """A fork copies the page tables of all that is held, and the tests fork some thousand times."""
    yield
    _collect_once()
    with suppress(AttributeError, OSError, TypeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a file descriptor, a child process or a thread behind."""
    descriptors, children, threads = _descriptors(), _children(), set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)  # one that has nothing left to do may still wait for a core
    if _descriptors() - descriptors:
        gc.collect()  # a map lives until its last view is gone, of a raised error's frames too
    leaked = {fd: file_of(fd) for fd in _descriptors() - descriptors}
    assert not leaked, f"open descriptors left: {leaked}"
    assert not _children() - children, f"child processes left: {_children() - children}"
    assert not set(threading.enumerate()) - threads, "threads left running"
