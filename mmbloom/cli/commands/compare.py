"""``mmbloom compare``: estimate how many keys two filters share, or say why it cannot."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, fields

from mmbloom.cli.process import NOT_ALIKE, OK, in_rows
from mmbloom.errors import IncompatibleFiltersError
from mmbloom.operations.combine import Similarity, compare

Differences = Mapping[str, tuple[str, str]]


EXAMPLES = ("mmbloom compare seen.bloom like.bloom",)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="A", help="a filter")
    parser.add_argument("other", metavar="B", help="a filter with equal parameters, hash and seed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 if the filters can be compared, 1 if their parameters differ."""
    found: Similarity | None = None
    differences: Differences = {}
    try:
        found = compare(args.file, args.other)
    except IncompatibleFiltersError as error:
        differences = {name: (here, there) for name, here, there in error.differences}
    print(_as_json(found, differences) if args.json else _for_people(args, found, differences))
    return OK if found else NOT_ALIKE


def _as_json(found: Similarity | None, differences: Differences) -> str:
    figures = asdict(found) if found else dict.fromkeys(field.name for field in fields(Similarity))
    return json.dumps({**figures, "differences": differences})


def _for_people(
    args: argparse.Namespace, found: Similarity | None, differences: Differences
) -> str:
    rows = [("first", args.file), ("second", args.other)]
    if found:
        rows += [
            ("keys of first", f"about {found.first_count:,}"),
            ("keys of second", f"about {found.second_count:,}"),
            ("common keys", f"about {found.common_count:,}"),
            ("keys of either", f"about {found.union_count:,}"),
            ("Jaccard", f"{found.jaccard:.4f}"),
        ]
    else:
        rows += [(name, f"{here} and {there}") for name, (here, there) in differences.items()]
        rows.append(("verdict", "cannot be compared: their parameters differ"))
    return in_rows(rows)
