"""A state killed, or failing, at every call: one generation or the next is there, whole."""

import errno
import os
import random
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from drivers import SIZES as OF_FOUR
from drivers import commits, committed, cut, day, first_of, tasks, together
from faults import Hook, at_call, fail_with, ignore, kill_self, names_of_calls, os_calls
from workers import ChildDiedError, in_child
from workers import together as at_once

from mmbloom.cluster import Generations

SIZES = OF_FOUR | {"slices": 2}  # each slice is some thirty calls
DAYS = [day(1, 600, 400), day(2, 600, 400)]
FIRST = first_of(DAYS)


@pytest.fixture(scope="module")
def after_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state after the first day, with what a dead run has left; tests copy it."""
    folder = tmp_path_factory.mktemp("one") / "seen"
    state = Generations.create(folder, **SIZES)
    committed(state, DAYS[0])
    tasks(state.begin(), cut(DAYS[1]), [1])
    return folder


def second_day(folder: Path, before: Hook = ignore, after: Hook = ignore) -> None:
    state = Generations.open(folder)
    with os_calls(before, after):
        committed(state, DAYS[1])


def check_whole(folder: Path) -> int:
    """The newest generation is whole, and a rerun ends where one that met no fault would."""
    state = Generations.open(folder)
    done = state.generation
    run = state.begin(2)
    assert run.repeats == (done == 2)
    assert together(tasks(run, cut(DAYS[1]))) == FIRST[1]
    run.commit()
    assert state.generation == 2
    assert together(tasks(state.begin(), cut(DAYS[0] + DAYS[1]))) == []
    return done


def calls_of(folder: Path, after_one: Path) -> list[str]:
    shutil.copytree(after_one, folder / "counted")
    calls = names_of_calls(partial(second_day, folder / "counted"))
    assert {"replace", "fsync", "link", "unlink", "mkdir", "rmdir"} <= {*calls}
    return calls


def test_killed_at_any_call(tmp_path: Path, after_one: Path) -> None:
    """Whichever call is the last, generation 1 or 2 is the state, and the rows are the same."""
    outcomes = []
    for number, name in enumerate(calls_of(tmp_path, after_one)):
        folder = tmp_path / f"{number:03}-{name}"
        shutil.copytree(after_one, folder)
        with pytest.raises(ChildDiedError):
            in_child(partial(second_day, folder, after=at_call(number, kill_self)))
        outcomes.append(check_whole(folder))
        shutil.rmtree(folder)
    assert outcomes == sorted(outcomes)  # not committed up to some call, committed from then on
    assert {*outcomes} == {1, 2}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_any_call_failing(tmp_path: Path, after_one: Path, code: int) -> None:
    """The call ends with an OSError, or it does not matter; the rerun ends well."""
    calls = calls_of(tmp_path, after_one)

    def fail_each() -> list[int]:
        outcomes = []
        for number in range(len(calls)):
            folder = tmp_path / f"{number:03}"
            shutil.copytree(after_one, folder)
            with suppress(OSError):
                second_day(folder, at_call(number, fail_with(code)))
            outcomes.append(check_whole(folder))
            shutil.rmtree(folder)
        return outcomes

    assert {*in_child(fail_each)} == {1, 2}


def test_drivers_that_commit_at_once(tmp_path: Path) -> None:
    """Exactly one of four processes that commit from one generation does so, round after round."""
    state = Generations.create(tmp_path / "seen", **SIZES)

    for number in range(15):
        runs = [state.begin() for _ in range(4)]
        for run in runs:
            tasks(run, [[f"{number}"], DAYS[0]])
        won = at_once([partial(commits, run) for run in runs])
        assert sum(won) == 1
        assert state.generation == number + 1
        assert state.begin().base == runs[won.index(True)].id
        assert together(tasks(state.begin(), [[f"{number}"], DAYS[0]])) == []


def test_tasks_killed_at_random(tmp_path: Path, seed: int) -> None:
    """Tasks in processes of their own, killed and run again, two of a slice at once."""
    chance = random.Random(seed)
    state = Generations.create(tmp_path / "seen", **SIZES)
    for rows, expected in zip(DAYS, FIRST, strict=True):
        run, partitions = state.begin(), cut(rows)
        for number in range(2):
            for _ in range(3):
                with suppress(ChildDiedError):
                    hook = at_call(chance.randrange(12), kill_self)

                    def doomed(number: int = number, hook: Hook = hook) -> None:
                        with os_calls(hook):
                            tasks(run, partitions, [number])  # noqa: B023

                    in_child(doomed)
            answers = at_once([partial(tasks, run, partitions, [number]) for _ in range(2)])
            assert answers[0] == answers[1]
        assert together(tasks(run, partitions)) == expected
        run.commit()
    assert not any(name.endswith(".tmp") for name in os.listdir(tmp_path / "seen"))
