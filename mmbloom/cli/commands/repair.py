"""``mmbloom repair``: a sound filter of what a damaged file holds."""

import argparse
import os

from mmbloom.cli.arguments import (
    add_making_options,
    add_sizing_options,
    making_options,
    positive,
)
from mmbloom.cli.process import NOT_SOUND, OK, UsageError, say
from mmbloom.operations.repair import Repair, repair
from mmbloom.sizing.params import FilterParams
from mmbloom.sizing.planning import capacity_of, plan


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("file", metavar="FILE", help="the damaged filter; not changed")
    parser.add_argument("destination", metavar="DST", help="where to make the new one")
    add_making_options(parser)
    group = parser.add_argument_group(
        "for a damaged header: what the filter was made with",
        "the seed and the layout, and either -n and -p or the two below (info says all of them)",
    )
    group.add_argument("--num-bits", type=positive, metavar="M", help="size of the array in bits")
    group.add_argument("--num-hashes", type=positive, metavar="K", help="positions of each key")
    add_sizing_options(group, required=False)


def run(args: argparse.Namespace) -> int:
    """Do it: 0 if every key is there, 1 if bits may be missing."""
    params = _params(args)
    if params and os.path.isdir(args.file):
        raise UsageError(f"{args.file}: is a folder, whose manifest says how its files were made")
    done = repair(args.file, args.destination, params=params, **making_options(args))
    _say(done, args.destination)
    return NOT_SOUND if done.losses else OK


def _params(args: argparse.Namespace) -> FilterParams | None:
    """Gather what the header would say; None if nothing was given."""
    sizes = (args.num_bits, args.num_hashes)
    if {args.capacity, args.error_rate, args.layout, args.seed, *sizes} == {None}:
        return None
    if args.seed is None or args.layout is None or (None in sizes and args.capacity is None):
        raise UsageError(
            "to rebuild a header give --seed and --layout, and either --num-bits and --num-hashes "
            "or the -n and -p that the filter was made with"
        )
    error_rate = 0.01 if args.error_rate is None else args.error_rate
    if sizes == (None, None):
        return plan(args.capacity, error_rate, layout=args.layout, seed=args.seed)
    if None in sizes:
        raise UsageError("--num-bits and --num-hashes go together")
    capacity = args.capacity or capacity_of(*sizes, error_rate, layout=args.layout)
    return FilterParams(capacity, error_rate, args.layout, *sizes, args.seed)


def _say(done: Repair, destination: str) -> None:
    if done.header_damage:
        say(f"{destination}: header rebuilt, its {done.header_damage} was wrong")
        say(f"{destination}: only keys can tell if it is rebuilt right: mmbloom verify --keys")
    for note in done.notes:
        say(f"{destination}: {note}")
    for loss in done.losses:
        say(f"{destination}: BITS MAY BE MISSING: {loss}")
    if done.losses:
        say(f"{destination}: keys that were added may not be found; add them again if you can")
    say(f"{destination}: {done.positions_set} bits set, {done.keys_added} keys added")
