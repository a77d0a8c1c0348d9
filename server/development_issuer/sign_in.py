"""Who sits at the browser: one who knows the sign-in code, which only the terminal shows, and then one of the people.

Cookies do not tell ports apart (RFC 6265, section 8.5): another server on this machine may be sent ours by the
browser. So a session is short and lives in memory only.
"""

import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

SESSION_SECONDS: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 50
_MOST_WRONG: Final = 5
_WRONG_SECONDS: Final = 60.0
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
    """No code is looked at for now, not even the right one. ``retry_after`` is in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many wrong codes")
        self.retry_after = retry_after


class SignIn:
    """The sessions of one start, and the code that opens them. ``now`` is in seconds, and never goes back."""

    def __init__(self, code: str, now: Callable[[], float] = time.monotonic) -> None:
        self._code = _bare(code)
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._wrong: deque[float] = deque(maxlen=_MOST_WRONG)

    def open(self, code: str) -> str | None:
        """Return the cookie of a new session, None for a wrong code. Raises ``TooManyAttempts``."""
        now = self._now()
        if len(self._wrong) == _MOST_WRONG and now - self._wrong[0] < _WRONG_SECONDS:
            raise TooManyAttempts(int(_WRONG_SECONDS - (now - self._wrong[0])) + 1)
        if not hmac.compare_digest(_bare(code).encode(), self._code.encode()):
            self._wrong.append(now)
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = Session(now + SESSION_SECONDS)
        return cookie

    def session(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie, None where there is none or it has run out."""
        session = self._sessions.get(cookie or "")
        return session if session is not None and self._now() < session.expires else None


def _bare(code: str) -> str:
    return code.replace("-", "").replace(" ", "").upper()
