"""How large a filter is: arithmetic only, without files or keys. The public module of formulas.

``formulas``  false positives and counts, in both layouts, with their sources
``params``    `FilterParams`, and the limits of the format
``planning``  from keys and error rate to bits and hashes, and back; how full a filter is
"""

from mmbloom._system.typing import Layout
from mmbloom.sizing.formulas import estimate_count, false_positive_rate
from mmbloom.sizing.params import FilterParams
from mmbloom.sizing.planning import (
    BestPractice,
    best_practice,
    best_practice_table,
    capacity_of,
    plan,
)

__all__ = [
    "BestPractice",
    "FilterParams",
    "Layout",
    "best_practice",
    "best_practice_table",
    "capacity_of",
    "estimate_count",
    "false_positive_rate",
    "plan",
]
