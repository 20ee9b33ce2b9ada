"""Many commands in one process of its own: `python commands.py JOBS`, under whichever engine.

JOBS is a file of JSON: a list of [arguments, file for stdout]. Prints a list of [exit code,
stderr without its timings].
"""

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path

import mmbloom
from mmbloom.cli.main import main


def run(argv: list[str], out: str) -> list[object]:
    """Run one command with its stdout in a file."""
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(fd, 1)
    os.close(fd)
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            code: object = main(argv)
        except SystemExit as end:
            code = end.code
    sys.stdout.flush()
    return [code, re.sub(r'"seconds": [^,}]*', "", err.getvalue())]


if __name__ == "__main__":
    stdout = os.dup(1)
    ended = [run(*job) for job in json.loads(Path(sys.argv[1]).read_text())]
    os.dup2(stdout, 1)
    print(json.dumps([mmbloom.engine, ended]))
