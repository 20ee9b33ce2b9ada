"""Every exception and warning that mmbloom raises, and nothing else.

::

    MmbloomError (Exception)
    |-- FormatError (ValueError)              these bytes are not a filter
    |   |-- NoFilterError                     nor do they begin as one
    |   |-- DamagedHeaderError                  its checksum is wrong: `repair` makes another
    |   |-- OtherKindError                    a filter, but for another class
    |   `-- NewerFormatError                  a filter, but of a later mmbloom
    |-- ParameterMismatchError (ValueError)        the filter there is not the one asked for
    |-- IncompatibleFiltersError (ValueError)      filters that cannot be combined
    |-- FileChangedError (RuntimeError)       the file was replaced, resized or removed
    |-- ReadOnlyError (io.UnsupportedOperation)
    |-- ClosedFilterError (ValueError)
    |-- LockTimeoutError (TimeoutError)            another writer kept the lock
    |-- ReentryError (RuntimeError)           the thread that holds the lock, again
    |-- DurabilityError (OSError)             a flush failed: trust nothing unflushed
    |-- CommitConflictError (RuntimeError)         another run has made this generation
    |-- LostBitsError (RuntimeError)          keys just added are not there
    |-- FilterFullError (RuntimeError)        a batch goes past what was planned for
    |-- NetworkFileSystemError (OSError)      two hosts would lose bits
    |-- KeyTypeError (TypeError)              not a kind of key, with its position
    |-- KeyEncodingError (ValueError)         a str that UTF-8 cannot carry
    |-- InputError (ValueError)               an input is damaged, cut off, or has no lines
    |-- MissingLibraryError (ImportError)          an extra is not installed
    |-- ColumnError (ValueError)              a header without the column, or with two
    `-- OpenQuoteError (ValueError)           a row of CSV that never ends

    MmbloomWarning (UserWarning)
    |-- CapacityWarning                       more keys than the filter was planned for
    |-- EngineWarning                         the compiled engine cannot serve
    `-- ReservationWarning                    this file system cannot reserve disk space

Each error has a builtin as its second base, so code that knows nothing of mmbloom can
catch it; carries what it knows as attributes; and survives pickling between processes.
A full disk, a missing file or a refused permission is the system's own `OSError`.

Common to all calls of a kind (docstrings add what is special to one):

======================  ====================================================================
a call that             raises
======================  ====================================================================
takes keys              `KeyTypeError` or `KeyEncodingError` if a key cannot be one, `ValueError`
                        if a column is damaged; all name the position of the key
reads a filter by path  `FormatError` if it is none, is sealed and damaged, or is a folder of
                        which a file is missing or damaged; `FileChangedError` if it is truncated
                        or overwritten while it is read
makes a filter          `FileExistsError` if something is at the path, or the exclusions of a
                        filter that was there; `NetworkFileSystemError` on such a file system,
                        without ``allow_network``; `OSError` (ENOSPC) if there is no space
changes an open filter  `ReadOnlyError`, `ClosedFilterError`, `LockTimeoutError`, `ReentryError`,
                        and `FileChangedError`, `DurabilityError`
======================  ====================================================================
"""

import io as _io  # without the underscore, `from mmbloom.errors import *` has it too


class MmbloomError(Exception):
    """Base of all errors of mmbloom.

    A pickle has the message and the attributes, and calls no constructor of a subclass.
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
        The part of it that is wrong.
    found, expected : str
        What stands there, and what would be right.
    """

    def __init__(self, path: str, field: str, found: str, expected: str, said: str = "") -> None:
        said = said or f"{field} is {found}"
        super().__init__(f"{path}: {said}, expected {expected}")
        self.path, self.field, self.found, self.expected = path, field, found, expected


class NoFilterError(FormatError):
    """There is no header, or no manifest: this is something else, or was cut off."""


class DamagedHeaderError(FormatError):
    """The header of a filter does not have its checksum; `repair` makes a sound filter of it."""


