"""Commands that change what a filter holds, by lines: dedup, add, remove, exclude."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from mmbloom._engine import bytes_of, fields_of
from mmbloom._keys.coerce import coerce
from mmbloom._storage.opening import absolute
from mmbloom.cli import filters
from mmbloom.cli.commands import AS_TYPED
from mmbloom.cli.lines import (
    check_lines,
    inputs_of,
    keep_stdin,
    make_folder,
    mark_lines,
    open_lines,
    patiently,
    places_of,
    require_durable,
    require_folder,
    require_stats,
    say_what_is_read,
)
from mmbloom.cli.process import (
    NOT_TO_REPEAT,
    NOTHING_FOUND,
    OK,
    STDIN_FD,
    STDOUT_FD,
    StoppedError,
    UsageError,
    say,
)
from mmbloom.cli.report import Tallies, counted, progress_bar
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.open import OfBits, open_of_bits
from mmbloom.filters.open import open as open_filter
from mmbloom.format.exclusions import write_keys
from mmbloom.logs.compressed import COMPRESSED
from mmbloom.logs.dedup import Discard, Run, Tally
from mmbloom.logs.inputs import Inputs
from mmbloom.logs.lines import WHOLE_LINES
from mmbloom.logs.outputs import (
    Place,
    is_special,
    open_output,
    refuse_overlap,
    require_apart,
    require_appendable,
)
from mmbloom.operations.combine import require_files

if TYPE_CHECKING:
    from mmbloom.logs.counts import LineCounts


@dataclass(frozen=True, slots=True)
class FileJob:
    """The work of deduplicating one input, or all, into one output, in any process."""

    args: argparse.Namespace
    seen: OfBits  # pickled as its path and identity
    inputs: Inputs
    place: Place
    output: Place
    repeats: str | None

    def run(self, tally: Tally) -> None:
        """Do the work, and count it; the output is on the disk when this returns.

        The filter is not flushed here: that would put the marks of all processes on the disk while
        the lines of the others are still in memory, and a power cut would lose those lines.
        """
        with self.seen, self.opened() as run:
            stopped = mark_lines(run, self.inputs, [(self.place, tally)])
        if stopped:
            raise StoppedError(stopped)

    @contextmanager
    def opened(self) -> Iterator[Run]:
        """Open the output, and that of what is not printed; both are on the disk in the end."""
        opened = partial(
            open_output,
            terminator=self.inputs.terminator,
            delimiter=self.inputs.delimiter,
            durable=self.args.durable,
        )
        wait = partial(patiently, self.seen.path, timeout=self.args.lock_timeout)
        with (
            nullcontext() if self.repeats is None else opened(self.repeats) as rest,
            opened(self.output) as writer,
        ):
            yield Run(self.seen, writer, rest, self.args.repeated, wait)


def _require_use(seen: OfBits) -> None:
    """Stop before the first line at a file that takes every other new line for seen.

    Else a file whose bits are all set would drop each line, and meet no new one to stop at.
    """
    if isinstance(seen, BloomFilter) and (fill := filters.fill_of_file(seen)).is_useless:
        raise StoppedError(f"{seen.path}: is full: it {fill}; nothing was read")


def _to_go_on(seen: OfBits) -> str:
    """Return what to do about a full filter, and which share of new lines it drops."""
    if not isinstance(seen, BloomFilter):
        return "wait for the next period, or make a folder with more keys a period"
    from mmbloom.filters.grow import why_not  # noqa: PLC0415  to be needed by few runs

    fill = filters.fill_of_file(seen)
    reason = why_not(seen.params, fill)
    to_do = f"mmbloom grow {seen.path} makes room: then run the same command again"
    if reason:
        to_do = f"it cannot grow: {reason}"
    if fill.is_past and not fill.is_useless:  # since a run that went on
        return f"{fill.taken('lines')}, as it is past its plan already; {to_do}"
    return to_do


def dedup(args: argparse.Namespace) -> int:
    """Run the command."""
    started = time.perf_counter()
    _refuse_contradictions(args)
    inputs, places = inputs_of(args), places_of(args.inputs)
    _refuse_folder(args, places)
    outputs: list[Place] = [STDOUT_FD if args.output is None else args.output]
    repeats = [args.repeats_to]
    if args.output_dir is not None:
        one_each = partial(_one_each, args.inputs, relative=args.relative)
        outputs, repeats = [*one_each(args.output_dir)], [None] * len(places)
        if args.repeats_to is not None:
            repeats = one_each(args.repeats_to)
    check_lines(inputs, places)
    _prepare(args, places, outputs, [path for path in repeats if path is not None])
    stopped = None
    tallies = [(place, Tally()) for place in places]
    with (
        filters.copied(args) if args.dry_run else nullcontext(args) as opened,
        filters.open_or_create(opened, open_of_bits) as seen,
        filters.in_use(args, seen, inputs.keys),
    ):
        with counted(args, tallies, seen, started):
            try:
                if args.when_full == "stop":
                    _require_use(seen)
                job = partial(FileJob, args, seen, inputs)
                if args.output_dir is None:
                    _to_one(job("", outputs[0], repeats[0]), tallies)
                else:
                    _to_folder([*map(job, places, outputs, repeats)], tallies)
            except StoppedError as error:
                stopped = error
            if args.durable or not (STDOUT_FD in outputs or any(map(is_special, outputs))):
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


def _refuse_folder(args: argparse.Namespace, places: list[Place]) -> None:
    """Refuse options for a folder of outputs without one, and others with one."""
    if args.output_dir is None:
        if args.jobs > 1:
            raise UsageError(
                "-j N writes one output per input: give the folder with --output-dir DIR"
            )
        if args.relative:
            raise UsageError("--relative is for outputs in a folder: give it with --output-dir DIR")
        return
    if args.output is not None:
        raise UsageError("-o OUTPUT and --output-dir DIR cannot be combined")
    if args.count or args.unique:
        raise UsageError("-c and -u count the lines of all inputs: give one output, -o OUTPUT")
    if STDIN_FD in places:
        raise UsageError("--output-dir names outputs after inputs: give files, not stdin")


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
    args: argparse.Namespace, places: list[Place], outputs: list[Place], repeats: list[str]
) -> None:
    """Refuse what cannot be written: before gigabytes are reserved in vain."""
    for output in [*outputs, *repeats]:
        refuse_overlap(output, places, args.file)
        if args.durable:
            require_durable(output)
    require_apart(outputs, repeats)
    for output in [*outputs, *repeats]:
        if not isinstance(output, str):
            continue
        if args.output_dir is None:
            require_folder(output)
        else:
            make_folder(os.path.dirname(output))
        require_appendable(output)
    require_stats(args, [*places, *outputs, *repeats])


def _to_folder(jobs: Sequence[FileJob], tallies: Tallies) -> None:
    places, args = [job.place for job in jobs], jobs[0].args
    sizes = [os.path.getsize(place) for place in places]
    with progress_bar(args, places, printing=False) as progress:
        # With multiprocessing, which a run in one process does not wait for.
        from mmbloom.cli.workers import run_jobs  # noqa: PLC0415

        counts = [tally for _, tally in tallies]
        run_jobs(jobs, args.jobs, counts, lambda done: progress(sizes[done]))


def _to_one(job: FileJob, tallies: Tallies) -> None:
    args, inputs, places = job.args, job.inputs, [place for place, _ in tallies]
    counts, sizes = None, list[int]()
    if args.count or args.unique:
        from mmbloom.logs.counts import CountedWriter, LineCounts, OnceWriter  # noqa: PLC0415  few

        counts = LineCounts(inputs.keys)
        with progress_bar(args, places, printing=False) as inputs.progress:
            sizes = [_count(counts, inputs, place) for place in places]
    with (
        progress_bar(args, places, printing=job.output == STDOUT_FD) as inputs.progress,
        job.opened() as run,
    ):
        if counts is not None and args.count:
            run.sink = CountedWriter(run.sink, counts, inputs.terminator)
        if counts is not None and args.unique:
            run.sink = OnceWriter(run.sink, counts, inputs.terminator)
        stopped = mark_lines(run, inputs, tallies, sizes or repeat(None))
    if stopped:
        raise StoppedError(stopped)


def _count(counts: LineCounts, inputs: Inputs, place: Place) -> int:
    """Count the lines of an input, before one is printed; return how many bytes that are."""
    begin, size = keep_stdin() if place == STDIN_FD else 0, 0
    with open_lines(inputs, place) as lines:
        for chunk in lines.chunks:
            counts.add(chunk)
            size += chunk.num_bytes
    if place == STDIN_FD:
        os.lseek(STDIN_FD, begin, os.SEEK_SET)
    return size


def add(args: argparse.Namespace) -> int:
    """Run the command; the filter is on the disk when this returns."""
    started = time.perf_counter()
    inputs, places = inputs_of(args), places_of(args.inputs)
    check_lines(inputs, places)
    require_stats(args, places)
    tallies = [(place, Tally()) for place in places]
    # A counting filter counts every line, repeats too: `remove` takes out one copy a line.
    with (
        filters.open_or_create(args, open_filter) as seen,
        filters.in_use(args, seen, inputs.keys),
        counted(args, tallies, seen, started),
    ):
        run = Run(seen, Discard(), wait=partial(patiently, seen.path, timeout=args.lock_timeout))
        with progress_bar(args, places, printing=False) as inputs.progress:
            if stopped := mark_lines(run, inputs, tallies):
                raise StoppedError(stopped)
        seen.flush()
    return OK


_WHY_FILES = "bits, which many keys share, cannot be taken back; make one with create --counting"


def remove(args: argparse.Namespace) -> int:
    """Run the command; return 0 if a line was there, 1 if none was.

    The change is on the disk when this returns.
    """
    inputs, places, removed = inputs_of(args), places_of(args.inputs), 0
    check_lines(inputs, places)
    refuse_overlap(STDOUT_FD, places, args.file)
    require_files([absolute(args.file)], _WHY_FILES)
    with (
        CountingBloomFilter.open(args.file, **filters.writing_options(args)) as seen,
        filters.in_use(args, seen, inputs.keys),
        progress_bar(args, places, printing=False) as inputs.progress,
    ):
        for place in places:
            with open_lines(inputs, place) as lines:
                for _, found in lines.found():
                    with patiently(seen.path, seen.locked, args.lock_timeout):
                        removed += int(np.count_nonzero(seen.remove_many(found.keys)))
        seen.flush()
    return OK if removed else NOTHING_FOUND


def exclude(args: argparse.Namespace) -> int:
    """Run the command; a change is on the disk when this returns."""
    args.file, *args.keys = (word.removeprefix(AS_TYPED) for word in (args.file, *args.keys))
    if args.list:
        if args.keys:
            raise UsageError("--list prints all exclusions: leave out KEY")
        return _print_all(args.file)
    inputs = inputs_of(args)
    chosen = inputs.keys
    if args.keys and chosen.rule != WHOLE_LINES:
        raise UsageError("a KEY is a whole key: options that choose a part are for lines of stdin")
    with open_filter(args.file) as seen, _keys(args, inputs) as keys:
        if chosen.rule != WHOLE_LINES:
            filters.say_of_another_rule(seen, chosen)
        elif _is_of_several(rule := seen.key_rule or ""):
            say(
                f'warning: {seen.path}: was filled by "{rule}", and a key of several parts cannot '
                f"be typed here: give lines that have them to stdin, with {rule}"
            )
        exclusions = seen.exclusions
        changed = exclusions.update(keys) if args.add else exclusions.difference_update(keys)
        filters.say_if_past_plan(args.file, seen)
    return OK if args.add or changed else NOTHING_FOUND


def _is_of_several(rule: str) -> bool:
    """Check whether keys by a rule have several parts, as a row of CSV has without -k."""
    try:
        words = shlex.split(rule)
    except ValueError:  # a long one is cut off
        return False
    if "-k" in words:
        chosen = words[words.index("-k") + 1].encode()
        return len(fields_of(chosen, ord(","))) > 1
    return "--csv" in words or words.count("--json-key") > 1


def _print_all(file: str) -> int:
    with open_filter(file, "r") as seen, open_output(STDOUT_FD, b"\n") as writer:
        written = write_keys(seen.exclusions)
        writer.write(np.frombuffer(written, np.uint8), terminated=True)
        filters.say_if_past_plan(file, seen)
    return OK if written else NOTHING_FOUND


@contextmanager
def _keys(args: argparse.Namespace, inputs: Inputs) -> Iterator[Iterable[bytes]]:
    if args.keys:
        yield map(os.fsencode, args.keys)  # the bytes as typed
        return
    say_what_is_read("keys, one a line,", "keys come after the filter")
    with open_lines(inputs, STDIN_FD) as lines:
        # Of a last line without its newline both keys, as by either it would be known.
        batches = (
            coerce(of_line)
            for _, found in lines.found()
            for of_line in (found.keys, found.part_key)
            if of_line is not None
        )
        yield (key for batch in batches for part in batch.parts for key in bytes_of(part))
