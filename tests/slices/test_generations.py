"""First-seen by generations: the rows that pandas keeps, whatever is run twice, or half."""

import pickle
import random
import warnings
from pathlib import Path

import fsspec
import numpy as np
import pytest
from drivers import SIZES, committed, cut, day, first_of, names, tasks, together
from steps import at_next_call

import mmbloom
from mmbloom import CapacityWarning, CommitConflictError, FilterFullError, FormatError
from mmbloom.cluster import Generations, Run, Slice, places
from mmbloom.cluster import states as generations


def kept_by_pandas(days: list[list[str]]) -> list[list[str]]:
    import pandas as pd  # noqa: PLC0415  each later fork would copy what it takes

    rows = [(row, number) for number, rows in enumerate(days) for row in rows]
    kept = pd.DataFrame(rows, columns=["row", "day"]).drop_duplicates("row", keep="first")
    return [kept.row[kept.day == number].tolist() for number in range(len(days))]


def test_rows_are_those_of_pandas(where: str, state: Generations, seed: int) -> None:
    """Three days, the second with nothing new: row for row as drop_duplicates(keep="first")."""
    days = [day(seed), day(seed)[::-1], [*day(seed + 1, distinct=9000), "the last"]]
    expected = kept_by_pandas(days)
    assert expected == first_of(days)
    assert expected[1] == []
    for number, rows in enumerate(days):
        run = state.begin()
        assert (run.generation, run.repeats) == (number + 1, False)
        found = tasks(run, cut(rows), random.Random(seed).sample(range(4), 4))
        assert together(found) == expected[number]
        assert state.generation == number
        run.commit()
        assert state.generation == number + 1
        state = Generations.open(where)


def test_file_of_a_state(state: Generations, tmp_path: Path, seed: int) -> None:
    """The newest generation as a plain filter is that of one process; the first one is empty."""
    state.assemble(tmp_path / "empty.bloom")
    with mmbloom.BloomFilter.open(tmp_path / "empty.bloom") as empty:
        assert (empty.approx_count, empty.params) == (0, state.plan.params)
        for number in range(2):
            committed(state, day(seed + number))
            empty.add_many(day(seed + number))
        empty.flush()
    state.assemble(tmp_path / "all.bloom")
    whole = [(tmp_path / f"{name}.bloom").read_bytes() for name in ("all", "empty")]
    assert whole[0][4096:] == whole[1][4096:]
    assert whole[0][2048:2064] == whole[1][2048:2064]


def test_tasks_twice_and_half(state: Generations, seed: int) -> None:
    """A task that ran before it was run again, or had only claimed, changes no answer."""
    rows = day(seed)
    run = pickle.loads(pickle.dumps(state.begin()))
    partitions = cut(rows)
    parted = [run.plan.partition(each) for each in partitions]
    half = run.read(1)  # claims, and is killed before it writes
    for parts in parted:
        half.claim(*parts[1][1:])
    first = tasks(run, partitions)
    again = tasks(run, partitions, [3, 1, 1, 0, 2])
    assert first == again
    assert together(first) == first_of([rows])[0]
    run.commit()
    assert together(tasks(state.begin(), partitions)) == []


def test_rerun_before_the_commit(where: str, state: Generations, seed: int) -> None:
    """A driver that died before its commit is run again: the same rows."""
    days = [day(seed), day(seed + 1)]
    committed(state, days[0])
    for _ in range(3):  # of which none is committed
        tasks(state.begin(), cut(days[1]))
    tasks(state.begin(), cut(days[1]), [2])  # half of a run
    run = state.begin()
    assert together(tasks(run, cut(days[1]))) == first_of(days)[1]
    run.commit()
    # What the others have left is gone, and the generation before is there.
    folders = {name.partition("/")[0] for name in names(where) if "/" in name}
    assert {folder.partition("-")[0] for folder in folders} == {"00000001", "00000002"}
    assert len(folders) == 2


