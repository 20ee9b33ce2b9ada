"""Copies of others: what is at a name, which names there may be, and who may use a copy."""

import errno
import os
import random
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import array_of, let_others_in
from copies import COPY_OFFSET, NEW, OLD, copies, left_behind, missing, name_in
from steps import refuse_to_open
from tally import Count
from workers import as_user

from mmbloom import BloomFilter
from mmbloom._system import memory
from mmbloom.errors import MmbloomWarning, ReservationWarning

STRANGER = 54321  # a user


def change(copy: Path, where: int) -> None:
    raw = bytearray(copy.read_bytes())
    raw[where] ^= 1
    copy.write_bytes(raw)


def a_folder(copy: Path) -> None:
    copy.unlink()
    copy.mkdir()


def a_link(copy: Path) -> None:
    copy.rename(copy.with_name("elsewhere"))
    copy.symlink_to(copy.with_name("elsewhere"))


def a_pipe(copy: Path) -> None:
    copy.unlink()
    os.mkfifo(copy)


STRANGE: dict[str, Callable[[Path], object]] = {
    "shorter": lambda copy: os.truncate(copy, 5000),
    "another device": partial(change, where=8),
    "another inode": partial(change, where=16),
    "another filter": partial(change, where=24),
    "another size": partial(change, where=40),
    "another start": partial(change, where=48),
    "no copy": partial(change, where=0),
    "a folder": a_folder,
    "a link": a_link,
    "a pipe": a_pipe,
}


@pytest.mark.laws("T9")
@pytest.mark.parametrize("what", STRANGE)
def test_copy_of_a_stranger(file: str, what: str, tally: Count) -> None:
    """What is at the name of a copy and is not that copy is never used."""
    flushed = array_of(file)
    copy = left_behind(file)
    STRANGE[what](copy)
    tally(changes=1)
    with pytest.warns(MmbloomWarning, match="in a copy that is gone.*the file is used"):
        seen = BloomFilter.open(file)
    with seen:
        assert not seen.info().resident
        assert missing(seen, OLD) == 0
        assert array_of(file) == flushed
        seen.add("x")
    with BloomFilter.open(file, resident=True) as seen:  # and a new one can be made
        seen.add("y")
        assert seen.info().resident
        assert "x" in seen


@pytest.mark.laws("T9")
@pytest.mark.parametrize("what", ["of another user", "others may write", "no permission"])
def test_copy_that_others_may_have_changed(
    file: str, what: str, tally: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, and not taken for lost: the keys that are in it alone may all be right."""
    if what == "of another user" and os.geteuid():
        pytest.skip("only root gives files away")
    copy = left_behind(file)
    owner, mode = copy.stat().st_uid, copy.stat().st_mode
    with monkeypatch.context() as patch:
        if what == "no permission":
            refuse_to_open(patch, errno.EACCES, lambda path, _: path == str(copy))
        elif what == "of another user":
            os.chown(copy, STRANGER, -1)
        else:
            copy.chmod(0o666)
        for mode_of in ("r", "r+"):
            with pytest.raises(PermissionError, match="in a copy that cannot be used") as caught:
                BloomFilter.open(file, mode_of)
            assert caught.value.filename == file
    tally(refusals=2)
    assert name_in(file) != bytes(32)
    if what == "of another user":
        os.chown(copy, owner, -1)
    copy.chmod(mode)
    with BloomFilter.open(file) as seen:
        assert missing(seen, NEW) == 0


@pytest.mark.laws("T4")
def test_any_name(file: str, seed: int, tally: Count) -> None:
    chance = random.Random(seed)
    names = [memory.boot_id() + chance.randbytes(16), chance.randbytes(32), b"\xff" * 32]
    names += [memory.boot_id() + b"../../etc/passwd", bytes(16) + chance.randbytes(16)]
    for name in names:
        with open(file, "r+b") as raw:
            raw.seek(COPY_OFFSET)
            raw.write(name)
        there = Path(file).read_bytes()
        tally(files=1)
        for mode in ("r", "r+"):
            if name.startswith(memory.boot_id()):
                with pytest.warns(MmbloomWarning, match="the file is used"):
                    seen = BloomFilter.open(file, mode)
            else:
                seen = BloomFilter.open(file, mode)
            with seen:
                assert missing(seen, OLD) == 0
        assert Path(file).read_bytes() == there


def test_permissions(file: str) -> None:
    """Who may read and write the file may read and write its copy, and no one else."""
    for mode in (0o600, 0o644, 0o660):
        os.chmod(file, mode)
        with BloomFilter.open(file, resident=True) as seen:
            seen.add(mode)
            (copy,) = copies()
            assert stat.S_IMODE(copy.stat().st_mode) == mode


def test_two_users(file: str, shared: Path) -> None:
    """Another user who may write the file has its copy too, but makes none."""
    if os.geteuid():
        pytest.skip("only root becomes another user")
    os.chmod(file, 0o666)
    shared.chmod(0o777)
    let_others_in(Path(file).parent)
    Path(file).parent.chmod(0o777)

    def makes_none() -> None:
        with BloomFilter.open(file, resident=True) as seen:
            with pytest.warns(ReservationWarning, match=r"only its owner, user 0, can do that"):
                assert seen.add("mapped")
            assert not seen.info().resident

    def uses_it() -> None:
        with BloomFilter.open(file) as seen:
            assert seen.info().resident
            assert seen.add("shared")

    as_user(STRANGER, makes_none)
    with BloomFilter.open(file, resident=True) as seen:
        seen.add("mine")
        as_user(STRANGER, uses_it)
        assert "shared" in seen
        assert "mapped" in seen
    assert copies() == []

    def uses_it_last() -> None:
        with BloomFilter.open(file) as seen:
            assert seen.add("last")

    shared.chmod(0o1777)  # as /dev/shm is: only owners remove files
    left_behind(file)
    as_user(STRANGER, uses_it_last)
    (copy,) = copies()
    assert array_of(file) == copy.read_bytes()[4096:]
    with BloomFilter.open(file) as seen:
        assert "last" in seen
    assert copies() == []
