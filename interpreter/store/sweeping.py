"""What has to be looked for, as nobody comes back for it: restarts whose process was lost, and what is too old."""

from typing import Final

from guideway.interpreter.approvals import TicketState
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.store import mutations, pruning, trail
from guideway.interpreter.store.tables import TICKETS
from guideway.interpreter.store.work import Work

MOST: Final = 500
"""Restarts that are taken to be lost in one transaction."""

_LATE: Final = 60.0
"""Seconds after a run may take no longer when nobody knows any more how it ended."""


def sweep(work: Work, keeping: Keeping, *, prune: bool) -> bool:
    """Clear up; say whether there is more to be done.

    A restart that has not ended in time is unknown, and so is the outcome of the ticket that let its run begin. Old
    records are removed with ``prune``.
    """
    connection = work.connection
    lost = mutations.lose(connection, work.now, MOST)
    for entry in lost:
        work.record(entry)
    mutations.forget(connection, work.now)
    connection.execute(
        TICKETS.update()
        .where(
            TICKETS.c.state == TicketState.USED.value,
            TICKETS.c.outcome.is_(None),
            TICKETS.c.used_at + TICKETS.c.seconds + _LATE < work.now,
        )
        .values(outcome=mutations.UNKNOWN)
    )
    work.seals.extend(trail.checkpoint(connection, work.now, before=work.now - keeping.checkpoint_seconds))
    return (prune and pruning.prune(work, keeping)) or len(lost) == MOST
