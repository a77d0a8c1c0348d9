"""Whether the clock of a process can be believed, for what it would remove by it."""

import logging
import time
from typing import Final

_log = logging.getLogger(__name__)

DRIFT: Final = 3_600.0
"""Seconds by which a clock may be set while a process lives."""

_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while a machine sleeps, where it can


class Sweeps:
    """Holds the clock against the time that has passed since a process's first sweep."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def may_prune(self, now: float) -> bool:
        """Say whether records may be removed by a clock that says it is ``now``."""
        elapsed = time.clock_gettime(_ELAPSED)
        if self._first is None:
            self._first = now, elapsed
            return False
        drift = (now - self._first[0]) - (elapsed - self._first[1])
        if abs(drift) <= DRIFT:
            return True
        _log.error(
            "the clock was set by %.0f s since this process began: no record of the audit trail is removed by it; see "
            "that it is right, and restart the process",
            drift,
        )
        return False
