"""A subinterpreter is refused, whichever kind it is and whatever the main one has imported."""

import subprocess
import sys

import pytest

KINDS = ["legacy", "isolated"] if sys.version_info >= (3, 13) else [None]
PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
kind, first = sys.argv[1:]
if first:
    from mmbloom import BloomFilter
made = interpreters.create(*([kind] if kind != "None" else []))
code = '''
try:
    import mmbloom
except ImportError as error:
    print(error)
else:
    print("imported")
'''
run = interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string
run(made, code)
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["", "first"])
def test_a_subinterpreter_is_refused(kind: str | None, first: str) -> None:
    """The error says what to do, before numpy or a module of the engine says something else."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(kind), first],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("mmbloom cannot be imported in a subinterpreter")
    assert "WSGIApplicationGroup" in done.stdout
