"""``mmbloom plan``: what a filter will cost, before making it."""

import argparse
import json
from collections.abc import Mapping

from mmbloom._header import HEADER_BYTES
from mmbloom.cli._arguments import positive, rate
from mmbloom.cli._errors import OK, UsageError
from mmbloom.cli._plot import draw, image_path
from mmbloom.sizing import FilterParams, Layout, best_practice, best_practice_table, plan

_LAYOUTS: tuple[Layout, ...] = ("blocked", "standard")
_TABLE_ROWS = 24  # whole bits per key up to an error rate of 1e-5


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add = parser.add_argument
    add("-n", "--capacity", type=positive, required=True, metavar="N", help="keys (1e9, 10M)")
    add("-p", "--error-rate", type=rate, default=0.01, metavar="P", help="default 0.01")
    add("--json", action="store_true", help="print one JSON object")
    add(
        "--plot",
        type=image_path,
        metavar="FILE",
        help="draw error rate against keys as well, to a .png or .svg (replaced if it is there)",
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    try:
        plans = _plans(args.capacity, args.error_rate)
        figures = _figures(args.capacity, args.error_rate, plans)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if args.plot:
        draw(args.plot, [params for params in plans.values() if isinstance(params, FilterParams)])
    print(json.dumps(figures) if args.json else _for_people(figures))
    return OK


def _plans(capacity: int, error_rate: float) -> dict[Layout, FilterParams | ValueError]:
    """Plan for each layout, or say why it cannot be."""
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
    """Find the row that is enough; none is for a rate that takes more than 64 hashes."""
    try:
        return best_practice(error_rate)._asdict()
    except ValueError:
        return None


def _for_people(figures: dict[str, object]) -> str:
    capacity, error_rate = figures["capacity"], figures["error_rate"]
    lines = [
        f"{capacity:,} keys at an error rate of {error_rate:g}",
        "",
        "layout     bits per key  hashes            file size",
    ]
    for layout in _LAYOUTS:
        row = figures[layout]
        assert isinstance(row, dict)  # noqa: S101  for the type checker
        if "error" in row:
            lines.append(f"{layout:<9} cannot be: {row['error']}")
            continue
        bits, hashes, size = row["bits_per_key"], row["num_hashes"], row["file_bytes"]
        lines.append(f"{layout:<9} {bits:>13.2f} {hashes:>7} {size:>14,} bytes")
    lines += [
        "",
        "whole bits per key (standard layout), for the highest error rate you tolerate:",
        "bits per key  hashes  error rate",
    ]
    whole = figures["whole_bits"]
    enough = whole["bits_per_key"] if isinstance(whole, dict) else 0
    for best in best_practice_table(max(_TABLE_ROWS, enough)):
        mark = "  <- enough" if best.bits_per_key == enough else ""
        lines.append(
            f"{best.bits_per_key:>12} {best.num_hashes:>7}  {best.error_rate:>10.3g}{mark}"
        )
    return "\n".join(lines)
