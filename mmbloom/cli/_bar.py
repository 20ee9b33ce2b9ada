"""A share of a whole as a bar of fixed width, in characters that the terminal can show."""

WIDTH = 40
_BLOCKS, _PLAIN = "█░", "#-"


def bar(share: float, encoding: str) -> str:
    """Draw a share from 0 to 1: empty and full only if it is exactly 0 or 1.

    Examples
    --------
    >>> bar(0.25, "ascii")
    '[##########------------------------------]'
    >>> bar(0.25, "utf-8")
    '██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░'
    """
    filled = min(max(round(WIDTH * share), share > 0), WIDTH - (share < 1))
    try:
        _BLOCKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return f"[{_drawn(filled, _PLAIN)}]"
    return _drawn(filled, _BLOCKS)


def _drawn(filled: int, characters: str) -> str:
    return characters[0] * filled + characters[1] * (WIDTH - filled)
