"""Who sits at the browser: one who knows the sign-in code, which only the terminal shows, and then one of the people.

Cookies do not tell ports apart (RFC 6265, section 8.5): another server on this machine may be sent ours by the
browser. So a session ends after an hour, and lives in memory only.

Any program on this machine can send codes. The right one always opens, whoever else is guessing: what keeps guesses
from it is its 80 random bits: a million guesses a second take thousands of millions of years. Wrong ones wait for
their answer, few at once, so that they cost little.
"""

import hmac
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import anyio

SESSION_SECONDS: Final = 3600.0
_MOST_SESSIONS: Final = 50
MOST_WRONG: Final = 5
"""Wrong codes that wait for their answer at once."""

_WRONG_SECONDS: Final = 1.0
_SIGNS: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # no sign that looks like another: 5 bits each


def new_code() -> str:
    """Return a sign-in code: 80 random bits, in groups that can be copied by eye."""
    return "-".join("".join(secrets.choice(_SIGNS) for _ in range(4)) for _ in range(4))


@dataclass(slots=True)
class Session:
    """A browser that knew the code. ``person`` is None until one was chosen."""

    expires: float
    person: str | None = None
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def stamp(self, what: str) -> str:
        """Return what a form must bring back: it stands for this session, and for what the form was about."""
        return hmac.new(self.key, what.encode(), sha256).hexdigest()

    def knows(self, stamp: str, what: str) -> bool:
        """Say whether a form came from a page of this session that was about the same."""
        return hmac.compare_digest(self.stamp(what).encode(), stamp.encode())


class TooManyAttempts(Exception):  # noqa: N818  # it is an answer, not a fault
    """The code is wrong, and so are many others just now. ``retry_after`` is in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many wrong codes")
        self.retry_after = retry_after


class SignIn:
    """The sessions of one start, and the code that opens them. ``now`` is in seconds, and never goes back.

    A wrong code is answered after ``wrong_seconds``.
    """

    def __init__(
        self, code: str, now: Callable[[], float] = time.monotonic, *, wrong_seconds: float = _WRONG_SECONDS
    ) -> None:
        self._code = _bare(code)
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._wrong_seconds = wrong_seconds
        self._wrong = 0

    async def open(self, code: str) -> str | None:
        """Return the cookie of a new session, None for a wrong code. Raises ``TooManyAttempts``."""
        if not hmac.compare_digest(_bare(code).encode(), self._code.encode()):
            await self._hold_up()
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = Session(self._now() + SESSION_SECONDS)
        return cookie

    async def _hold_up(self) -> None:
        if self._wrong >= MOST_WRONG:
            raise TooManyAttempts(math.ceil(self._wrong_seconds))
        self._wrong += 1
        try:
            await anyio.sleep(self._wrong_seconds)
        finally:
            self._wrong -= 1

    def session(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie, None where there is none or it has run out."""
        session = self._sessions.get(cookie or "")
        return session if session is not None and self._now() < session.expires else None


def _bare(code: str) -> str:
    return code.replace("-", "").replace(" ", "").upper()
