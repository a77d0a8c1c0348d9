"""JSON objects from others, read so that no two readers can see different things in one.

No member may be there twice, and a number is a number: no NaN, no infinity. Its size is the caller's to bound.
"""

import json
from typing import Any, Never


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(members)
    if len(read) != len(members):
        raise ValueError("a member is there twice")
    return read


def _no_number(_: str) -> Never:
    raise ValueError("a number is none")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


def read_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object that some UTF-8 is. Raises ``ValueError``, with nothing of the text in it."""
    try:
        read = _DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError):  # nested so deeply that the reader's own stack ends
        raise ValueError("not a JSON object, or not in one meaning only") from None
    if not isinstance(read, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  # it is the text's fault
    return read
