"""A probe for each row of the feature table: it does the thing and looks at what came of it.

A probe gets a library and an empty folder and gives a cell, with what it measured. It runs in
a process of its own (`_apart`), as a library may take its process with it. What several
processes do at once is in `_shared_probes`, how often it errs and how long
it takes in `_figure_probes`.
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import distribution, requires
from typing import Any, NamedTuple

import numpy as np
from _apart import DiedError, apart
from _keys import byte_strings
from _library import LackingError, Library, lacking
from _measure import memory

ROOM = 1000
KEYS = byte_strings(0, ROOM)
ABSENT = byte_strings(10**9, ROOM)
FEW = 1e-9  # the error rate where a false positive would spoil the answer


class Cell(NamedTuple):
    """A cell of the table, and the figures behind it."""

    text: str
    measured: dict[str, float]


def yes(true: bool, **measured: float) -> Cell:
    return Cell("yes" if true else "no", measured or {"yes": float(true)})


def filled(library: Library, path: str, rate: float = 0.01) -> Any:
    """Make a filter with KEYS."""
    bloom = library.create(path, ROOM, rate)
    for key in KEYS:
        library.add(bloom, key)
    return bloom


def kept(library: Library, path: str, rate: float = 0.01) -> str:
    """Leave a file with KEYS."""
    library.settle(filled(library, path, rate), path)
    return path


def missing(bloom: Any, keys: list[bytes] = KEYS) -> int:
    return sum(key not in bloom for key in keys)


def rounded(value: float) -> str:
    """Keep one digit: the next depends on the machine."""
    return f"{float(f'{value:.1g}'):g}"


def reopening(library: Library, folder: str, capacity: int) -> Cell:
    """Measure what opening and one query read into memory, against the file's size."""
    small, large = os.path.join(folder, "small"), os.path.join(folder, "large")
    kept(library, small)
    apart(_make, library, large, capacity)
    assert KEYS[0] in library.open(small)  # all imports are done
    before = _read_so_far()
    bloom = library.open(large)
    assert KEYS[0] in bloom
    share = (_read_so_far() - before) / os.path.getsize(large)
    return yes(share < 0.5, share_read=share)


def _make(library: Library, path: str, capacity: int) -> None:
    bloom = library.create(path, capacity)
    library.add(bloom, KEYS[0])
    library.settle(bloom, path)


def _read_so_far() -> float:
    with open("/proc/self/io", encoding="ascii") as file:
        read = int(file.readline().split()[1])
    return max(read, memory()["Rss"] * 2**20)


