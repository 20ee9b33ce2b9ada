"""Power cuts around flushes and checkpoints of arrays in shared memory: flushed keys are there."""

import os
import random
import select
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from copies import copies, missing
from power import Mount, after_reboot, cut
from tally import Count
from workers import Child, end, in_child

from mmbloom import BloomFilter, verify
from mmbloom._storage import working_copy

CUTS = 6
BATCH = 200


def keys_of(batch: int) -> np.ndarray:
    return np.arange(batch * BATCH, (batch + 1) * BATCH)


def add_and_flush(path: Path, flushed: int, every: int) -> None:
    with BloomFilter.open(path, resident=True) as seen:
        for batch in range(100_000):
            seen.add_many(keys_of(batch))
            time.sleep(0.001)  # or it is full within a second
            if batch % every == every - 1:
                seen.flush()
                os.write(flushed, (batch + 1).to_bytes(8, "little"))


def write_back(path: Path) -> None:
    """Bring to the disk what was written, as the system does in its own time."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def last_said(pipe: int, before: int) -> int:
    with open(pipe, "rb", buffering=0, closefd=False) as said:
        raw = said.read() or b""
    return int.from_bytes(raw[-8:], "little") if raw else before


@pytest.mark.laws("T17")
@pytest.mark.parametrize("every", [1, 10_000])
def test_cut_at_any_moment(
    image: Path,
    mount: Mount,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    tally: Count,
    every: int,
) -> None:
    """Whenever the power fails, the file is a filter, and no key that was flushed is lost.

    Flushed after each batch; or never, but checkpointed all the time.
    """
    chance, flushed, found = random.Random(seed), 0, list[int]()
    monkeypatch.setattr(working_copy, "ROUND_SECONDS", 0.2)
    disk = mount(image)
    BloomFilter.create(disk / "seen", 2_000_000, 1e-6, resident=False).close()
    # Not os.sync, which writes what other tests have on disks of theirs.
    subprocess.run(["sync", "-f", disk], check=True)
    read, write = os.pipe()
    os.set_blocking(read, False)
    writer = Child(lambda: add_and_flush(disk / "seen", write, every))
    try:
        while len(found) < CUTS or (every > 1 and not max(found)):
            number = len(found)
            time.sleep(chance.uniform(0.05, 0.3))
            if every == 1:  # on a busy machine that took longer
                select.select([read], [], [])
            os.kill(writer.pid, signal.SIGSTOP)
            flushed = last_said(read, flushed)
            if every > 1:  # the system would, within half a minute
                write_back(disk / "seen")
            folder = mount(cut(image, number))
            os.kill(writer.pid, signal.SIGCONT)
            with after_reboot():
                with BloomFilter.open(folder / "seen", "r") as seen:
                    assert not seen.info().resident
                    assert missing(seen, np.arange(flushed * BATCH)) == 0
                    found.append(int(seen.contains_many(np.arange(10**6)).sum()))
                with BloomFilter.open(folder / "seen") as seen:
                    assert seen.add("after the cut")
                    seen.recount()  # the counters are newer than the array
                found_out = verify(folder / "seen")
                assert found_out.ok, str(found_out)
    finally:
        end(writer)
        os.close(read)
        os.close(write)
    tally(cuts=len(found), keys=flushed * BATCH)
    if every == 1:
        assert flushed >= CUTS
    else:
        assert flushed == 0
        assert max(found) > 0  # what a checkpoint alone has brought to the disk, in the end
    (copy,) = copies()  # the writer was killed: its keys are in memory
    assert copy.exists()
    in_child(BloomFilter.open(disk / "seen").close)
    assert copies() == []
