"""What a caller asks of a filter, checked: how many keys, and at which error rate."""


def require_capacity(capacity: int) -> None:
    """Raise `TypeError` if a number of keys is no int."""
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise TypeError(
            f"capacity is {capacity!r}, expected an int; write 1_000_000_000 or int(1e9)"
        )


def require_error_rate(error_rate: float) -> float:
    """Give a rate of any type of numbers as a float; `ValueError` if not between 0 and 1."""
    if not 0 < error_rate < 1:
        raise ValueError(f"error_rate is {error_rate!r}, expected between 0 and 1")
    return float(error_rate)
