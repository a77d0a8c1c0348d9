"""Sessions of the approval page in the store."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from guideway.interpreter.store.tables import SESSIONS


def put(connection: sa.Connection, id_hash: str, content: Mapping[str, Any], expires_at: float) -> None:
    """Keep a session, or what is new of it."""
    delete(connection, id_hash)
    connection.execute(SESSIONS.insert().values(id=id_hash, content=dict(content), expires_at=expires_at))


def get(connection: sa.Connection, id_hash: str, now: float) -> dict[str, Any] | None:
    """Return a session's content."""
    query = sa.select(SESSIONS.c.content).where(SESSIONS.c.id == id_hash, SESSIONS.c.expires_at > now)
    content: dict[str, Any] | None = connection.scalar(query)
    return content


def delete(connection: sa.Connection, id_hash: str) -> None:
    """Forget a session."""
    connection.execute(SESSIONS.delete().where(SESSIONS.c.id == id_hash))


def prune(connection: sa.Connection, now: float) -> None:
    """Forget each session whose time is over."""
    connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_at <= now))
