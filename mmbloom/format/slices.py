r"""Slices of a filter, and its state by generations: this docstring specifies version 1 of both.

A slice is a part of the array of a blocked filter (the format of ``header.py``) with the layout id
2 or 3. The array is cut into pages of 4096 bytes; in layout 2, the last page may be smaller. If n
pages are divided into P slices, slice j has the pages from j * n // P up to, but not including,
(j + 1) * n // P. The page of a key depends only on h1, so all bits of a key are in one slice.

The file is a header of 4096 bytes, followed by these bytes of the array and nothing else. All
integers are little-endian.

======  =====  =============  ==============================================================
offset  bytes  field          rule
======  =====  =============  ==============================================================
0       8      magic          ``89 4D 4D 42 4C 53 0D 0A``
8       4      version        1
12      4      header_size    4096
16      4      slices         P, 1 to n
20      4      number         j, 0 to P - 1
24      8      generation     of the state that it belongs to; 0 if it belongs to none
32      16     run            random id of the run that wrote it; 0 if no run did
48      8      keys_added     keys that were new when they were added
56      8      positions_set  bits of the body that are 1
64      4      body_crc       CRC-32 (zlib) of the body
68      440    padding        0
508     4      crc            CRC-32 (zlib) of bytes 0..507 and 512..1023
512     512    filter         the immutable block of a filter with these parameters, where kind is
                              1 (bits), and flags, time of creation and uuid are 0
1024    3072   rest           0
======  =====  =============  ==============================================================

A reader checks in this order: magic, length, version, CRC, the block of the filter, the other
fields, the size of the file, and finally the CRC of the body. A file that is cut off or damaged
anywhere is therefore not accepted as a slice.

A state is a folder, or a prefix in an object store. It has a record for each generation:
``generation-NNNNNNNN.json``, with the generation's number in eight or more digits. A record is
created by an operation that fails if the file already exists, and is never changed. The record with
the highest number is the current state; all others are its past. The slices of generation N, from 1
on, are the files ``NNNNNNNN-RUN/SSSSSS.slice``, with the run that its record names, in 32
hexadecimal digits, and the slice's number in six or more digits. They have the format above, with
this generation and run in their headers. Generation 0 has no files: its slices are empty. Files
that no record names belong to a run that was not committed. Beside its slices, a run may have empty
files ``PPPPPP.part``; each marks a part of its output as computed, and none belongs to the state.

A record is JSON in UTF-8, at most 64 KiB: an object with exactly these fields:

==========  ================================================================================
field       rule
==========  ================================================================================
format      "mmbloom generations"
version     1; a reader rejects others
uuid        of the state: 32 hexadecimal digits, random, the same in all records
generation  an int, the same as in the record's name
run         random id of the run that made it, 32 hexadecimal digits; zeros in generation 0
base        the run of the previous generation; zeros in generations 0 and 1
slices      an int from 1 to the number of pages
filter      the immutable block of a filter with these parameters, as above: 1024
            hexadecimal digits
==========  ================================================================================

Any sequence of bytes is either a valid slice or record, or a `FormatError`.
"""

import re
import zlib
from dataclasses import dataclass

import numpy as np

from mmbloom.errors import FormatError, NewerFormatError
from mmbloom.format import header
from mmbloom.format.checker import Checker, record_text
from mmbloom.sizing.formulas import PAGE_BITS
from mmbloom.sizing.params import FilterParams

MAGIC = b"\x89MMBLS\r\n"
VERSION = 1
HEADER_BYTES = 4096
PAGE_BYTES = PAGE_BITS // 8
NO_RUN = bytes(16)
_CRC_OFFSET = 508
_BLOCK = slice(512, 1024)


# The one table that encodes, decodes and documents the fields.
FIELDS = np.dtype(
    [
        ("magic", "V8"),
        ("version", "<u4"),
        ("header_size", "<u4"),
        ("slices", "<u4"),
        ("number", "<u4"),
        ("generation", "<u8"),
        ("run", "V16"),
        ("keys_added", "<u8"),
        ("positions_set", "<u8"),
        ("body_crc", "<u4"),
        ("padding", "V440"),
        ("crc", "<u4"),
    ]
)

assert FIELDS.itemsize == 512  # noqa: S101  the table above is the format
# The fields that are numbers, with the same names as in `SliceHeader`.
_NUMBERS = ("slices", "number", "generation", "keys_added", "positions_set", "body_crc")


