"""One interpreter per process.

Module-level tables record the locks, forks and shared-memory copies of a process. A subinterpreter
has modules of its own, so two of them would not know of each other's locks. numpy supports one
interpreter per process too, but its error says something else, or does not come at all.
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
            "mmbloom cannot be imported in a subinterpreter, because its locks belong to the whole "
            "process: import it in the main interpreter (mod_wsgi: WSGIApplicationGroup "
            "%{GLOBAL}), or use processes"
        )


def _module() -> Any:
    # The module behind concurrent.interpreters, which takes 10 ms to import; before 3.13 the other.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None
