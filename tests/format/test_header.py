"""The header is byte for byte the specified one, and every wrong field gets its own error.

Headers are built and taken apart here with `struct` alone.
"""

import itertools
import struct
import zlib
from typing import Any, get_args

import hypothesis
import pytest
from hypothesis import strategies as st
from naive import step_of

from mmbloom import FormatError, NewerFormatError
from mmbloom.format import header as spec
from mmbloom.format.header import IMMUTABLE, Header, decode, encode, with_counters
from mmbloom.sizing import FilterParams, Layout

LAYOUTS = get_args(Layout)
# Offset and struct code of each field, from the table of the format.
FIELDS = {
    "magic": (0, "8s"),
    "version": (8, "<I"),
    "header_size": (12, "<I"),
    "kind": (16, "<I"),
    "layout": (20, "<I"),
    "hash_id": (24, "<I"),
    "num_hashes": (28, "<I"),
    "num_positions": (32, "<Q"),
    "seed": (40, "<I"),
    "reserved": (44, "<I"),
    "capacity": (48, "<Q"),
    "error_rate": (56, "<d"),
    "created_ns": (64, "<Q"),
    "uuid": (72, "16s"),
    "compatible": (88, "<Q"),
    "read_only_compatible": (96, "<Q"),
    "incompatible": (104, "<Q"),
    "hash_key": (112, "16s"),
    "blocks_per_key": (128, "<I"),
    "padding": (132, "376s"),
    "crc": (508, "<I"),
}
CREATED_NS, UUID, SEED = 1_700_000_000_000_000_000, bytes(range(16)), 0xCAFEBABE
GOOD: dict[str, Any] = {
    "magic": b"\x89MMBLM\r\n",
    "version": 1,
    "header_size": 4096,
    "kind": 1,
    "layout": 2,
    "hash_id": 1,
    "num_hashes": 6,
    "num_positions": 1024,
    "seed": SEED,
    "capacity": 100,
    "error_rate": 0.01,
    "created_ns": CREATED_NS,
    "uuid": UUID,
}
PARAMS: dict[str, Any] = {
    "capacity": 100,
    "error_rate": 0.01,
    "layout": "blocked",
    "num_bits": 1024,
    "num_hashes": 6,
    "seed": SEED,
    "hash": "murmur3",
    "blocks_per_key": 1,
}


def build(**fields: Any) -> bytes:
    """Lay out 4096 bytes by the table; the CRC is right unless it is given."""
    raw = bytearray(4096)
    for name, value in {**GOOD, **fields}.items():
        offset, code = FIELDS[name]
        struct.pack_into(code, raw, offset, value)
    if "crc" not in fields:
        struct.pack_into("<I", raw, 508, zlib.crc32(bytes(raw[:508])))
    return bytes(raw)


def header(**changes: Any) -> Header:
    """Make the header that `build` lays out, but for some fields or parameters."""
    params = {name: changes.pop(name, value) for name, value in PARAMS.items()}
    return Header(FilterParams(**params), **{"created_ns": CREATED_NS, "uuid": UUID, **changes})


GOOD_SIZE = 4096 + 1024 // 8


def test_encode_is_the_table() -> None:
    """Encoding gives the bytes of the format's table, zeros and checksum included."""
    assert encode(header()) == build()
    counters = encode(header(kind=2, compatible=8, read_only_compatible=1))
    assert counters == build(kind=2, compatible=8, read_only_compatible=1)
    standard = encode(header(layout="standard", num_bits=64, seed=0))
    assert standard == build(layout=1, num_positions=64, seed=0)
    keyed = encode(header(hash="siphash", seed=int.from_bytes(bytes(range(1, 17)), "little")))
    assert keyed == build(hash_id=2, seed=0, hash_key=bytes(range(1, 17)))
    several = encode(header(num_bits=65536, blocks_per_key=3))
    assert several == build(layout=3, num_positions=65536, blocks_per_key=3)


def test_table_in_the_code_is_the_table_of_the_format() -> None:
    offsets = {name: (offset, struct.calcsize(code)) for name, (offset, code) in FIELDS.items()}
    assert {
        name: (offset, dtype.itemsize)
        for name, (dtype, offset, *_) in (IMMUTABLE.fields or {}).items()
    } == offsets


def test_places_in_the_mutable_block_never_move() -> None:
    """Each counter, and the name of the copy, is where the files that exist have it."""
    names = ("keys_added", "positions_set", "batches_begun", "batches_done", "flushed_ns")
    raw = with_counters(encode(header()), dict(zip(names, range(1, 6), strict=True)))
    assert struct.unpack_from("<5Q", raw, 2048) == (1, 2, 3, 4, 5)
    assert names == spec.MUTABLE_FIELDS  # the name of the copy begins where they end
    places = spec.KEYS_ADDED, spec.POSITIONS_SET, spec.BATCHES_BEGUN, spec.BATCHES_DONE
    assert tuple(names[place] for place in places) == names[:4]
    assert (spec.COPY_OFFSET, spec.COPY_BYTES) == (2088, 32)


