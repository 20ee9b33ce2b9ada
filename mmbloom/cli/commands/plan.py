"""``mmbloom plan``: show what a filter will cost before it is made."""

import argparse
import json
from collections.abc import Mapping

from mmbloom._system.typing import Layout
from mmbloom.cli.options import add_planning_options, error_rate
from mmbloom.cli.process import OK, UsageError
from mmbloom.format.header import HEADER_BYTES
from mmbloom.sizing.params import FilterParams
from mmbloom.sizing.planning import best_practice, best_practice_table, plan

_LAYOUTS: tuple[Layout, ...] = ("blocked", "standard")
_ROWS_AROUND = 3  # that people see, before the one that is enough and after it
_TABLE_ROWS = 24  # whole bits per key up to an error rate of 1e-5


EXAMPLES = ("mmbloom plan -n 1e9 -p 1e-6",)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_planning_options(parser, required=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    try:
        plans = _plans(args.capacity, error_rate(args))
        figures = _figures(args.capacity, error_rate(args), plans)
    except ValueError as error:
        raise UsageError(str(error)) from error
    print(json.dumps(figures) if args.json else _for_people(figures))
    return OK


def _plans(capacity: int, error_rate: float) -> dict[Layout, FilterParams | ValueError]:
    """Plan for each layout; a layout that is impossible gives its error."""
    plans: dict[Layout, FilterParams | ValueError] = {}
    for layout in _LAYOUTS:
        try:
            plans[layout] = plan(capacity, error_rate, layout=layout)
        except ValueError as error:
            plans[layout] = error
    if all(isinstance(params, ValueError) for params in plans.values()):
        raise ValueError(f"no layout can hold {capacity} keys at an error rate of {error_rate:g}")
    return plans


def _figures(
    capacity: int, error_rate: float, plans: Mapping[Layout, FilterParams | ValueError]
) -> dict[str, object]:
    layouts: dict[str, object] = {
        layout: {"error": str(params)}
        if isinstance(params, ValueError)
        else {
            "bits_per_key": round(params.bits_per_key, 3),
            "num_hashes": params.num_hashes,
            "blocks_per_key": params.blocks_per_key,
            "file_bytes": HEADER_BYTES + params.num_bytes,
        }
        for layout, params in plans.items()
    }
    return {
        "capacity": capacity,
        "error_rate": error_rate,
        **layouts,
        "whole_bits": _enough(error_rate),
        "table": [row._asdict() for row in best_practice_table(_TABLE_ROWS)],
    }


def _enough(error_rate: float) -> dict[str, object] | None:
    """Find the first sufficient row; None if the rate takes more than 64 hashes."""
    try:
        return best_practice(error_rate)._asdict()
    except ValueError:
        return None


def _for_people(figures: dict[str, object]) -> str:
    capacity, error_rate = figures["capacity"], figures["error_rate"]
    lines = [
        f"{capacity:,} keys at an error rate of {error_rate:g}",
        "",
        "layout     bits per key  hashes  blocks a key            file size",
    ]
    for layout in _LAYOUTS:
        row = figures[layout]
        assert isinstance(row, dict)  # noqa: S101  for the type checker
        if "error" in row:
            lines.append(f"{layout:<9} not possible: {row['error']}")
            continue
        bits, hashes, size = row["bits_per_key"], row["num_hashes"], row["file_bytes"]
        blocks = row["blocks_per_key"] if layout == "blocked" else "-"
        lines.append(f"{layout:<9} {bits:>13.2f} {hashes:>7} {blocks:>13} {size:>14,} bytes")
    lines += [
        "",
        "whole bits per key (the textbook's: few keys in the standard layout need more):",
        "bits per key  hashes  error rate",
    ]
    whole = figures["whole_bits"]
    enough = whole["bits_per_key"] if isinstance(whole, dict) else 0
    for best in best_practice_table(max(_TABLE_ROWS, enough + _ROWS_AROUND)):
        if enough and abs(best.bits_per_key - enough) > _ROWS_AROUND:
            continue  # all of them would push the answer out of the window
        mark = "  <- enough" if best.bits_per_key == enough else ""
        lines.append(
            f"{best.bits_per_key:>12} {best.num_hashes:>7}  {best.error_rate:>10.3g}{mark}"
        )
    return "\n".join(lines)
