#!/usr/bin/env python3
"""Feeds one target with the inputs that libFuzzer makes; started by `run.py`.

Arguments are libFuzzer's. The target is named by the environment, for libFuzzer starts this file
again, with arguments of its own, to minimise a corpus.
"""

import importlib
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import atheris


def main() -> None:
    name, seeds = os.environ["FUZZ_TARGET"], os.environ.get("FUZZ_SEEDS")
    # The targets' models as well: a branch in a model shows the way where what it is compared
    # with is compiled, and has no coverage of its own.
    with atheris.instrument_imports(include=["mmbloom", "fuzz"]):
        target = importlib.import_module(f"fuzz.{name}")
    if seeds:
        for number, seed in enumerate(target.seeds()):
            (Path(seeds) / f"seed-{number}").write_bytes(seed)
    mutate: Callable[..., bytes] = target.mutate

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutate(data, most, random.Random(seed), atheris.Mutate)

    atheris.Setup(sys.argv, target.check, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
