"""How records hang together: each has the hash of the one before it, so that none can change unseen.

A record's body is one line of JSON (RFC 8259), and what is hashed is that line as it is kept and exported: to check a
trail nobody needs more than SHA-256 and a JSON reader.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from guideway.interpreter.audit.entry import Entry

VERSION: Final = 1
"""Version of the form of a body."""

BEGINNING: Final = "0" * 64
"""What the first record of a trail has as ``prev``."""

LAST_TIME: Final = 253_402_300_799.0
"""The last second of the year 9999, in seconds since the epoch: later ones ``moment`` cannot tell."""

RESERVED: Final = frozenset({"v", "trail", "seq", "prev", "time", "kind"})
"""Keys of a body that are not an entry's facts."""


@dataclass(frozen=True, slots=True)
class Link:
    """A record in its place. ``seq`` counts from 1 in each trail; ``hash`` is SHA-256 of ``body``, in hexadecimal."""

    trail: str
    seq: int
    body: str
    hash: str


def trail_of(tenant: str | None) -> str:
    """Return the name of a tenant's trail; the installation's own is empty, which no tenant is called."""
    return tenant or ""


def link(entry: Entry, seq: int, prev: str) -> Link:
    """Give an entry its place after the record with the hash ``prev``."""
    trail = trail_of(entry.tenant)
    head = {"v": VERSION, "trail": trail, "seq": seq, "prev": prev, "time": moment(entry.at), "kind": entry.kind.value}
    body = json.dumps(head | dict(entry.facts), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Link(trail, seq, body, hash_of(body))


def hash_of(body: str) -> str:
    """Return the hash of a body."""
    return hashlib.sha256(body.encode()).hexdigest()


def moment(at: float) -> str:
    """Return a time as records have it: ISO 8601 in UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def trail_words(trail: Any) -> str:
    """Return how people call a trail."""
    return f"the trail of tenant `{trail}`" if trail else "the installation's own trail"


def read_body(body: str) -> dict[str, Any]:
    """Return what a body says. Raises ``ValueError`` for what is none."""
    found = json.loads(body)
    if not isinstance(found, dict) or not found.keys() >= RESERVED:
        raise ValueError("is no record of an audit trail")
    return found
