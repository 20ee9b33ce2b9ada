"""Exit codes, and the errors that belong to the command line alone."""

OK, NOTHING_FOUND, USAGE, NOT_A_FILTER, LOCK_TIMEOUT, IO_ERROR = range(6)
NOT_SOUND = NOT_ALIKE = NOTHING_FOUND
HUNG_UP, INTERRUPTED, TERMINATED = 129, 130, 143  # 128 + SIGHUP, SIGINT, SIGTERM, as in shells

EXIT_CODES = """\
exit codes: 0 ok, 1 nothing found, not sound or not alike, 2 usage, 3 not a usable filter, \
4 lock timeout, 5 I/O error"""


class UsageError(Exception):
    """The command line asks for something that cannot be done; exit code 2."""


class InputError(Exception):
    """An input cannot be read to its end; exit code 5."""
