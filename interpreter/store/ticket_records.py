"""What the audit trail has of tickets: in the transaction in which something happens to one."""

from typing import Any

from guideway.interpreter.approvals import Ticket
from guideway.interpreter.audit.bounds import bounded
from guideway.interpreter.audit.chain import moment
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.facts import of_who


def of(kind: Kind, ticket: Ticket, now: float, **more: Any) -> Entry:
    """Return the entry of what happened to a ticket; ``more`` is what this kind has beside what all have."""
    binding = ticket.question.binding
    facts = {
        "ticket": ticket.id,
        "digest": binding.digest,
        "caller": of_who(binding.who, binding.tenant),
    }
    return Entry(kind, binding.tenant, now, bounded(facts | more))


def asked(ticket: Ticket) -> Entry:
    """Return the entry of a new ticket: with all that the person who decides is shown."""
    question = ticket.question
    return of(
        Kind.TICKET_ASKED,
        ticket,
        ticket.created_at,
        program=question.program,
        causes=[cause.to_json() for cause in question.causes],
        worst_case=[
            {"command": command, "target": name, "times": times}
            for (command, name), times in sorted(question.worst_case.items())
        ],
        seconds=question.seconds,
        tier=int(question.tier),
        policy=question.binding.policy,
        client_says=question.client_says,
        break_glass=question.break_glass,
        expires=moment(ticket.expires_at),
    )


def decided(ticket: Ticket, now: float, *, approve: bool) -> Entry:
    """Return the entry of a decision: by whom, and in which words."""
    by = ticket.decided_by
    tenant = ticket.question.binding.tenant
    return of(
        Kind.TICKET_DECIDED,
        ticket,
        now,
        approved=approve,
        by=None if by is None else of_who(by, tenant),
        reason=ticket.reason,
    )


def used(ticket: Ticket, now: float, run_id: str) -> Entry:
    """Return the entry of a ticket that lets a run begin."""
    return of(Kind.TICKET_USED, ticket, now, run=run_id)
