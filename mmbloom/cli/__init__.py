"""The command line: a thin layer over the library.

``main``      runs a command; turns errors into exit codes
``parser``    the commands, and the parser of each
``options``   options that several commands share
``filters``   opens or creates the filter that a command names
``report``    a progress bar, and the figures at the end
``lines``     inputs and outputs that a command names; their lines, marked with a patient lock
``process``   exit codes, standard streams, signals
``workers``   several inputs in several processes
``commands``  the commands, one file each
"""

from mmbloom.cli.main import main

__all__ = ["main"]
