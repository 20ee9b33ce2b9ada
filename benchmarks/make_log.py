"""Write a synthetic access log, the same for the same arguments: make_log.py LINES [SEED].

Seven lines of ten are new, the others repeat an earlier line; about 140 bytes a line. Or a log of
addresses alone, of about 14 bytes a line, for the benchmarks.
"""

import sys
from collections.abc import Iterator

import numpy as np

_PAGES = ("index.html", "api/v2/orders", "static/app.js", "search", "login", "cart/items")
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0)",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X)",
    "curl/8.9.1",
    "python-requests/2.32",
)


def numbers(count: int, seed: int) -> Iterator[int]:
    """Yield what each line is the line of: seven of ten are new."""
    rng = np.random.default_rng(seed)
    new = rng.random(count) < 0.7
    new[0] = True
    newest = np.cumsum(new) - 1
    which = np.where(new, newest, (rng.random(count) * (newest + 1)).astype(np.int64))
    yield from which.tolist()


def lines(count: int, seed: int) -> Iterator[str]:
    """Yield the lines."""
    for number in numbers(count, seed):
        mixed = number * 0x9E3779B97F4A7C15 % 2**64
        yield (
            f"10.{mixed >> 56}.{mixed >> 48 & 255}.{mixed >> 40 & 255} - - "
            f"[{1 + number // 86400 % 28:02}/Nov/2026:{number // 3600 % 24:02}:"
            f"{number // 60 % 60:02}:{number % 60:02} +0000] "
            f'"GET /{_PAGES[mixed >> 20 & 3]}?id={number} HTTP/1.1" 200 {mixed >> 24 & 65535} '
            f'"-" "{_AGENTS[mixed >> 36 & 3]}"\n'
        )


def addresses(count: int, seed: int) -> Iterator[str]:
    """Yield lines of one address each."""
    for number in numbers(count, seed):
        mixed = number * 0x9E3779B97F4A7C15 % 2**64
        yield f"{mixed >> 56}.{mixed >> 48 & 255}.{mixed >> 40 & 255}.{mixed >> 32 & 255}\n"


def write_addresses(path: str, count: int, seed: int = 1) -> None:
    """Write a log of addresses."""
    with open(path, "w", encoding="ascii") as file:
        file.writelines(addresses(count, seed))


def write_log(path: str, count: int, seed: int = 1) -> None:
    """Write a log file."""
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines(count, seed))


if __name__ == "__main__":
    sys.stdout.writelines(lines(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
