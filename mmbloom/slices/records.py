"""The records of a state: which generation is the newest, and which run made it.

A record is made by a step that fails if one is there, and never changed: that is what lets one of
two runs commit and tells the other.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmbloom.errors import FileChangedError
from mmbloom.format.generations import (
    MAX_BYTES,
    Record,
    decode,
    encode,
    generation_of_record,
    record_name,
)
from mmbloom.slices.places import Place, place_of


@dataclass(frozen=True)
class Records:
    """Those of one state; a value, which pickles.

    Attributes
    ----------
    path : str
        Of the state.
    uuid : bytes
        Its own.
    options : mapping or None
        Of fsspec, for a URL.
    """

    path: str
    uuid: bytes
    options: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def place(self) -> Place:
        """Where they are."""
        return place_of(self.path, self.options)

    def latest(self) -> Record:
        """Read the newest; `FileChangedError` if another state is there."""
        return self._own(latest_in(self.place))

    def read(self, generation: int) -> Record | None:
        """Read that of a generation; None if it has none, any more or yet."""
        try:
            return self._own(_read(self.place, generation))
        except FileNotFoundError:
            return None

    def _own(self, record: Record) -> Record:
        if record.uuid != self.uuid:
            raise FileChangedError(self.path, "replaced by another state")
        return record

    def make(self, record: Record) -> None:
        """Make one; `FileExistsError` if it is there."""
        self.place.create(record_name(record.generation), encode(record))

    def remove(self, generation: int) -> None:
        """Remove that of a generation."""
        self.place.remove(record_name(generation))

    def require_refusal(self, there: Record) -> None:
        """Raise OSError, and remove it, if the store makes a record that is there once more."""
        try:
            self.make(there)
        except FileExistsError:
            return
        self.remove(there.generation)
        reason = (
            "this store makes a file that is there once more, where it was asked to make it only "
            "if it is not (If-None-Match), so two runs could both commit; use another one"
        )
        raise OSError(errno.ENOTSUP, reason, self.path)


def newest_in(place: Place) -> int | None:
    """Find the newest generation that has a record; None if there is no state."""
    found = [generation_of_record(name) for name in place.names()]
    return max((number for number in found if number is not None), default=None)


def latest_in(place: Place) -> Record:
    """Read the newest record, of whatever state; `FileNotFoundError` if there is none."""
    newest = newest_in(place)
    if newest is None:
        raise FileNotFoundError(errno.ENOENT, "no state of generations is there", place.path)
    return _read(place, newest)


def _read(place: Place, generation: int) -> Record:
    name = record_name(generation)
    with place.open(name) as opened:
        raw = opened.file.read(MAX_BYTES + 1)
    return decode(raw, generation, place.name_of(name))