def test_two_drivers(where: str, state: Generations, seed: int) -> None:
    """Exactly one of two runs from one generation commits; the other fails, and changes nothing."""
    one, other = state.begin(), state.begin()
    tasks(one, cut(day(seed)))
    tasks(other, cut(day(seed + 1)))
    other.commit()
    before = names(where)
    for _ in range(2):
        with pytest.raises(CommitConflictError, match=f"run {other.id.hex()} has made") as caught:
            one.commit()
        assert (caught.value.generation, caught.value.path) == (1, state.path)
    assert names(where) == before
    other.commit()  # again is fine
    run = state.begin()
    assert together(tasks(run, cut(day(seed)))) == first_of([day(seed + 1), day(seed)])[1]
    run.commit()
    other.commit()  # committed it was, whatever came after
    assert state.generation == 2
    assert together(tasks(state.begin(), cut([*day(seed), *day(seed + 1)]))) == []


def test_the_record_decides(state: Generations, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is overtaken between its last check and its record fails as well."""
    # The winner has removed its slices by then; in the second round it has not.
    for said in ("has made generation 1 already", "another run has made it already"):
        one, other = state.begin(), state.begin()
        for run in (one, other):
            tasks(run, cut(day(seed)))
        at_next_call(monkeypatch, Run, "_require_slices", other.commit)
        with pytest.raises(CommitConflictError, match=said):
            one.commit()
        monkeypatch.setattr(Run, "_clean", lambda _: None)
    assert state.generation == 2
    assert state.begin().base == other.id


def test_a_commit_that_stood_still(
    where: str, state: Generations, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is made again after an older one was removed for its age is no commit."""
    monkeypatch.setattr(generations, "_RECORDS_KEPT", 1)
    late = state.begin()
    tasks(late, cut(day(seed)))
    monkeypatch.setattr(late.__class__, "_require_current", lambda _: None)
    monkeypatch.setattr(late.__class__, "_require_slices", lambda _: 0)
    for _ in range(3):
        run = committed(state, day(seed))
    assert "generation-00000001.json" not in names(where)
    with pytest.raises(CommitConflictError, match="committed while this one stalled"):
        late.commit()
    assert "generation-00000001.json" not in names(where)
    assert (state.generation, state.begin().base) == (3, run.id)


def test_a_task_after_the_commit(where: str, state: Generations, seed: int) -> None:
    """What a run has committed stays as it is, whatever its tasks are given afterwards."""
    run = state.begin()
    parts = run.plan.partition(day(seed))
    answers = [run.claim(number, [part[1:]]) for number, part in enumerate(parts)]
    run.commit()
    system, root = fsspec.core.url_to_fs(where)
    before = {each: system.cat_file(each) for each in system.find(root)}
    again = [run.claim(number, [part[1:]]) for number, part in enumerate(parts)]
    assert [each[0].tolist() for each in again] == [each[0].tolist() for each in answers]
    for number, part in enumerate(run.plan.partition(day(seed + 1))):
        run.claim(number, [part[1:]])
    assert {each: system.cat_file(each) for each in system.find(root)} == before


def test_repeat(where: str, state: Generations, seed: int) -> None:
    """Repeating the newest generation returns its rows again, and commits nothing."""
    days = [day(seed), day(seed + 1)]
    for number, rows in enumerate(days):
        for _ in range(2):  # as Spark does whose driver died after our commit and before its own
            run = state.begin(number + 1)
            assert together(tasks(run, cut(rows))) == first_of(days)[number]
            run.commit()
        assert run.repeats
        assert state.generation == number + 1
    committed = names(where)
    assert len([name for name in committed if name.endswith(".slice")]) == 8
    for wrong in (0, 1, 4, -1):
        said = f"generation is {wrong}, but 2 is the newest: pass 3 for the next, or 2 to repeat it"
        with pytest.raises(ValueError, match=said):
            state.begin(wrong)
    run = state.begin()
    tasks(run, cut(days[0]))
    run.discard()
    assert names(where) == committed


@pytest.mark.parametrize("number", [np.int64(1), np.uint8(1), True])
def test_a_generation_of_another_type(state: Generations, seed: int, number: int) -> None:
    for wrong in (1.0, "1"):
        with pytest.raises(TypeError, match=r"generation is .*, expected an int"):
            state.begin(wrong)  # type: ignore[arg-type]
    run = state.begin(number)
    tasks(run, cut(day(seed)))
    run.commit()
    assert (type(run.generation), state.generation) == (int, 1)


def test_slices_of_a_run(where: str, state: Generations, seed: int, tmp_path: Path) -> None:
    """A slice missing, cut, or of another generation: named, and nothing is committed."""
    with pytest.raises(ValueError, match="slice number is 4, expected 0 to 3"):
        state.begin().read(4)
    run = state.begin()
    tasks(run, cut(day(seed)), [0, 1, 3])
    missing = r"000002\.slice: file is missing, expected slice 2 of generation 1, which no task"
    with pytest.raises(FormatError, match=missing):
        run.commit()
    other = state.begin()
    with pytest.raises(ValueError, match="was not read by this run"):
        run.write(other.read(2))
    tasks(run, cut(day(seed)), [2])
    system, root = fsspec.core.url_to_fs(where)
    paths = [f"{root}/00000001-{run.id.hex()}/{number:06}.slice" for number in range(4)]
    good = system.cat_file(paths[3])
    system.pipe_file(paths[3], good[:-1])
    with pytest.raises(FormatError, match=r"000003\.slice: file size is"):
        run.commit()
    system.pipe_file(paths[3], system.cat_file(paths[2]))
    with pytest.raises(FormatError, match=r"000003\.slice: slice is 2, expected 3"):
        run.commit()
    tasks(other, cut(day(seed)))
    system.pipe_file(paths[3], system.cat_file(paths[3].replace(run.id.hex(), other.id.hex())))
    with pytest.raises(FormatError, match=f"run is {other.id.hex()}, expected {run.id.hex()}"):
        run.commit()
    assert state.generation == 0
    system.pipe_file(paths[3], good)
    run.commit()
    following = state.begin()
    alien = Slice.read(good)
    alien.run = b"x" * 16
    system.pipe_file(paths[3], alien.to_bytes())
    with pytest.raises(FormatError, match=f"run is {alien.run.hex()}, expected {run.id.hex()}"):
        following.read(3)
    system.pipe_file(paths[3], good[:-1] + b"\xff")
    with pytest.raises(FormatError, match=r"000003\.slice: checksum of the body"):
        following.read(3)
    system.rm(paths[3])
    with pytest.raises(FormatError, match="is missing, expected slice 3 of generation 1"):
        following.read(3)
    with pytest.raises(FormatError, match=r"000003\.slice: file is missing, expected a slice of"):
        state.assemble(tmp_path / "all.bloom")
    assert not (tmp_path / "all.bloom").exists()


def test_parts_of_the_output(where: str, state: Generations, seed: int) -> None:
    """Where a part was never noted nothing is committed; a note may be made twice, or too late."""
    run = state.begin()
    tasks(run, cut(day(seed)))
    for part in (0, 2, 3, 2):
        run.note(part)
    missing = r"000001\.part: file is missing, expected a note for part 1 of the output"
    with pytest.raises(FormatError, match=missing):
        run.commit(4)
    assert state.generation == 0
    run.note(1)
    with pytest.raises(FormatError, match=r"000004\.part"):
        run.commit(5)
    run.commit(4)
    written = names(where)
    run.note(1)
    assert names(where) == written
    following = state.begin()
    following.note(0)
    following.discard()
    assert names(where) == written
    assert len([name for name in written if name.endswith(".part")]) == 4


def test_parts_of_one_that_is_overtaken(
    state: Generations, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another run was committed meanwhile, and removed the notes, the error says that."""
    run, other = state.begin(), state.begin()
    for each in (run, other):
        tasks(each, cut(day(seed)))
        each.note(0)
    at_next_call(monkeypatch, Run, "_require_slices", lambda: other.commit(1), after=True)
    with pytest.raises(CommitConflictError, match="has made generation 1 already"):
        run.commit(1)


def test_a_task_that_is_overtaken(state: Generations, seed: int) -> None:
    """A late task whose state is two generations further says so."""
    for number in range(3):
        run = state.begin()
        tasks(run, cut(day(seed)))
        if number == 1:
            late = state.begin()
            late.read(0)  # the generation before is there
        run.commit()
        if number == 1:
            late.read(0)  # and still is
    with pytest.raises(CommitConflictError, match="has made generation 3 already"):
        late.read(0)


@pytest.mark.parametrize("what", ["a slice", "a note"])
def test_a_task_that_is_overtaken_as_it_writes(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A commit removes what others have begun to write: the task says that it was overtaken."""
    state = Generations.create(tmp_path / "seen", **SIZES)
    late = state.begin()
    part = late.read(0)
    at_next_call(monkeypatch, places, "draft_file", lambda: committed(state, day(seed)))
    with pytest.raises(CommitConflictError, match="has made generation 1 already"):
        late.write(part) if what == "a slice" else late.note(0)


def test_more_keys_than_planned(where: str) -> None:
    """A run past the plan is refused, by a task or by the commit; the state stays as it was."""
    state = Generations.create(where, 5000, slices=7)
    committed(state, [str(number) for number in range(4500)])
    by_a_task = state.begin()
    with pytest.raises(FilterFullError, match=r"or more and has a capacity of 5000") as caught:
        tasks(by_a_task, [[f"/{number}" for number in range(40_000)]])
    assert (caught.value.path, caught.value.fits) == (where, None)
    assert 30_000 < caught.value.keys < 50_000
    with pytest.raises(FormatError, match="which no task wrote"):
        by_a_task.commit()
    by_the_commit = state.begin()
    tasks(by_the_commit, [[f"/{number}" for number in range(700)]])
    with pytest.raises(FilterFullError, match=r"on_full='warn'") as caught:
        by_the_commit.commit()
    assert 5100 < caught.value.keys < 5300
    assert state.generation == 1
    by_the_commit.discard()
    fitting = state.begin()
    assert len(together(tasks(fitting, [[f"/{number}" for number in range(500)]]))) == 500
    fitting.commit()
    assert state.generation == 2


def test_more_keys_than_planned_are_asked_for(where: str) -> None:
    """With a warning a run is committed past the plan; the next is refused unless it asks too."""
    state = Generations.create(where, 100, slices=1)
    run = state.begin(on_full="warn")
    tasks(run, [[str(number) for number in range(500)]])
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(CapacityWarning, match="has a capacity of 100"),
    ):
        run.commit()
    assert state.generation == 0
    with pytest.warns(CapacityWarning, match="has a capacity of 100"):
        run.commit()
    assert state.generation == 1
    with pytest.raises(FilterFullError):
        tasks(state.begin(), [])
    with pytest.raises(ValueError, match="on_full is 'stop', expected 'raise' or 'warn'"):
        state.begin(on_full="stop")  # type: ignore[arg-type]


@pytest.mark.parametrize(("capacity", "slices"), [(100, 1), (1500, 2), (5000, 7), (40_000, 8)])
def test_as_many_keys_as_planned(tmp_path: Path, seed: int, capacity: int, slices: int) -> None:
    chance = random.Random(seed)
    for number in range(40):
        path, state_seed = tmp_path / str(number), chance.randrange(2**63)
        state = Generations.create(path, capacity, slices=slices, seed=state_seed)
        committed(state, [str(number) for number in range(capacity)])
