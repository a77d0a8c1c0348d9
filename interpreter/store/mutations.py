"""The history of mutations in the store: each is there from its beginning, and kept with its record in the trail."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from guideway.interpreter.approvals import Who
from guideway.interpreter.audit.chain import moment
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.facts import of_who
from guideway.interpreter.records import Mutation
from guideway.interpreter.store import rows
from guideway.interpreter.store.prepared import Prepared
from guideway.interpreter.store.tables import MUTATIONS, TICKETS

UNKNOWN: Final = "unknown"
"""How a mutation ended whose process was lost."""

KEPT_SECONDS: Final = 90 * 86_400.0

_NAMED: Final = 5_000  # services in one statement, which can name only so many

_BEGIN: Final = Prepared(
    sa.insert(MUTATIONS), *[column.name for column in MUTATIONS.columns if column.name != MUTATIONS.c.id.name]
)
_THIS: Final = (MUTATIONS.c.run_id == sa.bindparam("of_run"), MUTATIONS.c.number == sa.bindparam("of_number"))
_END: Final = Prepared(sa.update(MUTATIONS).where(*_THIS), "until", "ended_at", "outcome", "message")
_OPEN: Final = (MUTATIONS.c.outcome.is_(None), MUTATIONS.c.ended_at.is_(None))


def keep(connection: sa.Connection, entry: Entry) -> Iterable[Entry]:
    """Keep what a restart's record says in the history; return what goes into the trail."""
    mutation = entry.mutation
    if mutation is None:
        raise TypeError("the record is of no mutation")
    if entry.kind is Kind.RESTART_UNKNOWN:
        held = (MUTATIONS.c.run_id == mutation.run_id, MUTATIONS.c.key == mutation.key)
        return list(_lose(connection, entry, *held))
    if entry.kind is not Kind.RESTART_ENDED or not _end(connection, mutation):
        _BEGIN.run(connection, **rows.of_mutation(entry.tenant, mutation))
    return (entry,)


def _end(connection: sa.Connection, mutation: Mutation) -> bool:
    """Note how a mutation ended, also one that was taken to be lost; say whether it is known."""
    ended = _END.run(
        connection,
        of_run=mutation.run_id,
        of_number=mutation.number,
        until=None,
        ended_at=mutation.ended_at,
        outcome=mutation.outcome,
        message=mutation.message,
    )
    return bool(ended.rowcount)


def lose(connection: sa.Connection, now: float, most: int) -> list[Entry]:
    """Take what has not ended in time to be lost; return the records of that, at most so many."""
    late = sa.select(MUTATIONS.c.id).where(MUTATIONS.c.until < now).order_by(MUTATIONS.c.until).limit(most)
    entry = Entry(Kind.RESTART_UNKNOWN, None, now, {})
    return list(_lose(connection, entry, MUTATIONS.c.id.in_(late)))


def _lose(connection: sa.Connection, entry: Entry, *which: sa.ColumnElement[bool]) -> Iterator[Entry]:
    """Let open mutations be unknown, and the tickets of their runs; each is recorded in the trail of its own tenant."""
    for row in connection.execute(sa.select(MUTATIONS).where(*_OPEN, *which).order_by(MUTATIONS.c.id)).all():
        this = MUTATIONS.c.id == row.id
        connection.execute(MUTATIONS.update().where(this).values(until=None, outcome=UNKNOWN))
        connection.execute(
            TICKETS.update().where(TICKETS.c.run_id == row.run_id, TICKETS.c.outcome.is_(None)).values(outcome=UNKNOWN)
        )
        facts = dict(entry.facts) | {
            "run": row.run_id,
            "caller": of_who(Who(row.issuer, row.subject, row.client), row.tenant),
            "service": row.service,
            "unit": row.key,
            "number": row.number,
            "begun": moment(row.started_at),
            "outcome": UNKNOWN,
        }
        yield replace(entry, tenant=row.tenant, facts=facts, mutation=None)


def forget(connection: sa.Connection, now: float) -> None:
    """Forget mutations that are old."""
    connection.execute(MUTATIONS.delete().where(MUTATIONS.c.started_at < now - KEPT_SECONDS))


def set_back(connection: sa.Connection, now: float) -> None:
    """Let none lie in the future; each keeps the time that it may take."""
    future = MUTATIONS.c.started_at > now
    connection.execute(
        MUTATIONS.update().where(future).values(started_at=now, until=MUTATIONS.c.until - MUTATIONS.c.started_at + now)
    )


def last(connection: sa.Connection, tenant: str | None, services: Collection[str], most: int) -> list[Mutation]:
    """Return the last mutations of each service, the newest first."""
    theirs = MUTATIONS.c.tenant.is_(None) if tenant is None else MUTATIONS.c.tenant == tenant
    place = sa.func.row_number().over(
        partition_by=MUTATIONS.c.service, order_by=(MUTATIONS.c.started_at.desc(), MUTATIONS.c.id.desc())
    )
    names, found = sorted(services), list[Any]()
    for first in range(0, len(names), _NAMED):
        these = MUTATIONS.c.service.in_(names[first : first + _NAMED])
        ranked = sa.select(MUTATIONS, place.label("place")).where(theirs, these).subquery()
        found += connection.execute(sa.select(ranked).where(ranked.c.place <= most))
    found.sort(key=lambda row: (row.started_at, row.id), reverse=True)
    return [rows.mutation(row) for row in found]
