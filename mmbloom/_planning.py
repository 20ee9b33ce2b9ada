"""How many bits and hashes a new filter gets: formulas for one layout, a search for the other."""

import math
from functools import lru_cache

from mmbloom._rates import BLOCK_BITS, Layout, false_positive_rate

MAX_HASHES = 64
MIN_BITS, MAX_BITS = 64, 2**43
MAX_BLOCKS = 2**31

# The textbook's sizes make do with a whole k: its rate at capacity is up to 5 % above the one
# planned for, near 0.35.
_STANDARD_SPARE = 15 / 16


def to_plan_for(error_rate: float, layout: Layout) -> float:
    """Give the rate to plan for where the one at capacity must not be above `error_rate`."""
    return error_rate * _STANDARD_SPARE if layout == "standard" else error_rate


def plan_standard(capacity: int, error_rate: float) -> tuple[int, int]:
    """Compute bits and hashes by the textbook's formulas, within what the format allows."""
    ideal = math.ceil(-capacity * math.log(error_rate) / math.log(2) ** 2)
    num_bits = max(MIN_BITS, -(-ideal // 64) * 64)
    best = num_bits / capacity * math.log(2)
    num_hashes = min(max(1, round(best)), MAX_HASHES)
    if 1 <= best < MAX_HASHES + 0.5:
        return num_bits, num_hashes
    # Above 0.5 and below about 1e-19 the best k is out of reach: more bits make up for it.
    ideal = math.ceil(-num_hashes * capacity / math.log1p(-(error_rate ** (1 / num_hashes))))
    return max(num_bits, -(-ideal // 64) * 64), num_hashes


@lru_cache(maxsize=256)  # of 6 ms: who makes many filters makes most of them alike
def plan_blocked(capacity: int, error_rate: float) -> tuple[int, int]:
    """Search the fewest blocks that are good enough, and their number of hashes."""
    best: tuple[int, int] | None = None
    worse_in_a_row = 0
    for num_hashes in range(1, MAX_HASHES + 1):
        num_blocks = _fewest_blocks(capacity, error_rate, num_hashes)
        if num_blocks is not None and (best is None or num_blocks < best[0]):
            best, worse_in_a_row = (num_blocks, num_hashes), 0
        elif best is not None:
            worse_in_a_row += 1
            # The size has one minimum over k; small filters are quantised to whole blocks,
            # so wait for a few larger (or equal) sizes before believing in it.
            if worse_in_a_row == 8:
                break
    if best is None:
        raise ValueError(
            f"{capacity} keys at an error rate of {error_rate!r} need more than {MAX_BLOCKS} "
            "blocks; use the standard layout, fewer keys or a higher error rate"
        )
    return best[0] * BLOCK_BITS, best[1]


def _fewest_blocks(capacity: int, error_rate: float, num_hashes: int) -> int | None:
    def good(num_blocks: int) -> bool:
        rate = false_positive_rate(capacity, num_blocks * BLOCK_BITS, num_hashes, layout="blocked")
        return rate <= error_rate

    if not good(MAX_BLOCKS):
        return None
    low, high = 0, MAX_BLOCKS  # low is not good (or nothing), high is good
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle
    return high
