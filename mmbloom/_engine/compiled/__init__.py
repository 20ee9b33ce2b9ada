"""The kernels of ``reference`` in Cython, equal to it byte for byte; which of the two serves.

Each module except ``vectors`` has functions that the reference defines:

``bits``      test, add, claim, commit on an array of bits; keys sorted by its slices
``counters``  test, increment and decrement on an array of counters
``hash``      every form of keys to hash halves; which lists and arrays can be hashed as they are
``holding``   who holds a write lock, without a bytecode between its steps
``lines``     where lines begin and end; which part of one is its key
``members``   the member of a line of JSON that is its key
``rows``      where rows of CSV begin and end; the columns of each that are its key
``single``    a key at a time, from the interpreter's slot to the bits
``vectors``   which vector instructions all of them use

They share inline code: ``blocks.h``, ``positions.pxd`` and ``overlay.pxd`` for bits; ``text.pxd``
and ``octets.h`` for keys, ``spans.pxd`` for lines; ``hashes.pxd`` and ``siphash.h`` for hashes;
``threads.h`` for the threads of a call, ``regions.h`` for the order in which they change an array.
Vectors need files in C, for the compilers' own names. Cython writes ``_arrays`` at each build: its
own code for arrays calls it.

These modules serve where they were built, or as MMBLOOM_ENGINE says. If one is older than its
source none serves, as the code around it may ask for what it does not do. Where numpy serves
without being asked for, one line says why. The compiled engine uses the best vector instructions
of the processor, or what MMBLOOM_VECTORS says.
"""

import os
import sys
import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

from mmbloom._system.extras import compiler
from mmbloom.errors import EngineWarning

COMPILED = (
    "_arrays",
    "bits",
    "counters",
    "hash",
    "holding",
    "lines",
    "members",
    "rows",
    "single",
    "vectors",
)
_FOLDER = os.path.dirname(__file__)
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER)))
_CHECKOUT = os.path.exists(os.path.join(_ROOT, "setup.sh"))


def fault() -> str:
    """Return why the compiled engine cannot serve this interpreter; "" if it can."""
    absent = [name for name in COMPILED if not find_spec(f"{__name__}.{name}")]
    if absent:
        mine = [absent[0] + suffix for suffix in EXTENSION_SUFFIXES]
        for name in sorted(os.listdir(_FOLDER)):
            if name.startswith(f"{absent[0]}.") and name.endswith(".so") and name not in mine:
                return f"was built for another Python ({name}, not {mine[0]})"
        return "was not built"
    # Only a checkout: an installation writes its files in any order, so their times say nothing.
    if _CHECKOUT and (newer := _newer_than_built()):
        return f"is older than its source {newer}"
    try:
        for name in COMPILED:
            import_module(f"{__name__}.{name}")
    except (ImportError, ValueError) as error:  # ValueError: built for another numpy
        return f"fails to import ({' '.join(str(error).split())})"
    return ""


def _newer_than_built() -> str:
    """Return the source that changed last, if that was after any module was built."""
    with os.scandir(_FOLDER) as entries:
        times = {entry.name: entry.stat().st_mtime_ns for entry in entries}
    names = [name + suffix for name in COMPILED for suffix in EXTENSION_SUFFIXES]
    built = [times[name] for name in names if name in times]
    sources = [name for name in times if name.endswith((".pyx", ".pxd", ".h"))]
    last = max(sources, key=times.__getitem__, default="")
    return last if last and built and times[last] > min(built) else ""


def remedy() -> str:
    """Return what to do, so that the compiled engine serves."""
    needed = f"a C compiler and Python's headers ({compiler()})"
    if _CHECKOUT:
        environment = sys.prefix if sys.prefix != sys.base_prefix else ".venv"
        return f"run `sh {_ROOT}/setup.sh {environment}`, which needs {needed}"
    return f"install {needed}, then mmbloom again"


def choose(asked: str | None, *, fault: str, byteorder: str) -> str:
    """Return the engine: "compiled" or "numpy".

    Parameters
    ----------
    asked : str or None
        The environment variable MMBLOOM_ENGINE; unset and empty leave the choice free.
    fault : str
        Why the compiled engine cannot serve, "" if it can.
    byteorder : {"little", "big"}
        Of this machine; the compiled engine reads words and keys as they lie in memory.

    Raises
    ------
    ValueError
        If the name is not that of an engine.
    ImportError
        If the engine asked for cannot serve here.

    Examples
    --------
    >>> choose(None, fault="was not built", byteorder="little")
    'numpy'
    """
    if asked not in (None, "", "numpy", "compiled"):
        raise ValueError(f"MMBLOOM_ENGINE is {asked!r}, expected 'numpy' or 'compiled'")
    if asked == "compiled" and byteorder != "little":
        raise ImportError(
            "MMBLOOM_ENGINE=compiled, but the compiled engine needs a little-endian machine: "
            "unset MMBLOOM_ENGINE"
        )
    if asked == "compiled" and fault:
        raise ImportError(
            f"MMBLOOM_ENGINE=compiled, but the compiled engine {fault}: {remedy()}, "
            "or unset MMBLOOM_ENGINE"
        )
    return asked or ("numpy" if fault or byteorder != "little" else "compiled")


def _say(fault: str) -> None:
    """Warn that numpy serves and why, in one line; this never makes the import fail."""
    message = (
        f"using the numpy engine, several times slower: the compiled engine in {_FOLDER} {fault}; "
        f"{remedy()}; or set MMBLOOM_ENGINE=numpy to silence this warning"
    )
    try:
        # In no file's name, whose line would be printed below the message.
        warnings.warn_explicit(message, EngineWarning, "mmbloom", 1)
    except EngineWarning:  # python -W error: what asks for strictness is MMBLOOM_ENGINE=compiled
        print(f"mmbloom: warning: {message}", file=sys.stderr)  # noqa: T201  cannot raise


_asked = os.environ.get("MMBLOOM_ENGINE")
# Nothing compiled is imported where numpy is asked for, or on a big-endian machine.
FAULT = fault() if sys.byteorder == "little" and _asked in (None, "", "compiled") else ""
engine = choose(_asked, fault=FAULT, byteorder=sys.byteorder)
if FAULT:
    _say(FAULT)
if engine == "compiled":
    import_module(f"{__name__}.vectors").use(os.environ.get("MMBLOOM_VECTORS") or None)
