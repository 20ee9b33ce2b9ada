"""The manifest of a folder of filters, version 1: this docstring is the specification.

A folder holds plain filter files (the format of ``header.py``) and ``manifest.json``, which
names those that belong to it, oldest first; a file that it does not name is none of the
folder's. The manifest is JSON in UTF-8, at most 1 MiB, an object of exactly these fields:

=========  =================================================================================
field      rule
=========  =================================================================================
format     "mmbloom folder"
version    1; a reader refuses others
kind       "growing" or "rotating"
uuid       of the folder: 32 hexadecimal digits, random
settings   an object, by the kind: below
members    a list, not empty, of objects of exactly: number (an int, in rising order; of a
           growing filter 0, 1, 2 ...; of a rotating one the period), name (of the file,
           in this folder: digits, lower-case letters and hyphens, then ".bloom") and uuid
           (of the file's header)
=========  =================================================================================

A key is in the folder if it is in one of the members, which are asked newest first. The settings
say how further members are made. They have these fields, and no others:

===================  =======================================================================
field                rule
===================  =======================================================================
initial_capacity     growing: keys that member 0 is planned for; member i for 2^i times as many
keep_seconds         rotating: how long a key is found at least
every_seconds        rotating: the length of a period; period i begins at i * every_seconds, in
                     Unix time
capacity_per_period  rotating: keys that each member is planned for
error_rate           of all members together, a number with a point or exponent, between 0 and 1
layout               "standard" or "blocked" (which has the layout ids 2 and 3 in the members)
seed                 as the headers of the members have it: with a hash its key, 16 bytes in 32
                     hexadecimal digits; without one an int below 2^32
reserve              "zeros" or "fallocate": how the space of a new member is had
hash                 "siphash"; or there is no such field: then it is MurmurHash3
===================  =======================================================================

All others are ints from 1 to 2^63 - 1. A member of a rotating folder is asked until keep_seconds
after the end of its period, that is at times before (number + 1) * every_seconds + keep_seconds. A
growing folder has at most 64 members, a rotating one ceil(keep_seconds / every_seconds) + 1, which
is at most 1,000. The keys on the list in the file ``exclusions`` (``exclusion_list.py``) are not in
the folder, whatever its members say.

Any bytes are either a valid manifest or a `FormatError`.
"""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from mmbloom._typing import Layout, Reserve
from mmbloom.errors import FormatError
from mmbloom.format.checker import Checker, is_hexadecimal
from mmbloom.format.growth import GrowthPlan
from mmbloom.format.json_record import decode_record, encode_record
from mmbloom.format.periods import PeriodPlan

MANIFEST = "manifest.json"  # its name in the folder
FORMAT, VERSION = "mmbloom folder", 1
MAX_BYTES = 1 << 20
_NAME = re.compile(r"[0-9a-z-]{1,80}\.bloom", re.ASCII)
FolderPlan = GrowthPlan | PeriodPlan
_PLANS: dict[str, type[FolderPlan]] = {plan.kind: plan for plan in (GrowthPlan, PeriodPlan)}
FOLDER_KINDS = tuple(sorted(_PLANS))
_ONE_OF: dict[str, tuple[str, ...]] = {"layout": get_args(Layout), "reserve": get_args(Reserve)}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the folder.

    Attributes
    ----------
    number : int
        Its place in the order: of a growing filter from 0, of a rotating one the period.
    name : str
        Of the file.
    uuid : bytes
        Of the filter in it.
    """

    number: int
    name: str
    uuid: bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the folder is, and which files are its.

    Attributes
    ----------
    uuid : bytes
        Of the folder.
    plan : GrowthPlan or PeriodPlan
        How its files are made.
    members : tuple of Entry
        Oldest first, at least one.
    """

    uuid: bytes
    plan: FolderPlan
    members: tuple[Entry, ...]


def encode(manifest: Manifest) -> bytes:
    """Write a manifest as the text that the specification above describes."""
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "kind": manifest.plan.kind,
        "uuid": manifest.uuid.hex(),
        "settings": _settings(manifest.plan),
        "members": [
            {"number": entry.number, "name": entry.name, "uuid": entry.uuid.hex()}
            for entry in manifest.members
        ],
    }
    return encode_record(fields)


def _settings(plan: FolderPlan) -> dict[str, object]:
    settings = asdict(plan)
    if settings["hash"] == "murmur3":
        del settings["hash"]  # as in manifests of before there was another
    else:
        # No number: of one so large, most readers of JSON keep the first 16 digits.
        settings["seed"] = plan.seed.to_bytes(16, "little").hex()
    return settings


