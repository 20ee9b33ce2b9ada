"""What a filter says of itself is what its file says."""

import dataclasses
import inspect
import json
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from checks import array_of, counters_of, set_counters
from kinds import Kind, each_kind

from mmbloom import BloomFilter, FilterInfo, GrowingFilter, RotatingFilter
from mmbloom.sizing import Layout

LAYOUTS = get_args(Layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_info_is_the_header(create: Callable[..., BloomFilter], path: str, layout: Layout) -> None:
    """Every field agrees with the bytes of the file, read by the offsets of the format."""
    start = time.time_ns()
    seen = create(1000, 0.001, layout=layout, seed=77)
    seen.update(range(700))
    seen.flush()
    info, raw, counters = seen.info(), Path(path).read_bytes(), counters_of(path)
    assert info.path == path
    assert info.uuid == raw[72:88].hex()
    assert info.created_ns == struct.unpack_from("<Q", raw, 64)[0]
    assert start <= info.created_ns <= info.flushed_ns == counters["flushed_ns"] <= time.time_ns()
    assert info.file_bytes == len(raw)
    assert (info.capacity, info.error_rate) == struct.unpack_from("<Qd", raw, 48) == (1000, 0.001)
    assert info.layout == layout == {1: "standard", 2: "blocked"}[raw[20]]
    assert (info.num_hashes, info.num_bits, 0) == struct.unpack_from("<IQI", raw, 28)
    assert info.hash == {1: "murmur3", 2: "siphash"}[raw[24]] == "siphash"
    assert info.seed == int.from_bytes(raw[112:128], "little") == 77
    assert info.keys_added == counters["keys_added"]
    bits = int.from_bytes(array_of(path), "little").bit_count()
    assert info.positions_set == counters["positions_set"] == bits
    assert info.fill_ratio == seen.fill_ratio == bits / info.num_bits
    assert info.approx_count == seen.approx_count == pytest.approx(700, rel=0.05)
    assert info.current_error_rate == seen.current_error_rate
    assert 0 < info.current_error_rate < 0.001
    assert (info.unfinished_batches, info.read_only, info.sealed) == (0, "", False)


def test_info_of_a_new_filter(create: Callable[..., BloomFilter]) -> None:
    """An empty filter has nothing in it, was never flushed, and gives no false positive."""
    info = create(1000).info()
    assert (info.keys_added, info.positions_set, info.approx_count, info.flushed_ns) == (0, 0, 0, 0)
    assert (info.fill_ratio, info.current_error_rate) == (0, 0)


@each_kind
def test_attributes_agree_with_info(kind: Kind, path: str) -> None:
    with kind.create(path, 300, error_rate=1e-6, seed=5) as seen:
        seen.update(range(90))
        info = seen.info()
        names = ["capacity", "error_rate", "keys_added", "approx_count", "fill_ratio"]
        if isinstance(info, FilterInfo):
            names += ["num_bits", "num_hashes", "seed"]
        for name in [*names, "current_error_rate"]:
            assert getattr(seen, name) == getattr(info, name), name
            assert info.as_dict()[name] == (None if name == "seed" else getattr(seen, name))
            with pytest.raises(AttributeError):
                setattr(seen, name, 1)
        assert (seen.error_rate, seen.seed, seen.keys_added) == (1e-6, 5, 90)
        assert seen.capacity == 300
        said = re.findall(r"(\w+)=([\d.e-]+)", repr(seen))
        assert [float(value) for _, value in said] == [getattr(seen, name) for name, _ in said]
    assert (seen.error_rate, seen.seed) == (1e-6, 5)
    assert isinstance(seen, (GrowingFilter, RotatingFilter)) or seen.capacity == 300


@pytest.mark.parametrize(
    ("begun", "done", "said"), [(5, 3, 2), (3, 5, 0), (2**64 - 1, 0, 2**64 - 1)]
)
def test_unfinished_batches(
    create: Callable[..., BloomFilter], path: str, begun: int, done: int, said: int
) -> None:
    """Batches begun and not done are told; damaged counters never give a negative number."""
    seen = create(1000)
    set_counters(path, batches_begun=begun, batches_done=done)
    assert seen.info().unfinished_batches == said


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_full_is_about_half(create: Callable[..., BloomFilter], layout: Layout) -> None:
    seen = create(20_000, 0.01, layout=layout, seed=1)
    seen.update(range(19_800))
    assert seen.fill_ratio == pytest.approx(0.47, abs=0.05)
    assert seen.current_error_rate == pytest.approx(0.01, rel=0.1)


def test_info_is_json_ready(create: Callable[..., BloomFilter]) -> None:
    """as_dict goes through JSON and comes back the same; the record cannot be changed."""
    info = create(1000, hash="murmur3").info()
    again = json.loads(json.dumps(info.as_dict()))
    assert FilterInfo(**again) == info
    assert list(again) == [field.name for field in dataclasses.fields(info)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.seed = 1  # type: ignore[misc]


def test_every_field_is_documented() -> None:
    text = inspect.getdoc(FilterInfo) or ""  # without the source's indentation, on each Python
    for field in dataclasses.fields(FilterInfo):
        assert f"\n{field.name} :" in text or f"{field.name}," in text or f", {field.name}" in text


def test_info_keeps_the_key_secret(create: Callable[..., BloomFilter]) -> None:
    """Neither as_dict nor the repr has SipHash's key, which who reads the file can have."""
    secret = 0x0123456789ABCDEF_0123456789ABCDEF
    info = create(1000, seed=secret).info()
    assert info.seed == secret
    assert info.as_dict()["seed"] is None
    for text in (repr(info), str(info.as_dict()), json.dumps(info.as_dict())):
        assert str(secret) not in text
        assert f"{secret:x}" not in text
