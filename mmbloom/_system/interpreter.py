"""One interpreter a process.

Locks, forks and copies in shared memory are known once a process, by tables of modules; a
subinterpreter has modules of its own, so that two would not know of each other's holds. numpy
serves one interpreter a process too, and says so in other words, or by chance not at all.
"""

from importlib import import_module
from typing import Any


def require_main() -> None:
    """Refuse to be imported in a subinterpreter.

    Raises
    ------
    ImportError
        If the interpreter is not the first of the process.
    """
    interpreters = _module()
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "mmbloom is imported in a subinterpreter, and its locks are those of a process: import "
            "it in the main interpreter (mod_wsgi: WSGIApplicationGroup %{GLOBAL}), or use "
            "processes"
        )


def _module() -> Any:
    # Python's own, in 3.14 behind concurrent.interpreters, which takes 10 ms; the last before 3.13.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None
