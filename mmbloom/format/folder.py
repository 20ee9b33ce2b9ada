"""Folders of filters: the files of growing and rotating filters, and the manifest.

Growing filter: file i has a capacity of n * 2^i keys and the error rate p (1 - r) r^i with r = 1/2,
where n is the first capacity and p the error rate of the whole filter. A key that was never added
is a false positive if it is one in any file. Its probability is at most the sum of the rates, which
stays below p however many files there are (Almeida, Baquero, Preguica and Hutchison, "Scalable
Bloom Filters", 2007). In the standard layout, p is 15/16 of the requested rate, to compensate for k
being an integer.

Rotating filter: period i begins at i times `every` in Unix time, and ends when the next one begins
(days of "1d" begin at midnight UTC). A file holds the keys of one period. Queries read it until
`keep` after the end of its period, so a key added at time t is found at least until t + keep, and
at most until t + keep + every. The error rate is that of all files together: there are never more
than ceil(keep / every) + 1 files, and each gets its share.

The manifest of a folder of filters, version 1: this docstring is the specification.

A folder holds plain filter files (the format of ``header.py``) and ``manifest.json``, which names
the files that belong to the folder, oldest first; all other files do not belong to it. The manifest
is JSON in UTF-8, at most 1 MiB: an object with exactly these fields:

=========  =================================================================================
field      rule
=========  =================================================================================
format     "mmbloom folder"
version    1; a reader rejects others
kind       "growing" or "rotating"
uuid       of the folder: 32 hexadecimal digits, random
settings   an object that depends on the kind: see below
members    a list, not empty, of objects with exactly these fields: number (an int, in rising
           order; 0, 1, 2 ... in a growing filter, the period in a rotating filter), name (of
           the file in this folder: digits, lower-case letters and hyphens, then ".bloom")
           and uuid (from the file's header)
=========  =================================================================================

A key is in the folder if it is in one of the members, which are read newest first. The settings
say how further members are made. They have exactly the fields that belong to the kind:

===================  =======================================================================
field                rule
===================  =======================================================================
initial_capacity     growing: capacity of member 0; that of member i is 2^i times as much
keep_seconds         rotating: how long a key is found at least
every_seconds        rotating: the length of a period; period i begins at i * every_seconds, in
                     Unix time
capacity_per_period  rotating: capacity of each member
error_rate           of all members together, a number with a point or exponent, between 0 and 1
layout               "standard" or "blocked" (layout ids 2 and 3 in the members)
seed                 same as in the members' headers: if there is a hash field, the hash's key,
                     16 bytes in 32 hexadecimal digits; otherwise an int below 2^32
reserve              "zeros" or "fallocate": how to reserve the disk space of a new member
hash                 "siphash"; if the field is missing, the hash is MurmurHash3
===================  =======================================================================

All other values are ints from 1 to 2^63 - 1. A member of a rotating folder is
read until keep_seconds after the end of its period, that is, at times before
(number + 1) * every_seconds + keep_seconds. A growing folder has at most 64 members; a rotating
folder has at most ceil(keep_seconds / every_seconds) + 1, which is at most 1,000. Keys on the list
in the file ``exclusions`` (``exclusions.py``) are not in the folder, whatever its members contain.

Any sequence of bytes is either a valid manifest or a `FormatError`.
"""

import math
import re
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from typing import Any, ClassVar, get_args

from mmbloom._system.typing import Duration, HashName, Layout, Reserve
from mmbloom.errors import FormatError
from mmbloom.format.checker import Checker, is_hexadecimal, record_text
from mmbloom.sizing import SMALL_BITS, plan, to_plan_for
from mmbloom.sizing.params import (
    DEFAULT_HASH,
    HASHES,
    FilterParams,
    HasHash,
    require_capacity,
    require_error_rate,
)

# Manifests of this hash have no field for it: they are of before there was another.
_UNNAMED: HashName = "murmur3"
_GROWTH = 2
_TIGHTENING = 0.5  # r: exact powers of two, which a header's double holds as they are


# The largest has 2^63 times the first capacity: more than there are keys.
MAX_GROWING_FILES = 64


