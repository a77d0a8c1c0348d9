"""What the store has of trails, for those who verify and those who look."""

from typing import Final

import sqlalchemy as sa

from guideway.interpreter.audit.chain import read_body
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.keeping import Head, Kept
from guideway.interpreter.store.tables import CHECKPOINTS, TRAIL, TRAILS

_HEAD: Final = sa.select(TRAILS.c.trail, TRAILS.c.seq, TRAILS.c.hash, TRAILS.c.seal).order_by(TRAILS.c.trail)
_RECORD: Final = [TRAIL.c[name] for name in ("trail", "seq", "body", "hash", "at", "kind", "run_id", "subject")]


def heads(connection: sa.Connection) -> list[Head]:
    """Return the head of every trail, by name."""
    return [Head(*row) for row in connection.execute(_HEAD)]


def records(
    connection: sa.Connection,
    trail: str,
    *,
    after: int,
    most: int,
    newest: bool,
    since: float | None,
    until: float | None,
) -> list[Kept]:
    """Return records of a trail in their order: the first after a place, or the newest; of a time, if one is given."""
    query = sa.select(*_RECORD).where(TRAIL.c.trail == trail, TRAIL.c.seq > after)
    if since is not None:
        query = query.where(TRAIL.c.at >= since)
    if until is not None:
        query = query.where(TRAIL.c.at < until)
    found = connection.execute(query.order_by(TRAIL.c.seq.desc() if newest else TRAIL.c.seq).limit(most))
    kept = [Kept(*row) for row in found]
    return kept[::-1] if newest else kept


def status(connection: sa.Connection, run_id: str) -> str | None:
    """Return how a run ended, None where no record says so."""
    ends = (Kind.RUN_ENDED.value, Kind.RUN_REFUSED.value)
    body = connection.scalar(sa.select(TRAIL.c.body).where(TRAIL.c.run_id == run_id, TRAIL.c.kind.in_(ends)).limit(1))
    found = None if body is None else read_body(body).get("status")
    return found if isinstance(found, str) else None


def checkpoints(connection: sa.Connection, trail: str) -> list[str]:
    """Return the seals that are kept of a trail, in their order."""
    query = sa.select(CHECKPOINTS.c.seal).where(CHECKPOINTS.c.trail == trail).order_by(CHECKPOINTS.c.seq)
    return list(connection.scalars(query))
