"""When a filter will be full, if keys keep coming as they did since its file was made.

A copy or a union was made with keys in it, which count as if they had come since: the date is
too early then, the less so the older the file is.
"""

from datetime import UTC, datetime

from mmbloom.info import FilterInfo

_LEAST_AGE = 60.0  # seconds; a shorter time says nothing of the next months
_DAY = 86_400
_LONGEST = 1000 * 365 * _DAY  # a date has four digits for the year


def when_full(info: FilterInfo, now_ns: int) -> str:
    """Say when the planned capacity will be passed; "" if nothing can be said.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> with BloomFilter.create(os.path.join(tempfile.mkdtemp(), "a"), 1000, seed=1) as seen:
    ...     added, info = seen.update(range(100)), seen.info()
    >>> when_full(info, info.created_ns), when_full(info, info.created_ns + 10**13)[-31:]
    ('', ', at the pace since it was made')
    """
    count = info.approx_count
    if count > info.capacity:
        return "is passed"
    age = (now_ns - info.created_ns) / 1e9
    if info.sealed or count == 0 or age < _LEAST_AGE:
        return ""
    left = age * (info.capacity - count) / count
    if left > _LONGEST:
        return "not passed in a thousand years, at the pace since it was made"
    then = datetime.fromtimestamp(now_ns / 1e9 + left, UTC)
    date = then.date().isoformat() if left > 2 * _DAY else f"{then:%Y-%m-%d %H:%M} UTC"
    return f"passed about {date}, at the pace since it was made"
