"""Rates and costs side by side: the table that people choose an error rate from."""

from typing import NamedTuple

from mmbloom.sizing.formulas import textbook_rate
from mmbloom.sizing.params import MAX_HASHES, require_error_rate


class BestPractice(NamedTuple):
    """One row of the table of whole bits per key.

    Attributes
    ----------
    bits_per_key : int
        m/n.
    num_hashes : int
        The k with the lowest error rate for it.
    error_rate : float
        (1 - e^(-k n/m))^k.
    """

    bits_per_key: int
    num_hashes: int
    error_rate: float


def best_practice_table(most_bits_per_key: int = 32) -> list[BestPractice]:
    """List the best number of hashes for each whole number of bits per key (standard layout).

    Parameters
    ----------
    most_bits_per_key : int, default 32
        Last row of the table.

    Returns
    -------
    list of BestPractice
        For each m/n the k from 1 to 64 with the lowest (1 - e^(-k n/m))^k: what Fan, Cao, Almeida
        and Broder tabulate in "Summary Cache", 2000.

    Examples
    --------
    >>> best_practice_table(10)[-1][:2]
    (10, 7)
    """
    return [_best_row(bits) for bits in range(1, most_bits_per_key + 1)]


def _best_row(bits_per_key: int) -> BestPractice:
    rate, num_hashes = min((textbook_rate(1, bits_per_key, k), k) for k in range(1, MAX_HASHES + 1))
    return BestPractice(bits_per_key, num_hashes, rate)


def best_practice(error_rate: float) -> BestPractice:
    """Look up the fewest whole bits per key whose error rate is tolerable (standard layout).

    Parameters
    ----------
    error_rate : float
        Highest false-positive rate to accept, between 1e-19 and 1.

    Returns
    -------
    BestPractice
        The first row of `best_practice_table` that will do. `plan` needs fewer bits, as its bits
        per key are no whole number.

    Raises
    ------
    ValueError
        If it is not below 1, or so low that no filter with at most 64 hashes has it.

    Examples
    --------
    >>> best_practice(0.001)[:2]
    (15, 10)
    """
    require_error_rate(error_rate)
    for bits_per_key in range(1, 93):  # k = 64 is best at 92 bits per key
        row = _best_row(bits_per_key)
        if row.error_rate <= error_rate:
            return row
    raise ValueError(f"error_rate is {error_rate!r}, expected at least {row.error_rate:.1e}")
