"""Outputs that several runs append to."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from cli_runner import EXACT, exact_filter, inside, mmbloom
from forms import octets_of

from mmbloom import BloomFilter, CapacityWarning
from mmbloom.cli.outputs import open_output


def test_line_cut_off_by_another_run_meanwhile(tmp_path: Path) -> None:
    """Law 6: a line that another, killed run leaves cut off does not swallow the next one."""
    path = tmp_path / "out"
    with open_output(str(path), b"\n") as writer:
        writer.write(octets_of(b"a\n"), terminated=True)
        with path.open("ab") as other:
            other.write(b"cut o")
        writer.write(octets_of(b"precious\n"), terminated=True)
    assert path.read_bytes() == b"a\ncut o\nprecious\n"


def test_capacity_warning_as_an_error_comes_last(tmp_path: Path) -> None:
    """Where warnings are errors, the keys of the call are all added, and the lock is free."""
    path = tmp_path / "seen.bloom"
    keys = np.arange(40_000)
    with BloomFilter.create(path, 10_000, seed=1) as seen:
        with pytest.raises(CapacityWarning):
            seen.add_many(keys)
        assert seen.contains_many(keys).all()
        with BloomFilter.open(path, lock_timeout=0.1) as other:
            assert not other.add(0)


def test_output_in_no_folder_makes_no_filter(tmp_path: Path) -> None:
    """What cannot be written to is found before the disk is reserved for a filter."""
    made, output = tmp_path / "seen.bloom", tmp_path / "nowhere" / "out"
    ended = mmbloom("dedup", made, *EXACT, "-o", output, stdin=b"a\n")
    assert (ended.code, ended.out) == (5, b"")
    assert ended.err == f"mmbloom: {output}: No such file or directory\n"
    assert not made.exists()


def test_output_that_cannot_be_forced_to_the_disk(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output of which the disk says at the end that it is not there: exit 5, naming it."""
    seen, output = exact_filter(tmp_path / "seen"), tmp_path / "out"
    (tmp_path / "in").write_bytes(b"a\n")
    fsync = os.fsync

    def fail(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), output.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail)
    done = inside(capfdbinary, "dedup", seen, tmp_path / "in", "-o", output)
    assert (done.code, done.out) == (5, b"")
    assert done.err == f"mmbloom: {output}: Input/output error\n"
