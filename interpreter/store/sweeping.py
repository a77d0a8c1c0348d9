"""What has to be looked for, as nobody comes back for it: restarts whose process was lost, and what is too old."""

from typing import Final

import sqlalchemy as sa

from guideway.interpreter.approvals import TicketState
from guideway.interpreter.audit.known_heads import KnownHeads
from guideway.interpreter.store import mutations, pruning, trail, trail_pages
from guideway.interpreter.store.tables import TICKETS
from guideway.interpreter.store.work import Work

MOST: Final = 500
"""Restarts that are taken to be lost, and tickets that get an outcome, in one transaction."""

_LATE: Final = 60.0
"""Seconds after a run may take no longer when nobody knows any more how it ended."""


def sweep(work: Work, heads: KnownHeads, *, before: float | None = None) -> bool:
    """Clear up; say whether there is more to be done.

    A restart that has not ended in time is unknown. So is the outcome of the ticket that let its run begin, unless the
    trail has it: the store may have been away when the run would have noted it. Records from before ``before`` are
    removed where they are kept no longer.
    """
    connection = work.connection
    lost = mutations.lose(connection, work.now, MOST)
    for entry in lost:
        work.record(entry)
    mutations.forget(connection, work.now)
    late = _end_tickets(connection, work.now)
    work.seals.extend(trail.checkpoint(connection, heads, work.now, before=work.now - heads.keeping.checkpoint_seconds))
    return (before is not None and pruning.prune(work, heads, before)) or MOST in (len(lost), late)


def _end_tickets(connection: sa.Connection, now: float) -> int:
    """Give tickets the outcome of runs that must be over; return how many."""
    over = sa.select(TICKETS.c.run_id).where(
        TICKETS.c.state == TicketState.USED.value,
        TICKETS.c.outcome.is_(None),
        TICKETS.c.used_at + TICKETS.c.seconds + _LATE < now,
    )
    runs = connection.scalars(over.limit(MOST)).all()
    for run_id in runs:
        outcome = trail_pages.status(connection, run_id) or mutations.UNKNOWN
        connection.execute(TICKETS.update().where(TICKETS.c.run_id == run_id).values(outcome=outcome))
    return len(runs)
