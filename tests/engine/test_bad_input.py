"""What is wrong is refused by the compiled kernels before anything is read or written."""

import struct
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from forms import SIPHASH, chunk_of, hashed, octets_of
from kernels import COMPILED, Engine, each_engine, each_hash, needs_compiled
from naive import LAYOUTS, empty_words

from mmbloom._engine.key_batch import ByteKeys, IntegerKeys, PackedKeys, RowKeys, TextKeys, ViewKeys
from mmbloom._keys.coerce import coerce_one
from mmbloom.sizing import Layout
from mmbloom.sizing.params import KeyHash

KERNELS = ["contains", "add", "claim"]
HALVES = np.arange(3, dtype=np.uint64)


def call(name: str, words: Any, h1: Any, h2: Any, params: Any) -> object:
    return getattr(COMPILED, name)(words, h1, h2, params)


def params_of(
    layout: Layout = "blocked", num_bits: int = 512, num_hashes: int = 3, blocks: int = 1
) -> Any:
    """Parameters, right or wrong: what `FilterParams` refuses a kernel may get all the same."""
    sizes: dict[str, Any] = {"layout": layout, "num_bits": num_bits, "num_hashes": num_hashes}
    sizes["blocks_per_key"] = blocks
    return SimpleNamespace(**sizes, seed=0, hash="siphash", key_hash=SIPHASH)


# The number of words; layout, bits, hashes and blocks a key; the error.
SIZE, HASHES = "num_bits is 512, the array has", "num_hashes is .*, expected 1 to 64"
BLOCKS, TOO_LARGE = "blocks_per_key is .*, expected 1", "too (large|big)|can't"
REFUSED: list[tuple[int, tuple[Any, ...], str]] = [
    *((8, (layout, 512, k), HASHES) for layout in LAYOUTS for k in (0, -1, 65, 2**31 - 1)),
    *((words, (layout, 512), SIZE) for layout in LAYOUTS for words in (0, 1, 7, 9, 16)),
    *((512, ("blocked", 32768, 6, blocks), BLOCKS) for blocks in (-2, 0, 4, 9, 2**31 - 1)),
    *((512, ("standard", 32768, 6, blocks), BLOCKS) for blocks in (0, 2)),
    (512, ("blocked", 32768, 7, 2), BLOCKS),  # b divides k
    (512 + 8, ("blocked", 33280, 6, 2), "a multiple of 32768"),
    *((8, ("standard", num_bits), "num_bits is") for num_bits in (0, 500, 513)),
    (9, ("blocked", 576), "a multiple of 512"),
    *((9, ("blocked", num_bits), TOO_LARGE) for num_bits in (-512, 2**64, 2**70)),
]


@needs_compiled
@pytest.mark.parametrize(("num_words", "sizes", "match"), REFUSED)
def test_sizes_that_do_not_fit(num_words: int, sizes: tuple[Any, ...], match: str) -> None:
    """Every kernel that takes an array refuses it, and leaves it as it is."""
    words, counters = np.zeros(num_words, dtype=np.uint64), np.zeros(4, dtype=np.uint64)
    error = OverflowError if match == TOO_LARGE else ValueError
    for name in KERNELS:
        with pytest.raises(error, match=match):
            call(name, words, HALVES, HALVES, params_of(*sizes))
    with pytest.raises(error, match=match):
        COMPILED.OneKey(words, counters, params_of(*sizes), coerce_one)
    assert not words.any()


@needs_compiled
@pytest.mark.parametrize("name", [*KERNELS, "contains_any"])
def test_halves_of_different_length(name: str) -> None:
    words = np.zeros(8, dtype=np.uint64)
    for h1, h2 in ((HALVES, HALVES[:2]), (HALVES[:1], HALVES), (HALVES[:2], HALVES)):
        with pytest.raises(ValueError, match="h1 and h2 differ in length"):
            call(name, [words] if name == "contains_any" else words, h1, h2, params_of())
    assert not words.any()


