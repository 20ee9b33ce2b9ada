"""Which engine serves: the compiled one where it was built, or what MMBLOOM_ENGINE says."""

import os
import sys
from importlib.util import find_spec

_COMPILED = ("bits", "claim", "counters", "hash", "lines", "several", "text")


def choose(asked: str | None, *, built: bool, byteorder: str) -> str:
    """Name the engine: "compiled" or "numpy".

    Parameters
    ----------
    asked : str or None
        The environment variable MMBLOOM_ENGINE; unset and empty leave the choice free.
    built : bool
        Whether the compiled engine is installed.
    byteorder : {"little", "big"}
        Of this machine; the compiled engine reads words and keys as they lie in memory.

    Raises
    ------
    ValueError
        If what is asked for is no engine.
    ImportError
        If it cannot serve here.

    Examples
    --------
    >>> choose(None, built=False, byteorder="little")
    'numpy'
    """
    if asked not in (None, "", "numpy", "compiled"):
        raise ValueError(f"MMBLOOM_ENGINE is {asked!r}, expected 'numpy' or 'compiled'")
    usable = built and byteorder == "little"
    if asked == "compiled" and not usable:
        found = "was not built" if not built else "is for little-endian machines"
        raise ImportError(
            f"MMBLOOM_ENGINE=compiled, but the compiled engine {found}: install a C compiler "
            "and Python's headers, then mmbloom again, or unset MMBLOOM_ENGINE"
        )
    return asked or ("compiled" if usable else "numpy")


ENGINE = choose(
    os.environ.get("MMBLOOM_ENGINE"),
    built=all(find_spec(f"mmbloom._engine.compiled.{name}") for name in _COMPILED),
    byteorder=sys.byteorder,
)
