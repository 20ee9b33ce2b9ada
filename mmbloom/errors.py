"""Every exception and warning that mmbloom raises, and nothing else.

::

    MmbloomError (Exception)
    |-- FormatError (ValueError)               the file is not a valid filter
    |   |-- NoFilterError                      it does not even begin like one
    |   |-- DamagedHeaderError                 the header's checksum is wrong: see `repair`
    |   |-- OtherKindError                     a filter, but for another class
    |   `-- NewerFormatError                   a filter made by a later mmbloom
    |-- ParameterMismatchError (ValueError)    the existing filter has other parameters
    |-- IncompatibleFiltersError (ValueError)  filters that cannot be combined
    |-- FileChangedError (RuntimeError)        the file was replaced, resized or removed
    |-- ReadOnlyError (io.UnsupportedOperation)
    |-- ClosedFilterError (ValueError)
    |-- LockTimeoutError (TimeoutError)        another writer kept the lock
    |-- ReentryError (RuntimeError)            the thread already holds the lock
    |-- DurabilityError (OSError)              a flush failed: unflushed keys may be lost
    |-- CommitConflictError (RuntimeError)     another run has committed this generation
    |-- LostBitsError (RuntimeError)           keys just added are not found
    |-- FilterFullError (RuntimeError)         a batch would exceed the capacity
    |-- NetworkFileSystemError (OSError)       two hosts would lose each other's bits
    |-- KeyTypeError (TypeError)               a type that cannot be a key
    |-- KeyEncodingError (ValueError)          a str that UTF-8 cannot encode
    |-- InputError (ValueError)                an input is damaged, cut off, or has no lines
    |-- MissingLibraryError (ImportError)      an extra is not installed
    |-- ColumnError (ValueError)               a CSV column is missing or duplicated
    `-- OpenQuoteError (ValueError)            a CSV row that never ends

    MmbloomWarning (UserWarning)
    |-- CapacityWarning                        more keys than the filter's capacity
    |-- EngineWarning                          the compiled engine is not available
    `-- ReservationWarning                     this file system cannot reserve disk space

Each error has a builtin exception as its second base, so that code which does not know mmbloom can
catch it. Details are attributes, and errors can be pickled between processes. A full disk, a
missing file or a refused permission is the system's own `OSError`.

These are the errors common to all calls of a kind; docstrings add those specific to one call:

======================  ====================================================================
a call that             raises
======================  ====================================================================
takes keys              `KeyTypeError` or `KeyEncodingError` for an invalid key, `ValueError` for a
                        damaged column; each names the position
reads a filter by path  `FormatError` if it is not a filter, if it is sealed and damaged, or if a
                        file of a folder is missing or damaged; `FileChangedError` if it is
                        truncated or overwritten while it is read
makes a filter          `FileExistsError` if something is at the path, or if the exclusions of a
                        former filter are still there; `NetworkFileSystemError` on a network file
                        system without ``allow_network``; `OSError` (ENOSPC) if the disk is full
changes an open filter  `ReadOnlyError`, `ClosedFilterError`, `LockTimeoutError`, `ReentryError`,
                        as well as `FileChangedError` and `DurabilityError`
======================  ====================================================================
"""

import io as _io  # without the underscore, `from mmbloom.errors import *` has it too


class MmbloomError(Exception):
    """Base class of all mmbloom errors.

    Pickling keeps the message and the attributes, and does not call a subclass's constructor.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (type(self), str(self)), vars(self)


def _unpickled(cls: type[MmbloomError], message: str) -> MmbloomError:
    error = cls.__new__(cls)
    MmbloomError.__init__(error, message)
    return error


class FormatError(MmbloomError, ValueError):
    """The file is not a valid mmbloom filter.

    Attributes
    ----------
    path : str
        The file.
    field : str
        The part of the file that is wrong.
    found, expected : str
        The value found there, and what was expected.
    """

    def __init__(self, path: str, field: str, found: str, expected: str, said: str = "") -> None:
        said = said or f"{field} is {found}"
        super().__init__(f"{path}: {said}, expected {expected}")
        self.path, self.field, self.found, self.expected = path, field, found, expected


class NoFilterError(FormatError):
    """There is no header or manifest: the file is something else, or it was cut off."""


class DamagedHeaderError(FormatError):
    """The header's checksum does not match; `repair` makes a sound filter from the file."""


class OtherKindError(FormatError):
    """The filter is of another kind: another class opens it.

    Attributes
    ----------
    path, field, found, expected : str
        Same as for `FormatError`.
    kind : str
        The filter's kind: "bits", "counters", "growing" or "rotating".
    """

    def __init__(self, path: str, kind: str, found: str, expected: str) -> None:
        super().__init__(path, "kind", found, expected)
        self.kind = kind


class NewerFormatError(FormatError):
    """The file was made by a later version of mmbloom; reading it needs that version."""