REFUSALS = (ValueError, TypeError, AttributeError, BufferError)
WRONG_WORDS: list[Any] = [
    np.zeros(8, dtype=np.int64),
    np.zeros(8, dtype=">u8"),
    np.zeros(8, dtype=np.float64),
    np.zeros(16, dtype=np.uint32),
    np.zeros((2, 4), dtype=np.uint64),
    np.zeros(16, dtype=np.uint64)[::2],
    np.zeros(8, dtype=np.uint64)[::-1],
    bytes(64),
    None,
    [0] * 8,
]


@needs_compiled
@pytest.mark.parametrize("wrong", WRONG_WORDS, ids=lambda wrong: type(wrong).__name__)
def test_arrays_of_another_kind(wrong: Any) -> None:
    words, params = np.zeros(8, dtype=np.uint64), params_of()
    for name in KERNELS:
        for array, h1, h2 in (
            (wrong, HALVES, HALVES),
            (words, wrong, HALVES),
            (words, HALVES, wrong),
        ):
            with pytest.raises(REFUSALS):
                call(name, array, h1, h2, params)
    with pytest.raises(REFUSALS):
        COMPILED.OneKey(wrong, np.zeros(4, dtype=np.uint64), params, coerce_one)
    if not isinstance(wrong, np.ndarray) or wrong.dtype != np.uint64 or wrong.ndim > 1:
        with pytest.raises(REFUSALS):
            COMPILED.OneKey(words, wrong, params, coerce_one).add("a")
    if wrong is not None:  # for Cython an array of no words
        with pytest.raises(REFUSALS):
            COMPILED.count_set(wrong)
    assert not words.any()


