"""Which part of a line is its key: fields, characters, case, JSON members.

The options mean what they mean for uniq(1), in the C locale. A line that lacks the chosen
field or member is its own key as a whole, and shares it with no field or member of another
line: lines that cannot be told apart by it are not lost.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from mmbloom import _engine
from mmbloom._batch import ByteKeys, KeyBatch
from mmbloom.lines import Chunk

# No text in UTF-8 has the byte 0xFF: what starts so can be no string. Nor can it be a whole
# line (`_engine.WHOLE_LINE`), for no value of JSON starts with a newline.
_NOT_TEXT = b"\xff"


@dataclass(frozen=True, slots=True)
class LineKeys:
    r"""Turn lines into keys; with no option given, lines are their own keys.

    Attributes
    ----------
    field : int, optional
        Take this field, counted from 1.
    separator : bytes, optional
        What separates fields; runs of blanks by default.
    json_key : str, optional
        Take this member of a line of JSON, as in "user.id"; digits index arrays. The string
        "5" and the number 5 are two keys.
    skip_fields : int
        Then skip so many fields, each some blanks and the non-blanks after them.
    skip_chars : int
        Then skip so many bytes.
    compare_at_most : int, optional
        Then keep so many bytes at most.
    ignore_case : bool
        Then fold ASCII letters.

    Examples
    --------
    >>> import io
    >>> from mmbloom.lines import read_chunks
    >>> (chunk,) = read_chunks(io.BytesIO(b"1,a\n2,b\n"))
    >>> keys = LineKeys(field=2, separator=b",")(chunk)
    >>> len(keys)
    2
    """

    field: int | None = None
    separator: bytes | None = None
    json_key: str | None = None
    skip_fields: int = 0
    skip_chars: int = 0
    compare_at_most: int | None = None
    ignore_case: bool = False

    def __call__(self, chunk: Chunk) -> KeyBatch:
        """Find the key of each line."""
        if self.json_key is not None:
            return self._members(chunk.lines, _member_taker(self.json_key))
        return _engine.select_keys(
            chunk.octets,
            chunk.starts,
            chunk.ends,
            field=self.field,
            separator=self.separator,
            skip_fields=self.skip_fields,
            skip_chars=self.skip_chars,
            compare_at_most=self.compare_at_most,
            ignore_case=self.ignore_case,
        )

    def _members(self, lines: list[bytes], take: Callable[[bytes], bytes | None]) -> ByteKeys:
        narrow = _engine.narrower(
            self.skip_fields, self.skip_chars, self.compare_at_most, ignore_case=self.ignore_case
        )
        parts = [take(line) for line in lines]
        return ByteKeys(
            [
                _engine.WHOLE_LINE + line if part is None else narrow(part)
                for line, part in zip(lines, parts, strict=True)
            ]
        )


def _member_taker(path: str) -> Callable[[bytes], bytes | None]:
    names = path.split(".")

    def take(line: bytes) -> bytes | None:
        try:
            value = json.loads(line)
            for name in names:
                index = isinstance(value, list) and name.isdecimal()
                value = value[int(name)] if index else value[name]
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        return _NOT_TEXT + json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    return take
