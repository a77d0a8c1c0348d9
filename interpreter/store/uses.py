"""Uses in the store: what runs did, or may still do, against their allowances."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from guideway.interpreter.quotas import DAY, Allowance, Overrun, overrun
from guideway.interpreter.store.tables import TICKETS, USES
from guideway.interpreter.store.work import Work

_KEPT_SECONDS: Final = 2 * DAY  # longer than any quota looks back


def reserve(work: Work, run_id: str, allowances: Sequence[Allowance]) -> list[Overrun]:
    """Reserve what a run may do, whole or not at all."""
    overruns = beyond(work.connection, allowances, work.now)
    if not overruns:
        record(work, run_id, allowances)
    return overruns


def beyond(connection: sa.Connection, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
    """Return what would be gone beyond at a time, and change nothing."""
    made = times(connection, {allowance.key for allowance in allowances}, now)
    return [
        found for allowance in allowances if (found := overrun(allowance, made.get(allowance.key, []), now)) is not None
    ]


def record(work: Work, run_id: str, allowances: Iterable[Allowance]) -> None:
    """Record what a run may do, whatever is left; a key that several quotas bound is counted once."""
    work.connection.execute(USES.delete().where(USES.c.at < work.now - _KEPT_SECONDS))
    kept = {
        allowance.key: {
            "run_id": run_id,
            "key": allowance.key,
            "times": allowance.times,
            "at": work.now,
            "until": work.now + allowance.seconds,
        }
        for allowance in allowances
    }
    if kept:
        work.connection.execute(USES.insert(), list(kept.values()))


def settle(work: Work, run_id: str, used: Mapping[str, int], outcome: str) -> None:
    """Count what a run did as done now, give the rest back, and note how it ended where a ticket let it run."""
    of_run = (USES.c.run_id == run_id, USES.c.until.is_not(None))
    work.connection.execute(USES.delete().where(*of_run, USES.c.key.not_in([key for key, n in used.items() if n > 0])))
    for key, times in used.items():
        work.connection.execute(
            USES.update().where(*of_run, USES.c.key == key).values(times=times, at=work.now, until=None)
        )
    work.connection.execute(TICKETS.update().where(TICKETS.c.run_id == run_id).values(outcome=outcome))


def times(connection: sa.Connection, keys: Collection[str], now: float) -> dict[str, list[float]]:
    """Return, for each key, when each use that counts was made."""
    since = now - _KEPT_SECONDS
    query = sa.select(USES).where(USES.c.key.in_(sorted(keys)), USES.c.at >= since)
    found: dict[str, list[float]] = {}
    for row in connection.execute(query):
        at = row.at if row.until is None else max(row.at, min(now, row.until))
        found.setdefault(row.key, []).extend([at] * row.times)
    return found