@needs_compiled
@pytest.mark.parametrize(
    "arrays",
    [
        *([np.zeros(8, np.uint64), np.zeros(16, np.uint64)][::step] for step in (1, -1)),
        *([wrong] for wrong in (np.zeros(0, np.uint64), np.zeros((8, 1), np.uint64), b"x")),
        *([wrong] for wrong in (np.zeros(8, np.int64), np.zeros(16, np.uint64)[::2], None)),
    ],
)
def test_one_wrong_array_of_several(arrays: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        COMPILED.contains_any(arrays, HALVES, HALVES, params_of())


@each_engine
def test_read_only_arrays(engine: Engine) -> None:
    """What is mapped for reading is read; writing to it is an error, not a signal."""
    params, words = params_of(), np.zeros(8, dtype=np.uint64)
    claimed = engine.claim(words, HALVES, HALVES, params)
    words.setflags(write=False)
    one = engine.OneKey(words, np.zeros(4, dtype=np.uint64), params, coerce_one)
    with pytest.raises((ValueError, TypeError), match="read-only"):
        engine.add(words, HALVES, HALVES, params)
    with pytest.raises((ValueError, TypeError), match="read-only"):
        engine.commit(words, claimed)
    with pytest.raises((ValueError, TypeError), match="read-only"):
        one.add("a")
    assert one.contains("a") is False
    assert not engine.contains(words, HALVES, HALVES, params).any()
    assert engine.claim(words, HALVES, HALVES, params).new.any()
    assert engine.count_set(words) == 0


@needs_compiled
def test_claims_of_another_array() -> None:
    claimed = COMPILED.claim(empty_words(params_of()), HALVES, HALVES, params_of())
    for num_words in (0, 7, 9, 16):
        with pytest.raises(ValueError, match="the claim is of an array of 8 words, this one has"):
            COMPILED.commit(np.zeros(num_words, dtype=np.uint64), claimed)
    larger = np.zeros(16, dtype=np.uint64)
    with pytest.raises(ValueError, match="the claim is of an array of 8 words, this one has 16"):
        COMPILED.contains_with(larger, claimed, HALVES, HALVES, params_of(num_bits=1024))
    words = np.zeros(8, dtype=np.uint64)
    with pytest.raises(TypeError):
        COMPILED.commit(words, None)
    with pytest.raises(TypeError):
        COMPILED.contains_with(words, None, HALVES, HALVES, params_of())
    with pytest.raises(ValueError, match="num_bits is 1024, the array has 512"):
        COMPILED.contains_with(words, claimed, HALVES, HALVES, params_of(num_bits=1024))
    with pytest.raises(ValueError, match="h1 and h2 differ in length"):
        COMPILED.contains_with(words, claimed, HALVES, HALVES[:2], params_of())


@needs_compiled
def test_one_key_unprepared() -> None:
    unprepared: Any = COMPILED.OneKey
    with pytest.raises(TypeError):
        unprepared.__new__(unprepared)
    with pytest.raises(ValueError, match="counters"):
        COMPILED.OneKey(empty_words(params_of()), HALVES, params_of(), coerce_one)


SPANS: list[tuple[list[int], list[int]]] = [
    *(([0], [7]), ([7], [7]), ([-1], [3]), ([3], [2])),
    *(([0, 3, 0], [3, 6, 2**31 - 1]), ([0, -(2**31)], [1, 1])),
]
WIDE: list[tuple[list[int], list[int]]] = [
    *(([2**32], [2**32 + 1]), ([0], [2**63 - 1]), ([-(2**63)], [0]), ([2**63 - 1], [2**63 - 1]))
]


@needs_compiled
@each_hash
@pytest.mark.parametrize(("starts", "ends"), SPANS + WIDE)
def test_spans_outside_their_buffer(key_hash: KeyHash, starts: list[int], ends: list[int]) -> None:
    """Offsets before, beyond or backwards are an error that names the key, not a read."""
    octets = octets_of(b"abcdef")
    for dtype in ("i8",) if (starts, ends) in WIDE else ("i4", "i8"):
        batch = PackedKeys(octets, np.array(starts, dtype=dtype), np.array(ends, dtype=dtype))
        with pytest.raises(ValueError, match=f"key {len(starts) - 1} lies outside its buffer"):
            COMPILED.hash_keys(batch, key_hash)


@needs_compiled
@each_hash
def test_spans_of_wrong_shape(key_hash: KeyHash) -> None:
    """As many starts as ends, of one dimension, in a buffer of bytes that lie together."""
    octets, some = octets_of(b"abcdef"), np.array([0, 1])
    for wrong in (
        PackedKeys(octets, some, some[:1]),
        PackedKeys(octets, some[:1], some),
        PackedKeys(octets, some.reshape(1, 2), some.reshape(1, 2)),
        PackedKeys(octets[::2], some, some),
        PackedKeys(octets.view("u2"), some, some),
    ):
        with pytest.raises(ValueError):  # noqa: PT011  of numpy, Cython or this package
            COMPILED.hash_keys(wrong, key_hash)
    nothing = PackedKeys(octets[:0], np.array([0, 0]), np.array([0, 0]))
    assert COMPILED.hash_keys(nothing, key_hash)[0].tolist() == [hashed([b""], key_hash)[0][0]] * 2


def view(length: int, buffer: int, offset: int) -> bytes:
    return struct.pack("<I4sII", length, b"abcd", buffer, offset)


@needs_compiled
@each_hash
@pytest.mark.parametrize(
    "wrong",
    [
        *(view(13, 0, 8), view(13, 1, 0), view(13, 2**32 - 1, 0)),
        *(view(2**32 - 1, 0, 0), view(2**31, 0, 2**32 - 1), view(21, 0, 0)),
    ],
)
def test_views_outside_their_buffers(key_hash: KeyHash, wrong: bytes) -> None:
    good = view(13, 0, 7)
    for views, place in ((wrong, 0), (good + wrong, 1)):
        batch = ViewKeys(octets_of(views).reshape(-1, 16), [octets_of(b"x" * 20)])
        with pytest.raises(ValueError, match=f"key {place} lies outside its buffer"):
            COMPILED.hash_keys(batch, key_hash)
    batch = ViewKeys(octets_of(good).reshape(-1, 16), [])
    with pytest.raises(ValueError, match="outside its buffer"):
        COMPILED.hash_keys(batch, key_hash)
    for shape in ((1, 8), (2, 4)):
        with pytest.raises(ValueError, match="views of shape"):
            COMPILED.hash_keys(ViewKeys(octets_of(good)[:8].reshape(shape), []), key_hash)


@needs_compiled
@each_hash
def test_batches_of_another_kind(key_hash: KeyHash) -> None:
    wrong: list[tuple[Any, type[Exception]]] = [
        (["a"], TypeError),
        (ByteKeys.of(("a",)), TypeError),  # type: ignore[arg-type]
        (ByteKeys.of(["a", 5]), TypeError),  # type: ignore[list-item]
        (ByteKeys.of(["a", "\ud800"]), ValueError),
        (ByteKeys.of([None]), TypeError),  # type: ignore[list-item]
        (TextKeys(np.array(["a", "\udfff"])), ValueError),
        (TextKeys(np.array([0x110000, 97], dtype=np.uint32).view("U1")), ValueError),
        (RowKeys(np.zeros((2, 3), dtype=np.int32), padded=False), ValueError),
        (RowKeys(np.zeros((2, 2, 2), dtype=np.uint8), padded=False), ValueError),
        (IntegerKeys(np.zeros((2, 2), dtype=np.int64)), ValueError),
    ]
    for batch, error in wrong:
        with pytest.raises(error):
            COMPILED.hash_keys(batch, key_hash)
    for name, seed in (("murmur3", -1), ("murmur3", 2**32), ("siphash", 2**128)):
        with pytest.raises(OverflowError):
            COMPILED.hash_keys(ByteKeys.of(["a"]), KeyHash(name, seed))  # type: ignore[arg-type]


@needs_compiled
def test_lines_outside_their_block() -> None:
    """Lines, parts and answers that do not fit the block are an error before any copy."""
    chunk, yes = chunk_of([b"ab", b"c"]), np.array([True, True])
    octets, starts, ends = chunk.octets, chunk.starts, chunk.ends
    for start, stop in ((-1, 2), (3, 2), (0, 6), (6, 6), (2**63 - 1, 2**63 - 1)):
        with pytest.raises(ValueError, match="of a buffer of 5"):
            COMPILED.find_lines(octets, start, stop, 10, 9)
    for bad_starts, bad_ends in (
        *((starts, ends + 1), (starts - 1, ends), (ends + 1, starts), (starts, ends[:1])),
        (starts, np.array([2, 2**63 - 1])),
    ):
        with pytest.raises(ValueError, match=r"line \d is bytes|starts and"):
            COMPILED.gather(octets, bad_starts, bad_ends, yes, 1)
        with pytest.raises(ValueError, match=r"line \d is bytes|starts and"):
            COMPILED.select_keys(octets, bad_starts, bad_ends + 1, ignore_case=True)
    with pytest.raises(ValueError, match="1 answers for 2 lines"):
        COMPILED.gather(octets, starts, ends, yes[:1], 1)


@each_engine
def test_a_list_that_another_thread_changes(engine: Engine) -> None:
    """Keys that come and go while a list is hashed: an error or an answer, never a crash."""
    keys: list[bytes | str] = [b"some key %d" % i for i in range(5000)]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            del keys[100:]
            keys.extend(["é" * (i % 50) for i in range(4900)])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            try:
                h1, h2 = engine.hash_keys(ByteKeys.of(keys)[0:5000], SIPHASH)
            except (ValueError, IndexError, TypeError):
                continue
            assert len(h1) == len(h2)
            first = [b"some key %d" % i for i in range(9)]
            assert list(zip(h1[:9].tolist(), h2[:9].tolist(), strict=True)) == hashed(
                first, SIPHASH
            )
    finally:
        stop.set()
        thread.join()
