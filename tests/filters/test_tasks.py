"""Tasks are workers too: of all tasks, threads and processes one is told that a key is new."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import array_of, flock_is_free
from kinds import KINDS, Kind, each_kind
from workers import PATIENCE, Child, in_child

import mmbloom
from mmbloom import BloomFilter, LockTimeoutError, ReentryError

Create = Callable[..., BloomFilter]


async def claim(seen: Any, keys: list[str], seconds: float = 0.002) -> list[bool]:
    async with seen.claim(keys) as new:
        await asyncio.sleep(seconds)
        return [bool(one) for one in new]


@each_kind
def test_five_tasks_claim_one_key(path: str, kind: Kind) -> None:
    with kind.create(path, 2 if kind is KINDS["growing"] else 100) as seen:

        async def main() -> list[list[bool]]:
            return await asyncio.gather(*(claim(seen, ["a", "b", "c"]) for _ in range(5)))

        answers = asyncio.run(main())
        assert sorted(answers) == [*[[False] * 3] * 4, [True] * 3]
        assert seen.contains_many(["a", "b", "c"]).all()


@each_kind
def test_a_claim_within_a_claim(path: str, kind: Kind) -> None:
    """It raises at once, whatever its keys are; the outer one goes on, adds, and others follow."""
    with kind.create(path, 2 if kind is KINDS["growing"] else 100) as seen:
        with seen.claim(["a", "b"]) as outer:
            assert outer.all()
            for keys in (["c"], ["a"]):
                with (
                    pytest.raises(ReentryError, match="a claim of this filter is already open"),
                    seen.claim(keys),
                ):
                    pytest.fail("entered")
            assert seen.add("d")
            assert seen.add_many(["d", "e"]).tolist() == [False, True]
            assert seen.contains_many(["a", "d", "e"]).tolist() == [False, True, True]
        assert seen.contains_many([*"abcde"]).tolist() == [True, True, False, True, True]
        assert mmbloom.verify(path).ok
        with seen.locked(), seen.claim(["a", "c"]) as new:
            assert new.tolist() == [False, True]


def test_a_claim_of_nothing(create: Create) -> None:
    """It is the lock alone: claims may be in its block, and it in that of one."""
    seen = create(1000)
    with seen.claim([]), seen.claim(["a"]) as new:
        assert new.all()
        with seen.claim([]):
            assert "a" not in seen
        with pytest.raises(ReentryError), seen.claim(["b"]):
            pytest.fail("entered")
    assert "a" in seen


def test_after_a_claim_that_was_not_entered(
    create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim whose answers cannot be given, as of a damaged list, is not around the next one."""
    seen = create(1000)

    def fail(*_: object) -> None:
        raise OSError

    with seen.locked():
        failed = seen.claim(["a"])  # kept alive
        with monkeypatch.context() as patch:
            patch.setattr(type(seen._exclusions), "correct_new", fail)
            with pytest.raises(OSError), failed:  # noqa: PT011
                pytest.fail("entered")
        with seen.claim(["a"]) as new:
            assert new.all()


def test_after_a_claim_that_failed(create: Create, path: str) -> None:
    """What a failed block had claimed nobody has: the next claim, of a block around too, has it."""
    seen = create(1000)
    with seen.locked():
        with pytest.raises(KeyError), seen.claim(["a"]):
            raise KeyError
        with seen.claim(["a", "b"]) as new:
            assert new.all()
    assert flock_is_free(path)


@each_kind
def test_a_task_that_does_not_wait(path: str, kind: Kind) -> None:
    """What another task calls without `async` raises, and says what to use; it changes nothing."""
    with kind.create(path, 2 if kind is KINDS["growing"] else 100) as seen:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with seen.claim(["a"]):
                entered.set()
                await leave.wait()
                assert seen.add("mine")  # the lock's own task may

        async def main() -> None:
            holder = asyncio.create_task(hold())
            await entered.wait()
            calls: list[Callable[[], object]] = [
                lambda: seen.add("b"),
                lambda: seen.add_many(["b"]),
                lambda: seen.claim(["b"]).__enter__(),
                lambda: seen.locked().__enter__(),
                lambda: seen.exclusions.add("b"),
            ]
            for call in calls:
                with pytest.raises(ReentryError, match="async with"):
                    call()
            asyncio.get_running_loop().call_soon(lambda: failing.append(refused(seen)))
            await asyncio.sleep(0)
            assert "b" not in seen
            adding = asyncio.create_task(asyncio.to_thread(seen.add, "b"))  # as the error says
            await asyncio.sleep(0)
            leave.set()
            await holder
            assert await adding

        failing: list[bool] = []
        asyncio.run(main())
        assert failing == [True]
        assert seen.contains_many(["a", "b", "mine"]).all()


def refused(seen: Any) -> bool:
    with contextlib.suppress(ReentryError):
        seen.add("b")
        return False
    return True


def test_tasks_of_several_threads_and_a_process(create: Create, path: str) -> None:
    """Threads, each with a loop of its own, and a process: each key is new exactly once."""
    seen = create(10_000, 1e-9)
    keys = [[str(number), str(number + 1)] for number in range(0, 40, 2)]

    async def all_keys() -> int:
        answers = await asyncio.gather(*(claim(seen, some, 0) for some in keys for _ in range(2)))
        return sum(map(sum, answers))

    def run() -> int:
        return asyncio.run(all_keys())

    counts = list[int]()
    threads = [threading.Thread(target=lambda: counts.append(run())) for _ in range(2)]
    child = Child(run)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) + child.result() == 40
    assert flock_is_free(path)