def damage(library: Library, folder: str) -> Cell:
    """Open files that are damaged in several ways, and query them."""
    good = kept(library, os.path.join(folder, "good"))
    with open(good, "rb") as file:
        data = file.read()
    files = {
        "empty": b"",
        "half": data[: len(data) // 2],
        "without its last byte": data[:-1],
        "first 8 bytes zero": bytes(8) + data[8:],
        "first 8 bytes 255": b"\xff" * 8 + data[8:],
        "noise": random.Random(1).randbytes(len(data)),
        "text": b"\n".join(KEYS)[: len(data)].ljust(len(data), b"\n"),
    }
    ends: dict[str, float] = {"noticed": 0, "unnoticed": 0, "killed": 0}
    for name, content in files.items():
        path = os.path.join(folder, "damaged " + name)
        with open(path, "wb") as file:
            file.write(content)
        try:
            ends["noticed" if apart(_refuses, library, path, patience=10) else "unnoticed"] += 1
        except DiedError:
            ends["killed"] += 1
    text = f"{ends['noticed']:.0f} of {len(files)}"
    return Cell(text + (f", {ends['killed']:.0f} crash" if ends["killed"] else ""), ends)


def _refuses(library: Library, path: str) -> bool:
    try:
        bloom = library.open(path)
        missing(bloom)
        missing(bloom, ABSENT)
    except Exception:  # noqa: BLE001  whatever it raises, it has noticed
        return True
    return False


def rot(library: Library, folder: str) -> Cell:
    """Flip a bit amid the bits of a file, then of a copy that has checksums."""
    flipped, plain, path = (os.path.join(folder, name) for name in ("flipped", "plain", "sealed"))
    _flip(kept(library, flipped))
    if _refuses(library, flipped):
        return Cell("on loading", {"yes": 1.0})
    library.sealed(library.open(kept(library, plain)), path)
    _flip(path)
    # An archive is checked when it is verified, not at each opening.
    command = [sys.executable, "-P", "-m", library.module, "verify", path]
    done = subprocess.run(command, capture_output=True, check=False)
    return Cell("sealed copy" if done.returncode == 1 else "no", {"exit": float(done.returncode)})


def _flip(path: str) -> None:
    with open(path, "r+b") as file:
        place = min(4096 + 100, os.path.getsize(path) - 100)  # past any header, before any sum
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def batches(library: Library, folder: str) -> Cell:
    """Look up keys of which half are there; add keys of which half are new, one of them twice."""
    found: dict[str, float] = {"look up": 0, "add": 0}
    bloom = filled(library, os.path.join(folder, "seen"), FEW)
    with suppress(LackingError):
        answers = library.query_batch(bloom, KEYS + ABSENT)
        found["look up"] = float(answers == [True] * ROOM + [False] * ROOM)
    with suppress(LackingError):
        told = library.add_batch_tells(bloom, [*KEYS[:5], *ABSENT[:5], ABSENT[4]])
        found["add"] = float(told == [False] * 5 + [True] * 5 + [False])
    return of_two(found)


def of_two(found: dict[str, float]) -> Cell:
    """Say of two things whether each was done."""
    return Cell(", ".join("yes" if done else "no" for done in found.values()), found)


class _Closed(np.ndarray[Any, Any]):
    """An array that gives its memory and no objects."""

    def __iter__(self) -> Any:
        raise TypeError("a key became an object")


class _Column:
    """A column of Arrow that has its interface and nothing else."""

    def __init__(self, column: Any) -> None:
        self.__arrow_c_array__ = column.__arrow_c_array__


def columns(library: Library, folder: str) -> Cell:
    """Add arrays that give no object a key."""
    import pyarrow as pa  # noqa: PLC0415  need not be installed

    alike = [key for key in KEYS if len(key) == len(KEYS[0])]  # an array pads none of these
    takes: dict[str, float] = {}
    for name, keys, array in (
        ("NumPy", KEYS, np.array(KEYS).view(_Closed)),
        ("NumPy, keys of one length", alike, np.array(alike).view(_Closed)),
        ("Arrow", KEYS, _Column(pa.array([key.decode() for key in KEYS]))),
    ):
        bloom = library.create(os.path.join(folder, name), ROOM)
        with suppress(TypeError, LackingError):
            library.add_batch(bloom, array)
            takes[name] = float(not missing(bloom, keys))
    if takes.get("NumPy"):
        del takes["NumPy, keys of one length"]
    return Cell(" and ".join(name for name, done in takes.items() if done) or "no", takes)


def removal(library: Library, folder: str) -> Cell:
    """Remove half of the keys: none of the others may go, few of these stay."""
    bloom, remove = library.removing(os.path.join(folder, "counting"))
    for key in KEYS:
        library.add(bloom, key)
    for key in KEYS[::2]:
        remove(key)
    gone = missing(bloom, KEYS[::2])
    return yes(not missing(bloom, KEYS[1::2]) and gone > 0.9 * ROOM / 2, gone=gone)


def growth(library: Library, folder: str) -> Cell:
    """Add ten times the keys that it was made for, at 1 %."""
    bloom = library.growing(os.path.join(folder, "growing"), ROOM)
    for key in byte_strings(0, 10 * ROOM):
        bloom.add(key)
    some = byte_strings(10**9, 10 * ROOM)
    rate = 1 - missing(bloom, some) / len(some)
    text = "yes" if rate < 0.02 else f"{rounded(100 * rate)} % false positives"
    return Cell(text, {"false positives": rate})


def expiry(library: Library, folder: str) -> Cell:
    """Let the library show it, as no two do it alike."""
    library.expiring(os.path.join(folder, "rotating"))
    return yes(true=True)


def exclusions(library: Library, folder: str) -> Cell:
    """Let the library show it."""
    library.excluding(os.path.join(folder, "seen"), KEYS[0])
    return yes(true=True)


def read_only(library: Library, folder: str) -> Cell:
    """Query a file that this process may not write to."""
    path = kept(library, os.path.join(folder, "seen"))
    os.chmod(path, 0o444)
    os.chmod(folder, 0o555)  # nothing is made beside it either
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        return yes(missing(library.open_read_only(path)) == 0)
    except PermissionError:
        return yes(true=False)


def set_operations(library: Library, folder: str) -> Cell:
    """Unite and intersect two filters that have half of their keys in common."""
    found: dict[str, float] = {"union": 0, "intersection": 0}
    for name in found:
        one = library.create(os.path.join(folder, name + "1"), ROOM, FEW)
        other = library.create_like(one, os.path.join(folder, name + "2"))
        for bloom, keys in ((one, KEYS[:600]), (other, KEYS[400:])):
            for key in keys:
                library.add(bloom, key)
        wanted = KEYS if name == "union" else KEYS[400:600]
        with suppress(LackingError):
            both = getattr(library, name)(one, other, os.path.join(folder, name))
            lost, more = missing(both, wanted), ROOM - missing(both, ABSENT)
            found[name] = float(not lost and not more)
    return of_two(found)


def same_hash(library: Library, folder: str) -> Cell:
    """Reopen in a process of another hash seed what was made as most make it."""
    path = os.path.join(folder, "seen")
    bloom = library.create_simply(path, ROOM)
    for key in KEYS:
        library.add(bloom, key)
    try:
        library.settle(bloom, path)
    except ValueError:
        kept(library, path)
        assert not apart(_missing_elsewhere, library, path)
        return Cell("your own function", {"yes": 0.5})
    return yes(apart(_missing_elsewhere, library, path) == 0)


def _missing_elsewhere(library: Library, path: str) -> int:
    return missing(library.open(path))


def first_seen(library: Library, folder: str) -> Cell:
    """Look for a command of the distribution, and let it drop what an earlier run printed."""
    if not any(e.group == "console_scripts" for e in distribution(library.package).entry_points):
        lacking()
    command = [sys.executable, "-P", "-m", library.module, "dedup", os.path.join(folder, "seen")]
    out = [
        subprocess.run([*command, "-n", "1e4"], input=text, capture_output=True, check=True).stdout
        for text in (b"a\nb\na\n", b"b\nc\n")
    ]
    return yes(out == [b"a\nb\n", b"c\n"])


def needs(library: Library, folder: str) -> Cell:  # noqa: ARG001
    """Read what the distribution needs, extras aside."""
    wanted = [need for need in requires(library.package) or [] if "extra ==" not in need]
    names = [need.split(">")[0].split("=")[0].strip(" ;[(") for need in wanted]
    return Cell(", ".join(names) or "nothing", {"distributions": float(len(names))})


def in_new_folder(probe: Callable[..., Cell], library: Library, *args: Any, **options: Any) -> Cell:
    """Run a probe in a folder of its own; what the library lacks is a cell as well."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return probe(library, folder, *args, **options)
        except LackingError as instead:
            return Cell(str(instead), {"yes": 0.0})
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
            os.chmod(folder, 0o700)
