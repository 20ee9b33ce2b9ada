"""Which vectors the kernels use, by the processor and by `MMBLOOM_VECTORS`; in new processes."""

import os
import subprocess
import sys

import pytest
from kernels import KINDS, VECTORS, needs_compiled

pytestmark = needs_compiled

ALL = ("scalar", "neon", "avx2", "avx512")
LACKING = [kind for kind in ALL if kind not in KINDS]


def used(vectors: str | None, engine: str = "compiled") -> "subprocess.CompletedProcess[str]":
    """Name the vectors of a new process, which was asked for some by the variable."""
    env = {name: value for name, value in os.environ.items() if name != "MMBLOOM_VECTORS"}
    env |= {"MMBLOOM_ENGINE": engine} | ({} if vectors is None else {"MMBLOOM_VECTORS": vectors})
    code = "import mmbloom; print(mmbloom.engine)"
    if engine == "compiled":
        code += "; from mmbloom._engine.compiled.vectors import used; print(used())"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=False
    )


def test_best_by_itself() -> None:
    """Unset or empty, the variable leaves the best kind that there is."""
    assert KINDS[0] == "scalar"
    for free in (None, ""):
        assert used(free).stdout == f"compiled\n{KINDS[-1]}\n"


def test_each_by_name() -> None:
    """Each kind that this machine can run is used where it is asked for."""
    for kind in KINDS:
        assert used(kind).stdout == f"compiled\n{kind}\n"


@pytest.mark.parametrize("kind", [*LACKING, "sse9", "AVX2", " scalar"])
def test_none_that_is_not_there(kind: str) -> None:
    """What this machine cannot run is an error that says so, and what there is."""
    why = "which this processor lacks" if kind in ALL else "which is no kind of vectors"
    said = f"MMBLOOM_VECTORS is {kind!r}, {why}: expected one of {', '.join(KINDS)}, or unset it"
    done = used(kind)
    assert done.returncode == 1
    assert done.stderr.endswith(f"ValueError: {said}\n")
    assert VECTORS is not None
    before = VECTORS.used()
    with pytest.raises(ValueError, match="expected one of"):
        VECTORS.use(kind)
    assert VECTORS.used() == before


def test_numpy_has_none() -> None:
    """The numpy engine looks at no vectors."""
    assert used("sse9", engine="numpy").stdout == "numpy\n"
