"""Commands that ask a filter, and change nothing: check by lines, and verify."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import starmap

import numpy as np

import mmbloom
from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import coerce
from mmbloom._system.threads import ReadAhead
from mmbloom._system.typing import Bools, Octets
from mmbloom.cli.filters import in_use, say_of_another_rule
from mmbloom.cli.lines import check_lines, inputs_of, open_lines, places_of
from mmbloom.cli.process import NOT_SOUND, NOTHING_FOUND, OK, STDOUT_FD, UsageError, in_rows
from mmbloom.cli.report import bytes_of, progress_bar, watched
from mmbloom.filters.base import Filter
from mmbloom.filters.open import open as open_filter
from mmbloom.logs.inputs import Inputs
from mmbloom.logs.lines import Chunk, Found, LineWriter
from mmbloom.logs.outputs import Place, begin, open_output, refuse_overlap, shown


def check(args: argparse.Namespace) -> int:
    """Run the command; return 0 if a line was found, 1 if none was."""
    inputs, places = inputs_of(args), places_of(args.inputs)
    end = inputs.terminator
    if args.csv and args.with_name and not args.count:
        raise UsageError("-H writes a name before each row, which is a field of no column: not CSV")
    check_lines(inputs, places)
    refuse_overlap(STDOUT_FD, places, args.file)
    counts: list[int] = []
    with (
        open_filter(args.file, "r") as seen,
        open_output(STDOUT_FD, end, delimiter=inputs.delimiter) as writer,
    ):
        with (
            in_use(args, seen, inputs.keys),
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
        args, "rchar", partial(bytes_of, args.file)
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
        say_of_another_rule(seen, inputs.keys)
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
    asked, noun = ("headers ask", "bits") if of_folder else ("header asks", found.kind)
    compared = found.sealed_segments
    rows += [
        ("size", f"{found.file_bytes:,} bytes, as the {asked} for"),
        ("holes", f"{found.bytes_not_reserved:,} bytes"),
        ("seal", f"{compared:,} MiB compared" if compared else "none to compare"),
        (f"{noun} set", f"{found.positions_set:,}, counted; fill ratio {found.fill_ratio:.4f}"),
        ("holds about", f"{found.approx_count:,} keys, planned for {found.capacity:,}"),
        ("error rate now", f"{found.current_error_rate:.3g}, planned {found.error_rate:g}"),
    ]
    if found.keys_checked:
        rows.append(("keys", f"{found.keys_checked:,} looked up, {found.keys_missing:,} missing"))
    rows += [("note", note) for note in found.notes]
    rows += [("PROBLEM", problem) for problem in found.problems]
    sound = "sound, but past its plan" if found.past_plan else "sound"
    rows.append(("verdict", sound if found.ok else "not sound"))
    return in_rows(rows)
