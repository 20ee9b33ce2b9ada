"""The command line: thin over the library.

``main``       the parser, and errors to exit codes
``arguments``  options that several commands share
``filters``    the filters that commands name: opened, made, waited for
``inputs``     bytes in: files, stdin, compressed files, progress
``outputs``    lines out: stdout, appended files
``process``    exit codes, standard streams, signals
``workers``    several inputs in several processes
``extras``     the optional libraries, imported here only
``commands``   the commands, a file each
"""

from mmbloom.cli.main import main

__all__ = ["main"]
