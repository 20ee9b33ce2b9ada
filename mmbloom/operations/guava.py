"""Export and import of the files of Guava's `BloomFilter`, which programs on a JVM read and write.

The standard layout with MurmurHash3 and seed 0 sets the same bits as Guava's strategy
MURMUR128_MITZ_64, so that only the bytes around and within the array differ. This is the
file that `BloomFilter.writeTo` writes and `readFrom` reads; all numbers in it are big-endian:

======  =====  ======================  ===================================================
offset  bytes  field                   rule
======  =====  ======================  ===================================================
0       1      strategy                1, MURMUR128_MITZ_64
1       1      number of hashes        k, 1 to 255 in Guava, 1 to 64 here
2       4      number of longs         m / 64, signed: 1 to 2^31 - 1
6       8 each  the array              bit p is bit p & 63 of long p >> 6
======  =====  ======================  ===================================================

The file does not say which bytes a key has: the Funnel that the JVM's program uses decides that;
docs/interchange.md has the table.
"""

import struct

import numpy as np

from mmbloom._engine import count_set
from mmbloom._storage.atomic import OWNER_ONLY, Target, new_file
from mmbloom._storage.build import Appender, new_filter
from mmbloom._storage.opening import absolute
from mmbloom._storage.unmapped import UnmappedFile, UnmappedFilter
from mmbloom._storage.warnings import Counted, warn_if_past_plan
from mmbloom._system.typing import Path
from mmbloom.errors import FileChangedError, ParameterMismatchError
from mmbloom.format.checker import Checker
from mmbloom.format.header import SEGMENT_BYTES
from mmbloom.operations.combine import require_files
from mmbloom.sizing import capacity_of
from mmbloom.sizing.params import MAX_HASHES, FilterParams

_PREFIX = struct.Struct(">BBi")  # strategy, number of hashes, number of longs
_STRATEGIES = ("MURMUR128_MITZ_32", "MURMUR128_MITZ_64")  # by their numbers in the file
_STRATEGY = 1
_MOST_LONGS = 2**31 - 1
_LIKE_THEIRS = 'make one with layout="standard", hash="murmur3", seed=0 (--layout standard --hash \
murmur3 --seed 0) and add its keys'
_WHY_FILES = "a Guava file holds one filter; export each .bloom file, and query all of them"


