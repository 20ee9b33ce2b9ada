"""``mmbloom verify``: check all of a filter that can be checked, without lock, map or change."""

import argparse
import json
import os
from collections.abc import Iterator

from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import coerce
from mmbloom.cli.arguments import add_key_options, line_keys, terminator
from mmbloom.cli.inputs import check_inputs, input_names, open_input, progress_bar
from mmbloom.cli.outputs import refuse_overlap
from mmbloom.cli.process import NOT_SOUND, OK
from mmbloom.lines import LineKeys, read_chunks
from mmbloom.operations.verify import (
    FolderVerification,
    Verification,
    verify_batches,
    verify_folder_batches,
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add = parser.add_argument
    add("file", metavar="FILE", help="the filter; read only, whoever writes to it")
    add(
        "--keys",
        action="append",
        default=[],
        metavar="INPUT",
        help="check that each line's key is found; may be repeated, - is stdin",
    )
    add("--json", action="store_true", help="print one JSON object")
    add_key_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do it: 0 if all is well, 1 if something is wrong."""
    names = input_names(args.keys) if args.keys else []
    check_inputs(names)  # before all of a large filter is read
    refuse_overlap(None, names, args.file)
    keys = _batches(args, line_keys(args), names)
    found: Verification | FolderVerification
    if os.path.isdir(args.file):
        found = of_folder = verify_folder_batches(args.file, keys)
        for_people = _of_folder(of_folder)
    else:
        found = of_file = verify_batches(args.file, keys)
        for_people = _of_file(of_file)
    print(json.dumps(found.as_dict()) if args.json else for_people)
    return OK if found.ok else NOT_SOUND


def _batches(args: argparse.Namespace, keys: LineKeys, names: list[str]) -> Iterator[Batch]:
    if not names:
        return
    with progress_bar(names, args.progress) as bar:
        for name in names:
            with open_input(name, bar) as source:
                for chunk in read_chunks(source, terminator(args)):
                    yield coerce(keys(chunk))


def _of_file(found: Verification) -> str:
    seal = f"{found.sealed_pieces:,} MiB compared" if found.sealed_pieces else "none to compare"
    rows = [
        ("path", found.path),
        ("size", f"{found.file_bytes:,} bytes, as the header asks for"),
        ("holes", f"{found.bytes_not_reserved:,} bytes"),
        ("seal", seal),
        (
            f"{found.kind} set",
            f"{found.positions_set:,}, counted; fill ratio {found.fill_ratio:.4f}",
        ),
        ("holds about", f"{found.approx_count:,} keys, planned for {found.capacity:,}"),
        ("error rate now", f"{found.current_error_rate:.3g}, planned {found.error_rate:g}"),
    ]
    return _table([*rows, *_verdict(found)])


def _of_folder(found: FolderVerification) -> str:
    rows = [("path", found.path), ("files", f"{len(found.files)}, {found.kind}, oldest first")]
    for file in found.files:
        name, seal = os.path.basename(file.path), " sealed," if file.sealed_pieces else ""
        filled = f"about {file.approx_count:,} of {file.capacity:,} keys"
        rows.append(("", f"{name}:{seal} {file.file_bytes:,} bytes, {filled}"))
    return _table([*rows, *_verdict(found)])


def _verdict(found: Verification | FolderVerification) -> list[tuple[str, str]]:
    rows = []
    if found.keys_checked:
        rows.append(("keys", f"{found.keys_checked:,} looked up, {found.keys_missing:,} missing"))
    rows += [("note", note) for note in found.notes]
    rows += [("PROBLEM", problem) for problem in found.problems]
    return [*rows, ("verdict", "sound" if found.ok else "not sound")]


def _table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<15} {value}" for name, value in rows)
