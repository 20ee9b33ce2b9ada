"""Random operations on filters, for a process of its own: `python operations.py PATH SEED...`.

Prints what each answered; the same seed gives the same operations, whichever engine serves. Each
seed has a filter of its own, PATH.SEED.
"""

import io
import json
import random
import sys
from typing import Any

import numpy as np

import mmbloom
from mmbloom import BloomFilter, KeyTypeError
from mmbloom.logs.dedup import dedup
from mmbloom.logs.lines import LineKeys, read_chunks


class Collect:
    def __init__(self) -> None:
        self.octets = b""

    def write(self, lines: Any, *, terminated: bool) -> None:
        self.octets += lines.tobytes() + b"|" * (not terminated)


def some_keys(chance: random.Random, n: int) -> Any:  # noqa: PLR0911  one for each form
    """About n keys in one of the forms that a caller may pass; the same ones come again."""
    numbers = [chance.randrange(3 * n + 1) for _ in range(n)]
    form = chance.randrange(9)
    if form == 0:
        return [b"key %d" % number for number in numbers]
    if form == 1:
        return [f"ключ {number} 🌸" if number % 3 else f"k{number}" for number in numbers]
    if form == 2:
        return [chance.choice([number, b"%d" % number, str(number)]) for number in numbers]
    if form == 3:
        dtype = chance.choice(["i8", ">i4", "u2", "<u8", "i1"])
        return np.array(numbers).astype(dtype)[:: chance.choice([1, 2, -1])]
    if form == 4:
        return np.array([b"key %d" % number for number in numbers], dtype="S")
    if form == 5:
        return np.array([f"é{number}" for number in numbers], dtype=chance.choice(["<U9", ">U9"]))
    if form == 6:
        return np.random.default_rng(numbers[0] if numbers else 0).integers(
            0, 3, (n, chance.randrange(1, 20)), np.uint8
        )
    if form == 7:
        masked = [number % 7 == 0 for number in numbers]
        return np.ma.array(numbers, mask=masked)
    return [None if number % 5 == 0 else str(number) for number in numbers]


def some_lines(chance: random.Random, n: int) -> bytes:
    lines = [b"%d,line %d " % (i % 7, chance.randrange(n)) for i in range(n)]
    return b"\n".join([*lines, b"A" * chance.choice([0, 5, 3_000_000])])


def operate(seen: BloomFilter, chance: random.Random) -> Any:  # noqa: PLR0911
    size = chance.choice([0, 1, 7, 300, 5000, 20_000])
    if chance.random() < 0.1:
        size = 70_000  # with threads
    how = chance.randrange(8)
    if how == 0:
        return seen.add_many(some_keys(chance, size), nulls="skip").tolist()
    if how == 1:
        return seen.contains_many(some_keys(chance, size), nulls="skip").tolist()
    if how == 2:
        try:
            return seen.update(iter(some_keys(chance, min(size, 20_000))), nulls="skip")
        except KeyTypeError as error:  # a row of an array, or a masked item, is no key
            return str(error)
    if how == 3:
        with seen.claim(some_keys(chance, size), nulls="skip") as new:
            return new.tolist()
    if how == 4:
        keys: list[Any] = [b"key 1", "ключ 🌸", -5, 2**64 - 1, np.int16(7), bytearray(b"x"), "é"]
        return [[seen.add(key), key in seen] for key in chance.choices(keys, k=9)]
    if how == 5:
        sink, keys_of = Collect(), LineKeys(field=chance.choice([None, 2]), separator=b",")
        chunks = read_chunks(io.BytesIO(some_lines(chance, size + 1)))
        tally = dedup(seen, chunks, sink, keys=keys_of, repeats=chance.random() < 0.5)
        return [sink.octets.decode(), tally.unique, tally.repeated, tally.bytes]
    if how == 6:
        with seen.locked():
            return [seen.add(number % 30) for number in range(chance.randrange(200))]
    return [seen.recount(), seen.approx_count, seen.fill_ratio, seen.current_error_rate]


def forty(path: str, seed: int) -> list[Any]:
    chance = random.Random(seed)
    layout: Any = chance.choice(["blocked", "standard"])
    rate = chance.choice([0.5, 0.01, 1e-9])
    with BloomFilter.create(path, 2_000_000, rate, layout=layout, seed=seed) as seen:
        return [operate(seen, chance) for _ in range(40)]


def main() -> None:
    path, *seeds = sys.argv[1:]
    answers = [forty(f"{path}.{seed}", int(seed)) for seed in seeds]
    print(json.dumps([mmbloom.engine, answers]))


if __name__ == "__main__":
    main()