def export_guava(
    source: Path,
    destination: Path,
    *,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Write a filter as a file that Guava's `BloomFilter.readFrom` reads.

    Parameters
    ----------
    source : str or path-like
        A filter with the layout "standard", the hash "murmur3" and the seed 0. Others may write to
        it at the same time.
    destination : str or path-like
        Where to make the file. It appears complete and on the disk, or not at all.
    permissions : int, default 0o600
        Mode bits of the file.
    allow_network : bool, default False
        Allow a destination on a network file system.

    Raises
    ------
    ParameterMismatchError
        If the filter has another layout, hash or seed, or more bits than Guava can count.
    FormatError, FileChangedError, FileExistsError, NetworkFileSystemError, OSError
        Errors common to calls that read or make a filter: see `mmbloom.errors`.

    Notes
    -----
    Guava's file does not record a capacity. If the filter is past its capacity, a `CapacityWarning`
    is given after the file has been made. Memory does not depend on the size of the filter.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter, export_guava
    >>> folder = tempfile.mkdtemp()
    >>> ours, theirs = os.path.join(folder, "seen.bloom"), os.path.join(folder, "seen.guava")
    >>> as_theirs = {"layout": "standard", "hash": "murmur3", "seed": 0}
    >>> with BloomFilter.create(ours, capacity=1000, **as_theirs) as seen:
    ...     seen.add("a")
    ...     export_guava(ours, theirs)
    True
    >>> with open(theirs, "rb") as file:
    ...     file.read(6).hex()  # strategy 1, 7 hashes, 150 longs
    '010700000096'
    """
    path, target = absolute(source), Target(absolute(destination), permissions, allow_network)
    require_files([path], _WHY_FILES)
    with UnmappedFilter(path) as original:
        params = original.header.params
        _require_exportable(original.path, params)
        with new_file(target, _PREFIX.size + params.num_bytes, mapped=False) as made:
            file = Appender(made.fd, target.path)
            file.append(_PREFIX.pack(_STRATEGY, params.num_hashes, params.num_bits // 64))
            positions_set = 0
            for segment in original.segments():
                positions_set += count_set(segment)
                file.append(segment.astype(">u8").tobytes())
            original.check_same()
            file.finish()
    warn_if_past_plan(Counted(path, params, positions_set))


def _require_exportable(path: str, params: FilterParams) -> None:
    """Raise `ParameterMismatchError` if Guava would not find the keys, or not read the file."""
    most, smaller = 64 * _MOST_LONGS, "make a smaller filter, or several"
    for field, ok, expected, advice in (
        ("layout", params.layout == "standard", "standard", _LIKE_THEIRS),
        ("hash", params.hash == "murmur3", "murmur3", _LIKE_THEIRS),
        ("seed", params.seed == 0, "0", _LIKE_THEIRS),
        ("num_bits", params.num_bits <= most, f"at most {most}", smaller),
    ):
        if not ok:
            found = str(getattr(params, field))
            said = f"has {field} {found}, but a Guava filter has {expected}; {advice}"
            raise ParameterMismatchError(path, field, found, expected, said)


def import_guava(
    source: Path,
    destination: Path,
    *,
    capacity: int | None = None,
    error_rate: float = 0.01,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Make a filter from a file that Guava's `BloomFilter.writeTo` wrote.

    Parameters
    ----------
    source : str or path-like
        The file. It is read, never mapped, and completely checked.
    destination : str or path-like
        Where to make the filter. It appears complete and on the disk, or not at all. Its layout is
        "standard", its hash "murmur3" and its seed 0.
    capacity : int, optional
        The filter's capacity, which the file does not record. By default, the number of keys that
        bring a filter of this size to `error_rate`. Past its capacity, mmbloom warns with a
        `CapacityWarning`.
    error_rate : float, default 0.01
        The filter's false-positive rate at capacity, between 0 and 1.
    permissions : int, default 0o600
        Mode bits of the filter.
    allow_network : bool, default False
        Allow a destination on a network file system.

    Raises
    ------
    FormatError
        If the file is not one of Guava's, is cut off or too long, or has more than 64 hashes.
    ValueError
        If `capacity` or `error_rate` is out of range.
    FileChangedError, FileExistsError, NetworkFileSystemError, OSError
        Errors common to calls that read or make a filter: see `mmbloom.errors`.

    Notes
    -----
    `keys_added` of the result is an estimate. Memory does not depend on the size of the file.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter, import_guava
    >>> folder = tempfile.mkdtemp()
    >>> theirs, ours = os.path.join(folder, "seen.guava"), os.path.join(folder, "seen.bloom")
    >>> with open(theirs, "wb") as file:  # one long, none of its bits set: it has no key
    ...     file.write(bytes.fromhex("010500000001" + 8 * "00"))
    14
    >>> import_guava(theirs, ours)
    >>> with BloomFilter.open(ours) as seen:
    ...     "a" in seen, seen.params.num_bits, seen.params.num_hashes
    (False, 64, 5)
    """
    target = Target(absolute(destination), permissions, allow_network)
    with UnmappedFile(absolute(source)) as foreign:
        prefix = foreign.read(0, min(_PREFIX.size, foreign.size))
        num_hashes, num_bits = _decode(prefix, foreign.size, foreign.path)
        if capacity is None:
            capacity = capacity_of(num_bits, num_hashes, error_rate, layout="standard")
        params = FilterParams(
            capacity, float(error_rate), "standard", num_bits, num_hashes, 0, "murmur3"
        )
        with new_filter(target, params) as made:
            for start in range(_PREFIX.size, foreign.size, SEGMENT_BYTES):
                size = min(SEGMENT_BYTES, foreign.size - start)
                made.write(np.frombuffer(foreign.read(start, size), ">u8").astype("<u8"))
            foreign.check_size()
            if foreign.read(0, _PREFIX.size) != prefix:
                raise FileChangedError(foreign.path, "overwritten")
            made.finish(keys_added=0, batches=0)  # 0 does not fit the bits: it is estimated
    warn_if_past_plan(Counted(target.path, params, made.positions_set))


def _decode(prefix: bytes, file_bytes: int, path: str) -> tuple[int, int]:
    """Check the first bytes of a file and its size; return k and m."""
    require = Checker(path)
    require(len(prefix) == _PREFIX.size, "length", f"{file_bytes} bytes", "at least 14")
    strategy, num_hashes, longs = _PREFIX.unpack(prefix)
    name = f" ({_STRATEGIES[strategy]})" if strategy < len(_STRATEGIES) else ""
    expected = f"{_STRATEGY} ({_STRATEGIES[_STRATEGY]}), as Guava's BloomFilter.writeTo writes it"
    require(strategy == _STRATEGY, "strategy", f"{strategy}{name}", expected)
    expected = f"1 to {MAX_HASHES}, the most that mmbloom allows (Guava: 255)"
    require(1 <= num_hashes <= MAX_HASHES, "number of hashes", num_hashes, expected)
    require(longs >= 1, "number of longs", longs, f"1 to {_MOST_LONGS}")
    whole = _PREFIX.size + 8 * longs
    require(file_bytes == whole, "file size", f"{file_bytes} bytes", f"{whole}")
    return num_hashes, 64 * longs
