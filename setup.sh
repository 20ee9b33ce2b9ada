#!/bin/sh
# Makes a virtual environment and installs this checkout into it:
#   sh setup.sh FOLDER [EXTRAS]      e.g.  sh setup.sh .venv cli
# Needs Python 3.11 or later. On Debian, where Python comes without venv, it installs the
# package python3-venv first (through sudo unless you are root).
set -eu
folder=$1
extras=${2:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    as_root=''
    [ "$(id -u)" = 0 ] || as_root=sudo
    echo 'setup.sh: installing the Debian package python3-venv' >&2
    { $as_root apt-get update -qq && $as_root apt-get install -y -qq python3-venv; } >/dev/null
fi
python3 -m venv "$folder"
rm -rf "$here/build"  # what an earlier build left would be installed as well
"$folder/bin/python" -m pip install --quiet "$here${extras:+[$extras]}"