class ParameterMismatchError(MmbloomError, ValueError):
    """The existing filter was made with different parameters.

    Attributes
    ----------
    path : str
        The file.
    field : str
        The first parameter that differs.
    found, expected : str
        The value in the file, and the value asked for.
    """

    def __init__(self, path: str, field: str, found: str, expected: str, said: str = "") -> None:
        said = said or (
            f"exists with {field} {found}, expected {expected}; open it as it is, or choose "
            "another path"
        )
        super().__init__(f"{path}: {said}")
        self.path, self.field, self.found, self.expected = path, field, found, expected


class IncompatibleFiltersError(MmbloomError, ValueError):
    """Two filters cannot be united, intersected or compared: their parameters differ.

    Attributes
    ----------
    path, other : str
        The two files.
    differences : tuple of (str, str, str)
        For each parameter that differs: its name, its value in `path` and its value in `other`.
    """

    def __init__(self, path: str, other: str, differences: tuple[tuple[str, str, str], ...]):
        said = ", ".join(f"{field} {here} and {there}" for field, here, there in differences)
        super().__init__(
            f"{path} and {other}: cannot be combined, because their parameters differ: {said}; "
            "create one of them like the other, with like= (--like)"
        )
        self.path, self.other, self.differences = path, other, differences


class FileChangedError(MmbloomError, RuntimeError):
    """The file at the path is no longer the one that was opened.

    Attributes
    ----------
    path : str
        The path that was opened.
    found : str
        What is there now.
    """

    def __init__(self, path: str, found: str) -> None:
        super().__init__(f"{path}: {found} since it was opened; open it again")
        self.path, self.found = path, found


class ReadOnlyError(MmbloomError, _io.UnsupportedOperation):
    """The filter is read-only: it was opened with ``mode="r"``, or it is sealed.

    Attributes
    ----------
    path : str
        The file.
    reason : str
        Why it is read-only.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: is read-only, because {reason}")
        self.path, self.reason = path, reason


class ClosedFilterError(MmbloomError, ValueError):
    """The filter was used after `close`.

    Attributes
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: this filter object is closed; open the file again")
        self.path = path


class LockTimeoutError(MmbloomError, TimeoutError):
    """Another thread or process kept the write lock for longer than allowed.

    Attributes
    ----------
    path : str
        The file.
    seconds : float
        How long the call waited.
    lock : str
        What the call waited for: the write lock, unless the message names another.
    """

    def __init__(self, path: str, seconds: float, lock: str = "the write lock") -> None:
        super().__init__(
            f"{path}: {lock} was held by others for {seconds:g} s; "
            "try again, or allow a longer lock timeout"
        )
        self.path, self.seconds, self.lock = path, seconds, lock


class ReentryError(MmbloomError, RuntimeError):
    """The thread already holds the write lock, and the call could not answer correctly.

    This happens when another task of the same event loop holds the lock, when a signal handler or
    a finaliser interrupts a call, or when a claim is entered inside another claim of the same
    filter. The message says what to do instead.

    Attributes
    ----------
    path : str
        The filter.
    reason : str
        Which of these happened, and what to do.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class DurabilityError(MmbloomError, OSError):
    """A flush failed, now or earlier; this filter object accepts no more writes.

    Attributes
    ----------
    path : str
        The file.
    reason : str
        The operating system's message.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: a flush failed ({reason}); keys added since the last successful flush may "
            "not be on the disk: close the filter, check the disk, open it and add them again"
        )
        self.path, self.reason = path, reason


class CommitConflictError(MmbloomError, RuntimeError):
    """Another run has committed this generation; this run changed nothing.

    If two drivers start from the same generation of a state, only one can commit. The other must
    discard its output, including its rows, and start again from the new generation.

    Attributes
    ----------
    path : str
        The state.
    generation : int
        The generation that could not be committed.
    reason : str
        What happened.
    """

    def __init__(self, path: str, generation: int, reason: str) -> None:
        super().__init__(
            f"{path}: generation {generation} cannot be committed: {reason}; drop the rows of this "
            "run, and start again"
        )
        self.path, self.generation, self.reason = path, generation, reason


