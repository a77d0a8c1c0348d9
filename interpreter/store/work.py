"""One transaction's work: its connection, its time, and what it leaves in the outbox and in the audit trail.

Time only goes on here. Each transaction that writes notes the latest time it was told, and whoever is a little behind,
as replicas are, is taken to be at that time. Whoever is far behind has a clock that was set back, or the others' was
wrong: then whatever is open has expired, and what lies in the future happened now, so that nothing is revived and
nothing is barred for as long as the clock was ahead.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.approvals import TicketState
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.notices import Event, of_ticket
from guideway.interpreter.store import mutations, outbox, rows, ticket_records
from guideway.interpreter.store.tables import NOTICES, SESSIONS, STORE, TICKETS, USES

_log = logging.getLogger(__name__)

TOLERANCE: Final = 10.0
"""Seconds by which replicas' clocks may differ."""

_GRAIN: Final = 1.0  # how far the noted time lags behind, so that not each transaction has to write it

Webhooks = Mapping[str, Collection[Event]]


@dataclass(frozen=True, slots=True)
class Work:
    """A transaction that writes. ``now`` is the store's time, and each open ticket whose time is over has expired.

    ``entries`` go into the audit trail when it ends. ``seals`` have become checkpoints.
    """

    connection: sa.Connection
    now: float
    webhooks: Webhooks
    entries: list[Entry] = field(default_factory=list)
    seals: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, connection: sa.Connection, now: float, webhooks: Webhooks) -> "Work":
        """Take the time that a caller's clock has, and let what is over then expire."""
        seen = connection.scalar(sa.select(STORE.c.seen))
        if seen is None:
            raise LookupError(STORE.name)
        if now < seen - TOLERANCE:
            _log.error(
                "the clock is %.0f s behind the latest time in the store: open tickets expire, and who is signed in at "
                "the approval page signs in again; see that the clocks of all replicas agree",
                seen - now,
            )
            _set_back(connection, now)
        elif now > seen + _GRAIN:
            connection.execute(STORE.update().values(seen=now))
        behind = now < seen - TOLERANCE
        work = cls(connection, now if behind else max(now, seen), webhooks)
        work._expire(all_of_them=behind)
        return work

    def _expire(self, *, all_of_them: bool) -> None:
        over = rows.OPEN if all_of_them else sa.and_(rows.OPEN, TICKETS.c.expires_at <= self.now)
        found = self.connection.execute(sa.select(TICKETS).where(over).order_by(TICKETS.c.created_at)).all()
        if not found:
            return
        # By what they have in common, which the transaction keeps: of ids a statement can name only so many.
        self.connection.execute(TICKETS.update().where(over).values(state=TicketState.EXPIRED.value))
        for row in found:
            ticket = rows.ticket(row, TicketState.EXPIRED)
            self.tell(of_ticket(Event.EXPIRED, ticket, self.now))
            self.record(ticket_records.of(Kind.TICKET_EXPIRED, ticket, self.now))

    def record(self, entry: Entry) -> None:
        """Let an entry be kept in the audit trail with all else that the transaction does."""
        self.entries.append(entry)

    def touch(self) -> None:
        """Write the time, also where it has been written a moment ago."""
        self.connection.execute(STORE.update().values(seen=self.now))

    def tell(self, event: Mapping[str, Any]) -> None:
        """Put an event into the outbox, for each webhook that wants its kind."""
        outbox.put(self.connection, self.webhooks, event, self.now)


def time_to_read(connection: sa.Connection, now: float) -> float | None:
    """Return the store's time for a transaction that only reads, None where one has to write something first."""
    seen = connection.scalar(sa.select(STORE.c.seen))
    if seen is None or now < seen - TOLERANCE:
        return None
    now = max(now, seen)
    over = sa.select(sa.exists().where(rows.OPEN, TICKETS.c.expires_at <= now))
    return None if connection.scalar(over) else now


def _set_back(connection: sa.Connection, now: float) -> None:
    """Let nothing lie in the future. What was reserved keeps the time that its run may take."""
    connection.execute(STORE.update().values(seen=now))
    connection.execute(USES.update().where(USES.c.at > now).values(at=now, until=USES.c.until - USES.c.at + now))
    mutations.set_back(connection, now)
    connection.execute(NOTICES.update().where(NOTICES.c.due_at > now).values(due_at=now))
    connection.execute(SESSIONS.delete())
