"""The command line: a thin layer over the library.

``main``      runs a command; turns errors into exit codes
``parser``    the parser of each command; commands that print it: help, completion, manual
``commands``  the commands: what each does, its examples, its module
``options``   the options of every command, as tables; the text of their values
``filters``   opens or creates the filter that a command names
``report``    a progress bar, and the figures at the end
``lines``     inputs and outputs that a command names; their lines, marked with a patient lock
``process``   exit codes, standard streams, signals
``workers``   several inputs in several processes

The commands, functions of their names:

``marking``     go by lines: dedup, add, remove, check, verify, exclude
``making``      make a filter: create, copy, merge, intersect, grow, repair, export, import
``showing``     show figures: info, compare, plan
"""

from mmbloom.cli.main import main

__all__ = ["main"]
