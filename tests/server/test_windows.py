"""Change windows as they are written, and what they hold: on wall clocks, through both changes of daylight saving."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guideway.interpreter.windows import Calendar, Freeze, Window
from guideway.server.change_windows import read_window

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("Mon-Fri 09:00-17:00 UTC", {0, 1, 2, 3, 4}, time(9), time(17)),
        ("Fri-Mon 22:00-04:30 UTC", {4, 5, 6, 0}, time(22), time(4, 30)),
        ("Sat,Sun,Wed-Wed 00:00-24:00 UTC", {5, 6, 2}, time(0), time(0)),
        ("  Sun   23:59-00:00  UTC ", {6}, time(23, 59), time(0)),
    ],
)
def test_a_window_is_read(text: str, days: set[int], start: time, end: time) -> None:
    assert read_window(text) == Window(frozenset(days), start, end, ZoneInfo("UTC"))


@given(
    days=st.sets(st.integers(0, 6), min_size=1),
    start=st.times(),
    end=st.times(),
    zone=st.sampled_from(ZONES),
    instant=st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_a_window_holds_what_a_clock_on_its_wall_shows(
    days: set[int], start: time, end: time, zone: str, instant: datetime
) -> None:
    spelled = f"{','.join(DAYS[day] for day in days)} {start:%H:%M}-{end:%H:%M} {zone}"
    start, end = start.replace(second=0, microsecond=0), end.replace(second=0, microsecond=0)
    clock = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    opened = [
        datetime.combine(clock.date() - timedelta(days=ago), start)
        for ago in (0, 1)
        if (clock.weekday() - ago) % 7 in days
    ]
    closed = [each.replace(hour=end.hour, minute=end.minute) for each in opened]
    closed = [
        until if until > since else until + timedelta(days=1) for since, until in zip(opened, closed, strict=True)
    ]
    held = any(since <= clock < until for since, until in zip(opened, closed, strict=True))
    assert read_window(spelled).holds(instant) == held


def test_in_the_hour_that_is_shown_twice_a_window_holds_both_and_in_the_skipped_one_nothing() -> None:
    window = read_window("Sun 02:00-03:00 Europe/Berlin")
    autumn = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)  # 02:00 CEST, and at 01:00 UTC 02:00 CET
    held = [window.holds(autumn + timedelta(minutes=10 * number)) for number in range(-1, 13)]
    assert held == [False, *[True] * 12, False]
    spring = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)  # 01:00 CET; at 01:00 UTC it is 03:00 CEST
    assert not any(window.holds(spring + timedelta(minutes=minutes)) for minutes in range(-60, 180))


@given(st.integers(0, 365))
def test_office_hours_are_the_same_on_the_wall_before_and_after_a_change(day: int) -> None:
    window = read_window("Mon-Sun 09:00-17:00 Europe/Berlin")
    noon = datetime(2026, 1, 1, 12, tzinfo=BERLIN) + timedelta(days=day)
    opens, closes = noon.replace(hour=9), noon.replace(hour=17)
    second = timedelta(seconds=1)
    assert [window.holds(at) for at in (opens, closes)] == [True, False]
    before = [at.astimezone(UTC) - second for at in (opens, closes)]
    assert [window.holds(at) for at in before] == [False, True]


@given(st.integers(0, 60 * 24 * 14))
def test_over_a_change_a_window_is_open_as_long_as_clocks_say(minute: int) -> None:
    """Of a whole day that has 23 or 25 hours, each minute is in it."""
    for start in (datetime(2026, 3, 23, tzinfo=UTC), datetime(2026, 10, 19, tzinfo=UTC)):
        instant = start + timedelta(minutes=minute)
        day = DAYS[instant.astimezone(BERLIN).weekday()]
        assert read_window(f"{day} 00:00-24:00 Europe/Berlin").holds(instant)
        assert [one for one in DAYS if read_window(f"{one} 00:00-24:00 Europe/Berlin").holds(instant)] == [day]


def test_a_freeze_beats_every_window_and_the_longest_is_told() -> None:
    begins = datetime(2026, 12, 24, tzinfo=UTC)
    freezes = tuple(
        Freeze(name, begins, begins + timedelta(days=days), name) for name, days in (("short", 1), ("long", 9))
    )
    calendar = Calendar((read_window("Mon-Sun 00:00-24:00 UTC"),), freezes)
    assert calendar.closed(begins.timestamp() - 1) is None
    assert "long" in str(calendar.closed(begins.timestamp()))
    assert calendar.closed((begins + timedelta(days=9)).timestamp()) is None
