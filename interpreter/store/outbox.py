"""The outbox in the store: notices claimed for a time, delivered, tried again, or given up and kept as a record."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.notices import CLAIM_SECONDS, Event, Notice, Undelivered
from guideway.interpreter.store.tables import NOTICES

KEPT_SECONDS: Final = 90 * 86_400.0


def put(
    connection: sa.Connection, webhooks: Mapping[str, Collection[Event]], event: Mapping[str, Any], now: float
) -> None:
    """Keep an event for each webhook that wants its kind. It is due since it happened, which may be a moment ago."""
    due_at = min(now, event["at"])
    kept = [
        {"webhook": name, "event": dict(event), "created_at": now, "due_at": due_at, "attempts": 0}
        for name, wanted in webhooks.items()
        if event["event"] in wanted
    ]
    if kept:
        connection.execute(NOTICES.insert(), kept)


def is_due(connection: sa.Connection, now: float, webhook: str) -> bool:
    """Say whether a webhook has a notice that is due."""
    due = sa.select(sa.exists().where(NOTICES.c.webhook == webhook, NOTICES.c.due_at <= now))
    return bool(connection.scalar(due))


def claim(connection: sa.Connection, now: float, most: int, webhook: str) -> list[Notice]:
    """Take a webhook's notices that are due, the oldest first; those for which somebody has to act are never left out
    for others: what runs without anybody being asked may be much.

    A claim that is not answered in time was an attempt.
    """
    connection.execute(NOTICES.delete().where(NOTICES.c.due_at.is_(None), NOTICES.c.created_at < now - KEPT_SECONDS))
    waits = NOTICES.c.event["event"].as_string() == Event.PENDING.value
    due = (
        sa.select(NOTICES)
        .where(NOTICES.c.webhook == webhook, NOTICES.c.due_at <= now)
        .order_by(sa.case((waits, 0), else_=1), NOTICES.c.id)
        .limit(most)
    )
    found = connection.execute(due).all()
    if found:
        connection.execute(
            NOTICES.update()
            .where(NOTICES.c.id.in_([row.id for row in found]))
            .values(due_at=now + CLAIM_SECONDS, attempts=NOTICES.c.attempts + 1)
        )
    return [_notice(row) for row in sorted(found, key=lambda row: row.id)]


def undelivered(connection: sa.Connection, most: int) -> list[Undelivered]:
    """Return what was given up, and what waits after a failure, the newest first."""
    failed = sa.select(NOTICES).where(NOTICES.c.error.is_not(None)).order_by(NOTICES.c.id.desc()).limit(most)
    return [Undelivered(_notice(row), row.due_at, row.error) for row in connection.execute(failed)]


def _notice(row: Any) -> Notice:
    return Notice(str(row.id), row.webhook, row.event, row.attempts, row.created_at)


def forget(connection: sa.Connection, notice_id: str) -> None:
    """Forget a notice."""
    connection.execute(NOTICES.delete().where(NOTICES.c.id == int(notice_id)))


def put_off(connection: sa.Connection, notice_id: str, at: float | None, error: str) -> None:
    """Let a notice be due again at a time, None for never."""
    connection.execute(NOTICES.update().where(NOTICES.c.id == int(notice_id)).values(due_at=at, error=error))
