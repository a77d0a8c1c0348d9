"""How often somebody may do something: a token bucket for each, in memory that does not grow with their number."""

import time
from collections.abc import Callable, Hashable
from typing import Final

_ONE: Final = 1 - 1e-9  # sums of parts of a turn are not exact

MOST_KEPT: Final = 10_000
"""Buckets that are kept. The one that was used longest ago, and so is the fullest, is forgotten for a new one."""


class Rates:
    """A bucket each: a minute's worth of turns at most, refilled evenly. ``ticks`` is a clock that never goes back."""

    def __init__(self, per_minute: int, *, most: int = MOST_KEPT, ticks: Callable[[], float] = time.monotonic) -> None:
        self._full = float(per_minute)
        self._a_second = per_minute / 60
        self._most = most
        self._ticks = ticks
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, who: Hashable) -> float:
        """Take a turn. Return 0, or the seconds until there is one; then none is taken."""
        left = self._left(who)
        if left < _ONE:
            return (1 - left) / self._a_second
        self._buckets.pop(who, None)  # so that it stands at the end
        if len(self._buckets) >= self._most:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[who] = left - 1, self._ticks()
        return 0.0

    def wait(self, who: Hashable) -> float:
        """Return the seconds until there is a turn, 0 where there is one; take none."""
        left = self._left(who)
        return 0.0 if left >= _ONE else (1 - left) / self._a_second

    def __len__(self) -> int:
        return len(self._buckets)

    def _left(self, who: Hashable) -> float:
        left, at = self._buckets.get(who, (self._full, 0.0))
        return min(self._full, left + (self._ticks() - at) * self._a_second)
