"""Places of leases in the store, by the database's own clock."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from guideway.interpreter.leases import Full, Place
from guideway.interpreter.store.tables import LEASES


def take(connection: sa.Connection, places: Sequence[Place], run_id: str, holder: str, seconds: float) -> Full | None:
    """Take every place, or return the first that is full."""
    now = _now(connection)
    connection.execute(LEASES.delete().where(LEASES.c.expires_at <= now))
    for place in places:
        held = connection.execute(
            sa.select(LEASES.c.run_id).where(LEASES.c.key == place.key).order_by(LEASES.c.expires_at)
        ).all()
        if len(held) >= place.at_once:
            return Full(place.label, held[-1].run_id)
    row: dict[str, Any] = {"holder": holder, "run_id": run_id, "expires_at": now + seconds}
    connection.execute(LEASES.insert(), [row | {"key": place.key} for place in places])
    return None


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
