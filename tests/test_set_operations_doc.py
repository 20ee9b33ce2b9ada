"""The example of docs/set-operations.md runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).parents[1] / "docs" / "set-operations.md"


def test_example(tmp_path: Path) -> None:
    """Estimates are near the truth, and combined filters find what they must."""
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
    counts, similar, *found = done.stdout.splitlines()
    common, united = map(int, counts.split())
    assert 9_000 <= common <= 11_000
    assert 49_000 <= united <= 51_000
    assert similar == "0.2 False"
    assert found == ["True True", "True"]