@hypothesis.given(
    capacity=st.integers(1, 2**64 - 1),
    error_rate=st.floats(0, 1, exclude_min=True, exclude_max=True),
    shape=st.sampled_from(LAYOUTS).map(lambda layout: (layout, 1))
    | st.integers(2, 8).map(lambda blocks: ("blocked", blocks)),
    units=st.integers(1, 2**28),
    num_hashes=st.integers(1, 8),
    key_hash=st.tuples(st.just("murmur3"), st.integers(0, 2**32 - 1))
    | st.tuples(st.just("siphash"), st.integers(0, 2**128 - 1)),
    created_ns=st.integers(0, 2**64 - 1),
    uuid=st.binary(min_size=16, max_size=16),
    kind=st.sampled_from([1, 2]),
    compatible=st.integers(0, 2**64 - 1),
    read_only_compatible=st.integers(0, 2**64 - 1),
)
def test_decode_inverts_encode(
    shape: tuple[Layout, int], units: int, num_hashes: int, key_hash: tuple[str, int], **fields: Any
) -> None:
    """Every header that can be made comes back the same, in a file of the right size."""
    layout, blocks = shape
    fields |= {"num_bits": step_of(*shape) * units, "num_hashes": blocks * num_hashes}
    fields |= {"layout": layout, "blocks_per_key": blocks}
    made = header(hash=key_hash[0], seed=key_hash[1], **fields)
    assert decode(encode(made), made.file_bytes, "f") == made


def test_sizes() -> None:
    """m/8 bytes of bits or m/2 of counters follow; a sealed file has a CRC a MiB, and one more."""
    mib = 2**20 * 8
    assert (header().array_bytes, header().file_bytes) == (128, 4096 + 128)
    assert header(kind=2).file_bytes == 4096 + 512
    for num_bits, table in ((mib, 1), (mib + 512, 2), (mib - 512, 1), (5 * mib, 5)):
        made = header(num_bits=num_bits, read_only_compatible=1)
        assert made.sealed
        assert made.file_bytes == 4096 + num_bits // 8 + 4 * table + 4
    assert not header(read_only_compatible=2).sealed


SEVERAL, STANDARD = {"layout": 3, "num_positions": 32768, "blocks_per_key": 2}, {"layout": 1}
# Of which headers which field has values that are wrong, and how errors name it.
WRONG_VALUES: list[tuple[dict[str, Any], str, str, tuple[float, ...]]] = [
    ({}, "version", "format version", (0,)),
    ({}, "kind", "kind", (0, 3)),
    ({}, "layout", "layout", (0, 4)),
    ({}, "hash_id", "hash id", (0, 3)),
    (SEVERAL, "blocks_per_key", "blocks per key", (0, 1, 9, 2**32 - 1)),
    ({}, "blocks_per_key", "blocks per key", (1, 2)),
    (STANDARD, "blocks_per_key", "blocks per key", (2,)),
    (SEVERAL, "num_hashes", "number of hashes", (0, 7, 66)),
    ({}, "num_hashes", "number of hashes", (0, 65, 10**9)),
    (SEVERAL, "num_positions", "number of positions", (0, 512, 32768 + 512, 2**43 + 32768)),
    ({}, "num_positions", "number of positions", (0, 64, 1025, 2**40 + 512, 2**64 - 512)),
    (STANDARD, "num_positions", "number of positions", (0, 100, 2**43 + 64)),
    ({}, "header_size", "header size", (512,)),
    ({}, "capacity", "planned capacity", (0,)),
    ({}, "error_rate", "planned error rate", (0.0, 1.0, float("nan"), float("inf"))),
]
# What is wrong, the field that the error names, what it says it found.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    *(
        ({**others, name: value}, field, str(value))
        for others, name, field, values in WRONG_VALUES
        for value in values
    ),
    ({"magic": b"\x89MMBLM\n\0"}, "magic", "MMBLM"),
    ({"magic": b"\x88MMBLM\r\n"}, "magic", "x88"),
    ({"crc": 12345}, "header checksum", "0x3039"),
    ({"hash_id": 2, "hash_key": b"k" * 16}, "seed", "not zero"),
    ({"hash_key": b"\x01"}, "hash key", "not zero"),
    ({"seed": 0, "hash_key": bytes(15) + b"\x80"}, "hash key", "not zero"),
    ({"reserved": 1}, "reserved bytes", "not zero"),
    ({"padding": bytes(375) + b"\x01"}, "reserved bytes", "not zero"),
    ({"num_positions": 2048}, "file size", f"{GOOD_SIZE} bytes"),
    ({"kind": 2}, "file size", f"{GOOD_SIZE} bytes"),
    ({"read_only_compatible": 1}, "file size", f"{GOOD_SIZE} bytes"),
]