class OtherKindError(FormatError):
    """The filter is of another kind than the one asked for, which another class opens.

    Attributes
    ----------
    path, field, found, expected : str
        As of `FormatError`.
    kind : str
        Its kind: "bits", "counters", "growing" or "rotating".
    """

    def __init__(self, path: str, kind: str, found: str, expected: str) -> None:
        super().__init__(path, "kind", found, expected)
        self.kind = kind


class NewerFormatError(FormatError):
    """The file was made by a later version of mmbloom, which is needed to read it."""


class ParameterMismatchError(MmbloomError, ValueError):
    """The filter that exists was made with other parameters than those asked for.

    Attributes
    ----------
    path : str
        The file.
    field : str
        The first parameter that differs.
    found, expected : str
        Its value in the file, and the value asked for.
    """

    def __init__(self, path: str, field: str, found: str, expected: str, said: str = "") -> None:
        said = said or (
            f"exists with {field} {found}, asked for {expected}; open it as it is, or choose "
            "another path"
        )
        super().__init__(f"{path}: {said}")
        self.path, self.field, self.found, self.expected = path, field, found, expected


class IncompatibleFiltersError(MmbloomError, ValueError):
    """Two filters cannot be united, intersected or compared: they differ in a parameter.

    Attributes
    ----------
    path, other : str
        The two files.
    differences : tuple of (str, str, str)
        Each parameter that differs: its name, its value in `path` and its value in `other`.
    """

    def __init__(self, path: str, other: str, differences: tuple[tuple[str, str, str], ...]):
        said = ", ".join(f"{field} {here} and {there}" for field, here, there in differences)
        super().__init__(
            f"{path} and {other}: cannot be combined, they differ in {said}; make filters that "
            "are to be combined with like= (--like) of one of them"
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
    """A write to a filter that was opened for reading only.

    Attributes
    ----------
    path : str
        The file.
    reason : str
        Why it is read-only.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: cannot be written, {reason}")
        self.path, self.reason = path, reason


class ClosedFilterError(MmbloomError, ValueError):
    """A call on a filter after its `close`.

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
    """The thread that holds the write lock called again where no correct answer exists.

    It did so in another task of its event loop; in a signal handler (or the like) during a call;
    or in a claim within a claim of the same filter. The message says what to use instead.

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
    """A flush failed, now or earlier; this filter object takes no more writes.

    Attributes
    ----------
    path : str
        The file.
    reason : str
        What the operating system said.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: a flush failed ({reason}); keys added since the last good flush may not "
            "be on the disk: close the filter, check the disk, open it and add them again"
        )
        self.path, self.reason = path, reason


class CommitConflictError(MmbloomError, RuntimeError):
    """Another run has made the generation that this one was to make: nothing of this one counts.

    Of two drivers that start from one generation of a state only one can commit. The other throws
    away what it has written, its rows included, and begins again from the new generation.

    Attributes
    ----------
    path : str
        The state.
    generation : int
        The generation that was to be made.
    reason : str
        What happened.
    """

    def __init__(self, path: str, generation: int, reason: str) -> None:
        super().__init__(
            f"{path}: generation {generation} cannot be committed: {reason}; drop the rows of this "
            "run, and begin again"
        )
        self.path, self.generation, self.reason = path, generation, reason


class LostBitsError(MmbloomError, RuntimeError):
    """`verify_after_add` did not find keys that were just added.

    Attributes
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: keys that were just added are not found, so something else writes to the "
            "file or its memory; find out what does, then add the batch again"
        )
        self.path = path


class FilterFullError(MmbloomError, RuntimeError):
    """A batch goes past what the filter was planned for: none of it was marked.

    Raised where the filter was opened with ``on_full="raise"``. Past its plan a filter reports
    more and more new keys as seen. `update` adds an iterable in batches of 16,384 keys, and those
    before this one stay added.

    A run of a cluster raises it too, in a task or in its commit, which then has no effect.

    Attributes
    ----------
    path : str
        The file, the folder, or the state of a cluster.
    keys : int
        About how many keys it holds; of a run, with those of the run, at the least.
    capacity : int
        How many it was planned for; of a `RotatingFilter` in a period.
    fits : int or None
        How many keys of the batch, nulls left out, it still has room for, from the first on; of a
        run None.
    advice : str
        What to do.
    """

    def __init__(self, path: str, keys: int, capacity: int, fits: int | None, advice: str) -> None:
        what, none = (
            f"holds about {keys} keys",
            f"of this batch the first {fits} keys still fit, and",
        )
        if fits is None:
            what, none = f"would hold about {keys} keys or more", "this run is not committed, and"
        super().__init__(
            f"{path}: is full: it {what} and was planned for {capacity}; {none} none of it was "
            f"marked: {advice}"
        )
        self.path, self.keys, self.capacity = path, keys, capacity
        self.fits, self.advice = fits, advice


class NetworkFileSystemError(MmbloomError, OSError):
    """Writing on a network file system was refused: two hosts would lose each other's bits.

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
            "each other's bits; use a local disk, or allow_network=True from one host only"
        )
        self.path, self.file_system = path, file_system


