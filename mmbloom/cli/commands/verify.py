"""``mmbloom verify``: check a filter as far as possible, without lock, map or change."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from functools import partial

from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import coerce
from mmbloom.cli.filters import say_of_another_rule
from mmbloom.cli.lines import check_lines, find_keys, input_names, open_lines, refuse_overlap
from mmbloom.cli.options import add_key_options, line_keys
from mmbloom.cli.process import NOT_SOUND, OK, in_rows
from mmbloom.cli.report import bytes_of, progress_bar, watched
from mmbloom.filters.open import open as open_filter
from mmbloom.format.folder import FOLDER_KINDS
from mmbloom.logs.lines import KeyRule
from mmbloom.operations.check import Verification, verify_batches

EXAMPLES = (
    "mmbloom verify seen.bloom",
    "mmbloom verify seen.bloom --keys access.log    # is every line of it found?",
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add(
        "file",
        nargs="+",
        metavar="FILE",
        help="a filter; read only, and others may write to it meanwhile",
    )
    add(
        "--keys",
        action="append",
        default=[],
        metavar="INPUT",
        help="check that the key of each line is found; may be repeated; - is stdin",
    )
    add("--json", action="store_true", help="print one JSON object for each")
    add_key_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 if the filter is sound, 1 if not."""
    names = input_names(args.keys) if args.keys else []
    check_lines(args, names)  # before a large filter is read
    refuse_overlap(None, names, args.file)
    key_of = line_keys(args)
    with watched(
        args, "rchar", partial(bytes_of, args.file)
    ) as end:  # of the array, which comes first
        found = verify_batches(args.file, _batches(args, key_of, names, end))
    print(json.dumps(found.as_dict()) if args.json else _for_people(found))
    return OK if found.ok else NOT_SOUND


def _batches(
    args: argparse.Namespace, keys: KeyRule, names: list[str], before: Callable[[], None]
) -> Iterator[Batch]:
    if not names:
        return
    before()
    with open_filter(args.file, "r") as seen:
        say_of_another_rule(seen, keys)
    with progress_bar(args, names, printing=False) as bar:
        for name in names:
            with open_lines(args, name, bar) as lines:
                for _, found in find_keys(lines, name):
                    yield coerce(found.keys)


def _for_people(found: Verification) -> str:
    rows, of_folder = [("path", found.path)], found.kind in FOLDER_KINDS
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
