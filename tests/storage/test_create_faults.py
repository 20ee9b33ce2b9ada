"""Making a file when calls fail: the error comes out, and what is there is whole or nothing."""

import errno
import os
import resource
from typing import Any

import pytest
from checks import array_of, check_folder
from tally import Count

from mmbloom import BloomFilter
from mmbloom._storage import atomic, build
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file, new_filter
from mmbloom._system import descriptors
from mmbloom._system.typing import Reserve
from mmbloom.sizing import plan

PARAMS = plan(1000, 0.01, seed=3)
SIZE = 4096 + PARAMS.num_bytes


def make(path: str, reserve: Reserve = "zeros") -> None:
    create_file(Target(path, 0o600, False), PARAMS, reserve=reserve)


def fake_os(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    """Let the modules that make a filter file call another `os`."""
    for module in (atomic, build, descriptors):
        monkeypatch.setattr(module, "os", fake)


class FaultyOs:
    """The os module, with one call of it that fails: the `fail_at`-th of those that matter."""

    CALLS = (
        "open",
        "chmod",
        "fchmod",
        "posix_fallocate",
        "write",
        "pwrite",
        "fsync",
        "close",
        "link",
    )

    def __init__(self, fail_at: int = -1, error: BaseException | None = None) -> None:
        self.made: list[str] = []
        self._fail_at, self._error = fail_at, error

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.CALLS:
            return real

        def call(*args: Any, **options: Any) -> Any:
            self.made.append(name)
            if len(self.made) - 1 == self._fail_at and self._error:
                if name == "close":
                    real(*args)  # a descriptor is gone even if its close reports an error
                raise self._error
            return real(*args, **options)

        return call


# What create_file does up to the link, in this order; after it comes the sync of the folder.
# The last write, of the array's zeros, is only for speed: what fsync promised is there without.
BEFORE = ["open", "fchmod", "posix_fallocate", "pwrite", "fsync", "pwrite", "close", "link"]
HELD = ["close"]  # of a second descriptor, by which the file is known: it may fail
AFTER = ["open", "fsync", "close"]
FAULTS = [OSError(code, os.strerror(code)) for code in (errno.ENOSPC, errno.EIO, errno.EINTR)]


@pytest.fixture(autouse=True)
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system in memory, where /tmp may be, fewer calls are made."""
    monkeypatch.setattr("mmbloom._system.proc.IN_MEMORY", frozenset())


@pytest.mark.laws("T7")
def test_calls_of_creation(path: str, monkeypatch: pytest.MonkeyPatch, tally: Count) -> None:
    """The file is filled and synced before it is linked, and its folder after (law 8)."""
    watched = FaultyOs()
    fake_os(monkeypatch, watched)
    make(path)
    assert watched.made == BEFORE + HELD + AFTER
    fewer = FaultyOs()
    fake_os(monkeypatch, fewer)
    make(path + "2", reserve="fallocate")
    assert fewer.made == [*BEFORE[:5], *BEFORE[6:], *HELD, *AFTER]
    assert array_of(path) == array_of(path + "2") == bytes(PARAMS.num_bytes)
    assert os.stat(path).st_blocks == os.stat(path + "2").st_blocks
    tally(calls_in_order=len(watched.made))


@pytest.mark.laws("T7")
@pytest.mark.parametrize("fault", [*FAULTS, KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("at", range(len(BEFORE)), ids=BEFORE)
def test_any_failing_call_leaves_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch, at: int, fault: BaseException, tally: Count
) -> None:
    """Whichever call fails, the error comes out and the folder is as it was."""
    fake_os(monkeypatch, FaultyOs(at, fault))
    with pytest.raises(type(fault)) as caught:
        make(path)
    if isinstance(fault, OSError):
        assert isinstance(caught.value, OSError)
        assert caught.value.errno == fault.errno
    check_folder(os.path.dirname(path))
    tally(faults=1)


@pytest.mark.laws("T7")
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("at", range(len(AFTER)), ids=AFTER)
def test_failing_sync_of_the_folder_leaves_a_whole_filter(
    path: str, monkeypatch: pytest.MonkeyPatch, at: int, fault: OSError, tally: Count
) -> None:
    """Once linked the file stays, for others may have it open: whole, and without temp file."""
    fake_os(monkeypatch, FaultyOs(len(BEFORE + HELD) + at, fault))
    with pytest.raises(OSError, match=os.strerror(fault.errno or 0)):
        make(path)
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
    monkeypatch.undo()
    with BloomFilter.open(path) as seen:
        assert seen.add("a")
    tally(faults=1)


def test_folder_that_cannot_be_synced(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no sync of folders is no reason to fail."""
    fault = OSError(errno.EINVAL, "Invalid argument")
    fake_os(monkeypatch, FaultyOs(len(BEFORE + HELD) + 1, fault))
    make(path)
    assert os.path.getsize(path) == SIZE


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_refused_space_names_the_size(
    path: str, monkeypatch: pytest.MonkeyPatch, fault: OSError
) -> None:
    """A refused reservation says how many bytes were asked for, and for which file."""
    fake_os(monkeypatch, FaultyOs(BEFORE.index("posix_fallocate"), fault))
    with pytest.raises(OSError, match=f"cannot reserve {SIZE} bytes: ") as caught:
        make(path)
    assert (caught.value.errno, caught.value.filename) == (fault.errno, path)


def test_size_limit_of_the_system(path: str) -> None:
    """A real refusal, by the limit of file sizes: OSError with the size, and nothing left."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="cannot reserve 1236991680 bytes") as caught:
            BloomFilter.create(path, 10**9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    check_folder(os.path.dirname(path))


class NoFallocate(FaultyOs):
    """A system without posix_fallocate, or a file system that refuses it."""

    def __init__(self, refusal: BaseException, fail_at: int = -1) -> None:
        super().__init__(fail_at, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self._refusal = refusal

    def __getattr__(self, name: str) -> Any:
        if name != "posix_fallocate":
            return super().__getattr__(name)
        if isinstance(self._refusal, AttributeError):
            raise self._refusal

        def refuse(*_: object) -> None:
            raise self._refusal

        return refuse


REFUSALS = [
    AttributeError("posix_fallocate"),
    OSError(errno.EOPNOTSUPP, "not supported"),
    OSError(errno.EINVAL, "invalid"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=repr)
def test_zeros_where_space_cannot_be_reserved(
    path: str, monkeypatch: pytest.MonkeyPatch, refusal: BaseException
) -> None:
    """Without posix_fallocate the zeros are written, all of them, in several pieces."""
    fake_os(monkeypatch, NoFallocate(refusal))
    monkeypatch.setattr(atomic, "WRITE_BYTES", 1000)
    make(path)
    assert len(array_of(path)) == PARAMS.num_bytes
    assert not any(array_of(path))
    assert os.stat(path).st_blocks * 512 >= SIZE
    with BloomFilter.open(path) as seen:
        assert seen.add("a")


def test_disk_full_while_zeros_are_written(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up under the zeros is ENOSPC with the size, and leaves nothing."""
    fake_os(monkeypatch, NoFallocate(REFUSALS[0], fail_at=3))
    monkeypatch.setattr(atomic, "WRITE_BYTES", 1000)
    with pytest.raises(OSError, match=f"cannot reserve {SIZE} bytes") as caught:
        make(path)
    assert caught.value.errno == errno.ENOSPC
    check_folder(os.path.dirname(path))


@pytest.mark.parametrize("code", [errno.ENAMETOOLONG, errno.ENOSPC, errno.EACCES])
def test_link_that_fails_for_another_reason(
    path: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """No other file system is advised, which would not help."""
    fault = OSError(code, os.strerror(code))
    fake_os(monkeypatch, FaultyOs(BEFORE.index("link"), fault))
    with pytest.raises(OSError, match=rf"into place \({os.strerror(code)}\): ") as caught:
        make(path)
    assert (caught.value.errno, caught.value.filename) == (code, path)
    check_folder(os.path.dirname(path))


def test_folder_without_hard_links(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no hard links is told so, with its own error number."""
    fault = OSError(errno.EPERM, "Operation not permitted")
    fake_os(monkeypatch, FaultyOs(BEFORE.index("link"), fault))
    with pytest.raises(
        OSError, match=r"cannot link the new file into place .*hard links"
    ) as caught:
        make(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EPERM, path)
    check_folder(os.path.dirname(path))


def test_error_of_the_source_is_not_of_the_new_file(path: str) -> None:
    """What fails in reading, while a filter is made of other files, is not said of the new one."""
    target = Target(path, 0o600, allow_network=False)
    with pytest.raises(OSError, match="of a source") as caught, new_filter(target, plan(1000)):
        raise OSError(errno.EIO, "of a source")
    assert caught.value.filename is None
    assert not os.path.exists(path)