def test_the_loop_goes_on(create: Create, path: str) -> None:
    """While a task waits for another object's lock, other tasks run; it gets it in the end."""
    seen = create(1000)
    with BloomFilter.open(path) as other:

        async def main() -> int:
            waiting = asyncio.create_task(claim(seen, ["a"], 0))
            ticks = 0
            while not waiting.done():
                ticks += 1
                if ticks == 5:
                    enough.set()
                await asyncio.sleep(0.001)
            assert await waiting == [True]
            return ticks

        lock, enough = threading.Event(), threading.Event()

        def hold() -> None:
            with other.locked():
                lock.set()
                enough.wait(PATIENCE)  # a loop that does not go on never says so

        holder = threading.Thread(target=hold)
        holder.start()
        assert lock.wait(PATIENCE)
        assert asyncio.run(main()) >= 5
        holder.join()


@pytest.mark.parametrize("same", [True, False])
def test_timeout(create: Create, path: str, *, same: bool) -> None:
    """`LockTimeoutError` comes for a task too, whether a task or another object has the lock."""
    seen = create(1000)
    with BloomFilter.open(path) as other:

        async def main() -> None:
            async with (seen if same else other).claim(["a"]):
                with pytest.raises(LockTimeoutError):
                    await asyncio.create_task(enter(seen.claim(["b"]).within(0.01)))
            assert await claim(seen, ["b"], 0) == [True]

        asyncio.run(main())
        assert not seen._shelf.newest.lock.state.turns


async def enter(claimed: Any) -> None:
    async with claimed:
        pytest.fail("entered")


@pytest.mark.parametrize("first", [True, False])
def test_a_task_that_is_cancelled(create: Create, path: str, *, first: bool) -> None:
    """Waiting, or in its block: nothing is marked, the lock is free, and the next has its turn."""
    seen = create(1000)

    async def main() -> None:
        tasks = [asyncio.create_task(claim(seen, [key], 0.02)) for key in "abc"]
        await asyncio.sleep(0.005)
        tasks[0 if first else 1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in answers].count(True) == 1
        assert seen.contains_many(["a", "b", "c"]).tolist() == [not first, first, True]

    asyncio.run(main())
    assert flock_is_free(path)
    assert not seen._shelf.newest.lock.state.turns


def test_a_block_that_raises(create: Create, path: str) -> None:
    """Nothing is marked, and the lock is free."""
    seen = create(1000)

    async def main() -> None:
        async with seen.claim(["a"]):
            await asyncio.sleep(0)
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(main())
    assert not any(array_of(path))
    assert flock_is_free(path)


def test_used_once(create: Create) -> None:
    """As without `async`."""
    seen = create(1000)

    async def main() -> None:
        once = seen.claim(["a"])
        async with once as new:
            assert new.all()
            assert seen.add("b")  # of the same task: it has the lock
        with pytest.raises(RuntimeError, match="used only once"):
            await once.__aenter__()

    asyncio.run(main())
    assert "b" in seen


def test_a_loop_within_a_block(create: Create) -> None:
    """The block around the loop keeps the lock from its tasks: an error, no wait for ever."""
    seen = create(1000, lock_timeout=None)
    with seen.locked(), pytest.raises(ReentryError, match="around its event loop"):
        asyncio.run(claim(seen, ["a"], 0))
    assert asyncio.run(claim(seen, ["a"], 0)) == [True]


def test_a_child_forked_within_a_task(create: Create, path: str) -> None:
    """It has no share in the claim: it waits, and the parent marks."""
    seen = create(1000, lock_timeout=0.05)

    def add() -> str:
        try:
            seen.add("b")
        except LockTimeoutError:
            return "waited"
        return "slipped in"

    async def main() -> None:
        async with seen.claim(["a"]):
            assert in_child(add) == "waited"

    asyncio.run(main())
    assert "a" in seen
    assert in_child(lambda: seen.add("b")) is True


def test_a_busy_thread_does_not_shut_tasks_out(create: Create) -> None:
    """A task gets its turn beside threads of its process that take the lock again and again."""
    seen, stop = create(100_000), threading.Event()

    def work() -> None:
        while not stop.is_set():
            with seen.locked():
                assert "x" not in seen

    async def claim() -> None:
        for number in range(20):
            async with seen.claim([f"{number}"]).within(PATIENCE):
                pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        asyncio.run(claim())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert seen.contains_many([f"{number}" for number in range(20)]).all()


def test_two_objects_of_one_file_in_a_loop(tmp_path: Path) -> None:
    """A bare add of the second stops the loop, until its timeout; a task and a thread wait."""
    path = tmp_path / "seen.bloom"
    with (
        BloomFilter.create(path, 1000) as seen,
        BloomFilter.open(path, lock_timeout=0.05) as careless,
        BloomFilter.open(path) as other,
    ):

        async def main() -> list[object]:
            released = asyncio.Event()
            async with seen.claim(["a"]):
                with pytest.raises(LockTimeoutError):
                    careless.add("b")
                task = asyncio.create_task(claim(other, ["c"]))
                thread = asyncio.create_task(asyncio.to_thread(other.add, "d"))
                asyncio.get_running_loop().call_later(0.01, released.set)
                await released.wait()  # the loop goes on, and neither has the lock
                assert not seen.contains_many(["b", "c", "d"]).any()
            return [await task, await thread]

        assert asyncio.run(main()) == [[True], True]
        assert seen.contains_many(["a", "b", "c", "d"]).tolist() == [True, False, True, True]
