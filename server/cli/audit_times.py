"""Times as people write and read them: for ``audit``, in this machine's time zone."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NEAR: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_AGO: Final = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

FORMS: Final = "2026-11-24, 2026-11-24T14:00, 2h (ago), today, yesterday, or a day such as tuesday"
"""What can be written, for help."""


def read_time(text: str, now: datetime, after: datetime | None = None) -> datetime:
    """Return the time that a person means, as of ``now``; a day is its beginning there. Raises ``ValueError``.

    The name of a day is the last one before today. Where ``after`` is given it is the next one behind that: so that
    from tuesday until wednesday is one day, whatever day it is now.
    """
    words = text.strip().lower()
    if (ago := _AGO.fullmatch(words)) is not None:
        return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
    today = _midnight(now)
    if words in _NEAR:
        return _day(today, _NEAR[words])
    if words in _DAYS:
        number = _DAYS.index(words)
        if after is not None:
            begins = _midnight(after.astimezone(now.tzinfo))
            return _day(begins, (number - begins.weekday() - 1) % 7 + 1)
        return _day(today, -((today.weekday() - number - 1) % 7 + 1))
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"is no time: {FORMS}") from None
    return found if found.tzinfo is not None else _at(found, now.tzinfo)


def shown(at: str, zone: tzinfo | None = None) -> str:
    """Return a record's time as people read it, in this machine's zone; as it stands where it is none."""
    try:
        return datetime.fromisoformat(at).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return at


def zone_words(now: datetime) -> str:
    """Return the zone in which times are shown."""
    offset = now.strftime("%z")
    return "UTC" if now.utcoffset() in (None, timedelta(0)) else f"UTC{offset[:3]}:{offset[3:]}"


def here() -> datetime:
    """Return the time now, in this machine's zone."""
    return datetime.now(UTC).astimezone()


def _midnight(at: datetime) -> datetime:
    return _at(at.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0), at.tzinfo)


def _day(midnight: datetime, days: int) -> datetime:
    """Return another midnight: a day has 23 or 25 hours where clocks are changed."""
    return _at(midnight.replace(tzinfo=None) + timedelta(days=days), midnight.tzinfo)


def _at(plain: datetime, zone: tzinfo | None) -> datetime:
    """Give a time a zone; the system's own offset of that day, where the zone is the system's of now."""
    local = datetime.now(UTC).astimezone().tzinfo
    return plain.astimezone() if zone is None or zone == local else plain.replace(tzinfo=zone)
