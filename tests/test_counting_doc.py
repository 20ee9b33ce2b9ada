"""The example of docs/counting.md runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).parents[1] / "docs" / "counting.md"


def test_example(tmp_path: Path) -> None:
    """Copies are counted, what is not there is refused, and the plain filter has the rest."""
    (code,) = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[True, True, False]",
        "True True",
        "[True, False, False]",
        "1 True",
        "[False, True]",
    ]
