"""Tickets in the store: asked, decided on, and used, each inside of one transaction."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Binding, Question, Ticket, TicketState, Undecidable, Who, new_id, why_not
from guideway.interpreter.notices import Event, of_ticket
from guideway.interpreter.quotas import Allowance
from guideway.interpreter.records import TooManyOpen
from guideway.interpreter.store import rows, ticket_records, uses
from guideway.interpreter.store.tables import TICKETS
from guideway.interpreter.store.work import Work

KEPT_SECONDS: Final = 90 * 86_400.0
"""How long a ticket that has ended is kept for those who look back."""


def ask(work: Work, question: Question, lifetime: float, most_open: int) -> Ticket:
    """Return the open ticket of a question's binding, or a new one. Raises ``TooManyOpen``.

    One that breaks a freeze and one that does not are two, whatever else they share; and so are two that were shown
    other freezes.
    """
    same = [_is(TICKETS.c[name], value) for name, value in rows.of_binding(question.binding).items()]
    glass = TICKETS.c.break_glass.is_not(None) == sa.literal(question.break_glass is not None)
    newest_first = sa.select(TICKETS).where(rows.OPEN, glass, *same).order_by(TICKETS.c.created_at.desc())
    for found in map(rows.ticket, work.connection.execute(newest_first)):
        if question.break_glass is None or found.question.causes == question.causes:
            return found
    who, tenant = question.binding.who, question.binding.tenant
    theirs = (TICKETS.c.issuer == who.issuer, TICKETS.c.subject == who.subject, _is(TICKETS.c.tenant, tenant))
    count = work.connection.scalar(sa.select(sa.func.count()).select_from(TICKETS).where(rows.OPEN, *theirs)) or 0
    if count >= most_open:
        raise TooManyOpen(
            f"{count} tickets of yours wait for a person or to be used, and {most_open} may: "
            "wait until one is decided on, used or expired"
        )
    work.connection.execute(
        TICKETS.delete().where(~rows.OPEN, TICKETS.c.created_at < work.now - KEPT_SECONDS - lifetime)
    )
    made = Ticket(new_id(), question, work.now, work.now + lifetime, TicketState.PENDING)
    work.connection.execute(
        TICKETS.insert().values(
            id=made.id,
            created_at=made.created_at,
            expires_at=made.expires_at,
            state=made.state.value,
            **rows.of_question(question),
        )
    )
    work.tell(of_ticket(Event.PENDING, made, work.now))
    work.record(ticket_records.asked(made))
    return made


def _is(column: sa.Column[Any], value: object) -> sa.ColumnElement[bool]:
    return column.is_(None) if value is None else column == value


def find(connection: sa.Connection, ticket_id: str) -> Ticket | None:
    """Return a ticket as it is kept."""
    row = connection.execute(sa.select(TICKETS).where(TICKETS.c.id == ticket_id)).one_or_none()
    return None if row is None else rows.ticket(row)


def find_all(connection: sa.Connection, ticket_ids: Collection[str]) -> dict[str, Ticket]:
    """Return the tickets that there are, by id."""
    query = sa.select(TICKETS).where(TICKETS.c.id.in_(sorted(ticket_ids)))
    return {row.id: rows.ticket(row) for row in connection.execute(query)}


def newest(connection: sa.Connection, tenant: str | None, states: Collection[TicketState], most: int) -> list[Ticket]:
    """Return a tenant's tickets, the newest first."""
    query = sa.select(TICKETS).where(_is(TICKETS.c.tenant, tenant))
    if states:
        query = query.where(TICKETS.c.state.in_([state.value for state in states]))
    query = query.order_by(TICKETS.c.created_at.desc(), TICKETS.c.id).limit(most)
    return [rows.ticket(row) for row in connection.execute(query)]


def count_open(connection: sa.Connection, now: float) -> dict[str, int]:
    """Return how many tickets are open, by their state, whosever they are."""
    query = sa.select(TICKETS.c.state, sa.func.count().label("tickets")).where(rows.OPEN, TICKETS.c.expires_at > now)
    return {row.state: row.tickets for row in connection.execute(query.group_by(TICKETS.c.state))}


def decide(work: Work, ticket_id: str, by: Who, reason: str, *, approve: bool) -> Ticket:
    """Approve or refuse a pending ticket. Raises ``Undecidable``."""
    found = find(work.connection, ticket_id)
    if found is None:
        raise Undecidable(Undecidable.Why.UNKNOWN, "there is no such ticket")
    if found.state is TicketState.EXPIRED:
        raise Undecidable(Undecidable.Why.EXPIRED, "this ticket has expired")
    if found.state is not TicketState.PENDING:
        word = "refused" if found.state is TicketState.DENIED else "approved"
        raise Undecidable(Undecidable.Why.DECIDED, f"this ticket was {word} already")
    decided = _change(
        work,
        found,
        state=(TicketState.APPROVED if approve else TicketState.DENIED).value,
        decided_at=work.now,
        decided_issuer=by.issuer,
        decided_subject=by.subject,
        decided_client=by.client,
        reason=reason or None,
    )
    work.tell(of_ticket(Event.DECIDED, decided, work.now))
    work.record(ticket_records.decided(decided, work.now, approve=approve))
    return decided


def use(
    work: Work, ticket_id: str, binding: Binding, run_id: str, allowances: Sequence[Allowance]
) -> Ticket | tuple[Code, str]:
    """Use an approved ticket up for a run, or say why it does not let it."""
    found = find(work.connection, ticket_id)
    refused = why_not(found, binding)
    if found is None or refused is not None:
        return refused or (Code.APPROVAL_UNKNOWN, "there is no such ticket")
    used = _change(work, found, state=TicketState.USED.value, used_at=work.now, run_id=run_id)
    uses.record(work, run_id, allowances)
    work.record(ticket_records.used(used, work.now, run_id))
    return used


def _change(work: Work, before: Ticket, **values: object) -> Ticket:
    """Change a ticket that is still as it was read: by the transaction's lock it is, and this holds it to that."""
    still = (TICKETS.c.id == before.id, TICKETS.c.state == before.state.value)
    if work.connection.execute(TICKETS.update().where(*still).values(**values)).rowcount != 1:
        raise LookupError(f"ticket {before.id} changed under the transaction that had the store to itself")
    changed = find(work.connection, before.id)
    if changed is None:
        raise LookupError(before.id)
    return changed
