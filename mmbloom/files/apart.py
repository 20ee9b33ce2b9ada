"""Which file an output may not be: an input, the filter, what belongs to it, another output."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from mmbloom.errors import FormatError
from mmbloom.format.exclusion_list import exclusions_path

Place = str | int
"""A path, or the descriptor of a file that is open."""


def refuse_overlap(output: Place, inputs: Sequence[Place], filter_path: str) -> None:
    """Refuse an output that is also an input; refuse the filter, and what belongs to a filter.

    Raises
    ------
    ValueError
        With both names.
    """
    own = os.path.realpath(filter_path)
    for name in inputs:
        if isinstance(name, str) and os.path.realpath(name) == own:
            raise ValueError(f"{name}: is the filter itself, not an input; give other inputs")
    if isinstance(output, str):
        if os.path.realpath(output) == own:
            raise ValueError(f"{output}: is the filter itself; write elsewhere")
        _refuse_files_of_a_filter(os.path.realpath(output), output, own)
    for name in [*inputs, filter_path]:
        if _is_same_file(output, name):
            raise ValueError(
                f"{_shown(output)}: is the same file as {_shown(name)}; write elsewhere"
            )


def require_apart(outputs: Sequence[Place], others: Sequence[Place]) -> None:
    """Refuse to write what is new and what is not to one file.

    Raises
    ------
    ValueError
        With the name.
    """
    for other in others:
        if any(_is_same_file(output, other) for output in outputs):
            raise ValueError(
                f"{_shown(other)}: gets the lines that are not printed, and is the output; write "
                "them elsewhere"
            )


def _is_same_file(one: Place, other: Place) -> bool:
    """Tell whether two places are one regular file, or will be, as neither is there yet."""
    with suppress(OSError):  # one is not there
        status = os.stat(one)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.stat(other))
    if isinstance(one, int) or isinstance(other, int):
        return False
    return os.path.realpath(one) == os.path.realpath(other)


def _shown(place: Place) -> str:
    return (
        {0: "stdin", 1: "stdout"}.get(place, "the open file") if isinstance(place, int) else place
    )


def _refuse_files_of_a_filter(real: str, output: str, filter_path: str) -> None:
    if real == exclusions_path(filter_path):
        raise ValueError(f"{output}: lists the exclusions of the filter; write elsewhere")
    folder, own = os.path.dirname(real), filter_path
    if os.path.commonpath([folder, own]) == own or _is_filter(folder):
        raise ValueError(
            f"{output}: is in the folder of a filter, for its own files; write elsewhere"
        )


def _is_filter(folder: str) -> bool:
    # As `format.manifest` names it, which with all that it imports takes 4 ms.
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        return False
    from mmbloom._storage.folder import folder_kind  # noqa: PLC0415  so here, not above

    try:
        folder_kind(folder)
    except (FormatError, OSError):
        return False
    return True
