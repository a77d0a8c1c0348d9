"""JSON objects from others, read so that no two readers can see different things in one.

No member may be there twice, a number is a number (no NaN, no infinity), and nesting is bounded. Size is the caller's
to bound.
"""

import json
from typing import Any, Final, Never

MOST_NESTING: Final = 32


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(members)
    if len(read) != len(members):
        raise ValueError("a member is there twice")
    return read


def _no_number(_: str) -> Never:
    raise ValueError("a number is none")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


def _is_nested_deeper(value: Any, most: int) -> bool:
    """Say whether there are more than ``most`` objects or arrays around something. Python's own bound varies."""
    level = [value]
    for _ in range(most):
        inside = (inner for one in level for inner in (one.values() if isinstance(one, dict) else one))
        level = [inner for inner in inside if isinstance(inner, (dict, list))]
        if not level:
            return False
    return True


def read_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object that some UTF-8 is. Raises ``ValueError``, with nothing of the text in it."""
    try:
        read = _DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError):  # nested so deeply that the reader's own stack ends
        raise ValueError("not a JSON object, or not in one meaning only") from None
    if not isinstance(read, dict) or _is_nested_deeper(read, MOST_NESTING):
        raise ValueError("not a JSON object, or one that is nested too deeply")
    return read
