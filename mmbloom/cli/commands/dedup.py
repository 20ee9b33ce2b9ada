"""``mmbloom dedup``: print each line the first time that any run or process sees it."""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from mmbloom.cli.filters import copied, fill_of_file, in_use, open_or_create
from mmbloom.cli.lines import (
    check_lines,
    input_names,
    keep_stdin,
    make_folder,
    mark_lines,
    open_lines,
    refuse_overlap,
    require_durable,
    require_folder,
    require_stats,
)
from mmbloom.cli.options import (
    add_filter_options,
    add_line_options,
    delimiter,
    line_keys,
    positive,
    terminator,
)
from mmbloom.cli.process import (
    NOT_TO_REPEAT,
    OK,
    STDIN_FD,
    STDOUT_FD,
    StoppedError,
    UsageError,
)
from mmbloom.cli.report import NO_BAR, STDIN, Tallies, counted, progress_bar
from mmbloom.errors import InputError
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.open import OfBits, open_of_bits
from mmbloom.logs.dedup import Sink, Tally
from mmbloom.logs.frames import COMPRESSED
from mmbloom.logs.lines import LineWriter
from mmbloom.logs.outputs import is_special, open_output, require_apart, require_appendable

EXAMPLES = (
    "mmbloom dedup seen.bloom -n 1e6 access.log > new.log",
    "mmbloom dedup addresses.bloom -n 1e6 -k 1 access.log    # a line of each address",
    "mmbloom dedup today.bloom -n 1e6 -c access.log | sort -rn    # the most frequent first",
    "mmbloom dedup events.bloom -n 1e6 --json-key user.id events.jsonl.gz",
    "mmbloom dedup days.bloom -n 1e6 --output-dir unique -j 2 monday.log tuesday.log",
    "mmbloom dedup all.bloom -n 1e6 --output-dir kept --relative north/a.log south/a.log",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_filter_options(parser)
    add_line_options(parser)
    add = parser.add_argument
    add("-d", "--repeated", action="store_true", help="print the repeated lines instead")
    add(
        "-c",
        "--count",
        action="store_true",
        help="before each line print how many lines of this run's inputs have its key, as uniq; "
        "the inputs are read twice",
    )
    add(
        "-u",
        "--unique",
        action="store_true",
        help="print only lines whose key comes once in this run's inputs; all are marked",
    )
    add(
        "--dry-run",
        action="store_true",
        help="print what would be printed, and mark nothing: on a copy of the filter in TMPDIR",
    )
    add(
        "-o",
        "--output",
        metavar="OUTPUT",
        help="append to this file instead of stdout; compressed, if it is a .gz, .bz2, .xz or .zst",
    )
    add("--output-dir", metavar="DIR", help="append to one file per input in this folder")
    add(
        "--repeats-to",
        metavar="FILE",
        help="append the lines that are not printed to this file, which is written and forced to "
        "the disk as OUTPUT is; with --output-dir a folder, with one file per input",
    )
    add(
        "--relative",
        action="store_true",
        help="with --output-dir: keep the folders of inputs in it, as they are typed",
    )
    add(
        "-j",
        "--jobs",
        type=positive,
        default=1,
        metavar="N",
        help="number of processes (with --output-dir)",
    )
    add(
        "--durable",
        action="store_true",
        help="force lines to the disk before they are marked: then a power cut loses none "
        "(slower; the output must be a file)",
    )
    add(
        "--when-full",
        choices=("stop", "warn"),
        default="stop",
        help="stop (default) ends with 6 before the first line that goes past the filter's plan; "
        "warn goes on, and drops more and more new lines as seen",
    )


@dataclass(frozen=True, slots=True)
class FileJob:
    """The work of deduplicating one input into its own output, in any process."""

    seen: OfBits  # pickled as its path and identity
    args: argparse.Namespace
    name: str
    output: str | None
    repeats: str | None

    def run(self, tally: Tally) -> None:
        """Do the work, and count it; the output is on the disk when this returns.

        The filter is not flushed here: that would put the marks of all processes on the disk while
        the lines of the others are still in memory, and a power cut would lose those lines.
        """
        with self.seen as seen, _writers(self.args, self.output, self.repeats) as (writer, rest):
            stopped = mark_lines(
                self.args, seen, self.name, NO_BAR, writer, repeats_to=rest, tally=tally
            )
        if stopped:
            raise StoppedError(stopped)


@contextmanager
def _writers(
    args: argparse.Namespace, output: str | None, repeats: str | None
) -> Iterator[tuple[LineWriter, LineWriter | None]]:
    """Open the output, and that of what is not printed; both are on the disk after the block."""
    opened = partial(
        open_output,
        terminator=terminator(args),
        delimiter=delimiter(args),
        durable=args.durable,
    )
    with (
        nullcontext() if repeats is None else opened(repeats) as rest,
        opened(output) as writer,
    ):
        yield writer, rest


def _require_use(seen: OfBits) -> None:
    """Stop before the first line at a file that takes every other new line for seen.

    Else a file whose bits are all set would drop each line, and meet no new one to stop at.
    """
    if isinstance(seen, BloomFilter) and (fill := fill_of_file(seen)).is_useless:
        raise StoppedError(f"{seen.path}: is full: it {fill}; nothing was read")


def _to_go_on(seen: OfBits) -> str:
    """Say what to do about a full filter, and which share of new lines it drops past its plan."""
    if not isinstance(seen, BloomFilter):
        return "wait for the next period, or make a folder with more keys a period"
    from mmbloom.filters.grow import why_not  # noqa: PLC0415  to be needed by few runs

    fill = fill_of_file(seen)
    reason = why_not(seen.params, fill)
    to_do = f"mmbloom grow {seen.path} makes room: then run the same command again"
    if reason:
        to_do = f"it cannot grow: {reason}"
    if fill.is_past and not fill.is_useless:  # since a run that went on
        return f"{fill.taken('lines')}, as it is past its plan already; {to_do}"
    return to_do


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    started = time.perf_counter()
    _refuse_contradictions(args)
    keys, names = line_keys(args), input_names(args.inputs)
    outputs = _outputs(args, names, args.output_dir)
    repeats = _outputs(args, names, args.repeats_to) if outputs else [args.repeats_to]
    _prepare(args, names, outputs or [args.output], repeats)
    on_full, stopped = "raise" if args.when_full == "stop" else "warn", None
    tallies = [(name, Tally()) for name in names]
    with (
        copied(args) if args.dry_run else nullcontext(args) as opened,
        open_or_create(opened, open_of_bits, on_full=on_full) as seen,
        in_use(args, seen, keys),
    ):
        with counted(args, tallies, seen, started):
            try:
                if args.when_full == "stop":
                    _require_use(seen)
                if outputs:
                    _to_folder(args, seen, [*zip(names, outputs, repeats, strict=True)], tallies)
                else:
                    _to_one(args, seen, tallies)
            except StoppedError as error:
                stopped = error
            to = outputs or [args.output]
            if args.durable or not any(path is None or is_special(path) for path in to):
                # The only flush of a run, when every output of every process is closed and on the
                # disk. Whether the lines of a plain stdout or a pipe are cannot be known: their
                # marks are left to the system.
                seen.flush()
        if stopped is not None:
            dry = "nothing is marked, as this is a dry run; a run would end so: "
            to_do = f"with room for all: {NOT_TO_REPEAT}" if args.repeated else _to_go_on(seen)
            raise StoppedError(
                f"{dry * args.dry_run}{stopped}; {to_do}; or go on with "
                "--when-full warn, which drops more and more new lines as seen"
            )
    return OK


def _refuse_contradictions(args: argparse.Namespace) -> None:
    if args.repeated and (args.count or args.unique):
        raise UsageError(
            "-d prints every repeat of a line, and -c and -u each key once: leave out one"
        )
    if args.repeats_to is not None and (args.repeated or args.count or args.unique):
        raise UsageError(
            "--repeats-to gets each line that is not printed, and -d, -c and -u print others than "
            "the new ones, or change them: leave these out"
        )
    if args.csv and (args.count or args.unique):
        raise UsageError(
            "-c and -u are for lines: a number before a row would be a field of no column, and "
            "rows are not counted; leave out --csv"
        )
    outputs = (args.output, args.output_dir, args.repeats_to)
    if args.dry_run and any(output is not None for output in outputs):
        raise UsageError(
            "--dry-run marks nothing, so that its lines will come again: leave out -o OUTPUT, "
            "--output-dir DIR and --repeats-to"
        )


def _outputs(args: argparse.Namespace, names: list[str], into: str | None) -> Sequence[str | None]:
    """Return the output of each input in a folder; [] without --output-dir."""
    if args.output_dir is None:
        if args.jobs > 1:
            raise UsageError(
                "-j N writes one output per input: give the folder with --output-dir DIR"
            )
        if args.relative:
            raise UsageError("--relative is for outputs in a folder: give it with --output-dir DIR")
        return []
    if args.output is not None:
        raise UsageError("-o OUTPUT and --output-dir DIR cannot be combined")
    if args.count or args.unique:
        raise UsageError("-c and -u count the lines of all inputs: give one output, -o OUTPUT")
    if STDIN in names:
        raise UsageError("--output-dir names outputs after inputs: give files, not stdin")
    return [None] * len(names) if into is None else _one_each(names, into, relative=args.relative)


def _one_each(names: list[str], into: str, *, relative: bool) -> list[str]:
    """Return an output in a folder for each input; refuse two inputs of one output."""
    by_output: dict[str, str] = {}
    for name in names:
        stem, suffix = os.path.splitext(os.path.basename(name))
        base = stem if suffix.lower() in COMPRESSED else stem + suffix
        folder = _folder_of(name) if relative else ""
        if folder.split("/")[0] == "..":
            raise UsageError(
                f"{name}: --relative keeps no folder above this one: give its full path"
            )
        output = os.path.join(into, folder, base)
        if (other := by_output.get(output)) is not None:
            advice = "--relative keeps their folders"
            if relative or _folder_of(name) == _folder_of(other):
                advice = "give one of them to another run, with another folder"
            raise UsageError(f"{name} and {other} would both be written to {output}: {advice}")
        by_output[output] = name
    return list(by_output)


def _folder_of(name: str) -> str:
    """Return the folder of an input as typed, for one below that of the outputs."""
    folder = os.path.normpath(os.path.dirname(name)).lstrip("/")
    return "" if folder == "." else folder


def _prepare(
    args: argparse.Namespace,
    names: list[str],
    outputs: Sequence[str | None],
    repeats: Sequence[str | None],
) -> None:
    """Refuse what cannot be read or written: before gigabytes are reserved in vain."""
    check_lines(args, names)
    others = [output for output in repeats if output is not None]
    for output in [*outputs, *others]:
        refuse_overlap(output, names, args.file)
        if args.durable:
            require_durable(output)
    require_apart([STDOUT_FD if path is None else path for path in outputs], others)
    for output in filter(None, [*outputs, *others]):
        if args.output_dir is None:
            require_folder(output)
        else:
            make_folder(os.path.dirname(output))
        require_appendable(output)
    require_stats(args, names, [*outputs, *repeats])


def _to_folder(
    args: argparse.Namespace,
    seen: OfBits,
    works: Sequence[tuple[str, str | None, str | None]],
    tallies: Tallies,
) -> None:
    jobs = [FileJob(seen, args, *work) for work in works]
    names = [job.name for job in jobs]
    sizes = [os.path.getsize(name) for name in names]
    with progress_bar(args, names, printing=False) as bar:
        # With multiprocessing, which a run in one process does not wait for.
        workers: Any = import_module("mmbloom.cli.workers")
        counts = [tally for _, tally in tallies]
        workers.run_jobs(jobs, args.jobs, counts, lambda done: bar.update(sizes[done]))


def _to_one(args: argparse.Namespace, seen: OfBits, tallies: Tallies) -> None:
    names, stopped = [name for name, _ in tallies], ""
    sizes: list[int | None] = [None] * len(names)
    with ExitStack() as stack:
        printing = args.output is None
        counting = _Counting(args) if args.count or args.unique else None
        if counting is not None:
            with progress_bar(args, names, printing=False) as bar:
                sizes = [counting.count(name, bar) for name in names]
        bar = stack.enter_context(progress_bar(args, names, printing=printing))
        lines, rest = stack.enter_context(_writers(args, args.output, args.repeats_to))
        writer: Sink = lines
        if counting is not None:
            writer = stack.enter_context(counting.before(writer))
        for (name, tally), size in zip(tallies, sizes, strict=True):
            stopped = mark_lines(
                args, seen, name, bar, writer, repeats_to=rest, tally=tally, size=size
            )
            if stopped:
                break
    if stopped:
        raise StoppedError(stopped)


class _Counting:
    """How often each line occurs in all inputs, which are read for that before one is printed."""

    def __init__(self, args: argparse.Namespace) -> None:
        from mmbloom.logs.counts import LineCounts  # noqa: PLC0415  few runs count

        self._args, self._counts = args, LineCounts(line_keys(args))
        self._end = terminator(args)

    def count(self, name: str, bar: Any) -> int:
        """Count the lines of an input; gives how many bytes that are."""
        begin, size = keep_stdin() if name == STDIN else 0, 0
        with open_lines(self._args, name, bar) as lines:
            for chunk in lines.chunks:
                self._counts.add(chunk)
                size += chunk.num_bytes
        if name == STDIN:
            os.lseek(STDIN_FD, begin, os.SEEK_SET)
        return size

    @contextmanager
    def before(self, writer: Sink) -> Iterator[Sink]:
        """Give what writes the number before each line, or leaves out what comes again."""
        from mmbloom.logs.counts import CountedWriter, NotCountedError, OnceWriter  # noqa: PLC0415

        try:
            if self._args.count:
                writer = CountedWriter(writer, self._counts, self._end)
            if self._args.unique:
                writer = OnceWriter(writer, self._counts, self._end)
            yield writer
        except NotCountedError:
            raise InputError(
                "an input has changed between counting and printing: what is printed is marked; "
                "run it again on a copy of the inputs"
            ) from None
