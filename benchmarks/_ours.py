"""mmbloom as a contender, whatever the version at hand can do."""

import inspect
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from _keys import Form

from mmbloom import BloomFilter


def supported(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Keep the options that this version of a function takes."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in known}


def takes(**options: Any) -> bool:
    """Say whether `BloomFilter.create` takes all these options."""
    return supported(BloomFilter.create, **options) == options


def understands(form: Form) -> bool:
    """Say whether keys can be handed over in this form, and whether it can be made here."""
    with tempfile.TemporaryDirectory() as folder, make(folder, 8) as seen:
        try:
            return bool(seen.add_many(form(0, 2))[0])
        except (ImportError, TypeError):
            return False


def make(folder: str, capacity: int, rate: float = 0.01, **options: Any) -> BloomFilter:
    """Create a filter in a folder, with the options that this version takes."""
    path = os.path.join(folder, "seen.bloom")
    known = supported(BloomFilter.create, **options)
    return BloomFilter.create(path, capacity, rate, **known)


class Mmbloom:
    """A filter that is deleted when it is closed."""

    def __init__(self, folder: str, capacity: int, rate: float = 0.01, **options: Any) -> None:
        self._filter = make(folder, capacity, rate, **options)
        self.add = self._filter.add_many

    def hits(self, keys: Any) -> int:
        """Count the keys that are in."""
        return int(np.count_nonzero(self._filter.contains_many(keys)))

    def close(self) -> None:
        """Delete the file."""
        self._filter.close()
        os.unlink(self._filter.path)
