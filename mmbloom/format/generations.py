"""The state of a filter in slices by generations, version 1: this docstring is the specification.

A state is a folder, or a prefix of an object store. It has a record of each generation, a file
that is made once, by a step that fails if it is there, and never changed:
``generation-NNNNNNNN.json``, with the generation's number in eight digits or more. The record with
the highest number is the state; all others are its past. The slices of generation N, from 1 on,
are the files ``NNNNNNNN-RUN/SSSSSS.slice``, with the run that its record names, in 32 hexadecimal
digits, and the slice's number in six digits or more: the format of ``slices.py``, with this
generation and run in their headers. Generation 0 has none: its slices are empty. What no record
names is of a run that was not committed. Beside its slices a run may have empty files
``PPPPPP.part``: each notes that a part of its output was computed, and none is of the state.

A record is JSON in UTF-8, at most 64 KiB, an object of exactly these fields:

==========  ================================================================================
field       rule
==========  ================================================================================
format      "mmbloom generations"
version     1; a reader refuses others
uuid        of the state: 32 hexadecimal digits, random, the same in all records
generation  an int, that of the record's name
run         32 hexadecimal digits, random: of the run that made it; 32 zeros in generation 0
base        the run of the generation before; 32 zeros in generations 0 and 1
slices      an int from 1 to the number of pages
filter      the immutable block of a filter with these parameters, as in ``slices.py``: 1024
            hexadecimal digits
==========  ================================================================================

Any bytes are either a valid record or a `FormatError`.
"""

import re
from dataclasses import dataclass

from mmbloom.format.checker import Checker
from mmbloom.format.json_record import decode_record, encode_record
from mmbloom.format.slices import NO_RUN, block_of, pages_of, params_of
from mmbloom.sizing.params import FilterParams

FORMAT, VERSION = "mmbloom generations", 1
MAX_BYTES = 1 << 16
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


def encode(record: Record) -> bytes:
    """Return a record as the text that the specification above describes."""
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "uuid": record.uuid.hex(),
        "generation": record.generation,
        "run": record.run.hex(),
        "base": record.base.hex(),
        "slices": record.slices,
        "filter": block_of(record.params).hex(),
    }
    return encode_record(fields)


def decode(raw: bytes, generation: int, path: str) -> Record:
    """Read and check a record, given as the whole file; its name has this generation.

    Raise `FormatError` at the first rule that does not hold.
    """
    check = Checker(path)
    check(len(raw) <= MAX_BYTES, "size", f"{len(raw)} bytes", f"{MAX_BYTES} at most")
    found = decode_record(raw, check, "record", FORMAT, VERSION)
    check.value(sorted(found) == _FIELDS, "fields", ", ".join(sorted(found)), ", ".join(_FIELDS))
    number, slices = found["generation"], found["slices"]
    check.value(type(number) is int and number == generation, "generation", number, f"{generation}")
    uuid, run, base = (check.octets(name, found[name], 16) for name in ("uuid", "run", "base"))
    check((run == NO_RUN) == (number == 0), "run", run.hex(), "zeros in generation 0 alone")
    check((base == NO_RUN) == (number <= 1), "base", base.hex(), "zeros in generations 0, 1 alone")
    params = params_of(check.octets("filter", found["filter"], 512), path)
    pages = pages_of(params)
    good = type(slices) is int and 1 <= slices <= pages
    check.value(good, "slices", slices, f"1 to {pages}, the pages of the filter")
    return Record(uuid, number, run, base, params, slices)
