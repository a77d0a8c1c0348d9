"""Places of leases in the store, by the database's own clock."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.leases import Full, Place
from guideway.interpreter.store.tables import LEASES

_FORGOTTEN_SECONDS: Final = 86_400.0  # after which nobody is told any more that a holder was lost


def take(
    connection: sa.Connection, places: Sequence[Place], run_id: str, holder: str, seconds: float
) -> Full | list[str]:
    """Take every place, or return the first that is full.

    Returns the runs whose holders were lost with a place that was taken: those of the first place first. Until it is
    taken, what such a holder left stays.
    """
    now = _now(connection)
    over: list[str] = []
    for place in places:
        rows = connection.execute(
            sa.select(LEASES.c.run_id, LEASES.c.expires_at)
            .where(LEASES.c.key == place.key)
            .order_by(LEASES.c.expires_at)
        ).all()
        held = [row.run_id for row in rows if row.expires_at > now]
        if len(held) >= place.at_once:
            return Full(place.label, held[-1])
        over += [row.run_id for row in reversed(rows) if row.expires_at <= now]
    these = LEASES.c.key.in_([place.key for place in places])
    connection.execute(
        LEASES.delete().where(
            sa.or_(
                sa.and_(LEASES.c.expires_at <= now, these),
                LEASES.c.expires_at <= now - _FORGOTTEN_SECONDS,
            )
        )
    )
    row: dict[str, Any] = {"holder": holder, "run_id": run_id, "expires_at": now + seconds}
    connection.execute(LEASES.insert(), [row | {"key": place.key} for place in places])
    return over


def renew(connection: sa.Connection, holders: Sequence[str], seconds: float) -> set[str]:
    """Let what some hold be good for longer; return those who hold nothing any more."""
    until = _now(connection) + seconds
    connection.execute(LEASES.update().where(LEASES.c.holder.in_(holders)).values(expires_at=until))
    left = connection.scalars(sa.select(LEASES.c.holder).where(LEASES.c.holder.in_(holders))).all()
    return set(holders) - set(left)


def give_back(connection: sa.Connection, holder: str) -> None:
    """Give back what somebody holds."""
    connection.execute(LEASES.delete().where(LEASES.c.holder == holder))


def _now(connection: sa.Connection) -> float:
    now = connection.scalar(sa.select(sa.extract("epoch", sa.func.clock_timestamp())))
    if now is None:
        raise LookupError("the database does not know what time it is")
    return float(now)
