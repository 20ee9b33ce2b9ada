"""How large a filter is: arithmetic only, no file, no key. The public page of formulas.

``formulas``  false positives and counts, in both layouts; names the sources
``params``    `FilterParams`, and the limits of the format
``planning``  from keys and error rate to bits and hashes, and back
``fill``      how full a filter is, and the words for it
``tables``    `best_practice`: rates and costs side by side
"""

from mmbloom._typing import Layout
from mmbloom.sizing.formulas import estimate_count, false_positive_rate
from mmbloom.sizing.params import FilterParams
from mmbloom.sizing.planning import capacity_of, plan
from mmbloom.sizing.tables import BestPractice, best_practice, best_practice_table

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
