"""Rows to tickets and mutations, and back."""

from typing import Any, Final

from guideway.interpreter.approvals import Binding, Cause, Need, Question, Ticket, TicketState, Who
from guideway.interpreter.records import Mutation
from guideway.interpreter.risk import Tier
from guideway.interpreter.store.tables import TICKETS

#: What can still be decided on, or used.
OPEN: Final = TICKETS.c.state.in_([TicketState.PENDING.value, TicketState.APPROVED.value])


def ticket(row: Any, state: TicketState | None = None) -> Ticket:
    """Return the ticket of a row, or what it is once it is in another state."""
    decided_by = None
    if row.decided_issuer is not None:
        decided_by = Who(row.decided_issuer, row.decided_subject, row.decided_client)
    return Ticket(
        id=row.id,
        question=Question(
            binding=Binding(row.digest, Who(row.issuer, row.subject, row.client), row.tenant, row.policy),
            program=row.program,
            causes=tuple(_cause(**cause) for cause in row.causes),
            worst_case={(keyword, name): times for keyword, name, times, *_ in row.worst_case},
            tiers={(keyword, name): Tier(tier) for keyword, name, _, *rest in row.worst_case for tier in rest},
            seconds=row.seconds,
            client_says=row.client_says,
            break_glass=row.break_glass,
        ),
        created_at=row.created_at,
        expires_at=row.expires_at,
        state=TicketState(row.state) if state is None else state,
        decided_at=row.decided_at,
        decided_by=decided_by,
        reason=row.reason,
        used_at=row.used_at,
        run_id=row.run_id,
        outcome=row.outcome,
    )


def _cause(command: str, target: str, tier: int, source: str, needs: str = Need.TIER) -> Cause:
    return Cause(command, target, Tier(tier), source, Need(needs))


def of_question(question: Question) -> dict[str, Any]:
    """Return the columns of a question."""
    return of_binding(question.binding) | {
        "program": question.program,
        "causes": [cause.to_json() for cause in question.causes],
        "worst_case": [
            [*key, times, *([int(question.tiers[key])] if key in question.tiers else [])]
            for key, times in question.worst_case.items()
        ],
        "seconds": question.seconds,
        "client_says": question.client_says,
        "break_glass": question.break_glass,
    }


def of_binding(binding: Binding) -> dict[str, Any]:
    """Return the columns of a binding."""
    return {
        "digest": binding.digest,
        "issuer": binding.who.issuer,
        "subject": binding.who.subject,
        "client": binding.who.client,
        "tenant": binding.tenant,
        "policy": binding.policy,
    }


def mutation(row: Any) -> Mutation:
    """Return the mutation of a row."""
    who = Who(row.issuer, row.subject, row.client)
    return Mutation(
        run_id=row.run_id,
        service=row.service,
        who=who,
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        message=row.message,
        number=row.number,
        key=row.key,
        until=row.until,
    )


def of_mutation(tenant: str | None, kept: Mutation) -> dict[str, Any]:
    """Return the columns of a mutation."""
    return {
        "tenant": tenant,
        "service": kept.service,
        "key": kept.key,
        "run_id": kept.run_id,
        "number": kept.number,
        "issuer": kept.who.issuer,
        "subject": kept.who.subject,
        "client": kept.who.client,
        "started_at": kept.started_at,
        "until": kept.until if kept.outcome is None else None,
        "ended_at": kept.ended_at,
        "outcome": kept.outcome,
        "message": kept.message,
    }
