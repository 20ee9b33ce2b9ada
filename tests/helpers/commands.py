"""Many commands in one process of its own: `python commands.py JOBS`, under whichever engine.

JOBS is a file of JSON: a list of [arguments, file for stdout]. Prints a list of [exit code,
stderr without its timings].
"""

import json
import os
import re
import sys
from pathlib import Path

import mmbloom
from mmbloom.cli.main import main


def run(argv: list[str], out: str) -> list[object]:
    files = {1: Path(out), 2: Path(f"{out}.err")}
    for stream, path in files.items():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, stream)
        os.close(fd)
    try:
        code: object = main(argv)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    return [code, re.sub(r'"seconds": [^,}]*', "", files[2].read_text())]


if __name__ == "__main__":
    stdout, stderr = os.dup(1), os.dup(2)
    ended = [run(*job) for job in json.loads(Path(sys.argv[1]).read_text())]
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    print(json.dumps([mmbloom.engine, ended]))
