"""The command line: thin over the library, a file per command.

``_main``       the parser, and errors to exit codes
``_arguments``  options that several commands share
``_inputs``     bytes in: files, stdin, compressed files, progress
``_signals``    ending when asked to
``_streams``    stdin, stdout, stderr
``_outputs``    lines out: stdout, appended files
``_waiting``    taking the lock, and saying so when it takes long
``_workers``    several inputs in several processes
``_bar``        a share as a bar
``_pace``       when a filter will be full
``_plot``       a picture of a plan
``_extras``     the optional libraries, named here only
"""

from mmbloom.cli._main import main

__all__ = ["main"]