@dataclass(frozen=True, slots=True)
class GrowthPlan(HasHash):
    """All that decides which files a growing filter has.

    Attributes
    ----------
    initial_capacity : int
        Keys that the first file is planned for.
    error_rate : float
        False-positive rate of all files together.
    layout, reserve
        Of every file, as for `BloomFilter.create`.
    seed, hash
        Of every file, as in `FilterParams`: a key is hashed once for all of them.

    Raises
    ------
    TypeError, ValueError
        If a value is out of range, or no such filter can be made.
    """

    kind: ClassVar[str] = "growing"
    max_files: ClassVar[int] = MAX_GROWING_FILES

    initial_capacity: int
    error_rate: float
    layout: Layout
    seed: int = field(repr=False)  # SipHash's is secret
    reserve: Reserve
    hash: HashName = DEFAULT_HASH

    def __post_init__(self) -> None:
        require_capacity(self.initial_capacity)  # before it is multiplied
        # Each file has a lower one, so it is checked here. A float, as in the manifest.
        object.__setattr__(self, "error_rate", require_error_rate(self.error_rate))
        if self.layout == "standard":
            # Only small files may be many times the textbook's size. A larger file that needs
            # more is an error now, and not when the folder must grow.
            sizes = (self.params(number).num_bits for number in range(MAX_GROWING_FILES))
            try:
                next(bits for bits in sizes if bits > SMALL_BITS)
            except ValueError as error:  # its text is about a single file
                raise ValueError(
                    f"no growing filter can begin with {self.initial_capacity} keys at this error "
                    f"rate: for one of its files, {error}"
                ) from None

    @classmethod
    def beginning_with(cls, first: FilterParams, reserve: Reserve) -> "GrowthPlan":
        """Make the plan of a growing filter whose first file exists.

        Parameters
        ----------
        first : FilterParams
            What that file was made with.
        reserve : {"zeros", "fallocate"}
            As for the others.

        Raises
        ------
        ValueError
            If there is no such plan.

        Examples
        --------
        >>> from mmbloom.sizing import plan
        >>> grown = GrowthPlan.beginning_with(plan(1000, 0.01), "zeros")
        >>> grown.error_rate, grown.sizes(0), grown.sizes(1)
        (0.02, (1000, 0.01), (2000, 0.005))
        """
        # After rounding, only a neighbour of the quotient may lead back to the same rate.
        whole = first.error_rate / to_plan_for(1 - _TIGHTENING, first.layout)
        near = (whole, math.nextafter(whole, 0), math.nextafter(whole, 1))
        for rate in near:
            if not rate < 1:
                raise ValueError(
                    f"its error rate is {first.error_rate:g}, so that of the whole would be 1"
                )
            made = cls(first.capacity, rate, first.layout, first.seed, reserve, first.hash)
            if made.sizes(0)[1] == first.error_rate:
                made.params(1)
                return made
        raise ValueError(f"no growing filter begins with exactly its rate, {first.error_rate!r}")

    def sizes(self, number: int) -> tuple[int, float]:
        """Return capacity and error rate of a file; files count from 0."""
        share = (1 - _TIGHTENING) * _TIGHTENING**number
        rate = to_plan_for(self.error_rate, self.layout) * share
        return self.initial_capacity * _GROWTH**number, rate

    def is_past(self, number: int, newest: int) -> bool:
        """Return whether a file is no longer asked: False, as none is ever dropped."""
        del number, newest
        return False

    def params(self, number: int) -> FilterParams:
        """Plan a file."""
        return plan(*self.sizes(number), layout=self.layout, seed=self.seed, hash=self.hash)


MAX_ROTATING_FILES = 1000  # each is asked for every key that is not found
_MOST_SECONDS = 2**53  # whole ones in a float
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,12})([smhdw])", re.ASCII)


def seconds_of(duration: Duration) -> int:
    """Read a duration: "90s", "30m", "12h", "7d", "2w", whole seconds, or a timedelta.

    Raises
    ------
    ValueError, TypeError
        If it is none, or not a positive number of whole seconds.

    Examples
    --------
    >>> seconds_of("12h"), seconds_of(90), seconds_of(timedelta(days=7))
    (43200, 90, 604800)
    """
    if isinstance(duration, str):
        parts = _DURATION.fullmatch(duration)
        if parts is None:
            raise ValueError(
                f"duration is {duration!r}, expected one like '90s', '30m', '12h' or '7d'"
            )
        seconds: float = int(parts[1]) * _UNITS[parts[2]]
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        seconds = duration
    else:
        raise TypeError(f"duration is {duration!r}, expected a str, seconds or a timedelta")
    if not 1 <= seconds < _MOST_SECONDS or seconds != int(seconds):
        raise ValueError(
            f"duration is {duration!r}, expected 1 to {_MOST_SECONDS - 1} whole seconds"
        )
    return int(seconds)