class LostBitsError(MmbloomError, RuntimeError):
    """A filter opened with ``verify_after_add`` did not find keys that were just added.

    Attributes
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: keys that were just added are not found: something else writes to the file "
            "or its memory; find out what it is, then add the batch again"
        )
        self.path = path


class FilterFullError(MmbloomError, RuntimeError):
    """A batch would take the filter past its capacity, so none of the batch was added.

    Raised by a filter opened with ``on_full="raise"``. Past its capacity, a filter reports more and
    more new keys as already seen. `update` splits an iterable into batches of 16,384 keys; batches
    before this one stay added.

    A run on a cluster also raises it, in a task or when it commits; nothing is then committed.

    Attributes
    ----------
    path : str
        The file, the folder, or the state of a cluster.
    keys : int
        Estimated number of keys in the filter. For a run on a cluster, an estimated minimum
        that includes the keys of the run.
    capacity : int
        The filter's capacity; for a `RotatingFilter`, its capacity per period.
    fits : int or None
        How many leading keys of the batch still fit, not counting nulls; None for a run on a
        cluster.
    advice : str
        What to do.
    """

    def __init__(self, path: str, keys: int, capacity: int, fits: int | None, advice: str) -> None:
        what, none = (
            f"holds about {keys} keys",
            f"the first {fits} keys of this batch still fit, but none was added",
        )
        if fits is None:
            what, none = f"would hold about {keys} keys or more", "this run was not committed"
        super().__init__(
            f"{path}: is full: it {what} and has a capacity of {capacity}; {none}; {advice}"
        )
        self.path, self.keys, self.capacity = path, keys, capacity
        self.fits, self.advice = fits, advice


class NetworkFileSystemError(MmbloomError, OSError):
    """The file is on a network file system, where two hosts would lose each other's bits.

    Attributes
    ----------
    path : str
        The file.
    file_system : str
        The type of file system it is on.
    """

    def __init__(self, path: str, file_system: str) -> None:
        super().__init__(
            f"{path}: is on a network file system ({file_system}), where two hosts would lose "
            "each other's bits; use a local disk, or pass allow_network=True on one host only"
        )
        self.path, self.file_system = path, file_system


class KeyTypeError(MmbloomError, TypeError):
    """A key, or a batch of keys, is of a type that cannot be a key.

    Attributes
    ----------
    found : str
        What was passed instead of a key.
    position : int or None
        Its position in the batch; None for a single key, or if the whole batch is of a wrong type.
    """

    _ADVICE = "a key is bytes, str, an int within int64 or uint64, or a tuple of these"

    def __init__(self, found: str, position: int | None = None, advice: str = _ADVICE) -> None:
        super().__init__(f"{_place(position)}{found}; {advice}")
        self.found, self.position = found, position
        self._advice = advice

    def at(self, position: int) -> "KeyTypeError":
        """Return the same error with another position: the key's position in a larger batch.

        Parameters
        ----------
        position : int
            The new position.

        Returns
        -------
        KeyTypeError
            A new error; this one is unchanged.

        Examples
        --------
        >>> KeyTypeError("float cannot be a key", 2).at(1026).position
        1026
        """
        return KeyTypeError(self.found, position, self._advice)


class KeyEncodingError(MmbloomError, ValueError):
    """A `str` key holds a lone surrogate, for which UTF-8 has no bytes.

    Attributes
    ----------
    position : int or None
        Its position in the batch; None for a single key.
    """

    def __init__(self, position: int | None = None) -> None:
        super().__init__(
            f"{_place(position)}a str with a lone surrogate cannot be encoded as UTF-8; pass bytes"
        )
        self.position = position

    def at(self, position: int) -> "KeyEncodingError":
        """Return the same error with another position: the key's position in a larger batch.

        Parameters
        ----------
        position : int
            The new position.

        Returns
        -------
        KeyEncodingError
            A new error; this one is unchanged.

        Examples
        --------
        >>> KeyEncodingError(2).at(1026).position
        1026
        """
        return KeyEncodingError(position)


class InputError(MmbloomError, ValueError):
    """An input is damaged or cut off, or has no lines.

    The lines before the damage have been processed.
    """


class MissingLibraryError(MmbloomError, ImportError):
    """A library of one of mmbloom's extras is not installed."""


class ColumnError(MmbloomError, ValueError):
    """A requested column is missing from the header of a CSV file, or appears twice."""


class OpenQuoteError(MmbloomError, ValueError):
    """A quote in a CSV file is never closed, so the row cannot be read.

    Attributes
    ----------
    line : int
        The number of the line on which the row begins, counted from 1.
    """

    def __init__(self, line: int, end: str) -> None:
        super().__init__(
            f"line {line}: the row that begins here has a quote that is not closed {end}"
        )
        self.line = line


def _place(position: int | None) -> str:
    return "" if position is None else f"key at position {position}: "


class MmbloomWarning(UserWarning):
    """Base class of all mmbloom warnings."""


class CapacityWarning(MmbloomWarning):
    """The filter is past its capacity: it reports more and more new keys as already seen."""


class EngineWarning(MmbloomWarning):
    """The compiled engine is not available, so the numpy engine is used: several times slower.

    It is never raised. Where warnings are errors it is printed to stderr instead, because a slow
    engine must not make the import fail. ``MMBLOOM_ENGINE=compiled`` makes it an `ImportError`.
    """


class ReservationWarning(MmbloomWarning):
    """The file system cannot guarantee reserved space: a full disk can end the process."""
