"""What the log says of tokens and proofs that were refused: each reason, with where it came from, and never too much.

Whoever reaches the port can have a token refused, as often as they like. So of each reason a few are logged a minute;
the others are counted, and told with the next one. Reasons are this program's own words, so there are not many.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_log: Final = logging.getLogger(__name__)

MOST: Final = 5
"""Refusals of one reason that are logged in ``SECONDS``."""

SECONDS: Final = 60.0


@dataclass(slots=True)
class _Reason:
    began: float
    logged: int = 0
    left_out: int = 0


class RefusalLog:
    """Logs refusals at INFO. ``ticks`` is a clock that never goes back, in seconds."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._reasons: dict[str, _Reason] = {}

    def note(self, what: str, why: str, client: str) -> None:
        """Log that ``what``, a token or a proof, was refused to a client's address; or count it."""
        now = self._ticks()
        reason = self._reasons.setdefault(why, _Reason(now))
        left_out = ""
        if now - reason.began >= SECONDS:
            if reason.left_out:
                left_out = f"; {reason.left_out:,} more before it were only counted"
            reason = self._reasons[why] = _Reason(now)
        if reason.logged >= MOST:
            reason.left_out += 1
            return
        reason.logged += 1
        if reason.logged == MOST:
            left_out += f"; more of them are only counted for {SECONDS - (now - reason.began):.0f} s"
        _log.info("refused %s from %s: %s%s", what, client, why, left_out)
