"""The idempotency key of a call, in its ``_meta``: for whoever may have to send it again."""

from collections.abc import Mapping
from typing import Any, Final

from guideway.interpreter.repeats import KEY

IDEMPOTENCY_KEY: Final = "io.github.guideway/idempotency-key"

WRONG: Final = f"`{IDEMPOTENCY_KEY}` in `_meta` must be 1 to 200 printable characters of ASCII; nothing ran"


def key_in(meta: Mapping[str, Any] | None) -> str | None:
    """Return the key of a call, None where it has none. Raises ``ValueError``, with words for its caller."""
    if meta is None or IDEMPOTENCY_KEY not in meta:
        return None
    key = meta[IDEMPOTENCY_KEY]
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise ValueError(WRONG)
    return key
