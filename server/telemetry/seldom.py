"""A filter for what a library logs each time that something is away: each message once a minute, the others counted."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

SECONDS: Final = 60.0


class Seldom(logging.Filter):
    """Lets each message of a logger through once in ``SECONDS``. ``ticks`` is a clock that never goes back."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._ticks = ticks
        self._said: dict[str, float] = {}
        self._left_out = Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a record through, or count it; messages are told apart before their arguments are filled in."""
        message, now = str(record.msg), self._ticks()
        if now - self._said.get(message, -SECONDS) < SECONDS:
            self._left_out[message] += 1
            return False
        self._said[message] = now
        if more := self._left_out.pop(message, 0):
            record.msg, record.args = f"{record.getMessage()} ({more:,} more before it were only counted)", None
        return True