class KeyTypeError(MmbloomError, TypeError):
    """A key, or a batch of keys, is of a type that cannot be a key.

    Attributes
    ----------
    found : str
        What was given.
    position : int or None
        Its place in the batch; None for a single key, and for a batch that is wrong as a whole.
    """

    _ADVICE = "a key is bytes, str, an int within int64 or uint64, or a tuple of these"

    def __init__(self, found: str, position: int | None = None, advice: str = _ADVICE) -> None:
        super().__init__(f"{_place(position)}{found}; {advice}")
        self.found, self.position = found, position
        self._advice = advice

    def at(self, position: int) -> "KeyTypeError":
        """Make the same error with another position: that of the key in a larger batch.

        Parameters
        ----------
        position : int
            Its place there.

        Returns
        -------
        KeyTypeError
            A new error; this one stays as it is.

        Examples
        --------
        >>> KeyTypeError("float is not a kind of key", 2).at(1026).position
        1026
        """
        return KeyTypeError(self.found, position, self._advice)


class KeyEncodingError(MmbloomError, ValueError):
    """A `str` key holds a lone surrogate, for which UTF-8 has no bytes.

    Attributes
    ----------
    position : int or None
        Its place in the batch; None for a single key.
    """

    def __init__(self, position: int | None = None) -> None:
        super().__init__(
            f"{_place(position)}a str with a lone surrogate cannot be encoded as UTF-8; pass bytes"
        )
        self.position = position

    def at(self, position: int) -> "KeyEncodingError":
        """Make the same error with another position: that of the key in a larger batch.

        Parameters
        ----------
        position : int
            Its place there.

        Returns
        -------
        KeyEncodingError
            A new error; this one stays as it is.

        Examples
        --------
        >>> KeyEncodingError(2).at(1026).position
        1026
        """
        return KeyEncodingError(position)


class InputError(MmbloomError, ValueError):
    """An input cannot be read to its end: it is damaged or cut off, or has no lines.

    What came before is done.
    """


class MissingLibraryError(MmbloomError, ImportError):
    """A library of one of mmbloom's extras is not installed."""


class ColumnError(MmbloomError, ValueError):
    """The header of a CSV file does not have a column that is asked for, or has it twice."""


class OpenQuoteError(MmbloomError, ValueError):
    """A quote in a CSV file is never closed: no row ends there, and none is read.

    Attributes
    ----------
    line : int
        The number of the line in which the row begins, counted from 1.
    """

    def __init__(self, line: int, end: str) -> None:
        super().__init__(
            f"line {line}: the row that begins here has a quote that is not closed {end}"
        )
        self.line = line


def _place(position: int | None) -> str:
    return "" if position is None else f"key at position {position}: "


class MmbloomWarning(UserWarning):
    """Base of all warnings of mmbloom."""


class CapacityWarning(MmbloomWarning):
    """The filter goes past its plan: it reports more and more new keys as seen."""


class EngineWarning(MmbloomWarning):
    """The compiled engine cannot serve, and numpy's does, several times slower.

    It is never raised: where warnings are errors it is printed to stderr instead, as an import must
    not fail because it is slow. ``MMBLOOM_ENGINE=compiled`` insists on the compiled engine.
    """


class ReservationWarning(MmbloomWarning):
    """The file system cannot promise reserved space: a full disk can end the process."""
