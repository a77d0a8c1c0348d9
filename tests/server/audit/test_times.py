"""The times that people write."""

from datetime import UTC, datetime, timedelta

import pytest

from guideway.server.cli.audit_times import read_time, shown

NOW = datetime(2026, 11, 25, 14, 30, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("today", "2026-11-25T00:00"),
        ("yesterday", "2026-11-24T00:00"),
        ("Tuesday", "2026-11-24T00:00"),
        ("wednesday", "2026-11-18T00:00"),
        ("thursday", "2026-11-19T00:00"),
        ("2h", "2026-11-25T12:30"),
        ("7d", "2026-11-18T14:30"),
        ("2026-11-01", "2026-11-01T00:00"),
        ("2026-11-01T10:00", "2026-11-01T10:00"),
        ("2026-11-01T10:00+02:00", "2026-11-01T08:00"),
    ],
)
def test_a_time_is_what_people_mean_by_it(text: str, meant: str) -> None:
    assert read_time(text, NOW) == datetime.fromisoformat(meant).replace(tzinfo=UTC)


@pytest.mark.parametrize("days", range(8))
def test_from_tuesday_until_wednesday_is_one_day_whenever_that_is_said(days: int) -> None:
    now = NOW + timedelta(days=days)
    since = read_time("tuesday", now)
    until = read_time("wednesday", now, since)
    assert (since.weekday(), until - since) == (1, timedelta(days=1))
    assert since.date() < now.date()


@pytest.mark.parametrize("text", ["", "soon", "24", "2026-13-01", "tuesday 10:00", "99999999d"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        read_time(text, NOW)


def test_times_are_shown_in_the_readers_zone() -> None:
    assert shown("2026-11-24T23:30:00.123456Z", UTC) == "2026-11-24 23:30:00"
    assert shown("not a time", UTC) == "not a time"
