"""SipHash, in every way that keys are hashed, is what its authors and others compute.

Three witnesses: the published digests of SipHash-2-4 with 128 bits, which the same code gives with
other rounds; an independent SipHash in plain Python; and Python's own hash of bytes, which is
SipHash-1-3 with 64 bits under a key that `PYTHONHASHSEED` decides.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from forms import SIPHASH, hashed
from kernels import Engine, every_engine
from reference import siphash

from mmbloom._engine.key_batch import ByteKeys, IntegerKeys
from mmbloom._engine.reference.hash import hash_one
from mmbloom.sizing.params import KeyHash

# Of the inputs 00, 00 01, 00 01 02 ... by length, with the key 00 01 ... 0f; from the vectors.h
# of the authors' reference code.
PUBLISHED_KEY = int.from_bytes(bytes(range(16)), "little")
PUBLISHED = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    4: "f88164c12d9c8faf7d0f6e7c7bcd5579",
    5: "1368875980776f8854527a07690e9627",
    6: "14eeca338b208613485ea0308fd7a15e",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    10: "00110dc378146956c95447d3f3d0fbba",
    11: "0151c568386b6677a2b4dc6f81e5dc18",
    12: "d626b266905ef35882634df68532c125",
    13: "9869e247e9c08b10d029934fc4b952f7",
    14: "31fcefac66d7de9c7ec7485fe4494902",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    17: "473d06e8738db89854c066c47ae47740",
    18: "a426e5e423bf4885294da481feaef723",
    19: "78017731cf65fab074d5208952512eb1",
    20: "9e25fc833f2290733e9344a5e83839eb",
    21: "568e495abe525a218a2214cd3e071d12",
    22: "4a29b54552d16b9a469c10528eff0aae",
    23: "c9d184ddd5a9f5e0cf8ce29a9abf691c",
    63: "5150d1772f50834a503e069a973fbd7c",
}


@every_engine
@pytest.mark.parametrize("length", PUBLISHED)
def test_published_digests(engine: Engine, length: int) -> None:
    """With 2 and 4 rounds each of the implementations gives the authors' digests."""
    data, digest = bytes(range(length)), bytes.fromhex(PUBLISHED[length])
    h1, h2 = engine.siphash(data, PUBLISHED_KEY, 2, 4)
    assert h1.to_bytes(8, "little") + h2.to_bytes(8, "little") == digest
    assert siphash(data, PUBLISHED_KEY, 2, 4) == int.from_bytes(digest, "little")


def key_of(seed: int) -> int:
    """The key of Python's hash: zero for seed 0, else the bytes of a linear generator."""
    state, key = seed, b""
    for _ in range(16 if seed else 0):
        state = (state * 214013 + 2531011) % 2**32
        key += bytes([state >> 16 & 255])
    return int.from_bytes(key, "little")


@pytest.mark.skipif(
    sys.hash_info.algorithm != "siphash13", reason="this Python's hash of bytes is no SipHash-1-3"
)
@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1])
def test_rounds_are_those_of_python(seed: int) -> None:
    """The reference with 64 bits is Python's own hash of bytes; its rounds are those of 128."""
    code = "import json; print(json.dumps([hash(bytes(range(n))) % 2**64 for n in range(256)]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    by_python = json.loads(done.stdout)
    key = key_of(seed)
    by_reference = [siphash(bytes(range(length)), key, bits=64) for length in range(256)]
    assert by_python[1:] == by_reference[1:]  # that of no bytes is 0, by rule


@every_engine
@pytest.mark.parametrize("key", [0, 7, 2**64, SIPHASH.seed, 2**128 - 1])
def test_one_key_is_the_reference(engine: Engine, key: int) -> None:
    """One key at a time, with 1 and 3 rounds, is the independent implementation."""
    for length in (*range(70), 255, 256, 1000):
        data = bytes(i * 7 % 256 for i in range(length))
        halves = engine.siphash(data, key)
        assert halves[0] | halves[1] << 64 == siphash(data, key)
        assert halves == hash_one(data, KeyHash("siphash", key))


@every_engine
@pytest.mark.parametrize("number", [1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 300])
def test_any_number_of_keys(engine: Engine, number: int) -> None:
    """Keys that are finished side by side are each hashed as alone, however many there are."""
    chance = np.random.default_rng(number)
    keys = [chance.bytes(length) for length in chance.integers(0, 600, number)]
    keys[number // 2] = b"x" * 5000
    h1, h2 = engine.hash_keys(ByteKeys.of([*keys]), SIPHASH)
    assert list(zip(h1.tolist(), h2.tolist(), strict=True)) == hashed(keys, SIPHASH)
    words = chance.integers(-(2**63), 2**63 - 1, number)
    h1, h2 = engine.hash_keys(IntegerKeys(words), SIPHASH)
    expected = hashed([word.to_bytes(8, "little", signed=True) for word in words.tolist()], SIPHASH)
    assert list(zip(h1.tolist(), h2.tolist(), strict=True)) == expected


@every_engine
def test_every_bit_of_the_key_counts(engine: Engine) -> None:
    """Keys that differ in one bit of 128 give hashes that have nothing in common."""
    found = {engine.siphash(b"some key", SIPHASH.seed ^ 1 << bit) for bit in range(128)}
    assert len({half for halves in found for half in halves}) == 256
