"""Who is at the browser: sessions of the page, kept in the store, each by a digest of what its cookie holds.

A session has who somebody is and what they may do, as their token said, and no token. It ends with that token at the
latest. What a form must bring back is the session's own, and so no other page can know it.
"""

import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Protocol, runtime_checkable

from guideway.dsl.scopes import known_scopes
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import Records, Sessions, StoreUnavailable

MOST_SECONDS: Final = 3_600.0
"""How long a session lasts, whatever its token says."""

_COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@runtime_checkable
class KeepsSessions(Protocol):
    """A store that keeps sessions beside its records."""

    @property
    def sessions(self) -> Sessions:
        """Where it keeps them."""
        ...


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who has signed in. ``stamp`` is what their forms must bring back."""

    principal: Principal
    stamp: str

    def knows(self, stamp: str) -> bool:
        """Say whether a form came from a page of this session."""
        return hmac.compare_digest(self.stamp.encode(), stamp.encode())


class Visitors:
    """The sessions of a store that keeps any. ``now`` is in seconds since the epoch.

    What is awaited may raise ``StoreUnavailable``.
    """

    def __init__(self, records: Records | None, now: Callable[[], float] = time.time) -> None:
        self._records = records
        self._now = now

    @property
    def _sessions(self) -> Sessions:
        if not isinstance(self._records, KeepsSessions):
            raise StoreUnavailable("none is configured, or it cannot be had")
        return self._records.sessions

    async def open(self, principal: Principal) -> str:
        """Return the cookie of a new session."""
        now = self._now()
        await self._sessions.prune(now)
        cookie = secrets.token_urlsafe(32)
        ends = min(now + MOST_SECONDS, principal.expires_at or now + MOST_SECONDS)
        content = {
            "subject": principal.subject,
            "issuer": principal.issuer,
            "client": principal.client,
            "tenant": principal.tenant,
            "scopes": sorted(principal.scopes),
            "expires_at": ends,
            "stamp": secrets.token_urlsafe(32),
        }
        await self._sessions.put(_digest(cookie), content, ends)
        return cookie

    async def find(self, cookie: str) -> Visitor | None:
        """Return whose session a cookie is of; None where there is none, or its time is over."""
        if not _COOKIE.fullmatch(cookie):
            return None
        content = await self._sessions.get(_digest(cookie), self._now())
        return None if content is None else _visitor(content)

    async def close(self, cookie: str) -> None:
        """End a session."""
        await self._sessions.delete(_digest(cookie))


def _digest(cookie: str) -> str:
    return sha256(cookie.encode()).hexdigest()


def _visitor(content: dict[str, Any]) -> Visitor:
    principal = Principal(
        subject=content["subject"],
        scopes=known_scopes(content["scopes"]),
        issuer=content["issuer"],
        client=content["client"],
        tenant=content["tenant"],
        expires_at=content["expires_at"],
    )
    return Visitor(principal, content["stamp"])
