"""Lines that strangers write cannot make other lines disappear, unless MurmurHash3 is asked for.

Some pairs of lines have one MurmurHash3 under every seed: whoever writes the one makes a filter of
that hash know the other. The default hash keeps them apart, as nobody knows its key.
"""

from pathlib import Path
from typing import Any

import mmh3
import pytest
from cli_runner import mmbloom
from collisions import colliding_lines
from reference import murmur3_x64_128
from tally import Count

from mmbloom import BloomFilter, CountingBloomFilter, GrowingFilter

PAIRS = 200


@pytest.fixture(scope="module")
def pairs() -> list[tuple[bytes, bytes]]:
    made = colliding_lines(PAIRS, 1)
    assert len({line for pair in made for line in pair}) == 2 * PAIRS
    assert all(line.decode().isprintable() for pair in made for line in pair)
    return made


def test_the_pairs_collide_under_every_seed(pairs: list[tuple[bytes, bytes]], seed: int) -> None:
    """Two implementations of MurmurHash3 give both lines of each pair one hash, by any seed."""
    for some_seed in (0, 1, 2**32 - 1, *((seed + i * 0x9E3779B9) % 2**32 for i in range(50))):
        for one, other in pairs:
            assert one != other
            assert mmh3.hash64(one, some_seed) == mmh3.hash64(other, some_seed)
        assert murmur3_x64_128(pairs[0][0], some_seed) == murmur3_x64_128(pairs[0][1], some_seed)


@pytest.mark.laws("T16")
@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize("cls", [BloomFilter, CountingBloomFilter, GrowingFilter])
def test_the_default_keeps_both(
    tmp_path: Path, cls: Any, layout: str, pairs: list[tuple[bytes, bytes]], tally: Count
) -> None:
    """At 1e-9 the default finds none of the others; MurmurHash3, with any seed, all of them."""
    ones, others = map(list, zip(*pairs, strict=True))
    with cls.create(tmp_path / "seen", 10_000, 1e-9, layout=layout) as seen:
        assert seen.add_many(ones).all()
        assert not seen.contains_many(others).any()
        assert not any(line in seen for line in others)
        assert seen.add_many(others).all()
    with cls.create(tmp_path / "old", 10_000, 1e-9, layout=layout, hash="murmur3") as seen:
        assert seen.add_many(ones).all()
        assert seen.contains_many(others).all()
        assert not any(seen.add(line) for line in others)
    tally(pairs=PAIRS, lost_by_default=0, lost_by_murmur3=PAIRS)


@pytest.mark.laws("T16")
def test_dedup_prints_both(tmp_path: Path, pairs: list[tuple[bytes, bytes]], tally: Count) -> None:
    """`mmbloom dedup` prints all lines of a log that holds such pairs, and half with murmur3."""
    log = b"".join(one + b"\n" + other + b"\n" for one, other in pairs)
    sizes = ("-n", "1e5", "-p", "1e-9")
    status, printed, said = mmbloom("dedup", tmp_path / "seen", *sizes, stdin=log)
    assert (status, printed, said) == (0, log, "")
    half = b"".join(one + b"\n" for one, _ in pairs)
    options = ("dedup", tmp_path / "old", *sizes, "--hash", "murmur3")
    assert mmbloom(*options, stdin=log) == (0, half, "")
    tally(lines=2 * PAIRS, lost_by_default=0, lost_by_murmur3=PAIRS)
