"""mmbloom: a memory-mapped, persistent Bloom filter that processes share.

The map, lowest layer first; imports only point down it.

======  ==============  ==============================================================
level   module          one idea
======  ==============  ==============================================================
0       errors          the exception tree
1       _warn           warnings that point at the caller
1       _asked          what a caller asks of a filter, checked
1       _rates          false positives and counts: the formulas
1       _planning       how many bits and hashes a new filter gets
1       _excepted_form  how exceptions are written down: file name and lines
1       sizing          keys and error rate to bits and hashes, and back
1       _capacity       more keys than planned: from when on, and what is said then
1       _batch          the forms of a batch of keys
1       _positions      hash halves to bit positions, a function per layout
1       _engine         the kernels: hash, test, claim, commit; lines and their keys
1       _arrow_c        Arrow's C interface: its structs, and who frees them
1       _arrow          Arrow columns become batches where they lie
1       _keys           the border: whatever a caller passes becomes a batch of keys
1       _parallel       work on several cores, results in order
1       _header         the file format, its specification and codec
1       _kinds          the two kinds of file, and which class opens them
2       _mounts         what file system a path is on
2       _create         make a file, whole or not at all
2       _opening        a regular file, its header proved before its use
2       _unmapped       filter files read with pread, from end to end
2       _append         a new file, written from front to back
2       _build          a whole filter file, written from front to back
2       _excepted_file  the file of a filter's exceptions, read and replaced
2       _excepted       answers corrected by a filter's exceptions
2       _storage        open, map, flush, close
2       _lock           one writer among all threads and processes
2       info            what a filter says of itself
2       _writer         what happens between lock and unlock
2       _pieces         a batch in pieces, with threads
2       _gathered       keys of many batches, joined for one pass over a file
2       _growth         how a growing filter grows: the sizes of its files
2       _periods        the periods of a rotating filter, and how long each is kept
2       _manifest       what a folder of filters says it is: specification and codec
2       _folder         a folder and its manifest on the disk
2       _count_writer   the same, of counters
3       reader          questions that take no lock
3       _choose         which parameters a new filter gets
3       _combine        filters with equal parameters, read side by side
3       union           filters with equal parameters, united
3       intersection    filters with equal parameters, intersected
3       similarity      how many keys two filters share
3       snapshot        a consistent copy, sealed or not
3       guava           files of Guava's BloomFilter, out and in
3       verification    is this file a sound filter?
3       salvage         a sound filter of a damaged file
3       claim           answer now, mark later
3       excepted        the exceptions, for reading and changing
3       adder           keys in, a lock around every change
3       filter_file     a filter object: made, opened, closed, pickled
3       filter          BloomFilter, the public face
3       _member         one file of a folder, open
3       _chain          the files of a folder, the newest of which is written to
3       _older          which keys the files of a folder have
3       _make_folder    a new folder of filters, or one that is as asked for
3       folder_info     what a folder of filters says of itself
3       folder          what every folder of filters can be asked and told
3       _grow           keys go to the newest file until it is full
3       growing         GrowingFilter, a folder of ever larger files
3       folder_copy     a consistent copy of a folder, sealed or not
3       folder_merge    folders of one plan, united file by file
3       folder_check    is this folder a sound filter?
3       folder_repair   a sound folder of a damaged one
3       counting        CountingBloomFilter: keys can be removed
3       _rotate         keys go to the file of the present period
3       rotating        RotatingFilter, a folder of files that are dropped in time
4       lines           records of a byte stream, in bounded chunks
4       line_keys       which part of a line is its key
4       dedup           each line once, marked after it is written
4       sieve           each URL enqueued once, marked after it is enqueued
5       cli             the command line, a file per command
======  ==============  ==============================================================
"""

from mmbloom import _engine, errors, sizing
from mmbloom.claim import Claim
from mmbloom.counting import CountingBloomFilter
from mmbloom.errors import (
    CapacityWarning,
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    FormatError,
    IncompatibleFilters,
    KeyEncodingError,
    KeyTypeError,
    LockTimeout,
    LostBitsError,
    MmbloomError,
    MmbloomWarning,
    NetworkFileSystemError,
    NewerFormatError,
    ParameterMismatch,
    ReadOnlyError,
    ReservationWarning,
)
from mmbloom.excepted import ExceptedKeys
from mmbloom.filter import BloomFilter
from mmbloom.folder_check import FolderVerification, verify_folder
from mmbloom.folder_copy import copy_folder
from mmbloom.folder_info import FolderInfo
from mmbloom.folder_merge import merge_folders
from mmbloom.folder_repair import FolderRepair, repair_folder
from mmbloom.growing import GrowingFilter
from mmbloom.guava import export_guava, import_guava
from mmbloom.info import FilterInfo
from mmbloom.intersection import intersect
from mmbloom.rotating import RotatingFilter
from mmbloom.salvage import Repair, repair
from mmbloom.sieve import Sieve
from mmbloom.similarity import Similarity, compare
from mmbloom.sizing import FilterParams
from mmbloom.snapshot import copy
from mmbloom.union import merge
from mmbloom.verification import Verification, verify

__all__ = [
    "BloomFilter",
    "CapacityWarning",
    "Claim",
    "ClosedFilterError",
    "CountingBloomFilter",
    "DurabilityError",
    "ExceptedKeys",
    "FileChangedError",
    "FilterInfo",
    "FilterParams",
    "FolderInfo",
    "FolderRepair",
    "FolderVerification",
    "FormatError",
    "GrowingFilter",
    "IncompatibleFilters",
    "KeyEncodingError",
    "KeyTypeError",
    "LockTimeout",
    "LostBitsError",
    "MmbloomError",
    "MmbloomWarning",
    "NetworkFileSystemError",
    "NewerFormatError",
    "ParameterMismatch",
    "ReadOnlyError",
    "Repair",
    "ReservationWarning",
    "RotatingFilter",
    "Sieve",
    "Similarity",
    "Verification",
    "compare",
    "copy",
    "copy_folder",
    "engine",
    "errors",
    "export_guava",
    "import_guava",
    "intersect",
    "merge",
    "merge_folders",
    "repair",
    "repair_folder",
    "sizing",
    "verify",
    "verify_folder",
]

engine: str = _engine.ENGINE  # "compiled" or "numpy"


def __getattr__(name: str) -> str:
    # Looked up when asked for: the version stands in pyproject.toml only, and importing
    # what reads it takes 16 ms.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("mmbloom")
    raise AttributeError(f"module 'mmbloom' has no attribute {name!r}")
