"""Whether the clock of a process can be believed, for what it would remove by it.

A clock may be wrong from a process's start on. That time has passed is certain while a process measured it, and while
records were written one after the other. A jump, from one record to the next or from the last one to a process's start,
may be a clock that was wrong, or an installation that was off.
"""

import logging
import time
from collections.abc import Sequence
from typing import Final

from guideway.interpreter.audit.chain import moment

_log = logging.getLogger(__name__)

DRIFT: Final = 3_600.0
"""Seconds by which a clock may be set while a process lives."""

LONGEST: Final = 7 * 86_400.0
"""Seconds that are believed to have passed between two records, at most."""

SETTLED: Final = 86_400.0
"""Seconds that have to have passed since a jump before any of it is believed."""

_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while a machine sleeps, where it can

Spans = Sequence[tuple[float, float]]
"""When records were written: the first and the last time of each hour that has any, the newest first."""


class Sweeps:
    """Holds the clock against the time that has passed since a process's first sweep, and before it in the store."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._spans: Spans = ()
        self._is_told = False

    @property
    def has_begun(self) -> bool:
        """Whether there was a first sweep."""
        return self._first is not None

    def begin(self, now: float, spans: Spans) -> None:
        """Take the time of the first sweep, and when records were written until then."""
        self._first = now, time.clock_gettime(_ELAPSED)
        self._spans = spans

    def remove_before(self, now: float, keep_seconds: float) -> float | None:
        """Return the time before which records may go, by a clock that says it is ``now``; None lets none go."""
        if self._first is None:
            return None
        first, since = self._first
        drift = (now - first) - (time.clock_gettime(_ELAPSED) - since)
        if abs(drift) > DRIFT:
            _log.error(
                "the clock was set by %.0f s since this process began: no record of the audit trail is removed by it; "
                "see that it is right, and restart the process",
                drift,
            )
            return None
        before, jump = believed(now, first, self._spans, keep_seconds)
        is_held = any(before <= each < now - keep_seconds for span in self._spans for each in span)
        if jump is not None and is_held and not self._is_told:
            self._is_told = True
            _log.warning(
                "no record of the audit trail is from between %s and %s: the clock may be wrong, so that older records "
                "are kept for longer than is configured; see that it is right; if it is, there is nothing to do",
                *map(moment, jump),
            )
        return before


def believed(now: float, first: float, spans: Spans, keep_seconds: float) -> tuple[float, tuple[float, float] | None]:
    """Return the time since when ``keep_seconds`` have passed for certain, and the newest jump since then.

    Time is counted backwards: from now to a process's first sweep it has all passed, and before that between one
    record and the next. Of a jump no more counts than is usual, and nothing before enough has passed since.
    """
    usual = max(DRIFT, min(LONGEST, keep_seconds / 4))
    passed, at, jump = now - first, first, None
    if passed >= keep_seconds:
        return now - keep_seconds, None
    for point in (each for since, until in spans for each in (until, since)):
        step = max(0.0, at - point)  # one that lies in the future was written by a clock that was ahead
        if step > usual:
            jump = jump or (point, at)
            passed += usual if passed >= SETTLED else 0.0
        else:
            passed += step
        if passed >= keep_seconds:
            return (at if step > usual else point + passed - keep_seconds), jump
        at = min(at, point)
    return at, jump
