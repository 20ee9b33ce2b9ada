"""Commands that go by lines: dedup, add, remove, check, verify, exclude."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import repeat, starmap

import numpy as np

import mmbloom
from mmbloom._engine import bytes_of, fields_of
from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import coerce
from mmbloom._storage.opening import absolute
from mmbloom._system.threads import ReadAhead
from mmbloom._system.typing import Bools, Octets
from mmbloom.cli import filters
from mmbloom.cli.commands import AS_TYPED
from mmbloom.cli.lines import (
    check_lines,
    check_outputs,
    inputs_of,
    keep_stdin,
    mark_lines,
    one_each,
    open_lines,
    patiently,
    places_of,
    refuse_folder,
    require_stats,
    say_what_is_read,
)
from mmbloom.cli.process import (
    NOT_SOUND,
    NOT_TO_REPEAT,
    NOTHING_FOUND,
    OK,
    STDIN_FD,
    STDOUT_FD,
    StoppedError,
    UsageError,
    in_rows,
    say,
)
from mmbloom.cli.report import Tallies, bytes_at, counted, progress_bar, watched
from mmbloom.filters.base import Filter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.open import OfBits, open_of_bits
from mmbloom.filters.open import open as open_filter
from mmbloom.format.exclusions import write_keys
from mmbloom.logs.dedup import Discard, Run, Sink, Tally
from mmbloom.logs.inputs import Inputs
from mmbloom.logs.lines import WHOLE_LINES, Chunk, Found, LineWriter
from mmbloom.logs.outputs import Place, begin, is_special, open_output, refuse_overlap, shown
from mmbloom.operations.combine import require_files


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
        with self.seen:
            self.mark([(self.place, tally)])

    def mark(
        self,
        tallies: Tallies,
        sizes: Iterable[int | None] = repeat(None),
        through: Callable[[Sink], Sink] = lambda sink: sink,
    ) -> None:
        """Mark the lines of inputs, and write them `through` a sink to the output.

        The output, and that of what is not printed, are on the disk when this returns.
        """
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
            run = Run(self.seen, through(writer), rest, self.args.repeated, wait)
            stopped = mark_lines(run, self.inputs, tallies, sizes)
        if stopped:
            raise StoppedError(stopped)


def dedup(args: argparse.Namespace) -> int:
    """Run the command."""
    started = time.perf_counter()
    _refuse_contradictions(args)
    inputs, places = inputs_of(args), places_of(args.inputs)
    refuse_folder(args, places)
    outputs: list[Place] = [STDOUT_FD if args.output is None else args.output]
    repeats = [args.repeats_to]
    if args.output_dir is not None:
        each_in = partial(one_each, args.inputs, relative=args.relative)
        outputs, repeats = [*each_in(args.output_dir)], [None] * len(places)
        if args.repeats_to is not None:
            repeats = each_in(args.repeats_to)
    check_lines(inputs, places)
    check_outputs(args, places, outputs, [path for path in repeats if path is not None])
    stopped = None
    tallies = [(place, Tally()) for place in places]
    with (
        filters.copied(args) if args.dry_run else nullcontext(args) as opened,
        filters.open_or_create(opened, open_of_bits) as seen,
        filters.in_use(args, seen, inputs.keys),
    ):
        with counted(args, tallies, seen, started):
            try:
                filters.require_use(args, seen)
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
            dry = "dry run, nothing is marked; a real run would end with: "
            to_do = (
                f"{NOT_TO_REPEAT}; it needs more room" if args.repeated else filters.to_go_on(seen)
            )
            raise StoppedError(
                f"{dry * args.dry_run}{stopped}; {to_do}; or continue with "
                "--when-full warn, which drops more and more new lines as already seen"
            )
    return OK


def _refuse_contradictions(args: argparse.Namespace) -> None:
    if args.repeated and (args.count or args.unique):
        raise UsageError(
            "-d prints every repeat, but -c and -u print each key at most once: leave out -d, or "
            "-c and -u"
        )
    if args.repeats_to is not None and (args.repeated or args.count or args.unique):
        raise UsageError(
            "--repeats-to applies only if all new lines are printed unchanged: leave out -d, -c "
            "and -u"
        )
    if args.csv and (args.count or args.unique):
        raise UsageError("-c and -u count lines, not rows of CSV: leave out --csv")
    outputs = (args.output, args.output_dir, args.repeats_to)
    if args.dry_run and any(output is not None for output in outputs):
        raise UsageError(
            "--dry-run marks nothing, so a real run would write the same lines again: leave out -o "
            "OUTPUT, --output-dir DIR and --repeats-to"
        )


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
    work = partial(job.mark, tallies)
    if args.count or args.unique:
        with progress_bar(args, places, printing=False) as inputs.progress:
            work = partial(work, *_counted(args, inputs, places))
    with progress_bar(args, places, printing=job.output == STDOUT_FD) as inputs.progress:
        work()


def _counted(
    args: argparse.Namespace, inputs: Inputs, places: list[Place]
) -> tuple[list[int], Callable[[Sink], Sink]]:
    """Count the lines of inputs, before one is printed; return bytes of each, and a sink."""
    from mmbloom.logs.counts import CountedWriter, LineCounts, OnceWriter  # noqa: PLC0415  few

    counts, sizes = LineCounts(inputs.keys), list[int]()
    for place in places:
        begin = keep_stdin() if place == STDIN_FD else 0
        with open_lines(inputs, place) as lines:
            sizes.append(0)
            for chunk in lines.chunks:
                counts.add(chunk)
                sizes[-1] += chunk.num_bytes
        if place == STDIN_FD:
            os.lseek(STDIN_FD, begin, os.SEEK_SET)

    def through(sink: Sink) -> Sink:
        sink = CountedWriter(sink, counts, inputs.terminator) if args.count else sink
        return OnceWriter(sink, counts, inputs.terminator) if args.unique else sink

    return sizes, through


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


_WHY_FILES = "keys share bits, so no bit can be cleared; make a filter with create --counting"


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


def check(args: argparse.Namespace) -> int:
    """Run the command; return 0 if a line was found, 1 if none was."""
    inputs, places = inputs_of(args), places_of(args.inputs)
    end = inputs.terminator
    if args.csv and args.with_name and not args.count:
        raise UsageError("-H would put a name before each row of CSV: leave out -H or --csv")
    check_lines(inputs, places)
    refuse_overlap(STDOUT_FD, places, args.file)
    counts: list[int] = []
    with (
        open_filter(args.file, "r") as seen,
        open_output(STDOUT_FD, end, delimiter=inputs.delimiter) as writer,
    ):
        with (
            filters.in_use(args, seen, inputs.keys),
            progress_bar(args, places, printing=not args.count) as inputs.progress,
        ):
            for place in places:
                counts.append(_look_up(args, seen, inputs, place, writer))
                if args.quiet and counts[-1]:
                    return OK
        if args.count:
            each = zip(map(_prefix, places), counts, strict=True)
            for prefix, count in each if args.with_name else [(b"", sum(counts))]:
                line = b"%b%d%b" % (prefix, count, end)
                writer.write(np.frombuffer(line, np.uint8), terminated=True)
    return OK if any(counts) else NOTHING_FOUND


def _look_up(
    args: argparse.Namespace, seen: Filter, inputs: Inputs, place: Place, writer: LineWriter
) -> int:
    """Print the lines of one input that are asked for; return their number, with -q 1 or more."""
    number = 0

    def look(chunk: Chunk, found: Found) -> tuple[Chunk, Bools]:
        return chunk, found.of_lines(found.known(seen) != args.invert_match)

    with (
        open_lines(inputs, place) as lines,
        closing(ReadAhead(starmap(look, lines.found()))) as looked_at,
    ):
        if lines.head and not (args.quiet or args.count):
            begin(writer, lines.head, lines.name)
        for chunk, wanted in looked_at:
            number += int(np.count_nonzero(wanted))
            if args.quiet and number:
                break
            if not (args.quiet or args.count):
                printed = chunk.where(wanted)
                if args.with_name:
                    printed = _prefixed(printed, _prefix(place), inputs.terminator)
                writer.write(printed, terminated=chunk.terminated)
    return number


def _prefix(place: Place) -> bytes:
    return os.fsencode(shown(place)) + b":"


def _prefixed(lines: Octets, prefix: bytes, end: bytes) -> Octets:
    """Put the name of their input before each of some lines, which end as those of a chunk do."""
    whole = lines.tobytes()
    parts = whole.removesuffix(end).split(end) if whole else []
    named = end.join(prefix + part for part in parts)
    return np.frombuffer(named + end * whole.endswith(end), np.uint8)


def verify(args: argparse.Namespace) -> int:
    """Run the command; return 0 if the filter is sound, 1 if not."""
    places = places_of(args.keys) if args.keys else []
    inputs = inputs_of(args)
    check_lines(inputs, places)  # before a large filter is read
    refuse_overlap(STDOUT_FD, places, args.file)
    from mmbloom.operations.check import verify_batches  # noqa: PLC0415  for this alone

    with watched(
        args, "rchar", partial(bytes_at, args.file)
    ) as end:  # of the array, which comes first
        found = verify_batches(args.file, _batches(args, inputs, places, end))
    print(json.dumps(found.as_dict()) if args.json else _verified(found))
    return OK if found.ok else NOT_SOUND


def _batches(
    args: argparse.Namespace, inputs: Inputs, places: list[Place], before: Callable[[], None]
) -> Iterator[Batch]:
    if not places:
        return
    before()
    with open_filter(args.file, "r") as seen:
        filters.say_of_another_rule(seen, inputs.keys)
    with progress_bar(args, places, printing=False) as inputs.progress:
        for place in places:
            with open_lines(inputs, place) as lines:
                for _, found in lines.found():
                    yield coerce(found.keys)


def _verified(found: mmbloom.Verification) -> str:
    rows, of_folder = [("path", found.path)], bool(found.files)
    if of_folder:
        rows.append(("files", f"{len(found.files)}, {found.kind}, oldest first"))
    for file in found.files:
        name, seal = os.path.basename(file.path), " sealed," if file.sealed_segments else ""
        filled = f"about {file.approx_count:,} of {file.capacity:,} keys"
        rows.append(("", f"{name}:{seal} {file.file_bytes:,} bytes, {filled}"))
    asked, noun = ("headers say", "bits") if of_folder else ("header says", found.kind)
    compared = found.sealed_segments
    rows += [
        ("size", f"{found.file_bytes:,} bytes, as the {asked}"),
        ("holes", f"{found.bytes_not_reserved:,} bytes"),
        ("seal", f"{compared:,} MiB compared" if compared else "none to compare"),
        (f"{noun} set", f"{found.positions_set:,}, counted; fill ratio {found.fill_ratio:.4f}"),
        ("holds about", f"{found.approx_count:,} keys, with a capacity of {found.capacity:,}"),
        ("error rate now", f"{found.current_error_rate:.3g}, at capacity {found.error_rate:g}"),
    ]
    if found.keys_checked:
        rows.append(("keys", f"{found.keys_checked:,} looked up, {found.keys_missing:,} missing"))
    rows += [("note", note) for note in found.notes]
    rows += [("PROBLEM", problem) for problem in found.problems]
    sound = "sound, but past its capacity" if found.past_plan else "sound"
    rows.append(("verdict", sound if found.ok else "not sound"))
    return in_rows(rows)


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
        raise UsageError("KEY is a whole key: options that choose a part apply only to stdin")
    with open_filter(args.file) as seen, _keys(args, inputs) as keys:
        if chosen.rule != WHOLE_LINES:
            filters.say_of_another_rule(seen, chosen)
        elif _is_of_several(rule := seen.key_rule or ""):
            say(
                f'warning: {seen.path}: was filled with the key rule "{rule}", and its keys have '
                f"several parts, so they cannot be typed here: give lines on stdin, with {rule}"
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
    say_what_is_read("keys, one per line,", "keys")
    with open_lines(inputs, STDIN_FD) as lines:
        # Of a last line without its newline both keys, as by either it would be known.
        batches = (
            coerce(of_line)
            for _, found in lines.found()
            for of_line in (found.keys, found.part_key)
            if of_line is not None
        )
        yield (key for batch in batches for part in batch.parts for key in bytes_of(part))
