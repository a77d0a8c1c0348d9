"""How a change window is written: ``Mon-Fri 09:00-17:00 Europe/Berlin``. What it means is ``interpreter.windows``'s."""

import re
import zoneinfo
from datetime import time
from functools import lru_cache
from typing import Final

from guideway.interpreter.windows import Window
from guideway.server.config_errors import suggestion

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FORM: Final = "such as `Mon-Fri 09:00-17:00 Europe/Berlin` or `Sat,Sun 22:00-04:00 UTC`"
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@lru_cache(maxsize=256)
def read_window(text: str) -> Window:
    """Return what a text says. Raises ``ValueError``."""
    parts = text.split()
    if len(parts) != 3:
        raise ValueError(f"must be days, hours and a time zone, {_FORM}")
    days, hours, zone = parts
    start, dash, end = hours.partition("-")
    if not dash:
        raise ValueError(f"has no hours in `{hours}`: write it {_FORM}")
    return Window(_days(days), _clock(start), _clock("00:00" if end == "24:00" else end), _zone(zone))


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin = _day(first)
        end = _day(last) if dash else begin
        found.update((begin + more) % 7 for more in range((end - begin) % 7 + 1))  # `Fri-Mon` goes over the weekend
    return frozenset(found)


def _day(text: str) -> int:
    if text not in _DAYS:
        raise ValueError(f"has no day `{text}`: days are {', '.join(_DAYS)}")
    return _DAYS.index(text)


def _clock(text: str) -> time:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"has no time `{text}`: times are 00:00 to 23:59, and 24:00 as an end")
    return time(int(found[1]), int(found[2]))


def _zone(text: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError
        meant = suggestion(text, zoneinfo.available_timezones())
        mend = meant if meant and meant.startswith("did") else "names are IANA's, such as `Europe/Berlin` or `UTC`"
        raise ValueError(f"has no time zone `{text}`: {mend}") from None
