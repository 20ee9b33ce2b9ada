"""Each line of files once: what ``mmbloom dedup`` does, as one function."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, cast

from mmbloom.filters.base import Filter
from mmbloom.logs.dedup import Discard, Run, Tally
from mmbloom.logs.inputs import Inputs, Keyed, check_first_lines, place_of
from mmbloom.logs.lines import Empty, KeyRule, LineKeys, LineWriter, RawInput
from mmbloom.logs.outputs import (
    existing_in,
    is_appended_to,
    open_output,
    refuse_overlap,
    require_apart,
)
from mmbloom.logs.rows import RowKeys, RowWriter

Column = int | str
Path = str | os.PathLike[str]
Input = Path | RawInput
Output = Path | Any  # a raw file


def dedup_files(
    seen: Filter,
    inputs: Input | Iterable[Input],
    output: Output | None,
    *,
    key: Column | tuple[Column, ...] | None = None,
    separator: bytes | None = None,
    csv: bool = False,
    header: bool = True,
    json_key: str | tuple[str, ...] | None = None,
    empty: Empty | None = None,
    repeats_to: Output | None = None,
    durable: bool = False,
) -> Tally:
    r"""Write each line of some files that is new to a filter, and mark it as seen.

    It does what ``mmbloom dedup`` does, with the same guarantees: a line is written before it is
    marked, and outputs that are paths are on the disk when this returns. If an input ends within a
    line, the complete line is still new when it comes, see `mmbloom.logs.lines.KeyRule.find`.

    Parameters
    ----------
    seen : BloomFilter, GrowingFilter or RotatingFilter
        What was seen before, in this run or any other; open for writing.
    inputs : path or binary file, or an iterable of them
        Read in order. What gzip, bzip2, xz or zstd compressed is decompressed (zstd before Python
        3.14 with ``mmbloom[cli]``). A file that is open stays open.
    output : path or raw file, optional
        A path is appended to, and compressed if it ends in .gz, .bz2, .xz or .zst. None: lines
        are only marked.
    key : int or str, or a tuple of them, optional
        The field that is compared, counted from 1, or several; with ``csv`` also names of columns.
    separator : bytes, optional
        What separates fields: by default runs of blanks, with ``csv`` a comma.
    csv : bool
        Whether the inputs are CSV, see `mmbloom.logs.rows`.
    header : bool
        With ``csv``: whether the first row of each input is its header.
    json_key : str or tuple of str, optional
        The member of lines of JSON that is compared, or several, see `mmbloom.logs.lines.LineKeys`.
    empty : {"whole", "skip", "key"}, optional
        What to do with a line without the field, column or member, see `mmbloom.logs.lines.Empty`.
        By default it is compared whole, and it is an error if no line has that part.
    repeats_to : path or raw file, optional
        Gets the lines that ``output`` does not get.
    durable : bool
        Force lines to the disk before they are marked, so that a power cut loses none. For
        outputs that are files.

    Returns
    -------
    Tally

    Raises
    ------
    FilterFullError
        If the filter was opened with ``on_full="raise"``, at the first line that goes past its
        plan: all lines before it are done, and none after it. An input that is open may have been
        read further.
    InputError
        If an input is damaged, has no lines, or has another header than the output; or if none of
        its lines has its key, and ``empty`` is not given.
    MissingLibraryError
        If an input or an output is compressed by zstd, and the extra is not installed.
    OSError
        If a file cannot be read or written.
    ValueError
        If options contradict each other, or an output is an input or the filter.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mmbloom import BloomFilter
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.csv").write_text('id,name\n1,"Doe, Ann"\n2,"Doe, Ann"\n')
    >>> with BloomFilter.create(folder / "seen.bloom", 1000, 1e-6, seed=1) as seen:
    ...     dedup_files(seen, folder / "in.csv", folder / "new.csv", csv=True, key="name")
    Tally(lines=2, unique=1, repeated=1, bytes=26, lacking=0)
    >>> (folder / "new.csv").read_text()
    'id,name\n1,"Doe, Ann"\n'
    """
    keys = _rule(key, separator, json_key, empty, csv=csv)
    sources = [inputs] if isinstance(inputs, str | os.PathLike | RawInput) else list(inputs)
    for source in sources:
        if not isinstance(source, str | os.PathLike | RawInput):
            raise TypeError(f"an input is {source!r}, expected a path, or a binary file")
    places = [place for source in sources if (place := place_of(source)) is not None]
    outputs = [place for file in (output, repeats_to) if (place := place_of(file)) is not None]
    for place in outputs:
        refuse_overlap(place, places, seen.path)
    require_apart(outputs[:-1], outputs[1:])
    read = Inputs(keys, header=header, proven=empty is not None)

    def opened(source: Input) -> AbstractContextManager[Keyed]:
        file = os.fspath(source) if isinstance(source, os.PathLike) else source
        return read.open(file, _name_of(source))

    files = (one for one in sources if isinstance(one, str | os.PathLike) and os.path.isfile(one))
    check_first_lines(map(opened, files))
    total = Tally()
    with (
        _opened(repeats_to, read.delimiter, durable) as rest,
        _opened(output, read.delimiter, durable) as sink,
    ):
        run = Run(seen, sink or Discard(), rest)
        stopped = run.over((opened(source), total) for source in sources)
    if stopped is not None:
        raise stopped.full
    return total


def _rule(
    key: Column | tuple[Column, ...] | None,
    separator: bytes | None,
    json_key: str | tuple[str, ...] | None,
    empty: Empty | None,
    *,
    csv: bool,
) -> KeyRule:
    if key is not None and json_key is not None:
        raise ValueError("key and json_key cannot be combined")
    columns = key if isinstance(key, tuple) else () if key is None else (key,)
    if csv:
        if json_key is not None:
            raise ValueError("json_key is for lines of JSON: leave it out, or csv=True")
        return RowKeys(columns, separator or b",", empty=empty or "whole")
    if named := [column for column in columns if isinstance(column, str)]:
        raise ValueError(f"key is {named[0]!r}: names of columns are for csv=True")
    if key is None and separator is not None:
        raise ValueError("separator is what separates fields: choose one with key")
    if key is None and json_key is None and empty not in (None, "whole"):
        raise ValueError("empty is for lines without a field or member: choose it with key")
    return LineKeys(
        field=cast("int | tuple[int, ...] | None", key),
        separator=separator,
        json_key=json_key,
        empty=empty or "whole",
    )


@contextmanager
def _opened(
    output: Output | None, delimiter: bytes | None, durable: bool
) -> Iterator[LineWriter | None]:
    if output is None:
        yield None
        return
    if isinstance(output, str | os.PathLike):
        path = os.fspath(output)
        with open_output(path, b"\n", delimiter=delimiter, durable=durable) as writer:
            yield writer
        return
    if durable:
        raise ValueError("durable is for outputs that are paths: a file that is open is not synced")
    with ExitStack() as stack:
        existing, fd = None, place_of(output)
        if isinstance(fd, int) and is_appended_to(fd):  # a run that was killed can have begun it
            existing = stack.enter_context(existing_in(fd))
        if delimiter is None:
            yield LineWriter(output, existing=existing)
        else:
            yield RowWriter(output, delimiter, existing=existing)


def _name_of(source: Input) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", "the input"))
