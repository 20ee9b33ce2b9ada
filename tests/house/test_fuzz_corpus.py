"""Every input that fuzzing kept, run without a fuzzer: what was found once stays found.

`tests/fuzz/run.py` makes the inputs; see there.
"""

import importlib
import random
from pathlib import Path
from typing import Any

import pytest
from fuzz.run import TARGETS

FUZZ = Path(__file__).parents[1] / "fuzz"
each_target = pytest.mark.parametrize("target", TARGETS)


def kept(folder: str, target: str) -> list[Path]:
    return sorted((FUZZ / folder / target).glob("*"))


def load(target: str) -> Any:
    return importlib.import_module(f"fuzz.{target}")


@each_target
def test_corpus_holds(target: str) -> None:
    """Law 13: the inputs that reach all that fuzzing reached; there are some."""
    inputs = kept("corpus", target)
    assert len(inputs) >= 5
    for file in inputs:
        print(file)
        load(target).check(file.read_bytes())


@pytest.mark.parametrize(
    "file", [file for target in TARGETS for file in kept("crashes", target)], ids=lambda f: f.name
)
def test_past_failures_hold(file: Path) -> None:
    load(file.parent.name).check(file.read_bytes())


@each_target
def test_seeds_and_mutants_hold(target: str, seed: int) -> None:
    """What fuzzing begins with, and a mutant of each by the target's own way."""
    chance, module = random.Random(seed), load(target)

    def plain(data: bytes, most: int) -> bytes:
        place = chance.randrange(len(data))
        return (data[:place] + chance.randbytes(1) + data[place + 1 :])[:most]

    for data in module.seeds():
        module.check(data)
        mutant = module.mutate(data, TARGETS[target], chance, plain)
        assert len(mutant) <= TARGETS[target]
        module.check(mutant)


def test_corpus_is_small() -> None:
    sizes = [file.stat().st_size for target in TARGETS for file in kept("corpus", target)]
    assert len(sizes) < 150
    assert sum(sizes) < 200_000