def pages_of(params: FilterParams) -> int:
    """Count the pages of an array; the last may be smaller than the others."""
    return -(-params.num_bits // PAGE_BITS)


def bounds_of(params: FilterParams, slices: int, number: int) -> tuple[int, int]:
    """Return which bytes of the array a slice has: the first, and the one after the last.

    Examples
    --------
    >>> bounds_of(FilterParams(100, 0.01, "blocked", 5 * PAGE_BITS, 6), 2, 1)
    (8192, 20480)
    """
    pages = pages_of(params)
    start, stop = (each * pages // slices * PAGE_BYTES for each in (number, number + 1))
    return start, min(stop, params.num_bytes)


@dataclass(frozen=True, slots=True)
class SliceHeader:
    """The header of a slice.

    Attributes
    ----------
    params : FilterParams
        Of the whole filter.
    slices, number : int
        How many slices it has, and which of them this is.
    generation : int
        Of the state that it belongs to.
    run : bytes
        16 bytes: of the run that wrote it.
    keys_added, positions_set : int
        Keys that were new, and bits that are 1.
    body_crc : int
        CRC-32 of the body.
    """

    params: FilterParams
    slices: int
    number: int
    generation: int
    run: bytes
    keys_added: int
    positions_set: int
    body_crc: int

    @property
    def body_bytes(self) -> int:
        """Size of the body."""
        start, stop = bounds_of(self.params, self.slices, self.number)
        return stop - start

    @property
    def file_bytes(self) -> int:
        """The exact size that the file must have."""
        return HEADER_BYTES + self.body_bytes


def encode(of: SliceHeader) -> bytes:
    r"""Return a header as its 4096 bytes.

    Examples
    --------
    >>> from mmbloom.sizing import plan
    >>> encode(SliceHeader(plan(100), 1, 0, 0, NO_RUN, 0, 0, 0))[:12]
    b'\x89MMBLS\r\n\x01\x00\x00\x00'
    """
    record = np.zeros((), dtype=FIELDS)
    record["magic"] = np.void(MAGIC)
    record["version"] = VERSION
    record["header_size"] = HEADER_BYTES
    record["run"] = np.void(of.run)
    for name in _NUMBERS:
        record[name] = getattr(of, name)
    block = block_of(of.params)
    record["crc"] = _crc_of(record.tobytes(), block)
    return (record.tobytes() + block).ljust(HEADER_BYTES, b"\0")


def decode(raw: bytes, path: str) -> SliceHeader:
    """Decode and check the first 4096 bytes of a slice; `require_body` checks the body.

    Raise `FormatError` at the first rule that does not hold.
    """
    require = Checker(path)
    start = MAGIC[: len(raw)]
    require(raw[:8] == start, "magic", raw[:8], f"{MAGIC!r}, the start of a slice of a filter")
    require(len(raw) >= HEADER_BYTES, "length", f"{len(raw)} bytes", "at least 4096")
    record = np.frombuffer(raw, dtype=FIELDS, count=1)[0]
    require.version("format version", int(record["version"]), VERSION)
    crc = _crc_of(raw[:512], raw[_BLOCK])
    require(crc == int(record["crc"]), "header checksum", hex(int(record["crc"])), hex(crc))
    params = params_of(raw[_BLOCK], path)
    numbers = {name: int(record[name]) for name in _NUMBERS}
    found = SliceHeader(params, run=record["run"].tobytes(), **numbers)
    size, slices, pages = int(record["header_size"]), found.slices, pages_of(params)
    require(size == HEADER_BYTES, "header size", size, "4096")
    require(1 <= slices <= pages, "number of slices", slices, f"1 to {pages}, its pages")
    require(found.number < slices, "slice", found.number, f"0 to {slices - 1}")
    padded = any(record["padding"].tobytes()) or any(raw[1024:HEADER_BYTES])
    require(not padded, "reserved bytes", "not zero", "zero")
    keys_added, bits, most = found.keys_added, found.positions_set, 8 * found.body_bytes
    require(bits <= most, "positions set", bits, f"at most {most}")
    require(keys_added <= bits, "keys added", keys_added, f"at most {bits}")
    return found


def require_size(of: SliceHeader, file_bytes: int, path: str) -> None:
    """Raise `FormatError` unless the file has the size that its header asks for."""
    if file_bytes != of.file_bytes:
        raise FormatError(path, "file size", f"{file_bytes} bytes", f"{of.file_bytes}")


def require_body(of: SliceHeader, body_bytes: int, crc: int, path: str) -> None:
    """Raise `FormatError` unless the body has the size and the checksum of its header."""
    require_size(of, HEADER_BYTES + body_bytes, path)
    if crc != of.body_crc:
        raise FormatError(path, "checksum of the body", hex(crc), hex(of.body_crc))


def _crc_of(fields: bytes, block: bytes) -> int:
    return zlib.crc32(block, zlib.crc32(fields[:_CRC_OFFSET]))


def block_of(params: FilterParams) -> bytes:
    """Return the parameters of a filter as an immutable block: time of creation and uuid are 0."""
    return header.encode(header.Header(params, 0, bytes(16)))[:512]


def params_of(block: bytes, path: str) -> FilterParams:
    """Read and check such a block; raise `FormatError` unless the filter can be cut."""
    whole = block.ljust(header.HEADER_BYTES, b"\0")
    try:
        params = header.decode_block(whole, len(whole), path).params
    except NewerFormatError as error:
        raise NewerFormatError(path, error.field, error.found, error.expected) from None
    except FormatError as error:
        field = f"{error.field} of the filter"
        raise FormatError(path, field, error.found, error.expected) from None
    if block_of(params) != block:
        raise FormatError(path, "block of the filter", "that of a file", "kind 1, and all else 0")
    if params.layout != "blocked":
        raise FormatError(path, "layout of the filter", params.layout, "blocked")
    return params


_FORMAT, _RECORD_VERSION = "mmbloom generations", 1
MAX_RECORD_BYTES = 1 << 16
_RECORD = re.compile(r"generation-(\d{8,18})\.json", re.ASCII)
_FOLDER = re.compile(r"(\d{8,18})-([0-9a-f]{32})", re.ASCII)
_FIELDS = ["base", "filter", "format", "generation", "run", "slices", "uuid", "version"]


@dataclass(frozen=True, slots=True)
class Record:
    """One generation.

    Attributes
    ----------
    uuid : bytes
        Of the state.
    generation : int
        Its number.
    run, base : bytes
        The run that made it, and the one that made the generation before.
    params : FilterParams
        Of the whole filter.
    slices : int
        How many it has.
    """

    uuid: bytes
    generation: int
    run: bytes
    base: bytes
    params: FilterParams
    slices: int


def record_name(generation: int) -> str:
    """Return the name of the record of a generation."""
    return f"generation-{generation:08}.json"


def folder_name(generation: int, run: bytes) -> str:
    """Return the name of the folder that a run writes."""
    return f"{generation:08}-{run.hex()}"


def slice_name(generation: int, run: bytes, number: int) -> str:
    """Return the name of the file of a slice that a run writes.

    Examples
    --------
    >>> slice_name(3, bytes(16), 7)
    '00000003-00000000000000000000000000000000/000007.slice'
    """
    return f"{folder_name(generation, run)}/{number:06}.slice"


def part_name(generation: int, run: bytes, part: int) -> str:
    """Return the name of the file that notes a part of a run's output.

    Examples
    --------
    >>> part_name(3, bytes(16), 7)
    '00000003-00000000000000000000000000000000/000007.part'
    """
    return f"{folder_name(generation, run)}/{part:06}.part"


def generation_of_record(name: str) -> int | None:
    """Return the generation of a record by its name; None for any other name."""
    found = _RECORD.fullmatch(name)
    return int(found[1]) if found and name == record_name(int(found[1])) else None


def generation_of_folder(name: str) -> tuple[int, bytes] | None:
    """Return generation and run of a folder of slices by its name; None for any other name."""
    found = _FOLDER.fullmatch(name)
    return (int(found[1]), bytes.fromhex(found[2])) if found else None


def encode_record(record: Record) -> bytes:
    """Return a record as the text that the specification above describes."""
    fields = {
        "format": _FORMAT,
        "version": _RECORD_VERSION,
        "uuid": record.uuid.hex(),
        "generation": record.generation,
        "run": record.run.hex(),
        "base": record.base.hex(),
        "slices": record.slices,
        "filter": block_of(record.params).hex(),
    }
    return record_text(fields)


def decode_record(raw: bytes, generation: int, path: str) -> Record:
    """Read and check a record, given as the whole file; its name has this generation.

    Raise `FormatError` at the first rule that does not hold.
    """
    check = Checker(path)
    check(len(raw) <= MAX_RECORD_BYTES, "size", f"{len(raw)} bytes", f"at most {MAX_RECORD_BYTES}")
    found = check.record(raw, "record", _FORMAT, _RECORD_VERSION)
    check.value(sorted(found) == _FIELDS, "fields", ", ".join(sorted(found)), ", ".join(_FIELDS))
    number, slices = found["generation"], found["slices"]
    check.value(type(number) is int and number == generation, "generation", number, f"{generation}")
    uuid, run, base = (check.octets(name, found[name], 16) for name in ("uuid", "run", "base"))
    check((run == NO_RUN) == (number == 0), "run", run.hex(), "zeros in generation 0 only")
    check((base == NO_RUN) == (number <= 1), "base", base.hex(), "zeros in generations 0, 1 only")
    params = params_of(check.octets("filter", found["filter"], 512), path)
    pages = pages_of(params)
    good = type(slices) is int and 1 <= slices <= pages
    check.value(good, "slices", slices, f"1 to {pages}, the pages of the filter")
    return Record(uuid, number, run, base, params, slices)
