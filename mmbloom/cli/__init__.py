"""The command line: a thin layer over the library.

``main``       runs a command; turns errors into exit codes
``parser``     the commands, and the parser of each
``arguments``  options that several commands share
``filters``    open or create the filter that a command names
``report``     a progress bar, and the figures in the end
``inputs``     read files, stdin and compressed files
``keyed``      the lines of an input, plain or CSV, with what finds their keys
``outputs``    write lines to stdout or append them to files
``marking``    mark the lines of an input in a filter; wait for its lock
``process``    exit codes, standard streams, signals
``workers``    several inputs in several processes
``extras``     import the optional libraries, here only
``commands``   the commands, one file each
"""

from mmbloom.cli.main import main

__all__ = ["main"]
