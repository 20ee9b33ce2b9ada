"""Making a file when calls fail: the error comes out, and what is there is whole or nothing."""

import errno
import os

import has
import pytest
from checks import array_of, check_folder
from faults import Hook, at_call, os_calls
from tally import Count

from mmbloom import BloomFilter
from mmbloom._storage import atomic
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file, new_filter
from mmbloom._system import disk
from mmbloom._system.typing import Reserve
from mmbloom.sizing import plan

PARAMS = plan(1000, 0.01, seed=3)
SIZE = 4096 + PARAMS.num_bytes


def make(path: str, reserve: Reserve = "zeros") -> None:
    create_file(Target(path, 0o600, False), PARAMS, reserve=reserve)


CALLS = {"open", "chmod", "fchmod", "posix_fallocate", "write", "pwrite", "fsync", "close", "link"}


def only(hook: Hook) -> Hook:
    return lambda name: hook(name) if name in CALLS else None


def make_failing(path: str, number: int, fault: BaseException) -> None:
    """Make a file, one call of which fails, counted from 0."""

    def fail(_: str) -> None:
        raise fault

    with os_calls(only(at_call(number, fail))):
        make(path)


# What create_file does up to the link, in this order; after it comes the sync of the folder.
# The last write, of the array's zeros, is only for speed: what fsync promised is there without.
BEFORE = ["open", "fchmod", "posix_fallocate", "pwrite", "fsync", "pwrite", "close", "link"]
if not has.FALLOCATE:  # the zeros are written in place of it, and not once more
    BEFORE[4:6] = ["pwrite", "fsync"]
HELD = ["close"]  # of a second descriptor, by which the file is known: it may fail
AFTER = ["open", "fsync", "close"]
CODES = (errno.ENOSPC, errno.EIO, errno.EINTR)
FAULTS = [OSError(code, os.strerror(code)) for code in CODES]


@pytest.fixture(autouse=True)
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system in memory, where /tmp may be, fewer calls are made."""
    monkeypatch.setattr("mmbloom._system.disk.IN_MEMORY", frozenset())


@pytest.mark.laws("T7")
def test_calls_of_creation(path: str, tally: Count) -> None:
    """The file is filled and synced before it is linked, and its folder after (law 8)."""
    watched, fewer = list[str](), list[str]()
    with os_calls(only(watched.append)):
        make(path)
    assert watched == BEFORE + HELD + AFTER
    with os_calls(only(fewer.append)):
        make(path + "2", reserve="fallocate")
    without_zeros = [*BEFORE[:5], *BEFORE[6:]] if has.FALLOCATE else BEFORE
    assert fewer == without_zeros + HELD + AFTER
    assert array_of(path) == array_of(path + "2") == bytes(PARAMS.num_bytes)
    assert os.stat(path).st_blocks == os.stat(path + "2").st_blocks
    tally(calls_in_order=len(watched))


@pytest.mark.laws("T7")
@pytest.mark.parametrize("at", range(len(BEFORE)), ids=BEFORE)
def test_an_interrupt_at_any_call_leaves_nothing(path: str, at: int, tally: Count) -> None:
    """The folder is as it was; what a call that fails leaves is for the tests of laws."""
    with pytest.raises(KeyboardInterrupt):
        make_failing(path, at, KeyboardInterrupt())
    check_folder(os.path.dirname(path))
    tally(faults=1)


@pytest.mark.laws("T7")
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("at", range(len(AFTER)), ids=AFTER)
def test_failing_sync_of_the_folder_leaves_a_whole_filter(
    path: str, at: int, fault: OSError, tally: Count
) -> None:
    """Once linked the file stays, for others may have it open: whole, and without temp file."""
    with pytest.raises(OSError, match=os.strerror(fault.errno or 0)):
        make_failing(path, len(BEFORE + HELD) + at, fault)
    check_folder(os.path.dirname(path), "seen.bloom")
    with BloomFilter.open(path) as seen:
        assert seen.add("a")
    tally(faults=1)


def test_folder_that_cannot_be_synced(path: str) -> None:
    """A file system that has no sync of folders is no reason to fail."""
    make_failing(path, len(BEFORE + HELD) + 1, OSError(errno.EINVAL, "Invalid argument"))
    assert os.path.getsize(path) == SIZE


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        *(("open", code, os.strerror(code)) for code in CODES),
        *(("posix_fallocate", code, f"cannot reserve {SIZE} bytes: ") for code in CODES),
        # No other file system is advised where that would not help.
        *(
            ("link", code, rf"into place \({os.strerror(code)}\): ")
            for code in (errno.ENAMETOOLONG, errno.ENOSPC, errno.EACCES)
        ),
        ("link", errno.EPERM, r"cannot link the new file into place .*hard links"),
    ],
)
def test_what_an_error_says(path: str, call: str, code: int, said: str) -> None:
    """The bytes that were asked for, or why there is no link; the number, and the file."""
    with pytest.raises(OSError, match=said) as caught:
        make_failing(path, BEFORE.index(call), OSError(code, os.strerror(code)))
    assert (caught.value.errno, caught.value.filename) == (code, path)
    check_folder(os.path.dirname(path))


def refuse_to_reserve(patch: pytest.MonkeyPatch, code: int) -> None:
    """Do without posix_fallocate: the system has none (ENOTSUP), or the file system refuses it."""
    patch.setattr(atomic, "WRITE_BYTES", 1000)

    def refuse(*_: object) -> None:
        raise OSError(code, "refused")

    patch.setattr(disk, "allocate", refuse)


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL])
def test_zeros_where_space_cannot_be_reserved(
    path: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Without posix_fallocate the zeros are written, all of them, in several pieces."""
    refuse_to_reserve(monkeypatch, code)
    make(path)
    assert len(array_of(path)) == PARAMS.num_bytes
    assert not any(array_of(path))
    assert os.stat(path).st_blocks * 512 >= SIZE
    with BloomFilter.open(path) as seen:
        assert seen.add("a")


def test_disk_full_while_zeros_are_written(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up under the zeros is ENOSPC with the size, and leaves nothing."""
    refuse_to_reserve(monkeypatch, errno.EOPNOTSUPP)
    with pytest.raises(OSError, match=f"cannot reserve {SIZE} bytes") as caught:
        make_failing(path, BEFORE.index("pwrite") + 1, FAULTS[0])
    assert caught.value.errno == errno.ENOSPC
    check_folder(os.path.dirname(path))


def test_error_of_the_source_is_not_of_the_new_file(path: str) -> None:
    """What fails in reading, while a filter is made of other files, is not said of the new one."""
    target = Target(path, 0o600, allow_network=False)
    with pytest.raises(OSError, match="of a source") as caught, new_filter(target, plan(1000)):
        raise OSError(errno.EIO, "of a source")
    assert caught.value.filename is None
    assert not os.path.exists(path)