@pytest.mark.parametrize(("wrong", "field", "found"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_field(wrong: dict[str, Any], field: str, found: str) -> None:
    """A rule that does not hold is a FormatError with the path, the field and what is there."""
    with pytest.raises(FormatError) as caught:
        decode(build(**wrong), GOOD_SIZE, "/some/where")
    assert not isinstance(caught.value, NewerFormatError)
    assert (caught.value.path, caught.value.field) == ("/some/where", field)
    assert found in caught.value.found
    assert caught.value.expected


@pytest.mark.parametrize(
    "newer",
    [
        *(build(version=2), build(version=2**32 - 1), build(incompatible=1)),
        # Of a later version nothing but magic and version is looked at, not even the CRC.
        struct.pack("<8sI", GOOD["magic"], 9).ljust(4096, b"\xff"),
    ],
)
def test_newer_file_says_so(newer: bytes) -> None:
    """A later version, or an incompatible flag, is NewerFormatError: get a newer mmbloom."""
    with pytest.raises(NewerFormatError, match="use a newer mmbloom"):
        decode(newer, GOOD_SIZE, "f")


@pytest.mark.parametrize("length", [0, 1, 8, 511, 4095])
def test_short_file(length: int) -> None:
    """A file that is cut off within its header is told by its length."""
    with pytest.raises(FormatError) as caught:
        decode(build()[:length], length, "f")
    assert (caught.value.field, caught.value.found) == ("length", f"{length} bytes")


def test_no_filter_of_any_length() -> None:
    """What does not begin as a filter is none, whatever its length; nothing is a cut-off one."""
    with pytest.raises(FormatError) as caught:
        decode(b"", 0, "access.log")
    assert (caught.value.field, caught.value.found) == ("length", "0 bytes")
    for length in range(1, 4097):  # in one test: each costs more than what it asks
        with pytest.raises(FormatError) as caught:
            decode((b"127.0.0.1 - -\n" * 300)[:length], length, "access.log")
        assert caught.value.field == "magic", length
        assert str(caught.value).startswith("access.log: is not a filter: it begins with b'1"), (
            length
        )


@pytest.mark.parametrize("length", range(1, 9))
def test_a_beginning_that_differs_in_one_byte(length: int) -> None:
    """As far as a file goes, its magic is looked at: the last byte of it counts."""
    raw = bytearray(GOOD["magic"][:length])
    raw[-1] ^= 1
    with pytest.raises(FormatError, match="is not a filter"):
        decode(bytes(raw), length, "f")


# One wrong thing of each kind, in the order in which the format says they are checked.
ORDER: list[tuple[str, dict[str, Any]]] = [
    ("magic", {"magic": b"notmagic"}),
    ("format version", {"version": 2}),
    ("header checksum", {"crc": 0}),
    ("incompatible flags", {"incompatible": 2}),
    ("kind", {"kind": 9}),
    ("layout", {"layout": 9}),
    ("hash id", {"hash_id": 9}),
    ("blocks per key", {"blocks_per_key": 9}),
    ("number of hashes", {"num_hashes": 99}),
    ("number of positions", {"num_positions": 3}),
    ("planned capacity", {"capacity": 0}),
]


@pytest.mark.parametrize("pair", [*itertools.combinations(ORDER, 2)], ids=lambda pair: pair[0][0])
def test_truest_error_first(pair: tuple[tuple[str, dict[str, Any]], ...]) -> None:
    """Of two wrong things the one that the format checks first is told."""
    (first, one), (_, other) = pair
    with pytest.raises(FormatError) as caught:
        decode(build(**{**other, **one}), GOOD_SIZE, "f")
    assert caught.value.field == first


@pytest.mark.parametrize("size", [4096, GOOD_SIZE - 1, GOOD_SIZE + 1, 2 * GOOD_SIZE])
def test_file_size_is_exact(size: int) -> None:
    """A file one byte too short or too long is refused."""
    with pytest.raises(FormatError, match=f"file size is {size} bytes, expected {GOOD_SIZE}"):
        decode(build(), size, "f")
    assert decode(build(), GOOD_SIZE, "f").file_bytes == GOOD_SIZE


@hypothesis.given(st.integers(0, 508 * 8 - 1))
def test_any_flipped_bit_is_noticed(bit: int) -> None:
    raw = bytearray(build())
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        decode(bytes(raw), GOOD_SIZE, "f")


def test_mutable_block_is_not_trusted_nor_checked() -> None:
    """Counters of any value make no header invalid: they are under no checksum."""
    raw = build()[:2048] + b"\xff" * 40 + build()[2088:]
    assert decode(raw, GOOD_SIZE, "f") == decode(build(), GOOD_SIZE, "f")


def test_unknown_flags() -> None:
    found = decode(build(compatible=2**63, read_only_compatible=6), GOOD_SIZE, "f")
    assert (found.compatible, found.read_only_compatible, found.sealed) == (2**63, 6, False)
