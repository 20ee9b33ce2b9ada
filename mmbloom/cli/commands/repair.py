"""``mmbloom repair``: make a sound filter from a damaged one."""

import argparse
import os

from mmbloom.cli.options import (
    add_making_options,
    add_planning_options,
    add_shape_options,
    error_rate,
    making_options,
    positive,
)
from mmbloom.cli.process import NOT_SOUND, OK, UsageError, say
from mmbloom.operations.check import Repair, repair
from mmbloom.sizing.formulas import PAGE_BITS
from mmbloom.sizing.params import FilterParams, Shape
from mmbloom.sizing.planning import capacity_of, plan

EXAMPLES = (
    "mmbloom repair seen.bloom sound.bloom",
    (
        "mmbloom repair headless.bloom mended.bloom -n 1e6 --layout blocked --hash siphash \\\n"
        "    --seed 0x00112233445566778899aabbccddeeff"
    ),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="the damaged filter; not changed")
    parser.add_argument("destination", metavar="DST", help="the new filter; must not exist")
    add_making_options(parser)
    group = parser.add_argument_group(
        "for a damaged header: the parameters of the filter",
        "--hash, --seed and --layout, and either -n and -p or the sizes below (info --show-key "
        "shows all of them)",
    )
    group.add_argument("--num-bits", type=positive, metavar="M", help="size of the array in bits")
    group.add_argument(
        "--num-hashes", type=positive, metavar="K", help="number of positions of each key"
    )
    group.add_argument(
        "--blocks-per-key",
        type=positive,
        metavar="BLOCKS",
        help="with --num-bits: number of blocks of each key (blocked layout)",
    )
    add_planning_options(group, required=False)
    add_shape_options(
        group,
        layout_help="needed: blocked, unless another was given",
        hash_help="needed: siphash, unless another was given",
        seed_help="needed: the seed or the key of the hash, also as 0x...",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 if every key is there, 1 if bits may be missing."""
    params = _params(args)
    if params and os.path.isdir(args.file):
        raise UsageError(
            f"{args.file}: is a folder, whose manifest has the parameters: leave out these options"
        )
    done = repair(args.file, args.destination, params=params, **making_options(args))
    _say(done, args.destination)
    return NOT_SOUND if done.losses else OK


def _params(args: argparse.Namespace) -> FilterParams | None:
    """Gather the parameters that the header would have; None if none was given."""
    sizes, blocks = (args.num_bits, args.num_hashes), args.blocks_per_key
    of_plan = (args.capacity, args.error_rate, args.layout, args.hash, args.seed)
    if {*of_plan, *sizes, blocks} == {None}:
        return None
    needed = (args.hash, args.seed, args.layout)
    if None in needed or (None in sizes and args.capacity is None):
        raise UsageError(
            "to rebuild a header give --hash, --seed and --layout, and either --num-bits and "
            "--num-hashes (and --blocks-per-key) or the -n and -p that the filter was made with"
        )
    planned = error_rate(args)
    if sizes == (None, None):
        if blocks is not None:
            raise UsageError("--blocks-per-key goes with --num-bits and --num-hashes")
        return plan(args.capacity, planned, layout=args.layout, seed=args.seed, hash=args.hash)
    if None in sizes:
        raise UsageError("--num-bits and --num-hashes go together")
    if blocks is None:
        # A wrong guess would make a filter that finds none of its keys, and no error.
        if args.layout == "blocked" and args.num_bits % PAGE_BITS == 0:
            raise UsageError(
                f"an array of {args.num_bits} bits may have several blocks a key: give "
                "--blocks-per-key as well (1 unless info said otherwise)"
            )
        blocks = 1
    shape: Shape = {"layout": args.layout, "blocks_per_key": blocks}
    capacity = args.capacity or capacity_of(*sizes, planned, **shape)
    return FilterParams(capacity, planned, args.layout, *sizes, args.seed, args.hash, blocks)


def _say(done: Repair, destination: str) -> None:
    if done.header_damage:
        say(f"{destination}: header rebuilt; its {done.header_damage} was wrong")
        say(
            f"{destination}: check with known keys that it was rebuilt right: mmbloom verify --keys"
        )
    for note in done.notes:
        say(f"{destination}: {note}")
    for loss in done.losses:
        say(f"{destination}: BITS MAY BE MISSING: {loss}")
    if done.losses:
        say(f"{destination}: keys that were added may not be found; add them again if you can")
    wrong = done.header_damage or done.notes or done.losses
    found = "" if wrong else "nothing was wrong with it; "
    say(f"{destination}: {found}{done.positions_set} bits set, {done.keys_added} keys added")
