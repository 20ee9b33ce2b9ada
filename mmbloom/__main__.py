"""``python -m mmbloom``: the command line without the installed script."""

import sys

from mmbloom.cli import main

if __name__ == "__main__":
    sys.exit(main())
