"""When mutations are allowed: change windows of a service, and freezes. Pure; the time is given.

Times of a window are wall-clock times of its zone, so that daylight saving moves it with the people who keep it. A
freeze is an interval between two instants, and beats every window.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Window:
    """On these weekdays (Monday is 0), from ``start`` until before ``end`` in ``zone``.

    Where ``end`` is not after ``start`` the window goes on into the next day; equal, it is a whole day.
    """

    days: frozenset[int]
    start: time
    end: time
    zone: ZoneInfo

    def holds(self, instant: datetime) -> bool:
        """Say whether an instant, which is aware of its zone, is inside."""
        local = instant.astimezone(self.zone)
        clock = local.time()
        today, yesterday = local.weekday() in self.days, (local.weekday() - 1) % 7 in self.days
        if self.start < self.end:
            return today and self.start <= clock < self.end
        return (today and clock >= self.start) or (yesterday and clock < self.end)


@dataclass(frozen=True, slots=True)
class Freeze:
    """No mutation from ``begins`` until before ``ends``, both aware of their zone; ``reason`` is shown to callers."""

    name: str
    begins: datetime
    ends: datetime
    reason: str

    def holds(self, instant: datetime) -> bool:
        """Say whether an instant is inside."""
        return self.begins <= instant < self.ends


@dataclass(frozen=True, slots=True)
class Calendar:
    """When the mutations of one service are allowed: in one of its windows, if it has any, and in no freeze."""

    windows: tuple[Window, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    said: tuple[str, ...] = ()  # the windows as the configuration spells them

    def closed(self, now: float) -> str | None:
        """Say why no mutation is allowed at a time, in seconds since the epoch; None where it is."""
        if not self.windows and not self.freezes:
            return None
        instant = datetime.fromtimestamp(now, UTC)
        for freeze in _held(self.freezes, instant):
            return f"frozen until {freeze.ends.isoformat()}: {freeze.reason}"
        if self.windows and not any(window.holds(instant) for window in self.windows):
            return f"outside of its change windows ({'; '.join(self.said)})"
        return None


def _held(freezes: Iterable[Freeze], instant: datetime) -> Iterable[Freeze]:
    """Return the freezes that hold, the one that ends last first."""
    return sorted((freeze for freeze in freezes if freeze.holds(instant)), key=lambda each: each.ends, reverse=True)


ALWAYS = Calendar()
