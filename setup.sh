#!/bin/sh
# Creates a virtual environment, or uses an existing one, and installs this checkout into it in
# editable mode: edits take effect at once, edits of the compiled engine when this is run again.
# Needs Python 3.11 or later. On Debian, where Python comes without venv, it installs the
# package python3-venv first (through sudo unless you are root).
set -eu
if [ $# = 0 ] || [ $# -gt 2 ] || [ "${1#-}" != "$1" ]; then
    cat >&2 <<'USAGE'
usage: sh setup.sh FOLDER [EXTRAS]
  creates the virtual environment FOLDER, unless it exists, and installs this checkout into it
  EXTRAS, separated by commas: cli, cluster, crawl, dask, scrapy, spark; for development: test,
  test-s3, lint, docs, bench, fuzz
  example: sh setup.sh .venv cli
USAGE
    exit 2
fi
folder=$1
extras=${2:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup.sh: needs Python 3.11 or later, but $(command -v python3) is $(python3 -V 2>&1)" >&2
    exit 1
fi
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "setup.sh: needs Python's modules ensurepip and venv: install them" >&2
        exit 1
    fi
    as_root=''
    [ "$(id -u)" = 0 ] || as_root=sudo
    echo 'setup.sh: installing the Debian package python3-venv' >&2
    { $as_root apt-get update -qq && $as_root apt-get install -y -qq python3-venv; } >/dev/null
fi
"$folder/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv "$folder"
python=$folder/bin/python

# One line: the engine that serves this checkout in that environment, and why.
engine() {
    MMBLOOM_ENGINE='' PYTHONPATH='' "$python" -P -W ignore - "$here" <<'LOOK'
import os, sys
try:
    import mmbloom
    from mmbloom._engine.compiled import FAULT
except ImportError:
    sys.exit()
if os.path.samefile(os.path.dirname(os.path.dirname(mmbloom.__file__)), sys.argv[1]):
    print(mmbloom.engine, FAULT)
LOOK
}
# Whether all that pyproject.toml says is installed, up to the extras.
described() { [ -n "$(find "$here/pyproject.toml" ! -newer "$1/METADATA" 2>/dev/null)" ]; }

installed=$(ls -d "$folder"/lib/python3*/site-packages/mmbloom-*.dist-info 2>/dev/null || true)
if [ "$(engine)" = 'compiled ' ] && described "$installed"; then
    # Nothing to build; the package is there, so that only what the extras need is fetched.
    [ -z "$extras" ] || "$python" -m pip install --quiet "mmbloom[$extras]"
else
    echo "setup.sh: building $here and installing it into $folder; this takes a minute or two" >&2
    "$python" -m pip install --quiet --editable "$here${extras:+[$extras]}"
fi

# As with any installation, whatever PYTHONDONTWRITEBYTECODE says: else each start compiles it.
"$python" -m compileall -q "$here/mmbloom"

served=$(engine)
case $served in
'compiled ') echo "setup.sh: mmbloom in $folder runs from $here, with the compiled engine" >&2 ;;
'')
    echo "setup.sh: mmbloom cannot be imported in $folder" >&2
    exit 1
    ;;
*)
    if ! "${CC:-cc}" --version >/dev/null 2>&1; then
        why="the C compiler '${CC:-cc}' does not work"
    elif ! "$python" -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' \
        2>/dev/null; then
        why="Python's headers are not installed"
    else
        why="\`$python -m pip install -v --editable $here\` shows what failed"
    fi
    if [ "$(uname)" = Darwin ]; then
        brings='`xcode-select --install`'
    elif command -v apk >/dev/null; then
        brings='`apk add gcc musl-dev python3-dev`'
    else
        brings='on Debian `apt install gcc libc6-dev python3-dev`'
    fi
    cat >&2 <<SLOW
setup.sh: mmbloom in $folder runs from $here, with numpy's engine, which is several times slower:
  the compiled engine ${served#numpy }: $why;
  install what it needs ($brings) and run this again
SLOW
    ;;
esac
