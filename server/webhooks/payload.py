"""What a notice looks like on the wire, in our own form: the type, the time and the facts, bounded. No program's text.

Everything that is a caller's, a client's or an issuer's word is cut and without control characters. It is data all the
same: whoever shows it escapes it.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from guideway.interpreter.notices import Event
from guideway.interpreter.risk import Tier
from guideway.interpreter.untrusted import clean

TYPES: Final = {
    Event.PENDING: "approval.pending",
    Event.DECIDED: "approval.decided",
    Event.EXPIRED: "approval.expired",
    Event.REVIEW: "run.review",
    Event.BREAK_GLASS: "run.break_glass",
}

MOST_TARGETS: Final = 50
_TIMES: Final = ("created_at", "expires_at", "decided_at")
_MOST_WORDS: Final = 500  # characters of one text of somebody else


def body(event: Mapping[str, Any], page: str | None) -> bytes:
    """Return the body to post; ``page`` is where a person reads and decides, None where there is no page."""
    document = {"type": TYPES[Event(event["event"])], "timestamp": iso(event["at"]), "data": facts_of(event, page)}
    return json.dumps(document, separators=(",", ":")).encode()


def facts_of(event: Mapping[str, Any], page: str | None) -> dict[str, Any]:
    """Return the facts of an event, bounded, with times in ISO 8601 and the tier's name."""
    facts: dict[str, Any] = {key: _bounded(value) for key, value in event.items() if key not in ("event", "at")}
    for key in _TIMES:
        if event.get(key) is not None:
            facts[key] = iso(event[key])
    facts["tier_name"] = Tier(event["tier"]).label
    facts["targets_left_out"] = max(0, len(event["targets"]) - MOST_TARGETS)
    return facts | {"url": page}


def words(text: object, most: int = _MOST_WORDS) -> str:
    """Return a text of somebody else on one line, without what is not seen, and cut at its end where it is long."""
    line = " ".join(clean(str(text)[: 8 * most], 8 * most).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def iso(seconds: float) -> str:
    """Return a time in seconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _bounded(value: Any) -> Any:
    match value:
        case str():
            return words(value)
        case Mapping():
            return {key: _bounded(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_bounded(inner) for inner in value[:MOST_TARGETS]]
        case _:
            return value
