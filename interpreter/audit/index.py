"""What a record is found by beside its body: by one who writes it, and by one who holds it against that."""

from collections.abc import Mapping
from typing import Any, TypeGuard


def run_in(body: Mapping[str, Any]) -> str | None:
    """Return the run by which a record, or an entry's facts, are found."""
    return _text(body.get("run"))


def subject_in(body: Mapping[str, Any]) -> str | None:
    """Return the subject by which a record, or an entry's facts, are found."""
    caller = body.get("caller")
    return _text(caller.get("subject")) if isinstance(caller, Mapping) else None


def is_text(value: object) -> TypeGuard[str]:
    """Say whether a value is a text that every database takes: no NUL, no half of a surrogate pair."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.isascii() or value.encode(errors="ignore").decode() == value


def _text(value: object) -> str | None:
    return value if is_text(value) else None