@dataclass(frozen=True, slots=True)
class PeriodPlan(HasHash):
    """All that decides which files a rotating filter has.

    Attributes
    ----------
    keep_seconds : int
        How long a key is found at least.
    every_seconds : int
        Length of a period.
    capacity_per_period : int
        Keys that each file is planned for.
    error_rate : float
        False-positive rate of all files together.
    layout, reserve
        Of every file, as for `BloomFilter.create`.
    seed, hash
        Of every file, as in `FilterParams`: a key is hashed once for all of them.

    Raises
    ------
    ValueError
        If there would be too many files.
    """

    kind: ClassVar[str] = "rotating"

    keep_seconds: int
    every_seconds: int
    capacity_per_period: int
    error_rate: float
    layout: Layout
    seed: int = field(repr=False)  # SipHash's is secret
    reserve: Reserve
    hash: HashName = DEFAULT_HASH

    def __post_init__(self) -> None:
        # Each file has a lower one, so it is checked here. A float, as in the manifest.
        object.__setattr__(self, "error_rate", require_error_rate(self.error_rate))
        if self.max_files > MAX_ROTATING_FILES:
            raise ValueError(
                f"keep is {self.keep_seconds} s and every is {self.every_seconds} s, which needs "
                f"{self.max_files} files, but at most {MAX_ROTATING_FILES} are possible"
            )

    @property
    def max_files(self) -> int:
        """The most files that are asked at one time, of which one is not of the past."""
        return -(-self.keep_seconds // self.every_seconds) + 1

    def sizes(self, number: int) -> tuple[int, float]:
        """Return capacity and error rate of a file: all have the same."""
        del number
        rate = to_plan_for(self.error_rate, self.layout) / self.max_files
        return self.capacity_per_period, rate

    def is_past(self, number: int, newest: int) -> bool:
        """Return whether a period was no longer asked when the newest one began."""
        return self.expired(number, self.start(newest))

    def params(self, number: int) -> FilterParams:
        """Plan a file."""
        return plan(*self.sizes(number), layout=self.layout, seed=self.seed, hash=self.hash)

    def period(self, now: float) -> int:
        """Return the period of a time."""
        return max(0, int(now // self.every_seconds))

    def start(self, number: int) -> int:
        """Return the time at which a period begins."""
        return number * self.every_seconds

    def end(self, number: int) -> int:
        """Return the time at which a period ends."""
        return self.start(number + 1)

    def expires(self, number: int) -> int:
        """Return the time from which a period is no longer asked."""
        return self.end(number) + self.keep_seconds

    def expired(self, number: int, now: float) -> bool:
        """Return whether a period is no longer asked."""
        return self.expires(number) <= now


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
    """The manifest of a folder: how its files are made, and which they are.

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
    """Return a manifest as the text that the specification above describes."""
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
    return record_text(fields)


def _settings(plan: FolderPlan) -> dict[str, object]:
    settings = asdict(plan)
    if plan.hash == _UNNAMED:
        del settings["hash"]
    if (traits := HASHES[plan.hash]).secret:
        # No number: of one so large, most readers of JSON keep the first 16 digits.
        settings["seed"] = plan.seed.to_bytes(traits.seed_bits // 8, "little").hex()
    return settings


def decode(raw: bytes, path: str) -> Manifest:
    """Read and check a manifest, given as the whole file.

    Raise `FormatError` at the first rule that does not hold.
    """
    if len(raw) > MAX_BYTES:
        raise FormatError(path, "size", f"more than {MAX_BYTES} bytes", "a manifest")
    check = Checker(path)
    record = check.record(raw, "manifest", FORMAT, VERSION)
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
            continue  # checked above
        check.value(ok, name, value, expected)
    try:
        return kind(**record)
    except ValueError as error:
        raise FormatError(check.path, "settings", str(error), "values that fit together") from None


def _hash(record: dict[str, Any], check: Checker, *, keyed: bool) -> dict[str, Any]:
    """Check and read the hash and its seed."""
    name, seed = record.get("hash", _UNNAMED), record["seed"]
    named = [each for each in HASHES if each != _UNNAMED]
    expected = f"{' or '.join(named)}, or no such field"
    check.value(not keyed or name in named, "hash", name, expected)
    traits = HASHES[name]
    if traits.secret:
        # The message does not show the seed: it may be most of a secret key.
        expected = f"the hash's key: {traits.seed_bits // 4} hexadecimal digits"
        check(is_hexadecimal(seed, traits.seed_bits // 8), "seed", "none", expected)
        seed = int.from_bytes(bytes.fromhex(seed), "little")
    else:
        ok = type(seed) is int and 0 <= seed < 1 << traits.seed_bits
        check.value(ok, "seed", seed, f"0 to 2**{traits.seed_bits} - 1")
    return {"seed": seed, "hash": name}


def _members(records: Any, plan: FolderPlan, check: Checker) -> tuple[Entry, ...]:
    some, most = isinstance(records, list) and records != [], plan.max_files
    check.value(some, "members", records, "a list that is not empty")
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
    for key in ("name", "uuid"):
        values = [getattr(entry, key) for entry in entries]
        check.value(len({*values}) == len(values), f"{key}s", values, "all different")
    return tuple(entries)
