"""One configured webhook, and the signature of what is posted to it.

Signatures are those of the Standard Webhooks specification (https://www.standardwebhooks.com): HMAC-SHA256 over the id,
the time and the body, so that a receiver can tell a forged, an altered and a replayed notice.
"""

import hmac
import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from guideway.interpreter.notices import Event

Format = Literal["json", "slack"]

_PREFIX: Final = "whsec_"
_LEAST, _MOST = 24, 64  # bytes of a secret, by the specification


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where notices of some events are posted to. ``key`` None signs nothing.

    ``url`` may be a secret itself, as Slack's are: it stands in no log, and neither does ``key``.
    """

    name: str
    url: str = field(repr=False)
    format: Format = "json"
    key: bytes | None = field(default=None, repr=False)
    events: frozenset[Event] = frozenset(Event)
    trust: ssl.SSLContext | None = field(default=None, repr=False)


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for: Base64, with ``whsec_`` before it or not. Raises ``ValueError``."""
    try:
        key = b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not _LEAST <= len(key) <= _MOST:
        raise ValueError(f"is no secret of a webhook: `{_PREFIX}` and the Base64 of {_LEAST} to {_MOST} random bytes")
    return key


def signed(key: bytes | None, message_id: str, now: float, body: bytes) -> Mapping[str, str]:
    """Return the headers that say what a body is and, with a key, that it is ours; ``now`` in seconds since the epoch.

    The time is that of the attempt: receivers refuse what is older than a few minutes.
    """
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now))}
    if key is not None:
        digest = hmac.digest(key, b".".join((message_id.encode(), str(int(now)).encode(), body)), "sha256")
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers
