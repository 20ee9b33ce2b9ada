"""The command line: a thin layer over the library.

``main``       runs a command; turns errors into exit codes
``parser``     the commands, and the parser of each
``arguments``  options that several commands share
``filters``    open or create the filter that a command names
``report``     a progress bar, and the figures in the end
``inputs``     the inputs that a command names, and stdin
``keyed``      the lines of an input as the options say, with what finds their keys
``outputs``    the outputs that a command names
``marking``    mark the lines of an input in a filter; wait for its lock
``process``    exit codes, standard streams, signals
``workers``    several inputs in several processes
``commands``   the commands, one file each
"""

from mmbloom.cli.main import main

__all__ = ["main"]
