"""JSON records, the text of manifests and of generations: written, and read with first checks."""

import json
from collections.abc import Mapping
from typing import Any

from mmbloom.errors import FormatError
from mmbloom.format.checker import Checker


def encode_record(fields: Mapping[str, object]) -> bytes:
    r"""Return a record as text that people can read as well.

    Examples
    --------
    >>> encode_record({"format": "mmbloom folder", "version": 1})
    b'{\n "format": "mmbloom folder",\n "version": 1\n}\n'
    """
    return (json.dumps(fields, indent=1) + "\n").encode()


def decode_record(
    raw: bytes, check: Checker, what: str, format_name: str, version: int
) -> dict[str, Any]:
    """Read an object of JSON, called `what` in errors, and check its format and version.

    Raise `FormatError` if it is no object or has a field twice, `NewerFormatError` if its version
    is a later one.
    """
    try:
        record = json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FormatError(check.path, "text", f"no JSON ({error})", "JSON in UTF-8") from None
    check.value(isinstance(record, dict), what, type(record).__name__, "an object")
    found = record.get("format")
    check.value(found == format_name, "format", found, repr(format_name))
    check.version("version", record.get("version"), version)
    return dict(record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field is there twice")
    return record


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