def decode(raw: bytes, path: str) -> Manifest:
    """Read and prove a manifest, given as the whole file.

    Raises `FormatError` at the first rule that does not hold.
    """
    if len(raw) > MAX_BYTES:
        raise FormatError(path, "size", f"more than {MAX_BYTES} bytes", "a manifest")
    check = Checker(path)
    record = decode_record(raw, check, "manifest", FORMAT, VERSION)
    _require_fields(
        check, record, ["format", "version", "kind", "uuid", "settings", "members"], "manifest"
    )
    kind = record["kind"]
    known = type(kind) is str and kind in _PLANS
    check.value(known, "kind", kind, " or ".join(FOLDER_KINDS))
    plan = _decode_plan(_PLANS[kind], record["settings"], check)
    uuid = check.octets("uuid", record["uuid"], 16)
    return Manifest(uuid, plan, _members(record["members"], plan, check))


def _require_fields(check: Checker, record: Any, names: list[str], what: str) -> None:
    check.value(isinstance(record, dict), what, type(record).__name__, "an object")
    found, expected = ", ".join(sorted(record)), ", ".join(sorted(names))
    check.value(record.keys() == set(names), f"fields of {what}", found, expected)


def _decode_plan(kind: type[FolderPlan], record: Any, check: Checker) -> FolderPlan:
    names = [field.name for field in fields(kind)]
    keyed = isinstance(record, dict) and "hash" in record
    _require_fields(check, record, names if keyed else names[:-1], "settings")
    assert names[-1] == "hash"  # noqa: S101  the field that may be missing
    record = {**record, **_hash(record, check, keyed=keyed)}
    for name in names:
        value = record[name]
        if known := _ONE_OF.get(name):
            ok, expected = type(value) is str and value in known, " or ".join(known)
        elif name == "error_rate":
            ok, expected = type(value) is float and 0 < value < 1, "between 0 and 1"
        elif name not in {"seed", "hash"}:
            ok, expected = type(value) is int and 1 <= value < 2**63, "an int from 1 to 2**63 - 1"
        else:
            continue  # proved above
        check.value(ok, name, value, expected)
    try:
        return kind(**record)
    except ValueError as error:
        raise FormatError(check.path, "settings", str(error), "values that fit together") from None


def _hash(record: dict[str, Any], check: Checker, *, keyed: bool) -> dict[str, Any]:
    """Prove and read the hash and its seed."""
    seed = record["seed"]
    if not keyed:
        ok = type(seed) is int and 0 <= seed < 2**32
        check.value(ok, "seed", seed, "0 to 2**32 - 1")
        return {"seed": seed, "hash": "murmur3"}
    check.value(record["hash"] == "siphash", "hash", record["hash"], "siphash, or no such field")
    # What was found is not said: it may be most of a secret key.
    check(is_hexadecimal(seed, 16), "seed", "none", "the hash's key: 32 hexadecimal digits")
    return {"seed": int.from_bytes(bytes.fromhex(seed), "little"), "hash": "siphash"}


def _members(records: Any, plan: FolderPlan, check: Checker) -> tuple[Entry, ...]:
    some, most = isinstance(records, list) and records != [], plan.max_files
    check.value(some, "members", records, "a list, not empty")
    check.value(len(records) <= most, "members", len(records), f"at most {most}")
    entries: list[Entry] = []
    for record in records:
        _require_fields(check, record, ["number", "name", "uuid"], "a member")
        number, name = record["number"], record["name"]
        check.value(type(number) is int and 0 <= number < 2**63, "number", number, "an int from 0")
        ok = type(name) is str and _NAME.fullmatch(name) is not None
        check.value(ok, "name", name, "digits, lower-case letters and hyphens, then .bloom")
        entries.append(Entry(number, name, check.octets("uuid", record["uuid"], 16)))
    numbers = [entry.number for entry in entries]
    if plan.kind == "growing":
        check.value(numbers == [*range(len(numbers))], "numbers", numbers, "0, 1, 2 ...")
    check.value(numbers == sorted({*numbers}), "numbers", numbers, "in rising order")
    for field in ("name", "uuid"):
        values = [getattr(entry, field) for entry in entries]
        check.value(len({*values}) == len(values), f"{field}s", values, "all different")
    return tuple(entries)
