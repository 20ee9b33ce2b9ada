"""Something done at one step of a program, as a kill, a handler or a thread may come there."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from mmbloom import ReentryError

Act = Callable[[], object]


def at_line(number: int, where: Callable[[CodeType], bool], act: Act, run: Act) -> bool:
    """Run something, and act before the line of this number that it comes to; False if none.

    Parameters
    ----------
    number : int
        From 0.
    where : callable
        Which code's lines count.
    act, run : callable
        What `act` raises is raised at that line. No line after it counts.
    """
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not where(frame.f_code):
            return None
        if event == "line":
            left -= 1
            if left == -1:
                sys.settrace(None)
                act()
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return left < 0


def at_next_call(
    patch: pytest.MonkeyPatch, owner: Any, name: str, act: Act, *, after: bool = False
) -> None:
    """Do something once, before or after the next call of a function of a module or a class."""
    real = inspect.getattr_static(owner, name)
    function = getattr(real, "__func__", real)  # of a class method

    def call(*arguments: Any, **options: Any) -> Any:
        patch.setattr(owner, name, real)
        if not after:
            act()
        found = function(*arguments, **options)
        if after:
            act()
        return found

    patch.setattr(owner, name, call if function is real else classmethod(call))


def killed_at(owner: object, function: str, number: int, act: Act) -> None:
    real, calls = getattr(owner, function), 0

    def call(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number and function != "_pieces":
            kill()
        return killing(real(*arguments)) if calls == number else real(*arguments)

    def killing(pieces: Iterator[object]) -> Iterator[object]:
        yield next(pieces)
        yield next(pieces)
        kill()

    setattr(owner, function, call)
    act()
    raise AssertionError(f"{function} was called {calls} times")


def kill() -> None:
    os.kill(os.getpid(), 9)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def calls_of(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    calls, real = list[tuple[Any, ...]](), getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **options)

    patch.setattr(owner, name, call)
    return calls


def refuse_to_open(
    patch: pytest.MonkeyPatch, code: int, which: Callable[[str, int], object]
) -> None:
    """Have the system refuse to open some files, chosen by path and flags."""
    real = os.open

    def refuse(path: Any, flags: int, *rest: int, **options: Any) -> int:
        if which(os.fspath(path), flags):
            raise OSError(code, os.strerror(code), path)
        return real(path, flags, *rest, **options)

    patch.setattr(os, "open", refuse)


class Refused:
    """A call that must be refused wherever a handler makes it, and how often it was."""

    def __init__(self, call: Act) -> None:
        self._call, self.times = call, 0

    def __call__(self, *_: object) -> None:
        with pytest.raises(ReentryError, match="while another call"):
            self._call()
        self.times += 1
